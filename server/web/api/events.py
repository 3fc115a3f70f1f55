"""Events as the API has them: those of a run as a stream, and those that other systems send.

In the stream `id:` is a cursor, so that a reader who reconnects rereads nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator

from pydantic import Field
from starlette.responses import Response, StreamingResponse
from temporalio.service import RPCError

from holdfast.blueprint.json_values import JSON
from holdfast.client.events import Cursor
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Refusal
from holdfast.protocol.display import one_line
from holdfast.protocol.events import Event
from holdfast.protocol.incoming import LONGEST_KEY, EventReceipt, RefusedEvent, read_event
from holdfast.protocol.names import LONGEST_RUN_ID
from holdfast.runtime.workers import NoWorker
from holdfast.server.web.api.routes import ApiCall, Exchange
from holdfast.server.web.requests import WebInput

EVENT_STREAM = "text/event-stream"
LOOK_SECONDS = 0.5
"""Seconds between two looks at a run."""
SILENT_SECONDS = 15.0
"""Seconds without an event after which a comment is sent: proxies close connections that are silent."""
RETRY_SECONDS = 2.0
"""Seconds after which a reader reconnects, and after which a worker that is gone is asked again."""

STREAM_SECONDS = 600.0
"""Seconds after which a stream ends, between two events. The reader reconnects, and is asked again who it is."""

Placed = tuple[Event, Cursor]


class EventsQuery(WebInput):
    """The position to go on from, for readers that cannot send `Last-Event-ID`."""

    after: str | None = Field(None, min_length=1, max_length=100_000)


async def stream_events(exchange: Exchange) -> Response:
    """Stream the events of a run until it has ended; the header `Last-Event-ID` goes on behind an event.

    204: the run has ended, and there are no more events. A browser then stops reconnecting.
    """
    runs, run = exchange.runs, exchange.path("run")
    word = exchange.request.headers.get("last-event-id") or exchange.query.after
    cursor = None if word is None else Cursor.read(run, word)
    # An error before the response begins can still be a problem document.
    has_ended = await runs.watch.has_ended(run)
    if has_ended and await anext(runs.watch.follow_from(run, cursor), None) is None:
        return Response(status_code=204)
    if exchange.request.method == "HEAD":
        return Response(media_type=EVENT_STREAM)
    # The second is for nginx, which else gathers a stream before it passes it on.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    lines = exchange.site.streams.open(exchange.identity.user, _lines(runs, run, cursor))
    return StreamingResponse(lines, 200, headers, EVENT_STREAM)


async def _lines(runs: Runs, run: str, cursor: Cursor | None) -> AsyncIterator[str]:
    """Yield the stream as text. While no worker answers it says so in comments and asks again."""
    over = asyncio.get_running_loop().time() + STREAM_SECONDS
    yield f"retry: {RETRY_SECONDS * 1000:.0f}\n\n"
    while True:
        try:
            async for placed in _or_silence(runs.watch.follow_from(run, cursor, LOOK_SECONDS)):
                if placed is None:
                    yield ": nothing new\n\n"
                else:
                    event, cursor = placed
                    yield f"id: {cursor}\ndata: {json.dumps(event.to_json(), separators=(',', ':'))}\n\n"
                if asyncio.get_running_loop().time() > over:
                    return
            return
        except (NoWorker, RPCError) as error:
            yield f": {one_line(str(error))}\n\n"
            await asyncio.sleep(RETRY_SECONDS)


async def _or_silence(events: AsyncGenerator[Placed, None]) -> AsyncIterator[Placed | None]:
    """Yield the events, and None where none came for a while."""
    waiting: asyncio.Future[Placed | None] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events, None))
            # Not `wait_for`: it would cancel the reading of the next event, and with it the generator.
            if not (await asyncio.wait([waiting], timeout=SILENT_SECONDS))[0]:
                yield None
            elif (placed := waiting.result()) is not None:
                waiting = None
                yield placed
            else:
                return
    finally:
        if waiting is not None:
            waiting.cancel()


EVENT_CALLS = [
    ApiCall(
        "GET",
        "/runs/{run}/events",
        stream_events,
        str,
        needs="see",
        query=EventsQuery,
        media_type=EVENT_STREAM,
        others={204: "The run has ended, and there are no more events."},
        problems=(404, 422, 503),
    ),
]


class EventInput(WebInput):
    """An event of another system."""

    name: str = Field(min_length=1, max_length=100, description="As steps wait `for` it.")
    key: str = Field(min_length=1, max_length=LONGEST_KEY, description="What tells it from others of its name.")
    payload: JSON = None
    id: str = Field(min_length=1, max_length=150, description="The same each time that the event is sent.")
    run: str | None = Field(
        None, min_length=1, max_length=LONGEST_RUN_ID, description="The run, which keeps an event that comes early."
    )


async def send_event(exchange: Exchange) -> list[EventReceipt | RefusedEvent]:
    """Send an event to the run that is named, or to all that wait for it. A token of a service will do."""
    body: EventInput = exchange.body
    if not exchange.identity.is_service:  # a program sends what it is told of; people act on what they see
        await _check_seen(exchange, body.run)
    if body.run is not None:
        return [await exchange.runs.external_events.send(body.run, body.name, body.key, body.payload, id=body.id)]
    return await exchange.site.delivery.deliver(exchange.runs, read_event(body.model_dump(exclude={"run"})))


async def _check_seen(exchange: Exchange, run: str | None) -> None:
    if run is not None:
        await exchange.runs.access.require("answer", run)
    elif exchange.site.access_rules.enforced:
        raise Refusal("not_allowed", "an event to all that wait for it comes from a service: name the run")


INCOMING_CALLS = [
    ApiCall(
        "POST",
        "/events",
        send_event,
        list[EventReceipt | RefusedEvent],
        scope="answer",
        body=EventInput,
        problems=(404, 409, 410, 422, 503),
    ),
]
