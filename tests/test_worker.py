import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from temporalio.api.workflowservice.v1 import ListWorkerDeploymentsRequest
from temporalio.client import Client
from temporalio.common import VersioningBehavior
from temporalio.testing import WorkflowEnvironment

from holdfast.blueprint.load import loads
from holdfast.client.runs import Runs
from holdfast.runtime.config import ConfigError, WorkerVariables
from holdfast.runtime.connection import ensure_search_attributes
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.distribution import WORKER
from holdfast.runtime.embedded.server import find_temporal_binary
from holdfast.runtime.errors import ServerUnreachable
from holdfast.runtime.namespace import ATTRIBUTE_KEYS, ATTRIBUTES
from holdfast.runtime.probe import find_problem
from holdfast.worker import create_worker, explaining_end, main, versioning
from tests.conftest import LONGEST_WAIT


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=find_temporal_binary()) as environment:
        yield environment


@pytest.fixture
async def address(server: WorkflowEnvironment) -> str:
    await ensure_search_attributes(server.client, "default")
    return str(server.client.service_client.config.target_host)


def start(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "HOLDFAST_"))}
    command = [sys.executable, *WORKER, *arguments]
    return subprocess.Popen(command, cwd=folder, env=kept | variables, stderr=subprocess.PIPE, text=True)


async def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, told = await asyncio.to_thread(process.communicate, None, LONGEST_WAIT)
    return process.returncode, told


async def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Return what it logs before the line with this text."""
    assert process.stderr is not None
    before = ""
    while text not in (line := await asyncio.to_thread(process.stderr.readline)):
        assert line, f"it has ended, and never said {text!r}"
        before += line
    return before


async def eventually(happened: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(LONGEST_WAIT):
        while not await happened():
            await asyncio.sleep(0.05)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.mark.slow
async def test_it_answers_health_checks_while_it_polls_and_leaves_on_sigterm(address: str, tmp_path: Path) -> None:
    port = str(free_port())
    worker = start(tmp_path, TEMPORAL_ADDRESS=address, HOLDFAST_HEALTH_PORT=port)

    async def healthy() -> bool:
        return await asyncio.to_thread(find_problem, int(port)) is None

    await eventually(healthy)
    assert (await end(start(tmp_path, "--health", HOLDFAST_HEALTH_PORT=port)))[0] == 0
    worker.send_signal(signal.SIGTERM)
    code, told = await end(worker)
    assert code == 0
    assert f"polling task queue 'holdfast' of namespace 'default' at {address}" in told
    assert (await end(start(tmp_path, "--health", HOLDFAST_HEALTH_PORT=port)))[0] == 1


@pytest.mark.slow
async def test_a_build_id_makes_it_a_version_of_the_deployment(
    server: WorkflowEnvironment, address: str, tmp_path: Path
) -> None:
    worker = start(tmp_path, TEMPORAL_ADDRESS=address, HOLDFAST_BUILD_ID="b1", HOLDFAST_DEPLOYMENT="inbox")

    async def registered() -> bool:
        request = ListWorkerDeploymentsRequest(namespace="default")
        reply = await server.client.workflow_service.list_worker_deployments(request, retry=True)
        return [one.name for one in reply.worker_deployments] == ["inbox"]

    await eventually(registered)
    worker.send_signal(signal.SIGTERM)
    code, told = await end(worker)
    assert code == 0
    assert "build inbox/b1 (auto_upgrade)" in told


@pytest.mark.slow
async def test_missing_search_attributes_are_told_with_the_command_that_registers_them(tmp_path: Path) -> None:
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=find_temporal_binary()) as bare:
        address = bare.client.service_client.config.target_host
        code, told = await end(start(tmp_path, TEMPORAL_ADDRESS=address))
    assert code == 5
    assert f"{', '.join(ATTRIBUTES)} are not registered in namespace 'default'; run: holdfast setup" in told


@pytest.mark.slow
async def test_no_server_is_exit_5(tmp_path: Path) -> None:
    code, told = await end(start(tmp_path, TEMPORAL_ADDRESS="127.0.0.1:1", HOLDFAST_CONNECT_SECONDS="0"))
    assert code == 5
    assert "no Temporal server at 127.0.0.1:1" in told


@pytest.mark.slow
async def test_a_server_that_comes_up_after_the_worker_is_found_and_its_absence_is_told_once(tmp_path: Path) -> None:
    port = free_port()
    process = start(tmp_path, TEMPORAL_ADDRESS=f"127.0.0.1:{port}")
    await read_until(process, "Trying again")
    options = {"dev_server_existing_path": find_temporal_binary(), "search_attributes": ATTRIBUTE_KEYS}
    async with await WorkflowEnvironment.start_local(port=port, **options):
        assert "Trying again" not in await read_until(process, "polling task queue")
        process.send_signal(signal.SIGTERM)
        assert (await end(process))[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "'my_tools' cannot be imported: No module named 'my_tools'; install it, or put it into"),
        (
            "\nx = 1 / 0\n",
            "my_tools.py:2: worker.imports: 'my_tools' cannot be imported: ZeroDivisionError: division by",
        ),
        ("x = (\n", "my_tools.py:1: worker.imports: 'my_tools': '(' was never closed"),
    ],
)
async def test_packages_that_cannot_be_imported_are_exit_2(tmp_path: Path, text: str | None, expected: str) -> None:
    if text is not None:
        (tmp_path / "my_tools.py").write_text(text)
    code, told = await end(start(tmp_path, HOLDFAST_IMPORTS="my_tools", TEMPORAL_ADDRESS="127.0.0.1:1"))
    assert code == 2
    assert expected in told


def test_the_environment_sets_how_much_it_does_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_MAX_ACTIVITIES", "7")
    monkeypatch.setenv("HOLDFAST_GRACE", "")
    monkeypatch.setenv("HOLDFAST_MAX_CACHED_WORKFLOWS", "0")
    settings = WorkerVariables.read()
    assert (settings.max_activities, settings.grace, settings.max_cached_workflows) == (7, 10, 0)
    assert versioning(settings) is None


def test_pinning_is_opt_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_BUILD_ID", "b")
    for said, behaviour in (("", VersioningBehavior.AUTO_UPGRADE), ("pinned", VersioningBehavior.PINNED)):
        monkeypatch.setenv("HOLDFAST_VERSIONING", said)
        version = versioning(WorkerVariables.read())
        assert version and version.default_versioning_behavior is behaviour


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("HOLDFAST_MAX_ACTIVITIES", "many", "HOLDFAST_MAX_ACTIVITIES=many: must be a whole number, 1 or more"),
        ("HOLDFAST_MAX_WORKFLOW_TASKS", "1", "HOLDFAST_MAX_WORKFLOW_TASKS=1: must be a whole number, 2 or more"),
        ("HOLDFAST_HEALTH_PORT", "99999", "HOLDFAST_HEALTH_PORT=99999: must be a whole number, 0 to 65535"),
        ("HOLDFAST_VERSIONING", "auto", "HOLDFAST_VERSIONING=auto: must be 'auto_upgrade' or 'pinned'"),
    ],
)
def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=expected):
        WorkerVariables.read()


@pytest.mark.usefixtures("root_logger")
def test_an_option_that_it_does_not_know_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--heath"])
    assert "unrecognized arguments: --heath" in capsys.readouterr().err


AGENT = """
name: told
agents: {helper: {model: echo}}
steps: [{agent: helper, name: think, input: Hi}, {kind: hitl, name: ask, message: Go?}]
"""


@pytest.mark.slow
async def test_it_serves_metrics_and_logs_json(server: WorkflowEnvironment, address: str, tmp_path: Path) -> None:
    port = str(free_port())
    log = {"HOLDFAST_LOG_FORMAT": "json", "HOLDFAST_LOG_LEVEL": "debug"}
    worker = start(tmp_path, TEMPORAL_ADDRESS=address, HOLDFAST_METRICS_PORT=port, **log)
    ending = asyncio.create_task(end(worker))  # it reads the log: a pipe that nobody reads is full in a while
    client = await Client.connect(address, data_converter=DATA_CONVERTER)
    runs = Runs(client)
    run = await runs.start(loads(AGENT))

    async def is_asked() -> bool:
        return bool((await runs.state(run)).questions)

    await eventually(is_asked)
    text = (await asyncio.to_thread(httpx.get, f"http://127.0.0.1:{port}/metrics", timeout=LONGEST_WAIT)).text
    await runs.control.cancel(run)
    worker.send_signal(signal.SIGTERM)
    _, told = await ending
    samples = {
        (sample.name, sample.labels.get("model"), sample.labels.get("outcome")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["holdfast_model_requests_total", "echo", "finished"] >= 1  # again in a task that is made again
    assert any(name.startswith("temporal_workflow") for name, *_ in samples)
    lines = [json.loads(line) for line in told.splitlines()]
    asked = [line for line in lines if line.get("event") == "question.asked"]
    assert {(line["run"], line["address"], line["level"]) for line in asked} == {
        (run, "pipeline:told;hitl:ask", "info")
    }
    assert "Go?" not in told


async def polled_by_a_worker(client: Client) -> None:
    async with explaining_end(client), create_worker(client, task_queue="nowhere", activities=[]):
        await asyncio.Event().wait()


async def test_a_worker_of_a_namespace_that_has_gone_says_so(server: WorkflowEnvironment) -> None:
    host = str(server.client.service_client.config.target_host)
    client = await Client.connect(host, namespace="gone", data_converter=DATA_CONVERTER)
    with pytest.raises(ServerUnreachable, match="has no namespace 'gone'; set TEMPORAL_NAMESPACE, or make it"):
        await polled_by_a_worker(client)


@pytest.mark.slow
async def test_a_worker_of_a_server_that_has_gone_says_so() -> None:
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=find_temporal_binary()) as environment:
        client = await Client.connect(
            environment.client.service_client.config.target_host, data_converter=DATA_CONVERTER
        )
    with pytest.raises(ServerUnreachable, match=r"^the server at .*: "):
        await polled_by_a_worker(client)
