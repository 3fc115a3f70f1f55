"""The `holdfast` command as a process of its own: piped, or at a terminal."""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0

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
    """Runs commands in one folder, on one embedded server."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("TEMPORAL_", "HOLDFAST_"))}
        own = {"HOLDFAST_HOME": str(folder / "state"), "HOLDFAST_USER": "ana", "HOLDFAST_GRACE": "1"}
        self.environment = clean | own | {"PYTHONPATH": str(ROOT), "TERM": "dumb"} | environment

    def __call__(self, *words: str, typed: str = "") -> Ran:
        done = subprocess.run(
            self.command(words), input=typed, capture_output=True, text=True, timeout=PATIENCE, **self.place()
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

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

    def rest(self, run: str) -> dict[str, Any]:
        """The run, once it has ended or waits: what `attach` says where nobody answers."""
        return dict(self("attach", run, "--json").json)


class Screen:
    """A command at a terminal, as a person sees it and types into it."""

    def __init__(self, holdfast: Holdfast, *words: str) -> None:
        self.master, slave = pty.openpty()

        def own_terminal() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            holdfast.command(words),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=own_terminal,
            **holdfast.place(),
        )
        self.slave = slave
        self.text = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        self.seen = 0

    def until(self, wanted: str) -> None:
        """Read until this is shown, behind what was waited for before."""
        deadline = time.monotonic() + PATIENCE
        while wanted not in self.text[self.seen :]:
            assert time.monotonic() < deadline and self._read(), f"waited for {wanted!r} in:\n{self.text}"
        self.seen = self.text.index(wanted, self.seen) + len(wanted)

    def _read(self) -> bool:
        """Whether the command may still show something."""
        ready, _, _ = select.select([self.master], [], [], 0.1)
        if ready:
            self.text += self.decoder.decode(os.read(self.master, 65536))  # a letter may come in two pieces
        return bool(ready) or self.process.poll() is None

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def leave(self) -> int:
        """Its exit code, once it has ended."""
        code = self.process.wait(PATIENCE)
        while select.select([self.master], [], [], 0)[0]:
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
