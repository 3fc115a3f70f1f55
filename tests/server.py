"""One Temporal server for all processes of a test run: the first that needs it starts it, the last one ends it."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.converter import DataConverter

from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.embedded.server import OPTIONS, find_temporal_binary
from holdfast.testkit.environment import ONE_PARTITION

HOST = "127.0.0.1"
LOOKS = 1500
"""Attempts to connect, a fiftieth of a second apart or more."""
NAME = os.environ.get("PYTEST_XDIST_WORKER", "main")
"""The name of this process among those of the test run; its namespace on the server."""
COMMANDS, OFFICE = "-commands", "-office"
"""The ends of the names of namespaces of the command line, whose commands list and ask every run that there is."""

SETTINGS = (
    *ONE_PARTITION,
    # Who waits for the end of a run is now and then not woken by it, and asks again after this time; it was 20 s.
    'history.longPollExpirationInterval="2s"',
    # What the server waits for in production, and a test need not: a timer or a retry took at least 1 s, not 0.07,
    # as did continue-as-new of a young workflow; a deletion came 32 s after the end, not 0.05.
    'history.timerProcessorMaxTimeShift="1ms"',
    'history.workflowIdReuseMinimalInterval="1ms"',
    "history.transferProcessorEnsureCloseBeforeDelete=false",
    # Attributes are registered before the first run; each start and upsert read the list of them anew.
    "system.forceSearchAttributesCacheRefreshOnRead=false",
    *("history.timerProcessorMaxPollRPS=1000", "history.visibilityProcessorMaxPollRPS=1000"),
    # Nobody reads its metrics, which would have a series for each of these queues: they took 7 % of its processor time.
    *("metrics.breakdownByTaskQueue=false", "metrics.breakdownByPartition=false", "metrics.breakdownByBuildID=false"),
)
"""The dynamic configuration of the server, beside that of the embedded one."""

SPARE = 2
"""Processes that pytest-xdist may start in the place of crashed ones, under names of their own: without a namespace,
each further test of such a process would fail, too, and hide the one that crashed."""

OTHER_SERVER = "HOLDFAST_TEST_SERVER"
"""The variable with the address of a server that has `namespaces`; without it one is started. See `drills.suite`."""

COLLECT_AT = "400"
"""Growth in percent at which the server, a program in Go, collects its garbage: at 100 it took 7 % of its time more."""


def namespaces() -> list[str]:
    """Return those of all processes: what the tests of one list or count is not mixed with what others leave."""
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 0))
    names = [f"gw{number}" for number in range(count + SPARE)] if count else [NAME]
    return [name + end for name in names for end in ("", COMMANDS, OFFICE)]


class SharedServer:
    """The server of a test run, known to its processes by a file in a folder that they share."""

    def __init__(self, folder: Path, user: str = NAME) -> None:
        self.folder, self.user = folder, user
        self._file = folder / "server.json"

    def join(self) -> str:
        """Return the server's address. It runs at least until `leave`."""
        with self._state() as state:
            if not state.get("users"):
                state.update(_start(self.folder / "server.log"), users=[])
            state["users"].append(self.user)
            return str(state["address"])

    def leave(self) -> None:
        with self._state() as state:
            state["users"].remove(self.user)
            if not state["users"]:
                os.kill(state["pid"], signal.SIGKILL)

    @contextmanager
    def _state(self) -> Iterator[dict[str, Any]]:
        with (self.folder / "server.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = json.loads(self._file.read_text()) if self._file.exists() else {}
            yield state
            self._file.write_text(json.dumps(state))


def _start(log: Path) -> dict[str, Any]:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    command = [find_temporal_binary(), "server", "start-dev", "--headless", "--ip", HOST, "--port", str(port), *OPTIONS]
    command += [word for value in SETTINGS for word in ("--dynamic-config-value", value)]
    command += [word for name in namespaces() for word in ("--namespace", name)]
    with log.open("a") as out:
        # In a session of its own: at Ctrl-C, tests that are being ended would wait for a server that is gone.
        process = subprocess.Popen(
            command, stdout=out, stderr=out, start_new_session=True, env={**os.environ, "GOGC": COLLECT_AT}
        )
    return {"pid": process.pid, "address": f"{HOST}:{port}"}


async def connected(address: str, namespace: str = NAME, data_converter: DataConverter = DATA_CONVERTER) -> Client:
    """Return a client of a server that may just have been started."""
    for _ in range(LOOKS):
        try:
            return await Client.connect(address, namespace=namespace, data_converter=data_converter)
        except RuntimeError as error:
            trouble = error
            await asyncio.sleep(0.02)
    raise AssertionError(f"the test run's server does not answer at {address}: {trouble}")
