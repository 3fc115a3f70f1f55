"""Errors of the server as status, code and message: problem documents of the API, and what a page shows of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import NotRequired

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from typing_extensions import TypedDict

from holdfast.blueprint.errors import BlueprintError
from holdfast.client.failures import FAILURES, in_our_words, status_and_code
from holdfast.client.reading import BadUsage
from holdfast.client.tree import UnknownRun
from holdfast.protocol.answers import Refusal
from holdfast.runtime.errors import LASTING_ERRORS, NothingSent, RunExists
from holdfast.runtime.secrets import SecretNotKept

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 5
"""The seconds after which a client should try again what failed for a passing reason (`Retry-After`)."""
LASTING = ("no_record", "no_current_version", "other_version", "nothing_sent", *LASTING_ERRORS)
"""Codes of 503 for which somebody has to do something first: trying again does not help by itself."""


class TooSlow(Exception):
    """A request whose answer takes too long, as Temporal or a database does not answer in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"there was no answer within {seconds:.0f} s: Temporal or the record is too slow. Try again.")


class FieldProblem(TypedDict):
    """A problem at one place of the request, such as `answers[0].content.title`."""

    path: str
    message: str


class ProblemJSON(TypedDict):
    """A problem document (RFC 9457) with a `code` for programs."""

    type: str
    title: str
    status: int
    detail: str
    """The reason and the way out, for a person."""
    code: str
    errors: NotRequired[list[FieldProblem]]


class Unfit(ValueError):
    """A request that cannot be used, with every problem in it.

    Args:
        errors: Each with the path and the message.
        code: `malformed` (400) for a request that no call takes, `invalid_answer` (422) for an answer.
    """

    def __init__(self, errors: Iterable[tuple[str, str]], code: str = "malformed") -> None:
        self.errors, self.code = [FieldProblem(path=path, message=message) for path, message in errors], code
        super().__init__("; ".join(f"{error['path']}: {error['message']}".removeprefix(": ") for error in self.errors))


STATUS_OF_REFUSAL: Mapping[str, int] = {
    "unknown_question": 404,
    "already_answered": 409,
    "question_changed": 409,
    "key_conflict": 409,
    "expired": 410,
    "run_closed": 410,
    "invalid_answer": 422,
    "not_allowed": 403,
    "bad_token": 403,
    "too_large": 413,
    "busy": 429,
}
"""The status for each code of `REFUSALS`."""
STATUS_OF_ERROR: Mapping[type[Exception], tuple[int, str]] = {
    **FAILURES,
    BadUsage: (400, "malformed"),
    DBAPIError: (503, "record_unreachable"),
    PoolTimeout: (503, "record_unreachable"),
    TooSlow: (503, "too_slow"),
}
"""The status and the code of errors that have one code each."""
CODE_OF_STATUS: Mapping[int, str] = {
    400: "malformed",
    401: "unauthorized",
    403: "not_allowed",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    429: "too_many_requests",
}
EXPECTED_ERRORS: tuple[type[Exception], ...] = (Refusal, Unfit, HTTPException, *STATUS_OF_ERROR)
"""Every error that a request can cause or that passes; any other one is a fault of ours."""


@dataclass(frozen=True)
class WebProblem:
    """An error as it is told to who sent the request."""

    status: int
    code: str
    message: str
    errors: list[FieldProblem] = field(default_factory=list)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_headers(self) -> dict[str, str]:
        """Return the headers of the response: for what passes by itself with the time after which to try again."""
        passes = self.status == 503 and self.code not in LASTING
        return {**({"Retry-After": str(RETRY_SECONDS)} if passes else {}), **self.headers}

    def to_json(self) -> ProblemJSON:
        """Return the problem document."""
        document: ProblemJSON = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.message,
            "code": self.code,
        }
        if self.errors:
            document["errors"] = self.errors
        return document

    def response(self) -> JSONResponse:
        """Return the response of the API."""
        return JSONResponse(self.to_json(), self.status, self.all_headers, MEDIA_TYPE)


@contextmanager
def name_no_folder() -> Iterator[None]:
    """Log why the values of an answer cannot be kept here, and tell who sent it only that. Raises `NothingSent`."""
    try:
        yield
    except SecretNotKept as error:
        log.warning("%s", error)
        raise NothingSent(
            "this server cannot keep secrets, and nothing was sent; its log says why to whoever runs it"
        ) from None


def make_problem(error: Exception) -> WebProblem:
    """Return the problem for one of the `EXPECTED_ERRORS`."""
    error = in_our_words(error)
    match error:
        case Refusal():
            return WebProblem(STATUS_OF_REFUSAL[error.code], error.code, error.message)
        case Unfit():
            status = 400 if error.code == "malformed" else STATUS_OF_REFUSAL[error.code]
            return WebProblem(status, error.code, str(error), error.errors)
        case UnknownRun():  # the words of both errors name commands
            return WebProblem(*status_and_code(error, STATUS_OF_ERROR), f"no run {error.run!r}")
        case RunExists():
            told = f"run {error.run!r} already exists: choose another id, or go on with that run"
            return WebProblem(*status_and_code(error, STATUS_OF_ERROR), told)
        case HTTPException():
            code = CODE_OF_STATUS.get(error.status_code, "http_error")
            return WebProblem(error.status_code, code, error.detail, headers=error.headers or {})
        case BlueprintError():
            errors = [FieldProblem(path=problem.path, message=str(problem)) for problem in error.problems]
            return WebProblem(422, "blueprint_invalid", str(error), errors)
        case DBAPIError() | PoolTimeout():  # its own message holds what was written
            return WebProblem(503, "record_unreachable", "the database of the record does not answer. Try again.")
    return WebProblem(*status_and_code(error, STATUS_OF_ERROR), str(error))
