"""Pages and API of runs with a record: what has closed is read from it, also once Temporal has forgotten it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
import pytest_asyncio

from holdfast.blueprint.json_values import JSONObject
from holdfast.client.answering import Sender
from holdfast.protocol.questions import Question
from holdfast.runtime.config.sections import AccessTable
from holdfast.server.record import reader
from holdfast.server.record.entries import ENDED, REFUSED, RecordedRun, RecordEntry
from holdfast.server.record.progress import Progress, WorkflowProgress
from holdfast.server.record.record import Record
from holdfast.server.record.store import RecordStore
from holdfast.server.web.addresses import question_address
from holdfast.server.web.site import Site
from tests.record.conftest import recording, store
from tests.record.ground import ASK, KEY, LOOP, NOON, Recording
from tests.serve.ground import WHO, client_of, site_of_house
from tests.serve.pages import words

__all__ = ["recording", "store"]


@pytest_asyncio.fixture
async def client(recording: Recording) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(recorded_site(recording)) as client:
        yield client


def recorded_site(recording: Recording, **settings: Any) -> Site:
    site = site_of_house(recording.house, **settings)
    record = Record(recording.store, recording.house.client, KEY)
    return replace(site, given_runs=site.runs.with_archive(record), record=record)


async def forgotten(recording: Recording, text: str = ASK, *answers: str) -> tuple[str, Question]:
    """A run that has ended, is in the record, and that Temporal has forgotten; with the question it asked first."""
    run = await recording.house.start(text)
    question = await recording.house.one(run)
    await recording.house.answered(run, *(answers or ("Rome",)))
    await recording.house.output(run)
    await recording.until_recorded(run, ENDED)
    recording.house.started.remove(run)
    await recording.forget(run)
    return run, question


@pytest.mark.slow
async def test_a_run_that_temporal_has_forgotten_has_its_pages(recording: Recording, client: httpx.AsyncClient) -> None:
    run, question = await forgotten(recording)
    pages = {below: await client.get(f"/runs/{run}{below}") for below in ("", "/context", "/history", "/graph")}
    assert [page.status_code for page in pages.values()] == [200] * 4
    assert "It is shown from the record." in pages[""].text
    assert "Result Rome" in words(pages[""].text) and "completed: city" in words(pages[""].text)
    assert "Which city?" in words(pages["/history"].text) and "chart-frame" in pages["/graph"].text
    closed = await client.get(question_address(question))
    assert "This question is closed" in closed.text and "Rome" in closed.text


@pytest.mark.slow
async def test_a_run_that_temporal_has_forgotten_answers_the_api(
    recording: Recording, client: httpx.AsyncClient
) -> None:
    run, _ = await forgotten(recording)
    shown, result = [await client.get(f"/api/v1/runs/{run}{below}") for below in ("", "/result")]
    [row] = (await client.get(f"/api/v1/runs/{run}/history")).json()
    assert (shown.json()["status"], result.json()["output"], row["content"]) == ("completed", "Rome", "Rome")
    events = (await client.get(f"/api/v1/runs/{run}/events")).text
    assert "run.completed" in events


@pytest.mark.slow
async def test_the_pages_of_a_run_whose_outcome_was_too_large_for_the_record_say_so(
    recording: Recording, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "LARGEST_END", 10)
    run, _ = await forgotten(recording)
    page, context = [(await client.get(f"/runs/{run}{below}")) for below in ("", "/context")]
    assert "too large for the record" in page.text and "completed: city" in words(page.text)
    assert context.status_code == 200


@pytest.mark.slow
async def test_an_erased_run_that_temporal_has_forgotten_is_unknown(
    recording: Recording, client: httpx.AsyncClient
) -> None:
    run, _ = await forgotten(recording)
    await Record(recording.store, recording.house.client).erase(run, "user:ana")
    assert (await client.get(f"/runs/{run}")).status_code == 404


@pytest.mark.slow
async def test_of_a_loop_in_the_record_a_page_of_iterations_is_read(
    recording: Recording, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.server.web.pages.run_pages.REPETITIONS", 2)
    run, _ = await forgotten(recording, LOOP, "a", "b", "c", "d", "stop")
    page = (await client.get(f"/runs/{run}")).text
    assert "3 earlier ones" in page and "Iteration 4<" in page and "Iteration 3<" not in page
    seen = []
    while links := re.findall(r'href="(/runs/[^"]+/repetitions[^"]+)"(?: rel="next")?', page):
        page = (await client.get(links[-1].replace("&amp;", "&"))).text
        seen.append(sorted(set(re.findall(r"Iteration (\d)<", page))))
        if 'rel="next"' not in page:
            break
        page = page[page.index('rel="next"') :]
    assert seen == [["2", "3"], ["1"]]


def large_loop(store: RecordStore, run: RecordedRun, count: int) -> None:
    """A run with a loop of so many iterations, as a recorder has left it."""
    loop, at = f"{run.run}/loop:talk", iter(NOON + timedelta(seconds=n) for n in range(count * 4))
    offsets: dict[str, int] = {}

    def event(owner: str, type_: str, address: str, **data: object) -> RecordEntry:
        offset = offsets[owner] = offsets.get(owner, -1) + 1
        content: JSONObject = {"data": data}
        return RecordEntry(owner, str(offset), type_, address, next(at), content, offset=offset)

    step: JSONObject = {"name": "talk", "kind": "loop"}
    entries = [
        event(run.run, "run.started", "pipeline:big", blueprint="big"),
        event(run.run, "step.started", "pipeline:big;loop:talk", **step),
        event(run.run, "loop.started", "pipeline:big;loop:talk", workflow=loop),
    ]
    for n in range(1, count + 1):
        inside: JSONObject = {"name": "note", "kind": "step"}
        place = f"pipeline:big;loop:talk:{n}"
        entries.append(event(loop, "loop.iteration", place, iteration=n))
        entries.append(event(loop, "step.started", f"{place};step:note", **inside))
        entries.append(event(loop, "step.completed", f"{place};step:note", **inside, output=n))
    entries.append(event(run.run, "step.completed", "pipeline:big;loop:talk", **step, output=count))
    ended: JSONObject = {"data": {"status": "completed", "how": "completed"}}
    store.append(run, [*entries, RecordEntry(run.run, "ended", ENDED, "", next(at), ended)])
    for workflow, offset in offsets.items():
        Progress(store, run.namespace).keep(WorkflowProgress(run, workflow, offset + 1, "t", NOON, complete=True))


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_a_loop_of_ten_thousand_iterations_is_read_page_by_page(
    recording: Recording, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    run = RecordedRun(recording.house.client.namespace, "big-1", "first-of-big-1", "big")
    large_loop(recording.store, run, count)
    read: list[int] = []
    originals = RecordStore.read_events, RecordStore.read_iterations
    for name, original in zip(("read_events", "read_iterations"), originals, strict=True):

        def counted(self: RecordStore, *how: object, of: object = original, **more: object) -> object:
            read.append(len(rows := of(self, *how, **more) or []))  # type: ignore[operator]
            return rows

        monkeypatch.setattr(RecordStore, name, counted)
    page = (await client.get("/runs/big-1")).text
    assert (
        f"{count} iterations" in page and f"{count - 100} earlier ones" in page and f"Iteration {count - 99}<" in page
    )
    half, loop = count // 2, f"at=pipeline:big;loop:talk&workflow={run.run}/loop:talk"
    middle = (await client.get(f"/runs/big-1/repetitions?{loop}&before={half + 1}")).text
    assert f"Iteration {half - 99}<" in middle and f"Iteration {half}<" in middle
    assert f"Iteration {half + 1}<" not in middle
    assert 'rel="prev"' in middle and 'rel="next"' in middle and max(read) <= 300


async def test_a_batch_that_is_refused_is_recorded_at_once_with_its_number(
    recording: Recording, client: httpx.AsyncClient
) -> None:
    run = await recording.house.start(ASK)
    await recording.house.one(run)
    answers = [{"question": f"unknown-{n}", "content": "x"} for n in range(1_000)]
    assert (await client.post(f"/api/v1/runs/{run}/answers", json={"answers": answers})).status_code == 404
    refused = [entry for entry in recording.entries(run) if entry.type == REFUSED]
    assert [entry.question for entry in refused] == [f"unknown-{n}" for n in range(50)]
    assert refused[0].data["of"] == 1_000


@pytest.mark.slow
async def test_a_page_of_iterations_is_of_a_workflow_of_its_run(
    recording: Recording, client: httpx.AsyncClient
) -> None:
    run, _ = await forgotten(recording)
    other = await client.get(f"/runs/{run}/repetitions?at=pipeline:x;loop:y&workflow=other/loop:y&before=5")
    assert other.status_code == 404


@pytest.mark.slow
async def test_a_forgotten_run_is_seen_by_those_who_could_see_it(recording: Recording) -> None:
    recording.house.runs = recording.house.runs.acting_as(Sender("user:sam", proof="person"))
    run, _ = await forgotten(recording, "access: {see: ['user:hana']}" + ASK, "Rome")
    async with client_of(recorded_site(recording, access=AccessTable())) as client:
        seen = {
            name: (await client.get(f"/api/v1/runs/{run}", headers={WHO: name})).status_code
            for name in ("sam", "hana", "eve")
        }
    assert seen == {"sam": 200, "hana": 200, "eve": 404}
