"""The failures that a person can cause or repair, each with its code: commands, API, pages and assistants tell them."""

from __future__ import annotations

from collections.abc import Mapping

from temporalio.service import RPCError

from holdfast.blueprint.errors import BlueprintError
from holdfast.client.reading import BadUsage
from holdfast.client.tree import UnknownRun
from holdfast.protocol.answers import Refusal
from holdfast.runtime.config import ConfigError
from holdfast.runtime.errors import (
    Ambiguous,
    BadInput,
    NoRecord,
    NothingSent,
    NotReadable,
    RecordError,
    RunExists,
    ServerError,
    ServerUnreachable,
    make_server_error,
)
from holdfast.runtime.workers import (
    Busy,
    NoCurrentVersion,
    NoWorker,
    OnHold,
    OtherVersion,
    TaskFailing,
    Unconfirmed,
    WorkflowNotReadable,
)

UNAVAILABLE = 503
"""The status of what may work at another time: a command exits with another code, and a program may try again."""
FAILURES: Mapping[type[Exception], tuple[int, str]] = {
    BlueprintError: (422, "blueprint_invalid"),
    ConfigError: (500, "config_invalid"),
    BadUsage: (400, "bad_usage"),
    BadInput: (422, "input_invalid"),
    RunExists: (409, "run_exists"),
    UnknownRun: (404, "unknown_run"),
    Ambiguous: (409, "ambiguous"),
    NothingSent: (UNAVAILABLE, "nothing_sent"),
    Busy: (UNAVAILABLE, "worker_busy"),
    NoCurrentVersion: (UNAVAILABLE, "no_current_version"),
    OtherVersion: (UNAVAILABLE, "other_version"),
    OnHold: (UNAVAILABLE, "on_hold"),
    TaskFailing: (UNAVAILABLE, "workflow_task_failing"),
    Unconfirmed: (UNAVAILABLE, "unconfirmed"),
    WorkflowNotReadable: (UNAVAILABLE, "not_readable"),
    NoWorker: (UNAVAILABLE, "no_worker"),
    NotReadable: (UNAVAILABLE, "not_readable"),
    ServerUnreachable: (UNAVAILABLE, "server_unreachable"),
    NoRecord: (UNAVAILABLE, "no_record"),
    RecordError: (UNAVAILABLE, "record_unreachable"),
    RPCError: (UNAVAILABLE, "server_error"),
}
"""The HTTP status and the code of each, beside `Refusal`, which has a code of its own. A class stands before its base
class."""
EXPECTED: tuple[type[Exception], ...] = (Refusal, *FAILURES)


def in_our_words(error: Exception) -> Exception:
    """Return an error of the SDK as a `ServerError`, and any other one as it is."""
    return make_server_error(error) if isinstance(error, RPCError) else error


def status_and_code(error: Exception, table: Mapping[type[Exception], tuple[int, str]] = FAILURES) -> tuple[int, str]:
    """Return the row of a table for an error of one of its classes."""
    if isinstance(error, ServerError):
        return UNAVAILABLE, error.code
    return next(row for kind, row in table.items() if isinstance(error, kind))
