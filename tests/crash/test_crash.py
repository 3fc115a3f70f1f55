"""Kill -9 of workers and servers (CASES.md, P8 and P9): nothing accepted is lost, nothing finished is run again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

from client.answering import Answering, Sent
from client.connection import DATA_CONVERTER
from client.errors import NothingSent
from client.runs import Runs
from protocol.answers import Answer
from tests.conftest import Harness, temporal_binary, until
from tests.test_architecture import HOME
from tests.tools import calls

LOOP = """
steps:
  - kind: loop
    name: l
    loop:
      exit_expression: output == 'stop'
      max_loops: 9
      body:
        - {{name: before, uses: counted, input: {{folder: "{folder}", name: before}}}}
        - {{kind: hitl, name: ask, message: "{{{{ previous_step }}}}"}}
"""
HANGS = """
steps:
  - {{name: tool, uses: hangs_once, input: {{folder: "{folder}", name: tool}}}}
  - {{name: after, input: "after {{{{ previous_step }}}}"}}
"""


class Machines:
    """A server with its state in a file, and a worker: processes that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.ui_port = _free_port(), _free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start_server(self) -> None:
        dynamic = "history.transferProcessorMaxPollRPS=1000"
        ports = ["--port", str(self.port), "--ui-port", str(self.ui_port), "--headless"]
        attributes = ["HoldfastBlueprint=Keyword", "HoldfastWaitingFor=KeywordList"]
        flags = [flag for one in attributes for flag in ("--search-attribute", one)]
        file = ["--db-filename", str(self.folder / "temporal.db"), "--dynamic-config-value", dynamic]
        self._start("server", [temporal_binary(), "server", "start-dev", *ports[:2], "--headless", *flags, *file])

    def start_worker(self) -> None:
        self._start("worker", [sys.executable, str(HOME / "worker.py")])

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for name in list(self._processes):
            self.kill(name)

    def _start(self, name: str, command: list[str]) -> None:
        environment = {
            **os.environ,
            "TEMPORAL_ADDRESS": self.address,
            "HOLDFAST_IMPORTS": "tests.tools",
            "HOLDFAST_HOME": str(self.folder / "home"),
            "PYTHONPATH": str(HOME),
        }
        log = (self.folder / f"{name}.log").open("ab")
        self._processes[name] = subprocess.Popen(command, env=environment, cwd=self.folder, stdout=log, stderr=log)

    async def client(self) -> Client:
        async def connected() -> Client | None:
            try:
                return await Client.connect(self.address, data_converter=DATA_CONVERTER)
            except RuntimeError:
                return None

        client: Client = await until(connected, "the server")
        return client

    async def house(self) -> Harness:
        harness = Harness(await self.client(), "holdfast", self.folder)
        harness.runs = Runs(harness.client, "holdfast", Answering(memory=self.folder / "questions.json"))
        return harness


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    made.start_server()
    yield made
    made.stop()


async def asked(house: Harness, run: str, message: str) -> None:
    """Wait until the run asks this, through every outage."""

    async def asks() -> bool:
        try:
            return [question.message for question in await house.runs.questions(run)] == [message]
        except Exception:  # noqa: BLE001 whatever an outage looks like from here
            return False

    for _ in range(5):
        try:
            await until(asks, message)
            return
        except AssertionError:
            continue
    raise AssertionError(f"{run} never asked {message!r}")


async def test_a_worker_killed_while_it_waits_and_after_an_answer_goes_on_in_the_same_iteration(
    machines: Machines,
) -> None:
    house = await machines.house()
    machines.start_worker()
    run = await house.start(LOOP.format(folder=machines.folder))
    await asked(house, run, "before 1")
    machines.kill("worker")
    machines.start_worker()
    await asked(house, run, "before 1")
    await house.answer(run, "more")
    machines.kill("worker")
    machines.start_worker()
    await asked(house, run, "before 2")
    await house.answer(run, "stop")
    assert await house.output(run) == "stop"
    assert calls(machines.folder, "before") == 2
    await house.replay()


HAPPENED = {"done": "after by hand", "retry": "after done"}


@pytest.mark.parametrize("outcome", HAPPENED)
async def test_a_tool_lost_in_mid_call_is_for_a_person_to_judge(machines: Machines, outcome: str) -> None:
    house = await machines.house()
    (machines.folder / "hang").touch()
    machines.start_worker()
    run = await house.start(HANGS.format(folder=machines.folder))

    async def called() -> bool:
        return calls(machines.folder, "tool") == 1

    await until(called, "the tool")
    machines.kill("worker")
    (machines.folder / "hang").unlink()
    machines.start_worker()

    async def judged() -> list:
        standing = await house.runs.standing(run)
        return standing.questions

    for _ in range(4):
        try:
            [question] = await until(judged, "the question")
            break
        except AssertionError:
            continue
    assert "hangs_once was lost in mid-call" in question.message
    await house.answer(run, {"outcome": outcome, **({"result": "by hand"} if outcome == "done" else {})}, question)
    assert await house.output(run) == HAPPENED[outcome]
    assert calls(machines.folder, "tool") == (1 if outcome == "done" else 2)
    await house.replay()


async def test_an_answer_sent_while_no_worker_runs_survives_the_server_and_is_taken_later(machines: Machines) -> None:
    house = await machines.house()
    machines.start_worker()
    run = await house.start(LOOP.format(folder=machines.folder))
    await asked(house, run, "before 1")
    [question] = await house.runs.questions(run)
    machines.kill("worker")
    [sent] = await house.runs.answer(run, [Answer(question=question.id, content="stop")], signal=True)
    assert isinstance(sent, Sent)
    machines.kill("server")
    machines.start_server()
    again = await machines.house()
    again.started = house.started
    machines.start_worker()
    assert await again.output(run) == "stop"
    await again.replay()


async def test_a_server_killed_with_a_question_open_loses_nothing_accepted(machines: Machines) -> None:
    house = await machines.house()
    machines.start_worker()
    run = await house.start(LOOP.format(folder=machines.folder))
    await asked(house, run, "before 1")
    await house.answer(run, "more")
    await asked(house, run, "before 2")
    machines.kill("server")
    machines.start_server()
    again = await machines.house()
    again.started = house.started
    await asked(again, run, "before 2")
    await again.answer(run, "stop")
    assert await again.output(run) == "stop"
    assert calls(machines.folder, "before") == 2
    await again.replay()


async def test_a_guarded_run_takes_no_answer_while_no_worker_is_there(machines: Machines) -> None:
    house = await machines.house()
    machines.start_worker()
    run = await house.start(LOOP.format(folder=machines.folder))
    await asked(house, run, "before 1")
    [question] = await house.runs.questions(run)
    machines.kill("worker")
    guarded = Runs(house.client, "holdfast", Answering(key="secret"))
    with pytest.raises(NothingSent):
        await guarded.answer(run, [Answer(question=question.id, content="stop")])
    signals = [event.HasField("workflow_execution_signaled_event_attributes") for event in await _events(house, run)]
    assert not any(signals)


async def _events(house: Harness, run: str) -> list:
    return list((await house.client.get_workflow_handle(f"{run}/loop:l").fetch_history()).events)
