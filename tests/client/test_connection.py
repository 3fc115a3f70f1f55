import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from temporalio.api.operatorservice.v1 import RemoveSearchAttributesRequest
from temporalio.testing import WorkflowEnvironment

from holdfast.protocol.values import Value
from holdfast.runtime.config import ConfigError, load_config
from holdfast.runtime.connection import connect, ensure_search_attributes
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.embedded import stop_all
from holdfast.runtime.embedded.server import find_temporal_binary
from holdfast.runtime.errors import ServerUnreachable
from holdfast.runtime.namespace import ATTRIBUTES, find_missing_search_attributes


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "HOLDFAST_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=find_temporal_binary()) as environment:
        yield environment


def address(server: WorkflowEnvironment) -> str:
    return str(server.client.service_client.config.target_host)


async def test_a_configured_server_is_used_and_none_is_started(
    server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", address(server))
    connection = await connect()
    assert (connection.embedded, connection.ui_url, connection.task_queue) == (False, None, "holdfast")
    assert connection.client.namespace == "default"
    assert not (tmp_path / "state").exists()


async def test_a_profile_of_temporals_own_file_is_used(
    server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "temporal.toml").write_text(f'[profile.here]\naddress = "{address(server)}"\n')
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "temporal.toml"))
    monkeypatch.setenv("TEMPORAL_PROFILE", "here")
    assert not (await connect()).embedded
    monkeypatch.setenv("TEMPORAL_PROFILE", "there")
    with pytest.raises(ConfigError, match="Profile 'there' not found"):
        await connect()


@pytest.mark.slow
async def test_without_a_server_named_the_embedded_one_is_started() -> None:
    connection = await connect()
    try:
        assert connection.embedded
        assert connection.ui_url and connection.ui_url.startswith("http://127.0.0.1:")
        assert await find_missing_search_attributes(connection.client, "default") == []
    finally:
        await stop_all(connection.config)


async def test_a_server_that_is_not_there_is_told_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ServerUnreachable, match=r"127\.0\.0\.1:1 \(as TEMPORAL_ADDRESS .*: connection refused\. Start"):
        await connect()


async def test_a_url_in_place_of_an_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "http://localhost:7233")
    with pytest.raises(ConfigError, match="write HOST:PORT: localhost:7233"):
        await connect()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("https://h:7233", "'https://h:7233' is a URL; write HOST:PORT: h:7233, and TEMPORAL_TLS=true for TLS"),
        ("http://h", "'http://h' is a URL; write HOST:PORT: h:7233"),
        ("localhost", "'localhost' has no port; write HOST:PORT: localhost:7233"),
        ("localhost:7233/x", "'localhost:7233/x' has a path; write HOST:PORT: localhost:7233"),
        (" localhost:7233", "' localhost:7233' has spaces around it; write HOST:PORT: localhost:7233"),
        ("local host:7233", "'local host:7233' is not an address; write HOST:PORT, such as localhost:7233"),
        ("h:99999", "'h:99999' has a port that is not in 1 to 65535; write HOST:PORT: h:7233"),
        ("::1", "'::1' is an IPv6 address without brackets; write HOST:PORT: [::1]:7233"),
        ("https://u:secret@h:1", "the address is a URL; write HOST:PORT: h:1, and TEMPORAL_TLS=true for TLS"),
        ("1.2.3.4.5:7233", "'1.2.3.4.5:7233' is not an address: invalid IPv4 address; write HOST:PORT"),
    ],
)
async def test_an_address_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, value: str, told: str) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", value)
    with pytest.raises(ConfigError) as caught:
        await connect()
    assert str(caught.value) == f"TEMPORAL_ADDRESS: {told}"


async def test_an_address_of_a_profile_is_told_with_the_profile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "temporal.toml").write_text('[profile.here]\naddress = "localhost"\n')
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "temporal.toml"))
    monkeypatch.setenv("TEMPORAL_PROFILE", "here")
    with pytest.raises(ConfigError, match="^address of the Temporal profile 'here': 'localhost' has no port"):
        await connect()


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"TLS": "yes"}, "TEMPORAL_TLS=yes: must be true or false"),
        ({"TLS_DISABLE_HOST_VERIFICATION": "true"}, "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION is not supported"),
        ({"CONFIG_FILE": "/no/such.toml"}, "TEMPORAL_CONFIG_FILE=/no/such.toml: there is no such file"),
        ({"TLS_CLIENT_CERT_DATA": "x"}, "TEMPORAL_TLS_CLIENT_KEY_.* is not: a client certificate needs its key"),
        ({"TLS_SERVER_CA_CERT_DATA": "x"}, "TEMPORAL_TLS_SERVER_CA_CERT_.* has nothing in PEM"),
        ({"TLS_SERVER_NAME": "a b"}, "TEMPORAL_TLS_SERVER_NAME='a b' is not a host name"),
        ({"GRPC_META_A B": "x"}, "TEMPORAL_.*: Invalid headers"),
    ],
)
async def test_other_variables_that_cannot_be_used_are_told(
    server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], told: str
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", address(server))
    for name, value in variables.items():
        monkeypatch.setenv(f"TEMPORAL_{name}", value)
    with pytest.raises(ConfigError, match=told):
        await connect()


async def test_an_error_in_temporals_file_is_one_line_with_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "temporal.toml").write_text("[profile.here]\naddress = 5\n")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "temporal.toml"))
    with pytest.raises(ConfigError, match="temporal.toml, line 2, column 11: invalid type: .*; correct the file$"):
        await connect()


async def test_an_unknown_host_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "no-such-host.invalid:7233")
    with pytest.raises(ServerUnreachable, match="no-such-host.invalid:7233 .*: unknown host"):
        await connect()


@pytest.mark.slow
async def test_a_server_that_is_silent_is_given_up_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    host, port = silent.sockets[0].getsockname()
    monkeypatch.setenv("TEMPORAL_ADDRESS", f"{host}:{port}")
    async with asyncio.timeout(25):  # the SDK's own limit is 30 s
        with pytest.raises(ServerUnreachable, match="no reply in 5 s"):
            await connect()
    silent.close()


async def test_a_namespace_that_is_not_there_is_told(
    server: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", address(server))
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "nowhere")
    with pytest.raises(ServerUnreachable, match="has no namespace 'nowhere'; .*namespace create -n nowhere"):
        await connect()


async def test_a_tls_file_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("TEMPORAL_TLS_CLIENT_CERT_PATH", "/no/such.pem")
    monkeypatch.setenv("TEMPORAL_TLS_CLIENT_KEY_PATH", "/no/such.key")
    with pytest.raises(ConfigError, match=r"/no/such\.pem"):
        await connect(load_config())


async def test_search_attributes_are_registered_once_and_again_without_harm(server: WorkflowEnvironment) -> None:
    client = server.client
    assert await find_missing_search_attributes(client, "default") == list(ATTRIBUTES)
    await ensure_search_attributes(client, "default")
    await ensure_search_attributes(client, "default")
    assert await find_missing_search_attributes(client, "default") == []
    remove = RemoveSearchAttributesRequest(namespace="default", search_attributes=["HoldfastWaitingFor"])
    await client.operator_service.remove_search_attributes(remove, retry=True)
    await ensure_search_attributes(client, "default")
    assert await find_missing_search_attributes(client, "default") == []


class Note(Value):
    text: str = ""
    content: dict[str, Any] = {}
    parts: "list[Note]" = []


class Theirs(BaseModel):
    kind: Literal["theirs"] = "theirs"
    size: int | None = None


async def wire(value: Any) -> Any:
    return json.loads((await DATA_CONVERTER.encode([value]))[0].data)


async def test_our_values_go_without_their_defaults_and_keep_the_nulls_of_users() -> None:
    content: dict[str, Any] = {"a": None, "b": {"c": None, "d": []}, "e": ""}
    note = Note(content=content, parts=[Note(), Note(text="x")])
    assert await wire(note) == {"content": content, "parts": [{}, {"text": "x"}]}
    assert await wire([note]) == [await wire(note)]
    assert await DATA_CONVERTER.decode(await DATA_CONVERTER.encode([note]), [Note]) == [note]


@pytest.mark.slow
async def test_an_authors_own_model_goes_whole() -> None:
    assert await wire(Theirs()) == {"kind": "theirs", "size": None}
    assert await wire({"x": None}) == {"x": None}
