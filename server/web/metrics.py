"""For those who watch a deployment: health, and `/metrics` in OpenMetrics.

What waits for people comes from visibility, confirmed by the record or the workflows; what they and the runs did, from
the record. Every replica counts the same
rows and workflows, so of several the largest value counts, and a restart loses nothing. Health needs no sign-in.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from sqlalchemy import and_, func, select
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from temporalio.service import RPCError

from holdfast.client.listing import confirm_all, waiting_workflows
from holdfast.client.question_reader import PATIENCE_SECONDS
from holdfast.client.states import Waiting
from holdfast.protocol.events import CLOSING_TYPES, LoopIteration
from holdfast.protocol.people import MANY, MOST_AWAITED
from holdfast.server.notices.backlog import Backlog, measure_backlogs
from holdfast.server.notices.channels import make_usable_channels
from holdfast.server.record.entries import ENDED, REFUSED
from holdfast.server.record.jobs import LastingTrouble
from holdfast.server.record.progress import Progress, make_scope
from holdfast.server.record.store import RecordStore
from holdfast.server.record.tables import ENTRIES, RUNS
from holdfast.server.web.gate import Identity
from holdfast.server.web.site import Site, find_site

log = logging.getLogger(__name__)
PATIENCE = timedelta(seconds=3)
PATH = "/metrics"
IDS_A_QUERY = 500
_IS_END = ENTRIES.c.type.in_(CLOSING_TYPES)
FRESH_SECONDS = 10.0
"""A scrape within these seconds of another one gets the same figures of visibility."""
SHARE = 10
"""Times what it took to read them that they are good for, if that is more: of 100,000 questions it takes many lists."""


async def alive(request: Request) -> Response:
    """Answer 200 for as long as the process takes requests."""
    return PlainTextResponse("ok\n")


async def ready(request: Request) -> Response:
    """Answer 200 if Temporal answers, else 503."""
    if not await _is_temporal_up(find_site(request)):
        return PlainTextResponse("Temporal does not answer\n", 503)
    return PlainTextResponse("ready\n")


async def _is_temporal_up(site: Site) -> bool:
    try:
        await site.runs.client.service_client.check_health(timeout=PATIENCE)
    except RPCError:
        return False
    return True


HEALTH: list[BaseRoute] = [Route("/healthz", alive), Route("/readyz", ready)]


@dataclass(eq=False)
class RecordCounts:
    """The counts of the record up to an entry. Its functions block; see `RecordStore`."""

    store: RecordStore
    namespace: str
    last: int = 0
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    iterations: Counter[str] = field(default_factory=Counter)
    runs: Counter[tuple[str, str]] = field(default_factory=Counter)

    def catch_up(self) -> None:
        """Count the entries since the last time."""
        until = self.store.last()
        new = and_(ENTRIES.c.id > self.last, ENTRIES.c.id <= until, RUNS.c.namespace == self.namespace)
        joined = ENTRIES.join(RUNS, RUNS.c.first_run == ENTRIES.c.first_run)
        grouped = (
            select(RUNS.c.blueprint, ENTRIES.c.type, func.count())
            .select_from(joined)
            .where(new, ENTRIES.c.type.in_([*CLOSING_TYPES, LoopIteration.type]))
            .group_by(RUNS.c.blueprint, ENTRIES.c.type)
        )
        whole = select(RUNS.c.blueprint, ENTRIES.c.type, ENTRIES.c.content).select_from(joined)
        # All is read before any is counted: what was counted up to a failure would be counted again the next time.
        with self.store.engine.connect() as connection:
            counts = connection.execute(grouped).all()
            entries = connection.execute(whole.where(new, ENTRIES.c.type.in_([ENDED, REFUSED]))).all()
        for blueprint, type_, count in counts:
            if type_ == LoopIteration.type:
                self.iterations[blueprint] += count
            else:
                self.answers[blueprint, type_.partition(".")[2]] += count
        for blueprint, type_, content in entries:
            self._count(blueprint, type_, content)
        self.last = until

    def _count(self, blueprint: str, type_: str, content: str | None) -> None:
        data = {} if content is None else json.loads(content).get("data", {})
        if type_ == ENDED:
            self.runs[blueprint, str(data.get("status", "erased"))] += 1
        else:
            self.refusals[str(data.get("code", "erased"))] += 1

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        answers = CounterMetricFamily("holdfast_answers", "Questions that were closed", labels=["blueprint", "status"])
        refusals = CounterMetricFamily("holdfast_refusals", "Answers that were refused", labels=["code"])
        rounds = CounterMetricFamily("holdfast_iterations", "Iterations of loops", labels=["blueprint"])
        runs = CounterMetricFamily("holdfast_runs", "Runs that ended", labels=["blueprint", "status"])
        for family, counts in ((answers, self.answers), (refusals, self.refusals), (rounds, self.iterations)):
            _add(family, counts)
        _add(runs, self.runs)
        yield from (answers, refusals, rounds, runs)


def _add(family: CounterMetricFamily, counts: Counter[str] | Counter[tuple[str, str]]) -> None:
    for labels, count in sorted(counts.items()):
        family.add_metric([labels] if isinstance(labels, str) else list(labels), count)


@dataclass(eq=False)
class OpenQuestionCounts:
    """The questions that are open now, by blueprint."""

    count: Counter[str] = field(default_factory=Counter)
    since: dict[str, datetime] = field(default_factory=dict)

    @staticmethod
    async def read(site: Site) -> OpenQuestionCounts:
        """Return them from visibility. A workflow that cannot be asked counts as it is listed there.

        Visibility may name what was closed since. Where no end of a question is recorded, all count; the workflows of
        the others are asked.
        """
        awaited = OpenQuestionCounts(since=defaultdict(lambda: datetime.max.replace(tzinfo=UTC)))
        rows = [row async for row in waiting_workflows(site.runs.client)]
        closed = None
        if site.record is not None:
            with suppress(SQLAlchemyError):  # then all of them are asked
                closed = await asyncio.to_thread(_find_closed, site.record.store, rows)
        sure, unsure = [], []
        for row in rows:
            if closed is None or MANY in row.questions or not closed.isdisjoint(row.questions):
                unsure.append(row)
            else:
                sure.append(row)
        for row in [*sure, *await confirm_all(site.runs.reader, unsure, PATIENCE_SECONDS)]:
            awaited.count[row.blueprint] += _count_open(row)
            awaited.since[row.blueprint] = min(awaited.since[row.blueprint], row.since)
        return awaited

    def collect(self) -> Iterable[Metric]:
        """See prometheus_client."""
        open_ = GaugeMetricFamily("holdfast_open_questions", "Questions that wait for people", labels=["blueprint"])
        oldest = GaugeMetricFamily(
            "holdfast_oldest_question_seconds", "Age of the oldest of them", labels=["blueprint"], unit="seconds"
        )
        now = datetime.now(UTC)
        for blueprint, count in sorted(self.count.items()):
            open_.add_metric([blueprint], count)
            oldest.add_metric([blueprint], max(0.0, (now - self.since[blueprint]).total_seconds()))
        return [open_, oldest]


def _find_closed(store: RecordStore, rows: Sequence[Waiting]) -> set[str]:
    """Return the ids of those questions whose end is recorded. Blocks."""
    ids = [id_ for row in rows for id_ in row.questions]
    closed: set[str] = set()
    with store.engine.connect() as connection:
        for start in range(0, len(ids), IDS_A_QUERY):
            among = ENTRIES.c.question.in_(ids[start : start + IDS_A_QUERY])
            closed |= set(connection.execute(select(ENTRIES.c.question).where(among, _IS_END)).scalars())
    return closed


def _count_open(row: Waiting) -> int:
    if row.open is not None:
        return len(row.open)
    return MOST_AWAITED + 1 if MANY in row.questions else len(row.questions)


@dataclass(eq=False)
class NoticeBacklogs:
    """What the channels have still to tell."""

    by_channel: dict[str, Backlog] = field(default_factory=dict)

    def collect(self) -> Iterable[Metric]:
        """See prometheus_client."""
        waiting = GaugeMetricFamily("holdfast_waiting_notices", "Notices that wait to be sent", labels=["channel"])
        lag = GaugeMetricFamily(
            "holdfast_notice_lag_seconds", "Age of the oldest news not told yet", labels=["channel"], unit="seconds"
        )
        for channel, backlog in sorted(self.by_channel.items()):
            waiting.add_metric([channel], backlog.waiting)
            lag.add_metric([channel], backlog.lag)
        return [waiting, lag]


@dataclass(eq=False)
class RecorderState:
    """Whether the record is being filled, by this replica or another one."""

    is_at_work: bool
    slow: int
    behind: float

    @staticmethod
    def read(store: RecordStore, namespace: str, task_queue: str) -> RecorderState:
        """Return it from the record. Blocks; see `RecordStore`."""
        progress = Progress(store, namespace, make_scope(namespace, task_queue))
        return RecorderState(bool(progress.is_at_work), len(progress.slow_reads), progress.behind().total_seconds())

    def collect(self) -> Iterable[Metric]:
        """See prometheus_client."""
        yield GaugeMetricFamily("holdfast_recorder_up", "1 if a recorder is at work, else 0", float(self.is_at_work))
        yield GaugeMetricFamily("holdfast_slow_reads", "Workflows whose read takes the recorder long", self.slow)
        yield GaugeMetricFamily(
            "holdfast_record_lag_seconds",
            "Time since the longest closed workflow was closed that is not recorded",
            self.behind,
            unit="seconds",
        )


@dataclass(eq=False)
class PartsUp:
    """Which of the parts that the figures come from have answered."""

    by_part: dict[str, bool]

    def collect(self) -> Iterable[Metric]:
        """See prometheus_client."""
        up = GaugeMetricFamily("holdfast_up", "1 if the part answers, else 0: its figures are missing", labels=["part"])
        for part, answers in self.by_part.items():
            up.add_metric([part], float(answers))
        return [up]


class Metrics:
    """The metrics of a site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._awaited, self._fresh_until = OpenQuestionCounts(), 0.0
        self._happened = RecordCounts(site.record.store, site.runs.client.namespace) if site.record else None
        self._reading_open = LastingTrouble(log, "reading open questions for the metrics")
        self._reading_record = LastingTrouble(log, "reading the record for the metrics")
        self._lock = asyncio.Lock()

    async def text(self) -> bytes:
        """Return the figures in OpenMetrics; where Temporal or the record is away, those of the other."""
        async with self._lock:
            parts = {"temporal": await self._read_open()}
            if self._happened is not None:
                parts["record"] = await self._read_record(self._happened)
            registry = CollectorRegistry()
            registry.register(PartsUp({name: part is not None for name, part in parts.items()}))
            for collector in [collector for part in parts.values() for collector in part or ()]:
                registry.register(collector)
            return _render(registry)

    async def _read_open(self) -> Sequence[Collector] | None:
        """Return the figures of visibility; None if Temporal does not answer."""
        began = time.monotonic()
        if began >= self._fresh_until:
            if not await _is_temporal_up(self._site):
                return None
            awaited = None
            with self._reading_open.note_failure(RPCError):
                awaited = await OpenQuestionCounts.read(self._site)
            if awaited is None:
                return None
            now = time.monotonic()
            self._awaited, self._fresh_until = awaited, now + max(FRESH_SECONDS, SHARE * (now - began))
        return [self._awaited]

    async def _read_record(self, happened: RecordCounts) -> Sequence[Collector] | None:
        """Return the figures of the record; None if its database does not answer."""
        backlogs = state = None
        with self._reading_record.note_failure(SQLAlchemyError):
            await asyncio.to_thread(happened.catch_up)
            backlogs = await asyncio.to_thread(self._read_backlogs, happened.store)
            runs = self._site.runs
            state = await asyncio.to_thread(RecorderState.read, happened.store, runs.client.namespace, runs.task_queue)
        return None if backlogs is None or state is None else [happened, backlogs, state]

    def _read_backlogs(self, store: RecordStore) -> NoticeBacklogs:
        channels = make_usable_channels(self._site.config).by_name
        return NoticeBacklogs(measure_backlogs(store, self._site.runs.client.namespace, channels))


def _render(registry: CollectorRegistry) -> bytes:
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text


async def metrics(request: Request) -> Response:
    """Answer with the metrics of the site: to a scraper here or with a token for them, or to who may see every run."""
    identity = request.scope.get("identity")
    if (
        isinstance(identity, Identity)
        and "metrics" not in identity.scopes
        and not find_site(request).find_runs(identity).access.sees_all
    ):
        text = "the metrics count all runs: they are for who may see all of them, or a token of the scope 'metrics'"
        raise HTTPException(403, text)
    text = await request.app.state.metrics.text()
    return Response(text, media_type=CONTENT_TYPE_LATEST)


METRICS: list[BaseRoute] = [Route(PATH, metrics)]
