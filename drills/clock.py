"""A wrong clock: `python -m drills.clock FILE PROGRAM…` runs a Python program whose wall clock is off, as a file says.

The file has the seconds, and is read again all the time: the clock jumps when it changes. Only Python's clock is off.
What counts seconds from a start (`time.monotonic`) goes on, as under a clock that somebody sets.
"""

from __future__ import annotations

import ctypes
import gc
import runpy
import sys
import threading
import time
from datetime import UTC, date, datetime, tzinfo
from pathlib import Path
from typing import Any

FARTHEST = 7_200.0
"""Seconds that a clock is off at most, to either side: more than the deadlines of the runs under drill."""
LOOK_SECONDS = 0.2
_time, _time_ns = time.time, time.time_ns
_offset = 0.0


def set_clock(file: Path, seconds: float) -> None:
    """Have the clocks jump that follow a file."""
    whole = file.with_suffix(".new")
    whole.write_text(str(seconds))
    whole.replace(file)


def follow_clock(file: Path) -> None:
    """Have the clock of this process be off as a file says, from now on."""
    time.time = lambda: _time() + _offset
    time.time_ns = lambda: _time_ns() + int(_offset * 1e9)
    _replace_methods(datetime, now=_tell_now, utcnow=lambda class_: _tell_now(class_, UTC).replace(tzinfo=None))
    _replace_methods(date, today=lambda class_: class_.fromtimestamp(time.time()))
    _read_offset(file)
    threading.Thread(target=_look, args=[file], daemon=True).start()


def _tell_now(class_: type[datetime], tz: tzinfo | None = None) -> datetime:
    return class_.fromtimestamp(_time() + _offset, tz)


def _replace_methods(class_: type, **functions: Any) -> None:
    """Replace class methods of a class that is written in C, so that also those see it who have imported it before."""
    [fields] = gc.get_referents(class_.__dict__)
    fields |= {name: classmethod(function) for name, function in functions.items()}
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(class_))


def _look(file: Path) -> None:
    while True:
        time.sleep(LOOK_SECONDS)
        _read_offset(file)


def _read_offset(file: Path) -> None:
    global _offset  # noqa: PLW0603 there is one clock a process
    _offset = float(file.read_text()) if file.exists() else 0.0


def main(arguments: list[str]) -> None:
    """Run a program, as `python` would: a file, or a module behind `-m`."""
    follow_clock(Path(arguments[0]))
    is_module = arguments[1] == "-m"
    sys.argv = arguments[2:] if is_module else arguments[1:]
    if is_module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
