"""TLS, client certificates and API keys, as Temporal Cloud asks for them: a worker and commands through a gate."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from holdfast.runtime import connection
from holdfast.runtime.connection import connect
from holdfast.runtime.errors import ServerUnreachable
from tests.conftest import Harness
from tests.crash.machines import Machines

grpc = pytest.importorskip("grpc", reason="the gate needs grpcio, of the extra dev: make test installs it")
from tests.cloud.front import Authority, Front  # noqa: E402 needs grpc

pytestmark = pytest.mark.slow

KEY = "eyJhbGciOiJFUzI1NiJ9.holdfast"
RUN = "steps: [{name: call, uses: stringy, input: {text: hi}}]"


@pytest_asyncio.fixture
async def house(machines: Machines) -> Harness:
    return await machines.house()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path)


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "HOLDFAST_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@asynccontextmanager
async def gate(
    machines: Machines, authority: Authority, *, certificates: bool = False, **how: object
) -> AsyncIterator[tuple[str, Front]]:
    """The address of a gate, and the gate; with `certificates` it asks for one of this authority."""
    certificate, key = authority.issue("server")
    async with grpc.aio.insecure_channel(machines.address) as channel:
        front = Front(channel, namespaces=set(), **how)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers([front])
        credentials = grpc.ssl_server_credentials(
            [(key.read_bytes(), certificate.read_bytes())],
            root_certificates=authority.path.read_bytes() if certificates else None,
            require_client_auth=certificates,
        )
        port = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        try:
            yield f"localhost:{port}", front
        finally:
            await server.stop(None)


def client_certificate(authority: Authority, name: str = "client") -> dict[str, str]:
    certificate, key = authority.issue(name)
    return {"TEMPORAL_TLS_CLIENT_CERT_PATH": str(certificate), "TEMPORAL_TLS_CLIENT_KEY_PATH": str(key)}


async def works(machines: Machines, house: Harness, address: str, **variables: str) -> None:
    """A worker process runs a run through the gate, and ends."""
    machines.start_worker(TEMPORAL_ADDRESS=address, HOLDFAST_IMPORTS="tests.tools", **variables)
    run = await house.start(RUN)
    assert await house.output(run) == "hi"
    os.kill(machines.pid("worker"), signal.SIGTERM)
    assert await machines.ended("worker") == 0


async def test_a_worker_works_with_a_client_certificate(
    machines: Machines, house: Harness, authority: Authority
) -> None:
    async with gate(machines, authority, certificates=True) as (address, _):
        trust = {"TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(authority.path)}
        await works(machines, house, address, **trust, **client_certificate(authority))


@pytest.mark.parametrize(
    ("whose", "told"),
    [
        ("nobody's certificate", "TEMPORAL_TLS_CLIENT_CERT_PATH"),
        ("a stranger's certificate", "TEMPORAL_TLS_CLIENT_CERT_PATH"),
        ("another's key", "the key is not that of the client certificate"),
        ("no authority", "has signed its certificate; name its authority's in TEMPORAL_TLS_SERVER_CA_CERT_PATH"),
        ("another authority", "correct TEMPORAL_TLS_SERVER_CA_CERT_PATH|in TEMPORAL_TLS_SERVER_CA_CERT_PATH"),
        ("another name", "set TEMPORAL_TLS_SERVER_NAME"),
        ("no TLS", "TEMPORAL_TLS=true"),
    ],
)
async def test_what_does_not_fit_is_told_with_the_variable_to_set(
    machines: Machines,
    house: Harness,
    authority: Authority,
    whose: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    other = Authority.make(tmp_path, "other")
    own = {"TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(authority.path)} | client_certificate(authority)
    stranger = client_certificate(other, "stranger")
    changes: dict[str, dict[str, str | None]] = {
        "nobody's certificate": dict.fromkeys(stranger),
        "a stranger's certificate": {**stranger},
        "another's key": {"TEMPORAL_TLS_CLIENT_KEY_PATH": stranger["TEMPORAL_TLS_CLIENT_KEY_PATH"]},
        "no authority": {"TEMPORAL_TLS_SERVER_CA_CERT_PATH": None},
        "another authority": {"TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(other.path)},
        "another name": {"TEMPORAL_TLS_SERVER_NAME": "elsewhere.test"},
        "no TLS": dict.fromkeys(own),
    }
    monkeypatch.setattr(connection, "PATIENCE", 60.0)  # the gate is slow on a loaded machine
    async with gate(machines, authority, certificates=True) as (address, _):
        for name, value in {**own, **changes[whose], "TEMPORAL_ADDRESS": address}.items():
            if value is not None:
                monkeypatch.setenv(name, value)
        with pytest.raises(ServerUnreachable, match=told) as refused:
            await connect()
    assert str(refused.value).startswith(f"no connection to the server at {address}: ")


async def test_a_worker_works_with_an_api_key_and_says_its_namespace(
    machines: Machines, house: Harness, authority: Authority
) -> None:
    async with gate(machines, authority, key=KEY, operator=False) as (address, front):
        trust = {"TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(authority.path)}
        await works(machines, house, address, TEMPORAL_API_KEY=KEY, **trust)
    assert front.namespaces == {machines.namespace}
    assert "search attributes could not be checked" in machines.log("worker")


async def test_a_wrong_api_key_is_told(
    machines: Machines, house: Harness, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gate(machines, authority, key=KEY) as (address, _):
        for name, value in {
            "ADDRESS": address,
            "API_KEY": "other",
            "TLS_SERVER_CA_CERT_PATH": str(authority.path),
        }.items():
            monkeypatch.setenv(f"TEMPORAL_{name}", value)
        with pytest.raises(ServerUnreachable, match="Request unauthorized"):
            await connect()


async def test_where_attributes_may_not_be_registered_the_way_out_is_told(
    machines: Machines, house: Harness, authority: Authority, tmp_path: Path
) -> None:
    async with gate(machines, authority, key=KEY, operator=False) as (address, _):
        given = {"ADDRESS": address, "API_KEY": KEY, "TLS_SERVER_CA_CERT_PATH": str(authority.path)}
        environment = {**os.environ, **{f"TEMPORAL_{name}": value for name, value in given.items()}}
        command = [str(Path(sys.executable).parent / "holdfast"), "setup"]
        ran = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 5
    assert "tcld namespace search-attributes add --namespace default --search-attribute" in ran.stderr
