"""The `holdfast` command: in this process, as a process of its own, or at a terminal."""

from __future__ import annotations

import asyncio
import codecs
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import chdir, contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TextIO

from temporalio.client import Client, WorkflowHistory

from holdfast.activities import all_activities
from holdfast.cli.app import run_command
from holdfast.client.history import histories
from holdfast.runtime.connection import make_converter
from holdfast.runtime.secrets import SecretDirectory
from tests.client.emulator import Emulator
from tests.conftest import kept_log, worker_for
from tests.repository import ROOT
from tests.server import connected

PATIENCE = 300.0
QUEUE = "commands"

TONE = """
name: brief
description: Agree on a tone and a title.
steps:
  - kind: hitl
    name: tone
    message: Which tone?
    ask: decision
    options: [{id: warm, label: Warm and kind}, {id: formal, label: Formal}]
  - {kind: hitl, name: title, message: A title?}
output: {tone: "{{ steps.tone.output }}", title: "{{ steps.title.output }}"}
"""
LOOP = """
name: talk
steps:
  - kind: loop
    name: clarify
    loop:
      max_loops: 9
      exit_expression: output == 'stop'
      body:
        - {kind: hitl, name: more, message: "Round {{ iteration }}?"}
"""
FORM = """
name: form
steps:
  - kind: hitl
    name: trip
    message: Where to?
    input_schema:
      type: object
      required: [city, days]
      properties:
        city: {type: string}
        days: {type: integer, minimum: 1}
        hotel: {type: boolean, default: false}
"""


@dataclass
class Ran:
    """What became of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Holdfast:
    """Runs commands in one folder, in this process: a process of its own takes half a second to import what we have."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("TEMPORAL_", "HOLDFAST_"))}
        own = {"HOLDFAST_HOME": str(folder / "state"), "HOLDFAST_USER": "ana", "HOLDFAST_GRACE": "1"}
        self.environment = clean | own | {"PYTHONPATH": str(ROOT), "TERM": "dumb"} | environment

    def __call__(self, *words: str, typed: str = "") -> Ran:
        with tempfile.TemporaryDirectory() as folder, _streams(Path(folder), typed) as (out, err):
            with chdir(self.folder), _environment(self.environment), kept_log():
                code = run_command(words)
            return Ran(code, _written(out), _written(err))

    def having(self, **environment: str) -> Self:
        """The same commands, with other variables."""
        other = copy(self)
        other.environment = self.environment | environment
        return other

    def as_process(self) -> Process:
        """The same commands, each in a process of its own."""
        process = Process(self.folder)
        process.environment = self.environment
        return process

    def histories(self, run: str) -> list[WorkflowHistory]:
        """The histories of a run and its children."""

        async def read() -> list[WorkflowHistory]:
            return [history async for history in histories(await self._temporal(), run)]

        return asyncio.run(read())

    def signal(self, workflow: str, name: str, argument: object) -> None:
        """Send a signal to a workflow, as Temporal's own tools do."""

        async def send() -> None:
            await (await self._temporal()).get_workflow_handle(workflow).signal(name, argument)

        asyncio.run(send())

    async def _temporal(self) -> Client:
        address, namespace = self.environment["TEMPORAL_ADDRESS"], self.environment["TEMPORAL_NAMESPACE"]
        return await Client.connect(address, namespace=namespace)

    def command(self, words: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "holdfast", *words]

    def place(self) -> dict[str, Any]:
        return {"cwd": self.folder, "env": self.environment}

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name

    def start(self, text: str, *words: str) -> str:
        """Start a run of this text; its id."""
        return str(self("start", self.write("started.yaml", text), "--json", *words).json["run"])

    def park(self, text: str, *words: str, typed: str = "") -> dict[str, Any]:
        """Start a run of this text and leave it when it waits; its id and its open questions."""
        ran = self("run", self.write("parked.yaml", text), "--json", *words, typed=typed)
        assert ran.code == 3, ran
        return dict(ran.json)

    def listed(self, run: str, status: str = "waiting") -> dict[str, Any]:
        """Return the row of a run, once the list, which lags behind it, has it with this status."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for row in self("runs", "--json").json:
                if (row["run"], row["status"]) == (run, status):
                    return dict(row)
        raise AssertionError(f"waited for {run} to be listed as {status}")

    def rest(self, run: str) -> dict[str, Any]:
        """The run, once it has ended or waits: what `attach` says where nobody answers."""
        return dict(self("attach", run, "--json").json)


class Process(Holdfast):
    """Runs each command as a process of its own, as a shell does."""

    def __call__(self, *words: str, typed: str = "") -> Ran:
        done = subprocess.run(
            self.command(words), input=typed, capture_output=True, text=True, timeout=PATIENCE, **self.place()
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)


@contextmanager
def _streams(folder: Path, typed: str) -> Iterator[tuple[TextIO, TextIO]]:
    """Replace the standard streams by files, which have descriptors, as an editor that a command starts needs them."""
    (folder / "in").write_text(typed)
    before = sys.stdin, sys.stdout, sys.stderr
    with (folder / "in").open() as in_, _file(folder / "out") as out, _file(folder / "err") as err:
        sys.stdin, sys.stdout, sys.stderr = in_, out, err
        try:
            yield out, err
        finally:
            sys.stdin, sys.stdout, sys.stderr = before


def _file(path: Path) -> TextIO:
    return path.open("w+", encoding="utf-8", errors="backslashreplace", newline="")


def _written(stream: TextIO) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def with_worker(folder: Path, address: str, namespace: str) -> Iterator[Holdfast]:
    """Commands that find a worker; their stores are where those of an embedded server would be."""
    state = folder / "state"
    environment = {
        "TEMPORAL_ADDRESS": address,
        "TEMPORAL_NAMESPACE": namespace,
        "HOLDFAST_TASK_QUEUE": QUEUE,
        "HOLDFAST_PAYLOADS": f"dir:{state / 'payloads'}",
        "HOLDFAST_SECRETS": f"dir:{state / 'secrets'}",
    }
    with BackgroundWorker(address, namespace, state):
        yield Holdfast(folder, **environment)


class BackgroundWorker:
    """A worker in a thread with a loop of its own: each command runs in the main thread, in a loop of its own."""

    def __init__(self, address: str, namespace: str, state: Path) -> None:
        self._address, self._namespace, self._state = address, namespace, state
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="worker", daemon=True)
        self._ready: Future[Callable[[], object]] = Future()

    def __enter__(self) -> Self:
        self._thread.start()
        self._stop = self._ready.result(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._thread.join(PATIENCE)

    async def _run(self) -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        try:
            client = await connected(self._address, self._namespace, make_converter(f"dir:{self._state / 'payloads'}"))
            activities = all_activities([], {}, secrets={"dir": SecretDirectory(self._state / "secrets")})
            async with worker_for(client, QUEUE, activities=activities):
                self._ready.set_result(lambda: loop.call_soon_threadsafe(stop.set))
                await stop.wait()
        except BaseException as error:
            self._ready.set_exception(error)
            raise


class Screen:
    """A command at a terminal, as a person sees it and types into it."""

    def __init__(self, holdfast: Holdfast, *words: str, columns: int = 120) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.columns = columns

        def own_terminal() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where the tests run in a shell's background
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        place = holdfast.place()
        place["env"] = {**place["env"], "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            holdfast.command(words),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=own_terminal,
            **place,
        )
        self.slave = slave
        self.text = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        self.seen = 0

    @property
    def lines(self) -> list[str]:
        """What stands on the screen."""
        emulator = Emulator(self.columns)
        emulator.feed(self.text)
        return [line for line in emulator.lines if line]

    def until_shown(self, wanted: str) -> None:
        """Read until a line of the screen holds this."""
        deadline = time.monotonic() + PATIENCE
        while not any(wanted in line for line in self.lines):
            assert time.monotonic() < deadline and self._read(), f"waited for {wanted!r} on:\n{self.lines}"

    def until(self, wanted: str) -> None:
        """Read until this is shown, behind what was waited for before."""
        deadline = time.monotonic() + PATIENCE
        while wanted not in self.text[self.seen :]:
            assert time.monotonic() < deadline and self._read(), f"waited for {wanted!r} in:\n{self.text}"
        self.seen = self.text.index(wanted, self.seen) + len(wanted)

    def _read(self) -> bool:
        """Whether the command may still show something."""
        ready = self._is_ready(100)
        if ready:
            self.text += self.decoder.decode(os.read(self.master, 65536))  # a letter may come in two pieces
        return ready or self.process.poll() is None

    def _is_ready(self, milliseconds: int) -> bool:
        poll = select.poll()  # `select.select` takes no file with a number over 1,023
        poll.register(self.master, select.POLLIN)
        return any(event & select.POLLIN for _, event in poll.poll(milliseconds))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def leave(self) -> int:
        """Its exit code, once it has ended."""
        code = self.process.wait(PATIENCE)
        while self._is_ready(0):
            self.text += self.decoder.decode(os.read(self.master, 65536))  # a letter may come in two pieces
        return code

    @property
    def echoes(self) -> bool:
        """Whether the terminal is as a shell wants it."""
        flags = termios.tcgetattr(self.slave)[3]
        return bool(flags & termios.ECHO) and bool(flags & termios.ICANON)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)
