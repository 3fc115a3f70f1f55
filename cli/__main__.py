"""Entry point of the `holdfast` command: run the command line, flush the output, exit. Nothing else imports it."""

from __future__ import annotations

import signal

# Until a command is at work, Ctrl-C ends the process as the system does. An interrupted import would show a traceback,
# or an error of pydantic's, or go on in spite of it.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# What is imported stays: collections over it take a sixth of the time that a command has. `Commands` goes on with them.
import gc

gc.disable()

import contextlib
import io
import os
import sys
from typing import NoReturn

from holdfast.cli.app import BROKEN_PIPE, run_command


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = _flush(run_command(sys.argv[1:]))
    # A plain exit may abort in the SDK's threads (sdk-python issue 300), and would wait for its server connection.
    os._exit(code)


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
