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
from holdfast.client.failures import EXPECTED, UNAVAILABLE, status_and_code
from holdfast.protocol.answers import Refusal


def perform(work: Coroutine[Any, Any, int], as_json: bool = False) -> NoReturn:
    """Run the work and exit with the code it returns, or with that of an expected exception."""
    quiet_core()
    try:
        code = asyncio.run(work)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except EXPECTED as error:
        code = _report(error, as_json)
    raise typer.Exit(code)


def quiet_core() -> None:
    """Keep the SDK's core from logging to standard output, where the result belongs."""
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)), error_if_already_set=False)


def _report(error: Exception, as_json: bool) -> int:
    """Print the error for people, and with `as_json` for programs; return its exit code."""
    if isinstance(error, Refusal):
        code, type_ = REFUSED, error.code
    else:
        status, type_ = status_and_code(error)
        code = UNREACHABLE if status == UNAVAILABLE else USAGE
    message = _server_message(error) if isinstance(error, RPCError) else str(error)
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
