"""The errors of runtime and client, each with its way out: of runs, and of Temporal that refuses or is silent."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import wraps
from typing import Any, TypeVar

from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.service import RPCError, RPCStatusCode

SILENT_STATUSES = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
"""Of a server that does not answer, or of a lost connection."""
_DENIED = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)
_NO_CONNECTION = "Failed client connect: "
"""The beginning of the SDK's message for a client that connects with its first call."""

LASTING_ERRORS = ("namespace_missing", "not_set_up", "server_denied")
"""Codes of errors for which somebody has to do something first."""

Class = TypeVar("Class", bound=type)


class ServerUnreachable(Exception):
    """The server or its worker cannot be reached; the message names address or place, reason and way out."""


class NotReadable(ServerUnreachable):
    """A value in Temporal that cannot be read here, for want of a key or of a codec, which the message names."""


class WorkerNotStarted(ServerUnreachable):
    """The local server runs, and a worker of the present code and configuration does not start, as an import raises."""


class RunExists(ValueError):
    """A run id that is taken."""

    def __init__(self, run: str) -> None:
        super().__init__(
            f"run {run!r} already exists; choose another --id, or continue it with: holdfast attach {shlex.quote(run)}"
        )
        self.run = run


class BadInput(ValueError):
    """Input that cannot be used: it does not fit the blueprint, or there is nothing that it applies to."""


class BadCursor(BadInput):
    """A place in a list that the list does not have: of other filters, of another person, or cut off."""

    def __init__(self) -> None:
        super().__init__(
            "not a cursor of this list: use the one of the previous page, with the same filters, or leave it out"
        )


class Ambiguous(LookupError):
    """A name or prefix that several things match."""


class RecordError(Exception):
    """The record cannot be used; the message says where it is and what to do."""


class NoRecord(RecordError):
    """No record runs here."""


class NothingSent(RuntimeError):
    """An answer or command that was not sent: no worker answers, and it cannot go as a signal."""


class ServerError(RPCError):
    """A call that Temporal refused or did not answer.

    Args:
        code: The code for programs: `server_error`, `server_busy`, `server_denied`, `namespace_missing`, `not_set_up`.
        message: The reason and the way out.
        error: The error of the SDK, whose `status` this one has.
    """

    def __init__(self, code: str, message: str, error: RPCError) -> None:
        super().__init__(message, error.status, error.raw_grpc_status)
        self.code = code


def make_server_error(error: RPCError) -> ServerError:
    """Return an error of the SDK in our words."""
    if isinstance(error, ServerError):
        return error
    status = error.status.name.lower().replace("_", " ")
    if (namespace := _find_missing_namespace(error)) is not None:
        way = f"temporal operator namespace create -n {namespace} --retention 90d; then run: holdfast setup"
        text = f"the Temporal server has no namespace '{namespace}'; set TEMPORAL_NAMESPACE, or make it: {way}"
        return ServerError("namespace_missing", text, error)
    if "search attribute" in error.message and "Holdfast" in error.message:
        # A namespace that nobody has set up refuses runs, which have them, and queries that name them.
        text = f"the namespace lacks search attributes of Holdfast ({error.message}); run: holdfast setup"
        return ServerError("not_set_up", text, error)
    if error.status in _DENIED:
        way = "set TEMPORAL_API_KEY or TEMPORAL_TLS_… of who may use the namespace, or ask an administrator"
        return ServerError("server_denied", f"the Temporal server refuses ({status}: {error.message}); {way}", error)
    if error.status == RPCStatusCode.RESOURCE_EXHAUSTED:
        return ServerError("server_busy", f"the Temporal server is busy ({error.message}). Try again.", error)
    if error.status in SILENT_STATUSES:
        text = f"the Temporal server does not answer ({status}: {error.message}); its runs are kept. Try again."
        return ServerError("server_error", text, error)
    return ServerError("server_error", f"the Temporal server refuses ({status}): {error.message}", error)


def is_missing(error: RPCError) -> bool:
    """Return whether what was asked for is not there. A namespace that is not there is another matter."""
    return error.status == RPCStatusCode.NOT_FOUND and _find_missing_namespace(error) is None


def _find_missing_namespace(error: RPCError) -> str | None:
    failure = NamespaceNotFoundFailure()
    for detail in error.grpc_status.details if error.status == RPCStatusCode.NOT_FOUND else ():
        if detail.Unpack(failure):
            return failure.namespace
    return None


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except RPCError as error:
        if isinstance(error, ServerError):
            raise
        raise make_server_error(error) from error
    except RuntimeError as error:
        if not str(error).startswith(_NO_CONNECTION):
            raise
        lost = RPCError(str(error).removeprefix(_NO_CONNECTION), RPCStatusCode.UNAVAILABLE, b"")
        raise make_server_error(lost) from error


def raise_server_errors(class_: Class) -> Class:
    """Make the public methods of a class that wait for Temporal raise `ServerError` where the SDK raises `RPCError`."""
    for name, method in list(vars(class_).items()):
        if not name.startswith("_"):
            if inspect.iscoroutinefunction(method):
                setattr(class_, name, _wrap_coroutine(method))
            elif inspect.isasyncgenfunction(method):
                setattr(class_, name, _wrap_generator(method))
    return class_


def _wrap_coroutine(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        with _translate_errors():
            return await method(*args, **kwargs)

    return call


def _wrap_generator(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def call(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        with _translate_errors():
            async with aclosing(method(*args, **kwargs)) as items:
                async for item in items:
                    yield item

    return call
