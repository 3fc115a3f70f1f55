"""`/metrics`: what waits, from visibility, and what happened, from the record; each figure counted by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from holdfast.activities.metrics import COST, REQUESTS, TOKENS, TOOL_CALLS
from holdfast.runtime.config import NotifySection, NotifyTable
from holdfast.runtime.config.sections import AccessTable
from holdfast.runtime.supervisor import PROCESSES, RESTARTS
from holdfast.server.record.record import Record
from holdfast.server.record.store import RecordStore
from holdfast.server.web.credentials import WebScope
from holdfast.server.web.metrics import (
    Metrics,
    NoticeBacklogs,
    OpenQuestionCounts,
    PartsUp,
    RecordCounts,
    RecorderState,
)
from holdfast.server.web.site import Site
from tests.conftest import Harness, until
from tests.record.conftest import recording, store
from tests.record.ground import Recording
from tests.serve.door import Door
from tests.serve.ground import site_of_house

LOOP = """
name: {name}
steps:
  - kind: loop
    name: talk
    loop: {{max_loops: 2, body: [{{kind: hitl, name: ask, message: Well?, input_schema: {{type: integer}}}}]}}
  - {{kind: hitl, name: late, message: Soon?, timeout: 1s, default: none}}
"""


__all__ = ["recording", "store"]


def figures(text: bytes, name: str) -> dict[tuple[str, ...], float]:
    """The samples that have the blueprint of the test, by their other labels, or by all."""
    families = text_string_to_metric_families(text.decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {tuple(sample.labels.values()): sample.value for sample in samples}


@pytest.fixture
def site(recording: Recording) -> Site:
    record = Record(recording.store, recording.house.client)
    return replace(site_of_house(recording.house), record=record)


@pytest.mark.slow
async def test_a_scrape_during_and_after_a_loop_with_an_answer_a_refusal_and_an_expiry(
    house: Harness, recording: Recording, site: Site
) -> None:
    name = f"counted-{uuid4().hex[:8]}"
    metrics = Metrics(site)
    run = await house.start(LOOP.format(name=name))
    await house.one(run)

    async def is_counted() -> bool:
        metrics._read_at = float("-inf")
        return (name,) in figures(await metrics.text(), "holdfast_open_questions")

    await until(is_counted, "the question in visibility")
    assert figures(await metrics.text(), "holdfast_open_questions")[(name,)] == 1
    assert figures(await metrics.text(), "holdfast_oldest_question_seconds")[(name,)] >= 0
    question = await house.one(run)
    wrong = {"answers": [{"question": question.id, "content": "not a number"}]}
    await house.client.get_workflow_handle(question.owner).signal("answer", wrong)
    await house.answered(run, 1, 2)
    await house.output(run)
    await recording.until_recorded(run, "run.ended")
    for scrape in range(2):  # twice: nothing is counted again
        text = await metrics.text()
        assert figures(text, "holdfast_answers_total") == {(name, "answered"): 2, (name, "expired"): 1}, scrape
        assert figures(text, "holdfast_refusals_total") == {("invalid_answer",): 1}
        assert figures(text, "holdfast_iterations_total") == {(name,): 2}
        assert figures(text, "holdfast_runs_total") == {(name, "completed"): 1}


@pytest.mark.slow
async def test_a_record_that_fails_while_it_is_read_leads_to_no_figure_twice(
    house: Harness, recording: Recording
) -> None:
    run = await house.start("{steps: [{kind: hitl, name: ask, message: Well?}]}")
    await house.answered(run, "fine")
    await recording.until_recorded(run, "run.ended")
    engine = recording.store.engine

    def fail(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if "content" in statement:
            raise ConnectionError("told by the test")

    whole, happened = (RecordCounts(recording.store, house.client.namespace) for _ in range(2))
    whole.catch_up()
    event.listen(engine, "before_cursor_execute", fail)
    with pytest.raises(ConnectionError):
        happened.catch_up()
    event.remove(engine, "before_cursor_execute", fail)
    happened.catch_up()
    assert whole.answers and (happened.answers, happened.runs) == (whole.answers, whole.runs)


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("127.0.0.1", {"x-forwarded-for": "10.1.2.3"}, 401),
        ("10.1.2.3", {}, 401),
    ],
)
async def test_who_may_scrape(
    temporal: Client, tmp_path: Path, address: str, headers: dict[str, str], status: int
) -> None:
    door = Door(temporal, tmp_path, hosts=["localhost"])
    async with door.browser(address, **headers) as browser:
        assert (await browser.get("/metrics")).status_code == status


@pytest.mark.parametrize(
    ("scope", "access", "statuses"),
    [
        ("read", None, [200, 200]),
        ("read", AccessTable(steer=["group:ops"]), [403, 200]),
        ("metrics", AccessTable(steer=["group:ops"]), [200, 403]),
    ],
)
async def test_a_token_scrapes_from_elsewhere(
    temporal: Client, tmp_path: Path, scope: WebScope, access: AccessTable | None, statuses: list[int]
) -> None:
    door = Door(temporal, tmp_path, access=access)
    _, text = door.gate.tokens.create("user:scraper", groups=[], scopes=[scope], life=None, is_service=True)
    async with door.browser("10.1.2.3", authorization=f"Bearer {text}") as browser:
        assert [(await browser.get(path)).status_code for path in ("/metrics", "/api/v1/runs")] == statuses


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    panels = json.loads(Path("deploy/grafana.json").read_text())["panels"]
    asked = {name for panel in panels for name in re.findall(r"holdfast_\w+", panel["targets"][0]["expr"])}
    told = set(re.findall(r"`(holdfast_\w+)`", Path("docs/observing.md").read_text()))
    counts, state = RecordCounts(None, ""), RecorderState(True, 0, 0.0)  # type: ignore[arg-type]
    served = (OpenQuestionCounts(), counts, NoticeBacklogs(), state, PartsUp({}))
    ours = {family.name for metrics in served for family in metrics.collect()}
    assert asked <= told
    assert {name.removesuffix("_total") for name in told} == ours | {
        REQUESTS,
        TOKENS,
        TOOL_CALLS,
        COST.removesuffix("_total"),
        PROCESSES,
        RESTARTS.removesuffix("_total"),
    }


async def test_a_scrape_tells_how_far_each_channel_lags(site: Site) -> None:
    notify = NotifyTable(team=NotifySection(command=["python3", "-c", "pass"]))
    site = replace(site, config=site.config.model_copy(update={"notify": notify}))
    text = await Metrics(site).text()
    assert figures(text, "holdfast_waiting_notices") == {("team",): 0}
    assert set(figures(text, "holdfast_notice_lag_seconds")) == {("team",)}


async def test_a_scrape_tells_of_the_recorder(site: Site) -> None:
    assert site.record is not None
    recorder = site.record.recorder(site.runs.tree, site.runs.task_queue)
    metrics = Metrics(site)
    assert figures(await metrics.text(), "holdfast_recorder_up") == {(): 0}
    assert recorder.lease.hold()
    recorder.progress.note_slow_reads(["long-1"])
    text = await metrics.text()
    assert (figures(text, "holdfast_recorder_up"), figures(text, "holdfast_slow_reads")) == ({(): 1}, {(): 1})
    recorder.lease.release()


async def test_while_the_record_is_away_a_scrape_has_what_temporal_knows(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(store: RecordStore) -> int:
        raise OperationalError("select", {}, Exception("the server closed the connection"))

    metrics = Metrics(site)
    assert figures(await metrics.text(), "holdfast_up") == {("temporal",): 1, ("record",): 1}
    monkeypatch.setattr(RecordStore, "last", fail)
    away = await metrics.text()
    assert figures(away, "holdfast_up") == {("temporal",): 1, ("record",): 0}
    assert b"holdfast_open_questions" in away and b"holdfast_waiting_notices" not in away


async def test_while_temporal_is_away_a_scrape_has_what_the_record_knows(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(**_: object) -> bool:
        raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")

    monkeypatch.setattr(site.runs.client.service_client, "check_health", away)
    text = await Metrics(site).text()
    assert figures(text, "holdfast_up") == {("temporal",): 0, ("record",): 1}
    assert b"holdfast_open_questions" not in text and b"holdfast_waiting_notices" in text
