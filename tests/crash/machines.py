"""Processes that can be killed: a worker, and a server with its state in a file where a test kills that, too."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from temporalio.client import Client

from holdfast.client.answering import Answering
from holdfast.client.memory import QuestionMemory
from holdfast.client.runs import Runs
from holdfast.protocol.names import ATTRIBUTE_TYPES
from holdfast.protocol.questions import Question
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.embedded.server import UNTHROTTLED, find_temporal_binary
from tests.conftest import Harness, until
from tests.crash.forks import ForkedProgram
from tests.repository import ROOT

LONGEST_START = 120
"""Seconds for a process to listen, on a loaded machine."""


class Machines:
    """Processes that can be killed and started again: a worker, and a server if one is started here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = find_free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.namespace, self.task_queue = "default", "holdfast"
        self.database = folder / "temporal.db"
        self.converter = DATA_CONVERTER
        self.imports = "tests.tools,tests.plans.plan_tools"
        self._processes: dict[str, subprocess.Popen[bytes] | ForkedProgram] = {}

    def start_server(self, *settings: str) -> None:
        """Start the server; `settings` are more of its dynamic configuration."""
        ports = ["--port", str(self.port), "--headless"]
        flags = [word for name, type_ in ATTRIBUTE_TYPES.items() for word in ("--search-attribute", f"{name}={type_}")]
        flags += [word for setting in (UNTHROTTLED, *settings) for word in ("--dynamic-config-value", setting)]
        file = ["--db-filename", str(self.database)]
        self._start("server", [find_temporal_binary(), "server", "start-dev", *ports, *flags, *file])

    def start_worker(self, *arguments: str, **environment: str) -> None:
        self._start("worker", [sys.executable, str(ROOT / "worker.py"), *arguments], **environment)

    def start_program(self, name: str, *command: str) -> None:
        self._start(name, list(command))

    def start_mcp_server(self) -> str:
        """The URL of a server that outlives the worker."""
        port = find_free_port()
        self._start("mcp", [sys.executable, str(ROOT / "tests" / "activities" / "mcp_server.py"), str(port)])
        return f"http://127.0.0.1:{port}/mcp"

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def has_ended(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is not None

    async def ended(self, name: str) -> int:
        """The exit code of a process, once it has ended."""
        process = self._processes.pop(name)
        try:
            return await asyncio.to_thread(process.wait, 120)
        finally:
            process.kill()

    def stop(self) -> None:
        for name in list(self._processes):
            self.kill(name)

    def _start(self, name: str, command: list[str], **more: str) -> None:
        environment = {
            **os.environ,
            "TEMPORAL_ADDRESS": self.address,
            "TEMPORAL_NAMESPACE": self.namespace,
            "HOLDFAST_TASK_QUEUE": self.task_queue,
            "HOLDFAST_IMPORTS": self.imports,
            "HOLDFAST_HOME": str(self.folder / "home"),
            "PYTHONPATH": str(ROOT),
            **more,
        }
        log = self.folder / f"{name}.log"
        if command[0] == sys.executable:
            self._processes[name] = ForkedProgram(command[1:], environment, self.folder, log)
            return
        with log.open("ab") as file:
            self._processes[name] = subprocess.Popen(
                command, env=environment, cwd=self.folder, stdout=file, stderr=file
            )

    def restart_worker(self) -> None:
        self.kill("worker")
        self.start_worker()

    def restart_server(self) -> None:
        self.kill("server")
        self.start_server()

    async def client(self) -> Client:
        async def connected() -> Client | None:
            try:
                return await Client.connect(self.address, namespace=self.namespace, data_converter=self.converter)
            except RuntimeError:
                return None

        client: Client = await until(connected, "the server")
        return client

    async def house(self) -> Harness:
        harness = Harness(await self.client(), self.task_queue, self.folder)
        memory = QuestionMemory(self.folder / "questions.json")
        harness.runs = Runs(harness.client, self.task_queue, Answering(memory=memory))
        return harness


def find_free_port() -> int:
    """None of those that connections get: it has to be free when the server starts again."""
    for port in random.sample(range(10_000, 20_000), 100):
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


async def wait_for_port(port: int) -> None:
    """Until something listens there."""
    async with asyncio.timeout(LONGEST_START):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.2)
            else:
                writer.close()
                return


async def asked(house: Harness, run: str, message: str) -> Question:
    """The question that begins so, once the run asks it, through every outage."""

    async def asks() -> Question | None:
        try:
            return next((one for one in await house.runs.questions(run) if one.message.startswith(message)), None)
        except Exception:  # noqa: BLE001 whatever an outage looks like from here
            return None

    question: Question = await until(asks, f"{message!r} of {run}")
    return question


async def ended(house: Harness, run: str) -> int:
    """How many activities of the run have ended, as its histories say: no worker is needed."""
    return sum(
        event.HasField("activity_task_completed_event_attributes")
        for history in await house.histories(run)
        for event in history.events
    )


async def more(house: Harness, run: str, than: int, by: int) -> None:
    """Until so many activities more have ended: killed in mid-call, they would be made again."""

    async def have() -> bool:
        return await ended(house, run) >= than + by

    await until(have, f"{by} more activities of {run}")
