"""Runs a command's work; what can be foreseen to go wrong gets one clear message and its exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn

import typer
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError, RPCStatusCode

from blueprint.errors import BlueprintError
from client.cli.output import INTERRUPTED, REFUSED, UNREACHABLE, USAGE, print_json, say
from client.config import ConfigError
from client.embedded import ServerUnreachable
from client.errors import Ambiguous, BadInput, NothingSent, RunExists
from client.reading import BadUsage
from client.tree import NoWorker, UnknownRun
from protocol.answers import Refusal

FORESEEN: dict[type[Exception], tuple[int, str]] = {
    BlueprintError: (USAGE, "blueprint_invalid"),
    ConfigError: (USAGE, "config_invalid"),
    BadUsage: (USAGE, "bad_usage"),
    BadInput: (USAGE, "input_invalid"),
    RunExists: (USAGE, "run_exists"),
    UnknownRun: (USAGE, "unknown_run"),
    Ambiguous: (USAGE, "ambiguous"),
    Refusal: (REFUSED, "refused"),
    NothingSent: (UNREACHABLE, "nothing_sent"),
    NoWorker: (UNREACHABLE, "no_worker"),
    ServerUnreachable: (UNREACHABLE, "server_unreachable"),
    RPCError: (UNREACHABLE, "server_error"),
}
"""Every failure that a person can cause or mend, with its exit code and its name in JSON."""


def perform(work: Coroutine[Any, Any, int], as_json: bool = False) -> NoReturn:
    """Do the work, and leave with the exit code it gives."""
    # The SDK's core would log to standard output, where the result belongs.
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)), error_if_already_set=False)
    try:
        code = asyncio.run(work)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except tuple(FORESEEN) as error:
        code = told(error, as_json)
    raise typer.Exit(code)


def told(error: Exception, as_json: bool) -> int:
    """Say what went wrong, where people or programs look; its exit code."""
    code, type_ = next(row for kind, row in FORESEEN.items() if isinstance(error, kind))
    message = str(error)
    match error:
        case Refusal():
            type_ = error.code
        case RPCError():
            message = _of_server(error)
    if as_json:
        shown: dict[str, Any] = {"type": type_, "message": message}
        if isinstance(error, BlueprintError):
            shown["problems"] = [problem.to_json() for problem in error.problems]
        print_json({"error": shown})
    say(message)
    return code


def _of_server(error: RPCError) -> str:
    status = error.status.name.lower().replace("_", " ")
    if error.status in (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED):
        return f"the Temporal server does not answer ({status}: {error.message}); its runs are kept. Try again."
    return f"the Temporal server refuses ({status}): {error.message}"
