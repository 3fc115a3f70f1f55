"""Run a command's coroutine; map expected exceptions to an exit code and one message."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn

import typer
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError, RPCStatusCode

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.json_values import JSONObject
from holdfast.client.cli.output import INTERRUPTED, REFUSED, UNREACHABLE, USAGE, print_json, say
from holdfast.client.config import ConfigError
from holdfast.client.errors import Ambiguous, BadInput, NothingSent, RecordError, RunExists, ServerUnreachable
from holdfast.client.reading import BadUsage
from holdfast.client.tree import UnknownRun
from holdfast.client.workers import Busy, NoCurrentVersion, NoWorker, OnHold, OtherVersion, TaskFailing
from holdfast.protocol.answers import Refusal

EXPECTED: dict[type[Exception], tuple[int, str]] = {
    BlueprintError: (USAGE, "blueprint_invalid"),
    ConfigError: (USAGE, "config_invalid"),
    BadUsage: (USAGE, "bad_usage"),
    BadInput: (USAGE, "input_invalid"),
    RunExists: (USAGE, "run_exists"),
    UnknownRun: (USAGE, "unknown_run"),
    Ambiguous: (USAGE, "ambiguous"),
    Refusal: (REFUSED, "refused"),
    NothingSent: (UNREACHABLE, "nothing_sent"),
    Busy: (UNREACHABLE, "worker_busy"),
    NoCurrentVersion: (UNREACHABLE, "no_current_version"),
    OtherVersion: (UNREACHABLE, "other_version"),
    OnHold: (UNREACHABLE, "on_hold"),
    TaskFailing: (UNREACHABLE, "workflow_task_failing"),
    NoWorker: (UNREACHABLE, "no_worker"),
    ServerUnreachable: (UNREACHABLE, "server_unreachable"),
    RecordError: (UNREACHABLE, "record_unreachable"),
    RPCError: (UNREACHABLE, "server_error"),
}
"""Every failure that a person can cause or repair, with its exit code and its type in JSON."""


def perform(work: Coroutine[Any, Any, int], as_json: bool = False) -> NoReturn:
    """Run the work and exit with the code it returns, or with that of an expected exception."""
    quiet_core()
    try:
        code = asyncio.run(work)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except tuple(EXPECTED) as error:
        code = _report(error, as_json)
    raise typer.Exit(code)


def quiet_core() -> None:
    """Keep the SDK's core from logging to standard output, where the result belongs."""
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)), error_if_already_set=False)


def _report(error: Exception, as_json: bool) -> int:
    """Print the error for people, and with `as_json` for programs; return its exit code."""
    code, type_ = next(row for kind, row in EXPECTED.items() if isinstance(error, kind))
    message = str(error)
    match error:
        case Refusal():
            type_ = error.code
        case RPCError():
            message = _server_message(error)
    if as_json:
        fields: JSONObject = {"type": type_, "message": message}
        if isinstance(error, BlueprintError):
            fields["problems"] = [problem.to_json() for problem in error.problems]
        print_json({"error": fields})
    say(message)
    return code


def _server_message(error: RPCError) -> str:
    status = error.status.name.lower().replace("_", " ")
    if error.status in (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED):
        return f"the Temporal server does not answer ({status}: {error.message}); its runs are kept. Try again."
    # A namespace that nobody has set up has none of our search attributes, and refuses queries with them.
    way = "; run: holdfast setup" if "invalid search attribute" in error.message else ""
    return f"the Temporal server refuses ({status}): {error.message}{way}"
