"""Run a command's coroutine; map expected exceptions to an exit code and one message."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn

import typer
from temporalio.runtime import Runtime, TelemetryConfig

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.json_values import JSONObject
from holdfast.cli.output import INTERRUPTED, REFUSED, UNREACHABLE, USAGE, print_json, say
from holdfast.client.failures import EXPECTED, UNAVAILABLE, in_our_words, status_and_code
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
    error = in_our_words(error)
    if isinstance(error, Refusal):
        code, type_ = REFUSED, error.code
    else:
        status, type_ = status_and_code(error)
        code = UNREACHABLE if status == UNAVAILABLE else USAGE
    message = str(error)
    if as_json:
        fields: JSONObject = {"type": type_, "message": message}
        if isinstance(error, BlueprintError):
            fields["problems"] = [problem.to_json() for problem in error.problems]
        print_json({"error": fields})
    say(message)
    return code
