"""Tools of real MCP servers: a process over stdio, and one over HTTP that knows requests alone, or sessions ("old")."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from temporalio.exceptions import ApplicationError

from holdfast.activities import mcp_servers
from holdfast.activities.mcp_servers import McpServer, McpServers
from holdfast.runtime.config import ConfigError, load_config
from tests.activities.mcp_processes import STDIO, at, free_port, one, pool, serving, until_true, wait_for_text

RAW = str(Path(__file__).with_name("raw_mcp_server.py"))


def is_running(pid: int) -> bool:
    """A zombie runs too: it is nobody's yet."""
    return Path(f"/proc/{pid}").exists()


def is_zombie(pid: int) -> bool:
    """From Python 3.12 on the event loop itself takes note of an end: a test that blocks it leaves a zombie.

    Its pipes are closed when the last of its threads has ended, too.
    """
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "Z" and os.listdir(f"/proc/{pid}/task") == [str(pid)]
    except (FileNotFoundError, ProcessLookupError):
        return False


def children() -> set[str]:
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


def port_of(listening: asyncio.Server) -> int:
    return int(listening.sockets[0].getsockname()[1])


@asynccontextmanager
async def forwarding(port: int) -> AsyncIterator[asyncio.Server]:
    """A port of its own that leads to another; closed, it takes no new connections and leaves the old ones."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            writer.write(chunk)
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    listening = await asyncio.start_server(forward, "127.0.0.1", 0)
    yield listening
    listening.close()


@pytest_asyncio.fixture
async def little() -> AsyncIterator[McpServers]:
    async with pool(little=STDIO) as servers:
        yield servers


TRANSPORTS = ["stdio", "http", "old"]


@pytest_asyncio.fixture(params=TRANSPORTS, scope="module")
async def each(request: pytest.FixtureRequest) -> AsyncIterator[McpServers]:
    """A pool with one server, for the tests that leave it as it was."""
    async with one(request.param) as (servers, _):
        yield servers


@pytest_asyncio.fixture
async def raw(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[McpServers]:
    monkeypatch.setenv("LITTLE_TOKEN", "s3cret")
    server = McpServer(command=(sys.executable, RAW, str(tmp_path / "sign")), env=("LITTLE_TOKEN",))
    async with pool(raw=server) as servers:
        yield servers


async def refusal(servers: McpServers, tool: str = "echo", args: dict[str, Any] | None = None) -> ApplicationError:
    [name] = servers._servers
    with pytest.raises(ApplicationError) as caught:
        await servers.call(name, tool, {"text": "hi"} if args is None else args)
    return caught.value


def waiting(folder: Path) -> dict[str, Any]:
    return {"started": str(folder / "started"), "until": str(folder / "until")}


@pytest.mark.first_row
async def test_a_tool_is_listed_with_its_schema_and_a_name_that_models_take(each: McpServers) -> None:
    tools = {tool.reference: tool for tool in await each.tools("little")}
    echo = tools["mcp:little/echo"]
    assert (echo.name, echo.description) == ("little_echo", "Says it again.")
    assert echo.parameters["properties"]["text"]["type"] == "string"
    assert tools["mcp:little/process.id"].name == "little_process_id"


async def test_a_tool_is_called(each: McpServers) -> None:
    assert await each.call("little", "echo", {"text": "'&<é"}) == "'&<é"


async def test_structured_content_is_the_result(each: McpServers) -> None:
    assert await each.call("little", "add", {"a": 1, "b": 2}) == {"sum": 3}


async def test_several_texts_are_one(each: McpServers) -> None:
    assert await each.call("little", "several", {}) == "one\ntwo"


async def test_pictures_and_sounds_are_described_without_their_bytes(each: McpServers) -> None:
    assert await each.call("little", "pictures", {}) == [
        {"type": "text", "text": "two"},
        {"type": "image", "mimeType": "image/png", "bytes": 5},
        {"type": "audio", "mimeType": "audio/wav", "bytes": 6},
    ]


async def test_an_error_result_fails_the_call_with_its_text(each: McpServers) -> None:
    error = await refusal(each, "fail", {"reason": "no such file"})
    assert (error.type, error.non_retryable) == ("tool_error", True)
    assert re.fullmatch("mcp:little/fail: .*no such file", error.message)


async def test_wrong_arguments_and_unknown_tools_are_errors_of_the_tool(each: McpServers) -> None:
    assert "valid integer" in (await refusal(each, "add", {"a": "x", "b": 1})).message
    unknown = await refusal(each, "nope", {})
    assert (unknown.type, "nope" in unknown.message) == ("tool_error", True)


async def test_arguments_that_are_no_text_are_refused_and_harm_nobody(each: McpServers, tmp_path: Path) -> None:
    slow = asyncio.create_task(each.call("little", "wait", waiting(tmp_path)))
    await wait_for_text(tmp_path / "started")
    assert (await refusal(each, "echo", {"text": "\ud800"})).type == "tool_error"
    (tmp_path / "until").touch()
    assert await slow == "done"


async def test_output_that_is_no_text_does_not_end_a_session(raw: McpServers) -> None:
    for _ in range(2):
        assert (await refusal(raw, "garble", {})).type == "tool_error"
    assert len(raw._sessions) == 1


@pytest.mark.slow
async def test_many_calls_at_once_share_one_process(little: McpServers) -> None:
    pids = await asyncio.gather(*(little.call("little", "process.id", {}) for _ in range(20)))
    assert len({*pids, await little.call("little", "process.id", {})}) == 1


async def test_calls_of_one_session_run_at_the_same_time(each: McpServers, tmp_path: Path) -> None:
    slow = asyncio.create_task(each.call("little", "wait", waiting(tmp_path)))
    await wait_for_text(tmp_path / "started")
    assert await each.call("little", "echo", {"text": "quick"}) == "quick"
    assert not slow.done()
    (tmp_path / "until").touch()
    assert await slow == "done"


@pytest.mark.slow
async def test_a_server_whose_process_was_killed_is_started_again(little: McpServers) -> None:
    first = int(await little.call("little", "process.id", {}))
    os.kill(first, signal.SIGKILL)
    while is_running(first) and not is_zombie(first):
        time.sleep(0.001)  # not asyncio's: the pool has not yet heard of the death when it is called
    assert int(await little.call("little", "process.id", {})) != first
    assert [tool.name for tool in await little.tools("little")]


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("transport", ["stdio", "http", "old"])
async def test_a_call_that_is_lost_is_told_and_not_repeated(transport: str, tmp_path: Path) -> None:
    async with one(transport) as (servers, kill):
        lost = asyncio.create_task(refusal(servers, "wait", waiting(tmp_path)))
        await wait_for_text(tmp_path / "started")
        kill()
        error = await lost
    assert (error.type, error.non_retryable) == ("tool_lost", True)
    assert error.message.startswith("the call of mcp:little/wait was lost")
    assert (tmp_path / "started").read_text().count("started") == 1


async def test_a_cancelled_call_leaves_the_session_to_the_others(each: McpServers, tmp_path: Path) -> None:
    args = waiting(tmp_path)
    calls = [asyncio.create_task(each.call("little", "wait", args)) for _ in range(2)]
    await wait_for_text(tmp_path / "started", 2)
    before = await each.call("little", "process.id", {})
    calls[0].cancel()
    await asyncio.wait(calls[:1])
    assert calls[0].cancelled()
    assert await each.call("little", "process.id", {}) == before
    (tmp_path / "until").touch()
    assert await calls[1] == "done"


@pytest.mark.slow
async def test_who_is_cancelled_while_the_server_starts_leaves_it_to_the_others(little: McpServers) -> None:
    first, second = (asyncio.create_task(little.call("little", "echo", {"text": "hi"})) for _ in range(2))
    await until_true(lambda: len(little._sessions) == 1)
    first.cancel()
    assert await second == "hi"
    assert first.cancelled()


@pytest.mark.slow
async def test_a_restarted_server_that_forgot_its_session_is_asked_in_a_new_one() -> None:
    port = free_port()
    async with pool(little=at(port)) as servers:
        async with serving(port, "old"):
            first = await servers.call("little", "process.id", {})
        async with serving(port, "old"):
            assert await servers.call("little", "process.id", {}) != first


@pytest.mark.slow
async def test_a_session_that_a_server_forgot_stays_open_for_those_who_wait(tmp_path: Path) -> None:
    port = free_port()
    async with serving(port, "old", str(tmp_path / "sign")), pool(little=at(port)) as servers:
        slow = asyncio.create_task(servers.call("little", "wait", waiting(tmp_path)))
        await wait_for_text(tmp_path / "started")
        (tmp_path / "sign").touch()
        assert await servers.call("little", "echo", {"text": "hi"}) == "hi"
        assert not (tmp_path / "sign").exists()
        (tmp_path / "until").touch()
        assert await slow == "done"
        await until_true(lambda: servers._sessions[0].has_ended)


@pytest.mark.slow
async def test_a_server_that_is_down_is_unreachable_until_it_is_up_again() -> None:
    port = free_port()
    async with pool(little=at(port)) as servers:
        for _ in range(2):
            error = await refusal(servers)
            assert (error.type, error.non_retryable) == ("mcp_unreachable", False)
            assert "little" in error.message
            async with serving(port):
                assert await servers.call("little", "echo", {"text": "hi"}) == "hi"


@pytest.mark.slow
async def test_a_request_that_finds_no_connection_does_no_harm_to_another(tmp_path: Path) -> None:
    port = free_port()
    async with serving(port), forwarding(port) as door, pool(little=at(port_of(door))) as servers:
        slow = asyncio.create_task(servers.call("little", "wait", waiting(tmp_path)))
        await wait_for_text(tmp_path / "started")
        door.close()
        assert (await refusal(servers)).type == "mcp_unreachable"
        (tmp_path / "until").touch()
        assert await slow == "done"


@pytest.mark.slow
async def test_headers_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret")
    port = free_port()
    little = at(port, headers_env={"Authorization": "MY_TOKEN"})
    async with serving(port, LITTLE_TOKEN="s3cret"), pool(little=little) as servers:
        assert await servers.call("little", "echo", {"text": "hi"}) == "hi"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["new", pytest.param("old", marks=pytest.mark.slow)])
async def test_a_refused_token_is_not_tried_again_and_not_told(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "wr0ng")
    port = free_port()
    little = at(port, headers_env={"Authorization": "MY_TOKEN"})
    async with serving(port, how, LITTLE_TOKEN="s3cret"), pool(little=little) as servers:
        error = await refusal(servers)
    assert (error.type, error.non_retryable) == ("mcp_unreachable", True)
    assert "HTTP 401 Unauthorized" in error.message
    assert "wr0ng" not in error.message


def test_an_error_of_a_server_tells_no_token_with_or_without_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "Bearer wr0ng")
    server = at(9, headers_env={"Authorization": "MY_TOKEN"})
    assert server.hide_secrets("'Bearer wr0ng': no such token: wr0ng") == "'$MY_TOKEN': no such token: $MY_TOKEN"


@pytest.mark.parametrize(("value", "why"), [(None, "MY_TOKEN is not set"), ("s3\ncret", "MY_TOKEN has characters")])
async def test_a_header_that_cannot_be_sent_names_its_variable(
    value: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", value) if value else monkeypatch.delenv("MY_TOKEN", raising=False)
    async with pool(little=at(9, headers_env={"Authorization": "MY_TOKEN"})) as servers:
        error = await refusal(servers)
    assert error.type == "mcp_unreachable"
    assert why in error.message
    assert "cret" not in error.message


@pytest.mark.slow
async def test_a_process_gets_the_variables_that_are_named_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "k3y")
    monkeypatch.setenv("MY_OTHER_KEY", "k3y")
    async with pool(little=McpServer(command=STDIO.command, env=("MY_KEY",))) as servers:
        assert await servers.call("little", "variable", {"name": "MY_KEY"}) == "k3y"
        assert await servers.call("little", "variable", {"name": "MY_OTHER_KEY"}) == "unset"


async def test_an_unknown_server_names_those_that_are_known(little: McpServers) -> None:
    with pytest.raises(ApplicationError) as caught:
        await little.tools("litle")
    assert (caught.value.type, caught.value.non_retryable) == ("unknown_tool", True)
    assert "'litle' (known: little); a server is a section [mcp.NAME] in holdfast.toml" in caught.value.message


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("no-such-server",), "No such file or directory: 'no-such-server'"),
        ((sys.executable, "-c", "raise SystemExit(3)"), "its process ended"),
    ],
)
async def test_a_command_that_does_not_start_may_be_tried_again(command: tuple[str, ...], why: str) -> None:
    async with pool(broken=McpServer(command=command)) as servers:
        error = await refusal(servers)
    assert (error.type, error.non_retryable) == ("mcp_unreachable", False)
    assert "MCP server broken" in error.message
    assert why in error.message


SILENT = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); sys.stdin.read()"


@pytest.mark.slow
async def test_a_server_that_does_not_answer_is_given_up_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_servers, "OPENING_SECONDS", 4)  # enough for its process to start
    pid = tmp_path / "pid"
    async with pool(silent=McpServer(command=(sys.executable, "-c", SILENT, str(pid)))) as servers:
        error = await refusal(servers)
        assert "no answer within 4 s" in error.message
        assert not is_running(int(pid.read_text()))


@pytest.mark.slow
async def test_an_old_server_that_pages_its_tools_tells_them_all(raw: McpServers) -> None:
    assert [tool.name for tool in await raw.tools("raw")] == ["raw_misfit", "raw_grumble"]


@pytest.mark.slow
async def test_a_listing_that_is_lost_is_asked_for_again(raw: McpServers, tmp_path: Path) -> None:
    await raw.tools("raw")
    (tmp_path / "sign").touch()
    assert [tool.name for tool in await raw.tools("raw")] == ["raw_misfit", "raw_grumble"]
    assert not (tmp_path / "sign").exists()


async def test_a_result_that_does_not_fit_its_own_schema_is_an_error(raw: McpServers) -> None:
    error = await refusal(raw, "misfit", {})
    assert error.type == "tool_error"
    assert "'many' is not of type 'integer'" in error.message


async def test_an_error_with_the_code_of_a_lost_connection_is_still_the_servers_own(raw: McpServers) -> None:
    error = await refusal(raw, "grumble", {})
    assert (error.type, error.message) == ("tool_error", "mcp:raw/grumble: not today, $LITTLE_TOKEN")


@pytest.mark.slow
async def test_closing_ends_the_processes_and_opens_no_more(tmp_path: Path) -> None:
    before = children()
    servers = McpServers({"little": STDIO})
    call = asyncio.create_task(refusal(servers, "wait", waiting(tmp_path)))
    await wait_for_text(tmp_path / "started")
    await servers.close()
    assert (await call).type == "tool_lost"
    assert children() == before
    assert "the worker is shutting down" in (await refusal(servers)).message


async def test_closing_does_not_wait_for_a_server_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_servers, "CLOSING_SECONDS", 3600)
    pid = tmp_path / "pid"
    servers = McpServers({"silent": McpServer(command=(sys.executable, "-c", SILENT, str(pid)))})
    call = asyncio.create_task(refusal(servers))
    await until_true(lambda: pid.exists() and bool(pid.read_text()))
    await asyncio.wait_for(servers.close(), 60)
    assert "the worker is shutting down" in (await call).message
    assert not is_running(int(pid.read_text()))


async def test_without_the_package_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    error = await refusal(McpServers({"little": STDIO}))
    assert (error.type, error.non_retryable) == ("unknown_tool", True)
    assert "pip install 'holdfast[mcp]'" in error.message


def listed(name: str, **hints: bool) -> Any:
    """A tool as a server lists it, with what it says of its effects."""
    annotations = SimpleNamespace(**{"read_only_hint": None, "idempotent_hint": None, **hints}) if hints else None
    return SimpleNamespace(name=name, description=None, title="A tool", input_schema={}, annotations=annotations)


def test_what_a_server_says_of_the_effects_of_a_tool_is_kept() -> None:
    tools = [listed("a"), listed("b", read_only_hint=True), listed("c", idempotent_hint=True)]
    specs = mcp_servers._specs("files", tools)
    assert [(spec.reads_only, spec.idempotent) for spec in specs] == [(False, False), (True, True), (False, True)]


def test_long_names_and_names_that_meet_stay_apart() -> None:
    names = ["x" * 80 + "1", "x" * 80 + "2", "read.all", "read_all"]
    specs = mcp_servers._specs("files", [listed(name) for name in names])
    assert [spec.reference for spec in specs] == [f"mcp:files/{name}" for name in names]
    assert len({spec.name for spec in specs}) == 4
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", spec.name) for spec in specs)


def test_servers_are_read_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text(
        '[mcp.files]\ncommand = ["mcp-files", "/srv"]\nenv = ["FILES_KEY"]\n'
        '[mcp.web]\nurl = "https://example.com/@us/mcp"\nheaders_env = { Authorization = "WEB_TOKEN" }\n'
    )
    mcp = load_config(tmp_path).mcp
    assert (mcp["files"].command, mcp["files"].env) == (["mcp-files", "/srv"], ["FILES_KEY"])
    assert (mcp["web"].url, mcp["web"].headers_env) == ("https://example.com/@us/mcp", {"Authorization": "WEB_TOKEN"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[mcp.files]\n", "1: mcp.files: must have either command = "),
        ('[mcp.files]\ncommand = ["a"]\nurl = "http://x"\n', "1: mcp.files: must have either command = "),
        ('[mcp.files]\ncomand = ["a"]\n', "2: mcp.files.comand: unknown key (did you mean 'command'?)"),
        ("[mcp.files]\ncommand = []\n", "2: mcp.files.command: must not be empty"),
        ('[mcp.files]\nurl = "ftp://x"\n', "2: mcp.files.url: must be an http:// or https:// URL"),
        (
            '[mcp.files]\nurl = "https://ana:s3cret@x/"\n',
            "2: mcp.files.url: must be an http:// or https:// URL, without",
        ),
        ('[mcp.files]\nurl = "http://x"\nenv = ["A"]\n', "1: mcp.files: must have headers_env in place of env"),
        (
            '[mcp.files]\ncommand = ["a"]\nenv = ["A=s3cret"]\n',
            "3: mcp.files.env.0: must be the name of an environment",
        ),
        ('[mcp."a b"]\nurl = "http://x"\n', "1: mcp.a b.[key]: must be a name of letters, digits, _ and -"),
    ],
)
def test_a_bad_server_in_the_file_is_refused_and_no_secret_repeated(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "holdfast.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/holdfast.toml:{expected}")
    assert "s3cret" not in str(caught.value)
