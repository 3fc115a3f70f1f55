"""The `holdfast` command: runs the command line, flushes, leaves."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import NoReturn

from client.cli.app import BROKEN_PIPE, command_line


def main() -> NoReturn:
    """Run the command that was typed, and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = _flushed(_code())
    # A plain exit may abort in the SDK's threads (sdk-python issue 300), and would wait for its server connection.
    os._exit(code)


def _code() -> int:
    try:
        command_line()(prog_name="holdfast")
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except KeyboardInterrupt:
        return 130
    return 0


def _flushed(code: int) -> int:
    """The exit code, once everything is written; whoever does not read on is no error to talk about."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            code = BROKEN_PIPE
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


if __name__ == "__main__":
    main()
