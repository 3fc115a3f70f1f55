"""The blueprint of a run in the record: stored once for all of its runs, read when Temporal has forgotten them."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, func, select, update

from holdfast.blueprint.json_values import JSONObject
from holdfast.runtime.errors import BadInput
from holdfast.server.record.entries import BLUEPRINT, RecordedRun
from holdfast.server.record.record import Record
from holdfast.server.record.store import RecordStore
from holdfast.server.record.tables import BLUEPRINTS, ENTRIES
from holdfast.server.record.verification import verify
from tests.record.ground import ASK, KEY, LOOP, NOON, RUN, Recording

DOCUMENT: JSONObject = {"name": "trip", "steps": [{"kind": "hitl", "name": "city", "message": "Which city?"}]}
OTHER = RecordedRun("default", "trip-2", "first-2", "trip")


def documents(store: RecordStore) -> int:
    with store.engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(BLUEPRINTS)).scalar_one())


@pytest.mark.slow
async def test_the_blueprint_of_a_run_that_temporal_has_forgotten_is_read(recording: Recording) -> None:
    run = await recording.ended(LOOP, "stop")
    ours = recording.house.runs.with_archive(Record(recording.store, recording.house.client, KEY))
    before = await ours.watch.blueprint(run)
    recording.house.started.remove(run)
    await recording.forget(run)
    assert await ours.watch.blueprint(run) == before
    report = await ours.watch.view(run)
    assert (report.state.status, [step.name for step in report.trace.steps]) == ("completed", ["clarify"])


@pytest.mark.slow
async def test_a_blueprint_is_stored_once_for_all_of_its_runs(recording: Recording) -> None:
    for _ in range(2):
        run = await recording.ended(ASK, "Rome")
        assert [one.type for one in recording.entries(run)].count(BLUEPRINT) == 1
    assert documents(recording.store) == 1


async def test_a_run_that_was_recorded_without_its_blueprint_gets_it_when_it_goes_on(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    await recording.house.one(run)
    await recording.until_recorded(run, BLUEPRINT)
    with recording.store.engine.begin() as connection:  # as a recorder of the version before has left it
        connection.execute(delete(ENTRIES).where(ENTRIES.c.type == BLUEPRINT))
        connection.execute(delete(BLUEPRINTS))
    await recording.house.answered(run, "Rome")
    await recording.house.output(run)
    await recording.another().catch_up(run)
    assert [one.type for one in recording.entries(run)].count(BLUEPRINT) == 1


def test_the_document_goes_with_the_last_of_its_runs_that_is_erased(store: RecordStore) -> None:
    for run in (RUN, OTHER):
        store.keep_blueprint(run, DOCUMENT, NOON)
    store.erase([RUN], NOON, "user:ana")
    assert (store.blueprint(RUN), store.blueprint(OTHER)) == (None, DOCUMENT)
    store.erase([OTHER], NOON, "user:ana")
    assert documents(store) == 0 and verify(store, []).faults == []


def test_a_document_that_was_changed_is_not_shown_and_is_found(store: RecordStore) -> None:
    store.keep_blueprint(RUN, DOCUMENT, NOON)
    with store.engine.begin() as connection:
        connection.execute(update(BLUEPRINTS).values(document='{"name":"trip","steps":[]}'))
    assert store.blueprint(RUN) is None
    assert [(fault.fault, fault.run, fault.n) for fault in verify(store, []).faults] == [("changed", "trip-1", 0)]


def test_a_document_that_was_removed_is_found(store: RecordStore) -> None:
    store.keep_blueprint(RUN, DOCUMENT, NOON)
    with store.engine.begin() as connection:
        connection.execute(delete(BLUEPRINTS))
    assert [fault.fault for fault in verify(store, []).faults] == ["changed"]


async def test_a_blueprint_that_this_version_cannot_read_says_so(recording: Recording) -> None:
    client = recording.house.client
    recording.store.keep_blueprint(RecordedRun(client.namespace, "old-1", "first"), {"nmae": "x"}, NOON)
    with pytest.raises(BadInput, match="another version"):
        await Record(recording.store, client).blueprint("old-1")
