"""Entry point of the `holdfast` command: run the command line, flush the output, exit."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from holdfast.client.cli.app import BROKEN_PIPE, command_line


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = _flush(run_command(sys.argv[1:]))
    # A plain exit may abort in the SDK's threads (sdk-python issue 300), and would wait for its server connection.
    os._exit(code)


def run_command(words: Sequence[str]) -> int:
    """Run the command line in this process, and return its exit code."""
    try:
        command_line()(list(words), prog_name="holdfast")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        return 130
    return 0


def _flush(code: int) -> int:
    """Flush the output and return the exit code; a closed pipe changes it to 141 and is not reported."""
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
