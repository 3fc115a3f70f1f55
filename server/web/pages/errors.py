"""Errors as pages: what happened, and the way back."""

from __future__ import annotations

import logging
from urllib.parse import urlencode

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from temporalio.service import RPCError

from holdfast.client.tree import UnknownRun
from holdfast.runtime.errors import LASTING_ERRORS, BadCursor, make_server_error
from holdfast.server.web.pages.templating import choose_texts, render
from holdfast.server.web.problems import TooSlow, make_problem
from holdfast.server.web.requests import LARGEST_FORM

log = logging.getLogger(__name__)


async def error_page(request: Request, error: Exception) -> Response:
    """Return the page for one of the `EXPECTED_ERRORS`; one that passes says after how long to try again."""
    problem = make_problem(error)
    if isinstance(error, DBAPIError | PoolTimeout):
        log.warning("%s: the database of the record failed: %s", request.url.path, type(error).__name__)
    sign_in = f"/sign-in?{urlencode({'next': choose_page(request.url.path)})}" if problem.status == 401 else ""
    headers = problem.all_headers
    retry = headers.get("Retry-After", "") if request.method == "GET" else ""
    page = _page(request, problem.status, _message(request, error), sign_in, retry)
    page.headers.update(headers)
    if retry:  # after an answer, too, the next page may come while the worker is busy
        page.headers["Refresh"] = retry
    return page


async def fault_page(request: Request, error: Exception) -> Response:
    """Return the page for a fault of ours; the server logs the error."""
    return _page(request, 500, choose_texts(request)("error.failed"))


def _page(request: Request, status: int, message: str, sign_in: str = "", retry: str = "") -> Response:
    typed = getattr(request.state, "typed", [])
    return render(
        request, "error.html", status, status=status, message=message, sign_in=sign_in, retry=retry, typed=typed
    )


def choose_page(path: str) -> str:
    """Return the page with the form that is sent to a path.

    >>> choose_page("/runs/trip-1/pause"), choose_page("/questions/trip-1/7f3a")
    ('/runs/trip-1', '/questions/trip-1/7f3a')
    """
    page, _, last = path.rpartition("/")
    return page if last in ("comments", "pause", "resume", "tell") else path


def server_message(request: Request, error: RPCError) -> str:
    """Return what Temporal does not do, in the language of the page; in English where somebody has to mend it."""
    refused, t = make_server_error(error), choose_texts(request)
    if refused.code in LASTING_ERRORS:
        return str(refused)
    return t("error.busy_server" if refused.code == "server_busy" else "error.no_server")


def _message(request: Request, error: Exception) -> str:
    t = choose_texts(request)
    match error:
        case HTTPException(status_code=404, detail="Not Found"):
            return t("error.not_found")
        case HTTPException(status_code=401):
            return t("error.sign_in")
        case HTTPException(status_code=413):
            return t("error.too_large", most=LARGEST_FORM // 1024**2)
        case UnknownRun():  # the words of the error name commands
            return t("error.unknown_run", run=error.run)
        case RPCError():
            return server_message(request, error)
        case TooSlow():
            return t("error.too_slow")
        case BadCursor():
            return t("error.no_cursor")
        case DBAPIError() | PoolTimeout():
            return t("error.no_record")
        case HTTPException(detail=detail):
            return detail
    return str(error)
