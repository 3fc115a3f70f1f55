"""Run a command's coroutine; map expected exceptions to an exit code and one message.

What tells the exceptions apart loads Temporal's client, and is imported where one was raised: a command that works
needs it only if it connects.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn

import typer

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.json_values import JSONObject
from holdfast.cli.output import INTERRUPTED, REFUSED, UNREACHABLE, USAGE, print_json, say


def perform(work: Coroutine[Any, Any, int], as_json: bool = False) -> NoReturn:
    """Run the work and exit with the code it returns, or with that of an expected exception."""
    try:
        code = asyncio.run(work)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except expected_failures() as error:  # evaluated only where something was raised
        code = _report(error, as_json)
    raise typer.Exit(code)


def expected_failures() -> tuple[type[Exception], ...]:
    """Return the classes of the failures that a person can cause or repair; to be called where something was raised."""
    from holdfast.client.failures import EXPECTED  # noqa: PLC0415  see the head of this file

    if "sqlalchemy" not in sys.modules:  # the command uses no database
        return EXPECTED
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415  it was loaded

    return (*EXPECTED, DBAPIError)


def _report(error: Exception, as_json: bool) -> int:
    """Print the error for people, and with `as_json` for programs; return its exit code."""
    code, fields = describe_failure(error)
    if as_json:
        print_json({"error": fields})
    say(str(fields["message"]))
    return code


def describe_failure(error: Exception) -> tuple[int, JSONObject]:
    """Return the exit code of an expected failure, and what `--json` has of it: its `type` and `message`."""
    from holdfast.client.failures import EXPECTED, UNAVAILABLE, in_our_words, status_and_code  # noqa: PLC0415  see the head
    from holdfast.protocol.answers import Refusal  # noqa: PLC0415  see the head of this file

    error = in_our_words(error if isinstance(error, EXPECTED) else _explain_database(error))
    if isinstance(error, Refusal):
        return REFUSED, {"type": error.code, "message": str(error)}
    status, type_ = status_and_code(error)
    fields: JSONObject = {"type": type_, "message": str(error)}
    if isinstance(error, BlueprintError):
        fields["problems"] = [problem.to_json() for problem in error.problems]
    return UNREACHABLE if status == UNAVAILABLE else USAGE, fields


def _explain_database(error: Exception) -> Exception:
    """Return the error of a database without what was to be written, which may be secret."""
    from holdfast.runtime.errors import RecordError  # noqa: PLC0415  see the head of this file
    from holdfast.server.record.jobs import describe_reason  # noqa: PLC0415  it loads the database's library

    return RecordError(f"the database of the record cannot be used: {describe_reason(error)}")
