"""Pages and calls that read one run while Temporal does not answer: they are made of the record alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response
from temporalio.service import RPCError

from holdfast.client.tree import UnknownRun
from holdfast.runtime.errors import SILENT_STATUSES
from holdfast.server.web.site import find_site

Respond = Callable[[Request], Awaitable[Response]]


def read_anyway(respond: Respond) -> Respond:
    """Return what responds to a request, for a run that has ended also while Temporal does not answer.

    Where the record does not have the end of the run, the response says that Temporal does not answer.
    """

    async def read(request: Request) -> Response:
        site = find_site(request)
        if request.method not in ("GET", "HEAD") or "run" not in request.path_params or site.record is None:
            return await respond(request)
        if site.outage.is_likely:
            with suppress(UnknownRun):
                return await _read_recorded(request, respond)
        try:
            return await respond(request)
        except RPCError as error:
            if error.status not in SILENT_STATUSES:
                raise
            site.outage.note()
            with suppress(UnknownRun):
                return await _read_recorded(request, respond)
            raise

    return read


async def _read_recorded(request: Request, respond: Respond) -> Response:
    request.state.is_outage = True
    try:
        return await respond(request)
    finally:
        request.state.is_outage = False
