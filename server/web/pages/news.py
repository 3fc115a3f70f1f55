"""The streams that tell a page to fetch what has changed: server-sent events, one for each change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from holdfast.server.web.gate import require_identity
from holdfast.server.web.live import Snapshot
from holdfast.server.web.site import Site, find_site, permit

QUIET_SECONDS = 15.0
"""Silence after which a comment is sent, so that a connection that is gone is noticed."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def stream_news(request: Request) -> Response:
    """Tell of changes of the open questions, and of the run that the reader looks at.

    What the reader has seen of the run is in `seen`; without it, what is seen first is no news, unless it is the end.
    """
    user, site = require_identity(request).user, find_site(request)
    live, run = site.live, request.query_params.get("run")
    if run is not None and not await site.find_runs(require_identity(request)).access.sees_part(run):
        run = None
    seen = request.query_params.get("seen")
    watches = {"questions": live.changes()} | ({} if run is None else {"run": live.changes(run, seen)})
    return _stream(site, user, watches)


async def stream_question(request: Request) -> Response:
    """Tell of changes of a question's run, for the page of one who came by a link and sees nothing else."""
    identity, site, run = require_identity(request), find_site(request), str(request.path_params["run"])
    await site.find_runs(identity).access.require_question(run, request.path_params["id"])
    return _stream(site, identity.user, {"run": site.live.changes(run)})


async def stream_run(request: Request) -> Response:
    """Tell of the changes of a run, from what the reader has seen on, until the run has ended."""
    site, run = find_site(request), str(request.path_params["run"])
    await permit(request, "see")
    user = require_identity(request).user
    seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
    watches = {"run": site.live.changes(run, seen)}
    return _stream(site, user, watches)


def _stream(site: Site, user: str, watches: Mapping[str, AsyncIterator[Snapshot]]) -> StreamingResponse:
    lines = site.streams.open(user, _events(watches))
    return StreamingResponse(lines, media_type="text/event-stream", headers=HEADERS)


async def _events(watches: Mapping[str, AsyncIterator[Snapshot]]) -> AsyncIterator[str]:
    """Yield the events of several watches as they come, until each of them has ended."""
    yield "retry: 3000\n\n"
    coming = {_next(watch): name for name, watch in watches.items()}
    try:
        while coming:
            done, _ = await asyncio.wait(coming, timeout=QUIET_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                yield ": still here\n\n"
            for task in done:
                name, sight = coming.pop(task), task.result()
                if sight is not None:
                    yield f"id: {sight.seen}\nevent: {name}\ndata: {json.dumps({'ended': sight.has_ended})}\n\n"
                    coming[_next(watches[name])] = name
    finally:
        for task in coming:
            task.cancel()
        await asyncio.gather(*coming, return_exceptions=True)
        for watch in watches.values():
            await watch.aclose()  # type: ignore[attr-defined]


def _next(watch: AsyncIterator[Snapshot]) -> asyncio.Future[Snapshot | None]:
    return asyncio.ensure_future(anext(watch, None))


NEWS: Sequence[BaseRoute] = [
    Route("/live", stream_news),
    Route("/questions/{run}/{id}/live", stream_question),
    Route("/runs/{run}/changes", stream_run),
]
