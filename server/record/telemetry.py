"""Traces of runs for OpenTelemetry, made from the record once a run has ended. `holdfast serve` sends them.

No span is open while a person is awaited, and no replay can double one: times come from the events, ids from run and
address. A run is sent again, under the same ids, if the process dies between sending and noting it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from sqlalchemy.exc import SQLAlchemyError

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.address import parts
from holdfast.protocol.events import (
    CLOSING_TYPES,
    BranchCompleted,
    BranchStarted,
    ItemCompleted,
    ItemStarted,
    LoopCompleted,
    LoopIteration,
    ModelReplied,
    ModelRequested,
    QuestionAsked,
    RunStarted,
    StepCompleted,
    StepFailed,
    StepStarted,
    ToolCalled,
    ToolDenied,
    ToolFailed,
    ToolReturned,
)
from holdfast.server.record.entries import ENDED, Recorded
from holdfast.server.record.jobs import Feed, LastingTrouble, Lease, renewing
from holdfast.server.record.progress import Progress
from holdfast.server.record.store import RecordStore

log = logging.getLogger(__name__)

PACE_SECONDS = 5.0
SETTLED = timedelta(seconds=30)
"""A run's spans are made so long after its end: its children are recorded by then."""
SERVICE = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "holdfast")})


class SpanWriter:
    """Sends the spans of runs that have ended, if no other process does.

    Args:
        store: The record.
        namespace: The namespace of the runs.
        exporter: By default that of OTLP over HTTP, as the environment sets it.
        settled: The time between the end of a run and its spans.
    """

    def __init__(
        self,
        store: RecordStore,
        namespace: str,
        exporter: SpanExporter | None = None,
        settled: timedelta = SETTLED,
    ) -> None:
        self._store, self._settled = store, settled
        self._exporter = exporter or OTLPSpanExporter()
        self._feed = Feed(store, f"spans:{namespace}", (ENDED,))
        self._progress = Progress(store, namespace)
        self._namespace = namespace
        self.lease = Lease(store, f"spans:{namespace}")
        self._making = LastingTrouble(log, "making spans")
        self._sending = LastingTrouble(log, "sending spans")

    async def run(self) -> None:
        """Send until cancelled; what fails is logged and tried again."""
        try:
            async with renewing(self.lease):
                while True:
                    with self._making.note_failure(SQLAlchemyError):
                        if await asyncio.to_thread(self.lease.hold):
                            await self.round()
                    await asyncio.sleep(PACE_SECONDS)
        finally:
            await asyncio.to_thread(self._exporter.shutdown)

    async def round(self) -> int:
        """Send the runs that are due; return their number. It stops at the first that cannot be sent now."""
        sent = 0
        while page := await self._feed.page():
            for entry in page:
                if not await asyncio.to_thread(self._send, entry):
                    return sent
                await self._feed.advance(entry)
                sent += 1
        return sent

    def _send(self, end: Recorded) -> bool:
        """Send the spans of a run; return whether it need not be tried again."""
        if end.namespace != self._namespace:
            return True
        if datetime.now(UTC) - end.at < self._settled or self._progress.is_unread(end.first_run):
            return False
        spans = make_spans(self._store.entries(first_run=end.first_run), end)
        if self._exporter.export(spans) is SpanExportResult.SUCCESS:
            self._sending.end()
            return True
        self._sending.note("the collector did not take them")
        return False


@dataclass
class _OpenSpan:
    """Something that has begun."""

    name: str
    at: datetime
    address: str
    attributes: JSONObject = field(default_factory=dict)


def make_spans(entries: Iterable[Recorded], end: Recorded) -> list[ReadableSpan]:
    """Return the spans of a run: run, steps, iterations, items, branches, model requests, tool calls, questions.

    Of what was asked, answered or put out they hold nothing.
    """
    spans = _RunSpans(end)
    for entry in entries:
        spans.take(entry)
    return spans.close()


class _RunSpans:
    """The spans of one run under construction."""

    def __init__(self, end: Recorded) -> None:
        self._end = end
        self._trace = int.from_bytes(_digest(end.first_run)[:16])
        self._open: dict[str, _OpenSpan] = {}
        """By key: the address, before it for questions and model requests their kind."""
        self._places: set[str] = set()
        """The addresses that have a span."""
        self._done: list[tuple[str, _OpenSpan, datetime, JSONObject]] = []

    def take(self, entry: Recorded) -> None:
        """Take the next entry: it opens a span, closes one, or does neither."""
        begins, ends = _BEGINS.get(entry.type), _ENDS.get(entry.type)
        if entry.type == LoopIteration.type:
            self._end_iteration(entry.address, entry.at)
        elif entry.type == LoopCompleted.type:
            self._end_iteration(f"{entry.address}:{entry.data.get('iterations', 0) + 1}", entry.at)
        if begins is not None:
            self._begin(begins(entry), entry)
        elif ends is not None:
            self._finish(_key(entry), entry.at, ends(entry))

    def _begin(self, opened: _OpenSpan, entry: Recorded) -> None:
        key = _key(entry)
        self._open.setdefault(key, opened)
        if key == entry.address:
            self._places.add(key)

    def _finish(self, key: str, at: datetime, attributes: JSONObject) -> None:
        if (opened := self._open.pop(key, None)) is not None:
            self._done.append((key, opened, at, attributes))

    def _end_iteration(self, address: str, at: datetime) -> None:
        """Close the iteration before the one at this address."""
        loop, _, number = address.rpartition(":")
        if number.isdecimal():
            self._finish(f"{loop}:{int(number) - 1}", at, {})

    def close(self) -> list[ReadableSpan]:
        """Return all spans; what has not ended ends with the run."""
        for key in list(self._open):
            own = _describe_run(self._end) if key == self._root else {}
            self._finish(key, self._end.at, own)
        return [self._span(*done) for done in self._done]

    @property
    def _root(self) -> str:
        return min(self._places, key=len, default="")

    def _span(self, key: str, opened: _OpenSpan, at: datetime, attributes: JSONObject) -> ReadableSpan:
        parent = self._parent(key, opened.address)
        error = attributes.get("error.type")
        return ReadableSpan(
            opened.name,
            # What shares an address with others, such as the requests to a model, is told apart by its time.
            context=self._context(f"{key} {opened.at.isoformat()}" if key != opened.address else key),
            parent=None if parent is None else self._context(parent),
            resource=SERVICE,
            kind=SpanKind.CLIENT if opened.attributes.get("gen_ai.operation.name") == "chat" else SpanKind.INTERNAL,
            attributes={
                "holdfast.run": self._end.run,
                "holdfast.blueprint": self._end.blueprint,
                "holdfast.address": opened.address,
                **opened.attributes,
                **attributes,
            },
            status=Status(StatusCode.ERROR, str(error)) if error else Status(StatusCode.UNSET),
            start_time=_nanoseconds(opened.at),
            end_time=_nanoseconds(max(at, opened.at)),
        )

    def _parent(self, key: str, address: str) -> str | None:
        """Return the nearest address around it that has a span; None for the run."""
        if key != address and address in self._places:
            return address
        return next((around for around in _around(address) if around in self._places), None)

    def _context(self, key: str) -> SpanContext:
        span = int.from_bytes(_digest(f"{self._end.first_run} {key}")[:8])
        return SpanContext(self._trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _around(address: str) -> Iterator[str]:
    """Yield the addresses around one, inner ones first: an iteration is inside its loop.

    >>> list(_around("pipeline:a;loop:b:2;step:c"))
    ['pipeline:a;loop:b:2', 'pipeline:a;loop:b', 'pipeline:a']
    """
    while address:
        outer, _, last = address.rpartition(";")
        address = f"{outer};{last.rpartition(':')[0]}".removeprefix(";") if last.count(":") > 1 else outer
        if address:
            yield address


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _nanoseconds(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000) * 1000


def _key(entry: Recorded) -> str:
    """Return what a beginning and its end have in common."""
    if entry.type == QuestionAsked.type or entry.type in CLOSING_TYPES:
        return f"question {entry.data.get('id')}"
    if entry.type in (ModelRequested.type, ModelReplied.type):
        return f"model {entry.address}"
    return entry.address


def _open_step(entry: Recorded) -> _OpenSpan:
    name, kind = str(entry.data.get("name", "")), str(entry.data.get("kind", "step"))
    return _OpenSpan(f"{kind} {name}", entry.at, entry.address, {"holdfast.step": name, "holdfast.kind": kind})


def _open_model(entry: Recorded) -> _OpenSpan:
    model = str(entry.data.get("model", ""))
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}
    return _OpenSpan(f"chat {model}", entry.at, entry.address, attributes)


def _open_tool(entry: Recorded) -> _OpenSpan:
    tool = str(entry.data.get("tool", ""))
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    return _OpenSpan(f"execute_tool {tool}", entry.at, entry.address, attributes)


def _open_question(entry: Recorded) -> _OpenSpan:
    kind = str(entry.data.get("kind", ""))
    return _OpenSpan(f"question {kind}", entry.at, entry.address, {"holdfast.question.kind": kind})


def _open_place(entry: Recorded) -> _OpenSpan:
    type_, id_, sub = parts(entry.address)[-1]
    return _OpenSpan(" ".join(filter(None, (type_, id_, sub))), entry.at, entry.address)


def _failure(entry: Recorded) -> JSONObject:
    error = entry.data.get("error")
    return {} if error is None else {"error.type": str(error)}


def _describe_run(end: Recorded) -> JSONObject:
    status = str(end.data.get("status", ""))
    error = ((end.content or {}).get("outcome") or {}).get("error") or {}
    failed = {"error.type": str(error.get("type", status))} if status == "failed" else {}
    return {"holdfast.status": status, **failed}


_BEGINS: Mapping[str, Callable[[Recorded], _OpenSpan]] = {
    RunStarted.type: _open_place,
    StepStarted.type: _open_step,
    LoopIteration.type: _open_place,
    ItemStarted.type: _open_place,
    BranchStarted.type: _open_place,
    ModelRequested.type: _open_model,
    ToolCalled.type: _open_tool,
    QuestionAsked.type: _open_question,
}
_ENDS: Mapping[str, Callable[[Recorded], JSONObject]] = {
    **dict.fromkeys(
        (step.type for step in (StepCompleted, StepFailed, BranchCompleted, ItemCompleted, ToolReturned, ToolFailed)),
        _failure,
    ),
    ToolDenied.type: lambda _: {"holdfast.outcome": "denied"},
    ModelReplied.type: lambda entry: {
        "gen_ai.response.finish_reasons": [str(entry.data.get("finish"))],
        "holdfast.tokens": int(entry.data.get("tokens") or 0),
    },
    **{type_: lambda entry: {"holdfast.status": entry.type.partition(".")[2]} for type_ in CLOSING_TYPES},
}
