import asyncio
import hashlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest
from temporalio.api.operatorservice.v1 import RemoveSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy

from holdfast.cli.doctor import Deployment
from holdfast.cli.doctor.worker import _check_start
from holdfast.protocol.names import BLUEPRINT_ATTRIBUTE, SINCE_ATTRIBUTE
from holdfast.runtime import connection, embedded
from holdfast.runtime.config import Config, ModelSection, WorkerSection, load_config
from holdfast.runtime.embedded import Startup, ensure, processes, reach, server, stop_all
from holdfast.runtime.embedded.server import find_server, start_server
from holdfast.runtime.embedded.worker import ROOT, find_workers
from holdfast.runtime.errors import ServerUnreachable, WorkerNotStarted
from holdfast.runtime.namespace import find_missing_search_attributes
from tests.conftest import until

pytestmark = pytest.mark.slow

# It leaves at once: the SDK sometimes aborts at the interpreter's exit.
ENSURE = (
    "import asyncio, os; from holdfast.runtime import config, embedded; "
    "print(asyncio.run(embedded.ensure(config.load_config())), flush=True); os._exit(0)"
)
DEV = (
    "import asyncio; from holdfast.runtime import config, embedded; "
    "asyncio.run(embedded.run_in_foreground(config.load_config()))"
)


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "HOLDFAST_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOLDFAST_GRACE", "1")


@pytest.fixture
async def project(tmp_path: Path) -> AsyncIterator[Config]:
    """A project of its own, where nothing runs yet."""
    config = load_config(tmp_path)
    yield config
    await stop_all(config)


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Config]:
    """A project whose server a test may hurt, and the next one finds mended."""
    folder = tmp_path_factory.mktemp("shared")
    config = Config(home=folder / ".holdfast", folder=folder)
    yield config
    await stop_all(config)


@pytest.fixture
def running(shared: Config, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("HOLDFAST_HOME", str(shared.home))
    return shared


def command(code: str, folder: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", code], cwd=folder, env=environment, stdout=-1, stderr=-1, text=True)


async def eventually(happened: Callable[[], object]) -> None:
    async with asyncio.timeout(90):
        while not happened():
            await asyncio.sleep(0.02)


async def park(config: Config) -> None:
    """Start a run that nobody takes."""
    client = await Client.connect((await ensure(config)).address)
    pair = SearchAttributePair(SearchAttributeKey.for_keyword(BLUEPRINT_ATTRIBUTE), "brief")
    attributes = TypedSearchAttributes([pair])
    await client.start_workflow(
        "Parked",
        id="parked",
        task_queue="nobody",
        search_attributes=attributes,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )


async def is_parked(config: Config) -> bool:
    client = await Client.connect((await ensure(config)).address)
    described = await client.get_workflow_handle("parked").describe()
    return described.status is WorkflowExecutionStatus.RUNNING


async def kill_server(config: Config) -> server.Server:
    """Start what is missing, kill the server, and return what was found of it before."""
    await ensure(config)
    killed = find_server(config.home)
    assert killed
    os.kill(killed.pid, signal.SIGKILL)
    await eventually(lambda: find_server(config.home) is None)
    return killed


async def test_from_nothing_it_is_up_the_next_command_finds_it_and_down_stops_it(project: Config) -> None:
    assert await stop_all(project) is False
    told: list[str] = []
    first = await ensure(project, told.append)
    assert [("server" in text, "worker" in text) for text in told] == [(True, False), (False, True)]
    before = find_server(project.home), find_workers(project.home)
    assert await ensure(project, told.append) == first
    assert ((find_server(project.home), find_workers(project.home)), len(told)) == (before, 2)
    await park(project)  # with a search attribute
    client = await Client.connect(first.address)
    space = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="default"), retry=True)
    assert space.config.workflow_execution_retention_ttl.ToTimedelta().days == 90
    assert await stop_all(project) is True
    assert (find_server(project.home), find_workers(project.home)) == (None, [])
    assert await stop_all(project) is False


async def test_a_server_of_an_older_version_gets_the_attributes_that_are_new(running: Config) -> None:
    client = await Client.connect((await ensure(running)).address)
    old = RemoveSearchAttributesRequest(namespace="default", search_attributes=[SINCE_ATTRIBUTE])
    await client.operator_service.remove_search_attributes(old, retry=True)
    await ensure(running)
    assert await find_missing_search_attributes(client, "default") == []


async def test_two_commands_at_once_make_one_server_and_one_worker(project: Config, tmp_path: Path) -> None:
    both = [command(ENSURE, tmp_path) for _ in range(2)]
    replies = {(await asyncio.to_thread(one.communicate))[0] for one in both}
    assert [one.returncode for one in both] == [0, 0]
    assert len(replies) == 1
    shown = [arguments for _, arguments in processes.list_commands() if str(project.home) in " ".join(arguments)]
    assert len(shown) == 2


async def test_a_killed_server_comes_back_where_it_was_with_its_runs_though_its_ports_are_held_for_a_moment(
    running: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    await park(running)
    workers, killed, tried = find_workers(running.home), await kill_server(running), list[int]()

    def is_free(port: int) -> bool:
        tried.append(port)
        return tried.count(port) > 2

    monkeypatch.setattr(server, "_is_free", is_free)
    assert await is_parked(running)
    assert find_server(running.home) == replace(killed, pid=find_server(running.home).pid)  # type: ignore[union-attr]
    assert find_workers(running.home) == workers


async def test_a_server_that_was_just_ending_when_it_was_found_is_started_again(
    running: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = await kill_server(running)
    found = [killed]
    monkeypatch.setattr(embedded, "find_server", lambda home: found.pop() if found else find_server(home))
    await ensure(running)
    assert (again := find_server(running.home)) is not None and again.pid != killed.pid


async def test_a_killed_worker_comes_back(running: Config) -> None:
    await ensure(running)
    killed = find_workers(running.home)
    os.kill(killed[0], signal.SIGKILL)
    await eventually(lambda: not find_workers(running.home))
    await ensure(running)
    assert len(find_workers(running.home)) == 1
    assert find_workers(running.home) != killed


async def test_after_a_restart_of_the_machine_its_runs_are_there(running: Config) -> None:
    await park(running)
    killed = find_server(running.home)
    assert killed
    for pid in (killed.pid, *find_workers(running.home)):
        os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not find_workers(running.home))
    assert await is_parked(running)
    assert len(find_workers(running.home)) == 1


@pytest.mark.parametrize("text", ['{"port": 20', "[]"])
async def test_a_half_written_state_file_changes_nothing_but_the_worker(running: Config, text: str) -> None:
    await park(running)
    before = find_server(running.home)
    (running.home / "server.json").write_text(text)
    assert await is_parked(running)
    assert find_server(running.home) == before
    assert len(find_workers(running.home)) == 1


async def test_a_changed_tool_module_replaces_the_worker_and_nothing_else(running: Config) -> None:
    (running.folder / "my_tools.py").write_text("A = 1\n")
    config = running.model_copy(update={"worker": WorkerSection(imports=["my_tools"])})
    await ensure(config)
    before = find_server(config.home), find_workers(config.home)
    (running.folder / "my_tools.py").write_text("A = 22\n")
    await ensure(config)
    assert find_server(config.home) == before[0]
    assert find_workers(config.home) != before[1]


async def test_a_new_key_replaces_the_worker_and_a_terminal_without_the_key_does_not(
    running: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = running.model_copy(update={"models": {"fast": ModelSection(model="echo", api_key_env="SOME_KEY")}})
    await ensure(config)
    without = find_workers(config.home)
    monkeypatch.setenv("SOME_KEY", "secret")
    await ensure(config)
    with_key = find_workers(config.home)
    assert with_key != without
    monkeypatch.delenv("SOME_KEY")
    await ensure(config)
    assert find_workers(config.home) == with_key
    written = (config.home / "server.json").read_text()
    assert "secret" not in written and hashlib.sha256(b"secret").hexdigest() not in written


async def test_a_worker_that_cannot_start_is_told_with_its_last_lines(running: Config) -> None:
    (running.folder / "bad_tools.py").write_text("import not_installed\n")
    with pytest.raises(ServerUnreachable) as caught:
        await ensure(running.model_copy(update={"worker": WorkerSection(imports=["bad_tools"])}))
    assert "the worker stopped at once with exit code 2" in str(caught.value)
    assert "'bad_tools' cannot be imported: No module named 'not_installed'" in str(caught.value)
    assert f"The whole log: {running.home / 'worker.log'}" in str(caught.value)


async def test_a_worker_whose_new_code_cannot_start_goes_on(running: Config) -> None:
    module = running.folder / "broken_tools.py"
    module.write_text("A = 1\n")
    config = running.model_copy(update={"worker": WorkerSection(imports=["broken_tools"])})
    await ensure(config)
    workers, told = find_workers(config.home), list[str]()
    module.write_text("raise RuntimeError('boom')\n")
    await reach(config, Startup.WHERE_RUNS_ARE, told.append)
    assert find_workers(config.home) == workers
    assert "boom" in told[-1] and "of the code before, goes on" in told[-1]
    client = await Client.connect((await reach(config, Startup.NOTHING)).address)
    [found] = _check_start(Deployment(client, config, embedded=True))
    assert (found.check, found.status) == ("worker", "fault") and "boom" in found.message
    module.write_text("A = 222\n")
    await reach(config, Startup.WHERE_RUNS_ARE)
    assert find_workers(config.home) != workers
    assert _check_start(Deployment(client, config, embedded=True)) == []


async def test_where_no_worker_can_start_the_commands_on_a_run_go_on_without(running: Config) -> None:
    await ensure(running)
    await processes.stop(find_workers(running.home), 5)
    (running.folder / "bad_tools.py").write_text("import not_installed\n")
    config, told = running.model_copy(update={"worker": WorkerSection(imports=["bad_tools"])}), list[str]()
    found = await reach(config, Startup.WHERE_RUNS_ARE, told.append)
    assert found == await reach(config, Startup.NOTHING, told.append)
    assert told[-1].endswith("(no worker runs)")
    with pytest.raises(WorkerNotStarted):
        await reach(config, Startup.ALL, told.append)


async def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped: until one of its threads has seen the signal, the others go on."""
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


async def test_a_server_that_hangs_is_told_with_its_pid(running: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    await ensure(running)
    hanging = find_server(running.home)
    assert hanging
    monkeypatch.setattr(server, "REPLY_PATIENCE", 0.5)
    os.kill(hanging.pid, signal.SIGSTOP)
    await until(partial(is_stopped, hanging.pid), "the stop")
    try:
        with pytest.raises(ServerUnreachable, match=rf"\(pid {hanging.pid}\) does not answer .* holdfast down"):
            await ensure(running)
        # A command that only reads finds the worker and starts nothing; doctor asks in a way of its own.
        monkeypatch.setattr(connection, "PATIENCE", 0.5)
        with pytest.raises(ServerUnreachable, match=rf"\(pid {hanging.pid}\) does not answer .* holdfast down"):
            await connection.connect(running, startup=Startup.NOTHING)
        with pytest.raises(ServerUnreachable, match=rf"\(pid {hanging.pid}\) does not answer .* holdfast down"):
            await connection.connect_if_running(running)
    finally:
        os.kill(hanging.pid, signal.SIGCONT)


async def test_two_servers_never_share_a_database(running: Config, tmp_path: Path) -> None:
    await ensure(running)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(ServerUnreachable, match="is in use by a Temporal server"):
        await start_server(other, running.home / "temporal.db", None)


async def test_a_ui_port_in_use_is_named_with_the_way_out(tmp_path: Path) -> None:
    tmp_path.joinpath("state").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerUnreachable, match=rf"port {port} is in use; .* --ui-port"):
            await start_server(tmp_path / "state", tmp_path / "a.db", port)


async def test_a_state_folder_that_cannot_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", "/proc/state")  # where not even root makes a folder
    with pytest.raises(ServerUnreachable, match="cannot be used: .*; set HOLDFAST_HOME"):
        await ensure(load_config(tmp_path))


async def test_dev_brings_back_a_worker_and_ctrl_c_stops_both(project: Config, tmp_path: Path) -> None:
    dev = command(DEV, tmp_path)
    log = project.home / "worker.log"
    await eventually(lambda: log.exists() and "polling" in log.read_text())
    killed = find_workers(project.home)
    os.kill(killed[0], signal.SIGKILL)
    await eventually(lambda: find_workers(project.home) not in ([], killed))
    dev.send_signal(signal.SIGINT)
    _, told = await asyncio.to_thread(dev.communicate)
    assert dev.returncode == 0
    assert "Temporal at 127.0.0.1:" in told
    assert (find_server(project.home), find_workers(project.home)) == (None, [])


async def test_dev_ends_when_down_stops_it(project: Config, tmp_path: Path) -> None:
    dev = command(DEV, tmp_path)
    await eventually(lambda: find_workers(project.home))
    assert await stop_all(project)
    _, told = await asyncio.to_thread(dev.communicate)
    assert dev.returncode == 0
    assert "stopped by holdfast down" in told
    assert (find_server(project.home), find_workers(project.home)) == (None, [])
