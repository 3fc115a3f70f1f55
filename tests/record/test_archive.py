"""Runs are read from the record as far as it goes, and from Temporal after it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.client.events import chain
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer, Refusal
from holdfast.server.record.entries import ENDED, REFUSED
from holdfast.server.record.record import ErasureRefused, Record
from tests.record.ground import ASK, KEY, LOOP, Recording


def record_of(recording: Recording) -> Record:
    return Record(recording.store, recording.house.client, KEY)


def recorded_runs(recording: Recording) -> Runs:
    return recording.house.runs.with_archive(record_of(recording))


@pytest.mark.slow
async def test_the_events_of_an_ended_run_are_those_of_temporal(recording: Recording) -> None:
    run = await recording.ended(LOOP, "a", "b", "stop")
    assert await recorded_runs(recording).watch.events(run) == await recording.house.runs.watch.events(run)


@pytest.mark.slow
async def test_an_ended_run_is_shown_as_temporal_has_it(recording: Recording) -> None:
    run = await recording.ended(LOOP, "a", "stop")
    ours, theirs = recorded_runs(recording), recording.house.runs
    state = await ours.state(run)
    assert state == await theirs.state(run)
    assert await ours.outcome(run) == await theirs.outcome(run)
    assert (await ours.watch.trace(state)).to_json() == (await theirs.watch.trace(state)).to_json()
    assert (await ours.watch.outcome(state)).context == (await theirs.watch.outcome(state)).context


@pytest.mark.slow
async def test_a_run_that_temporal_has_forgotten_is_read_from_the_record(recording: Recording) -> None:
    run = await recording.ended(ASK, "Rome")
    recording.house.started.remove(run)
    events = await recording.house.runs.watch.events(run)
    await recording.forget(run)
    ours = recorded_runs(recording)
    assert (await ours.result(run)).output == "Rome"
    assert await ours.resolve(run[:-2]) == run
    assert [event async for event in ours.watch.follow(run)] == events


class UnopenedRecord:
    """A record that is opened when it is asked, as that of a command."""

    is_open = False

    def __init__(self, record: Record) -> None:
        self._record = record

    def __getattr__(self, name: str) -> Any:
        return getattr(self._record, name)


@pytest.mark.slow
async def test_what_temporal_has_forgotten_is_read_from_a_record_that_was_not_open(recording: Recording) -> None:
    run = await recording.ended(ASK, "Rome")
    recording.house.started.remove(run)
    events = await recording.house.runs.watch.events(run)
    await recording.forget(run)
    archive: Any = UnopenedRecord(record_of(recording))
    assert await chain(recording.house.runs.with_archive(archive).tree, run) == events


async def test_a_result_that_temporal_has_opens_no_record(recording: Recording) -> None:
    run = await recording.ended(ASK, "Rome")
    unopened: Any = SimpleNamespace(is_open=False)  # what else is asked of it raises
    assert (await recording.house.runs.with_archive(unopened).outcome(run)).output == "Rome"


@pytest.mark.slow
async def test_the_last_iterations_of_a_loop_are_read_from_its_end(recording: Recording) -> None:
    run = await recording.ended(LOOP, "a", "b", "c", "stop")
    state = await recorded_runs(recording).state(run)
    [loop] = (await recorded_runs(recording).watch.trace(state, last=2)).steps
    assert [iteration.n for iteration in loop.iterations] == [3, 4]


@pytest.mark.slow
async def test_a_run_under_way_is_read_further_than_its_record(recording: Recording) -> None:
    run = await recording.house.start(LOOP)
    await recording.house.answered(run, "a")
    await recording.house.one(run)
    await recording.until_recorded(run, "question.asked", 2)
    await recording.house.answered(run, "b")
    await recording.house.one(run)
    assert await recorded_runs(recording).watch.events(run) == await recording.house.runs.watch.events(run)


@pytest.mark.slow
async def test_a_run_is_brought_up_to_date_at_once(recording: Recording) -> None:
    run = await recording.house.start(LOOP)
    await recording.house.answered(run, "a", "b", "stop")
    await recording.house.output(run)
    await recording.recorder.catch_up(run)
    assert [entry.type for entry in recording.entries(run)].count("question.answered") == 3
    assert recording.entries(run)[-1].type == ENDED or ENDED in [entry.type for entry in recording.entries(run)]


@pytest.mark.slow
async def test_a_refused_answer_is_recorded_without_its_content(recording: Recording) -> None:
    run = await recording.house.start(ASK.replace("message:", "input_schema: {type: integer}, message:"))
    question = await recording.house.one(run)
    with pytest.raises(Refusal):
        await recorded_runs(recording).answer(run, [Answer(question=question.id, content="tomato")], by="user:eve")
    [refused] = [entry for entry in recording.entries(run) if entry.type == REFUSED]
    assert (refused.question, refused.data["code"], refused.data["by"]) == (question.id, "invalid_answer", "user:eve")
    assert "tomato" not in str(refused.content)


async def test_a_comment_goes_to_the_record_and_not_into_the_history(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    question = await recording.house.one(run)
    before = [len(history.events) for history in await recording.house.histories(run)]
    await record_of(recording).comment(run, question.id, "Ask Bob first", "user:ana", owner=question.owner)
    [entry] = recording.entries(run)
    assert (entry.question, entry.data) == (question.id, {"text": "Ask Bob first", "by": "user:ana"})
    assert [len(history.events) for history in await recording.house.histories(run)] == before


@pytest.mark.slow
async def test_an_erased_run_is_read_from_temporal_again(recording: Recording) -> None:
    run = await recording.ended(ASK, "Rome")
    await record_of(recording).erase(run, "user:ana")
    assert await recorded_runs(recording).watch.events(run) == await recording.house.runs.watch.events(run)
    assert (await recorded_runs(recording).outcome(run)).output == "Rome"


@pytest.mark.slow
async def test_a_run_that_has_not_ended_is_not_erased(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    await recording.house.one(run)
    await recording.until_recorded(run, "question.asked")
    with pytest.raises(ErasureRefused, match="has not ended"):
        await record_of(recording).erase(run, "user:ana")


@pytest.mark.slow
async def test_the_record_is_behind_while_a_closed_run_is_not_read(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    await recording.house.answered(run, "Rome")
    await recording.house.output(run)
    await recording.until_recorded(run, ENDED)
    lag = await record_of(recording).lag()
    assert (lag.behind.total_seconds(), lag.warning) == (0, "")
