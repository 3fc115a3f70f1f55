"""`holdfast serve` as a process: what it prints, what its log holds, how it ends."""

import asyncio
import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from temporalio.testing import WorkflowEnvironment

from holdfast.runtime.embedded.server import find_temporal_binary
from tests.client.command import PATIENCE, Holdfast


@dataclass
class Served:
    """A server that listens."""

    process: subprocess.Popen[str]
    url: str
    api: str

    @property
    def base(self) -> str:
        return self.api.removesuffix("/api/v1")

    def ended(self) -> str:
        """What it wrote to standard error, after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=PATIENCE)[1]


@pytest.fixture
def holdfast(holdfast: Holdfast, tmp_path: Path) -> Holdfast:
    """The same commands with a state of their own: where there is a record, others read from it."""
    return holdfast.having(HOLDFAST_HOME=str(tmp_path / "state"))


@pytest.fixture
def served(holdfast: Holdfast) -> Iterator[Served]:
    with serving(holdfast) as served:
        yield served


@contextmanager
def serving(holdfast: Holdfast) -> Iterator[Served]:
    command = holdfast.command(("serve", "--port", "0", "--as", "user:ana", "--json"))
    process = subprocess.Popen(command, stdout=-1, stderr=-1, text=True, **holdfast.place())
    assert process.stdout
    try:
        yield Served(process, **json.loads(process.stdout.readline()))
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_it_prints_where_it_listens_and_serves(served: Served) -> None:
    assert served.url.startswith(f"{served.base}/?once=")
    assert httpx.get(f"{served.base}/readyz").status_code == 200


@pytest.mark.slow
def test_its_link_signs_in_the_person_it_is_made_for(served: Served) -> None:
    with httpx.Client(follow_redirects=True) as browser:
        assert "user:ana" in browser.get(served.url.replace("/?", "/nowhere?")).text


def test_without_a_key_that_proves_persons_it_does_not_start_in_a_guarded_deployment(
    holdfast: Holdfast, tmp_path: Path
) -> None:
    guarded = holdfast.having(OPS_KEY="k")
    guarded.folder = tmp_path
    guarded.write("holdfast.toml", '[answers]\nkey_env = "OPS_KEY"\n')
    refused = guarded("serve", "--port", "0")
    assert (refused.code, "HOLDFAST_INBOX_KEY" in refused.err) == (2, True)


@pytest.mark.slow
async def test_it_does_not_start_where_the_search_attributes_are_missing(holdfast: Holdfast) -> None:
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=find_temporal_binary()) as bare:
        place = bare.client.service_client.config.target_host
        there = holdfast.having(TEMPORAL_ADDRESS=place, TEMPORAL_NAMESPACE="default")
        refused = await asyncio.to_thread(there, "serve", "--port", "0")
    assert refused.code == 5 and "run: holdfast setup" in refused.err


@pytest.mark.slow
def test_it_ends_well_and_its_log_holds_no_token(served: Served) -> None:
    [token] = parse_qs(urlsplit(served.url).query)["once"]
    httpx.get(served.url)
    httpx.get(f"{served.base}/l/very-secret?next=/x")
    log = served.ended()
    assert served.process.returncode == 0
    assert "GET /l/… " in log
    assert token not in log and "very-secret" not in log


@pytest.mark.slow
def test_its_log_is_json_if_that_is_chosen(holdfast: Holdfast) -> None:
    with serving(holdfast.having(HOLDFAST_LOG_FORMAT="json")) as served:
        httpx.get(f"{served.base}/l/very-secret?next=/x")
        lines = [json.loads(line) for line in served.ended().splitlines()]
    [request] = [line for line in lines if line["logger"] == "uvicorn.access"]
    assert "GET /l/… " in request["message"] and request["level"] == "info"


def test_a_port_in_use_is_told_with_a_way_out(holdfast: Holdfast) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        ran = holdfast("serve", "--port", str(other.getsockname()[1]))
    assert (ran.code, "choose another" in ran.err) == (2, True)


@pytest.mark.slow
def test_without_the_extra_it_says_how_to_install_it(holdfast: Holdfast) -> None:
    code = "import sys; sys.modules['starlette'] = None; from holdfast.cli.__main__ import main; main()"
    ran = subprocess.run(
        [*holdfast.command(())[:1], "-c", code, "serve"], capture_output=True, text=True, **holdfast.place()
    )
    assert (ran.returncode, "pip install 'holdfast[serve]'" in ran.stderr) == (2, True)
