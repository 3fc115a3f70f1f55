"""Health: whether the process lives, and whether it can do its work. Needs no sign-in, and says nothing else."""

from __future__ import annotations

from datetime import timedelta

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from temporalio.service import RPCError

from holdfast.server.web.site import site_of

PATIENCE = timedelta(seconds=3)


async def alive(request: Request) -> Response:
    """Answer 200 for as long as the process takes requests."""
    return PlainTextResponse("ok\n")


async def ready(request: Request) -> Response:
    """Answer 200 if Temporal answers, else 503."""
    try:
        await site_of(request).runs.client.service_client.check_health(timeout=PATIENCE)
    except RPCError:
        return PlainTextResponse("Temporal does not answer\n", 503)
    return PlainTextResponse("ready\n")


HEALTH: list[BaseRoute] = [Route("/healthz", alive), Route("/readyz", ready)]
