"""The store: each entry once, in the order of writing; migrations, the lease, the feed."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select
from temporalio.client import Client

from holdfast.server.record.entries import ERASED
from holdfast.server.record.jobs import Feed, Lease, renewing
from holdfast.server.record.progress import Progress, WorkflowProgress
from holdfast.server.record.record import ErasureRefused, Record
from holdfast.server.record.store import RecordStore, open_store, read_store
from holdfast.server.record.tables import LEASES, METADATA
from tests.conftest import until
from tests.record import shifted
from tests.record.ground import NOON, RUN, entry, filled


def test_the_migrations_make_the_tables(store: RecordStore) -> None:
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_a_record_is_opened_again_with_what_it_holds(store: RecordStore, tmp_path: Path) -> None:
    filled(store, 2)
    assert open_store(f"sqlite:{tmp_path / 'record.sqlite'}").last() == 2


def test_nothing_is_read_where_nothing_was_recorded(tmp_path: Path) -> None:
    assert read_store(f"sqlite:{tmp_path / 'none.sqlite'}") is None
    assert not (tmp_path / "none.sqlite").exists()


def test_the_file_is_for_its_owner_alone(store: RecordStore, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "record.sqlite").stat().st_mode) == 0o600


def test_an_entry_comes_back_as_it_was_written(store: RecordStore) -> None:
    store.append(RUN, [entry(0, "step.started", name="städte", kind="hitl")])
    [recorded] = store.entries()
    assert (recorded.run, recorded.blueprint, recorded.workflow, recorded.offset) == ("trip-1", "trip", "trip-1", 0)
    assert recorded.to_event().data.to_json() == {"name": "städte", "kind": "hitl"}


def test_a_key_is_recorded_once(store: RecordStore) -> None:
    assert store.append(RUN, [entry(0), entry(1), entry(1)]) == 2
    assert store.append(RUN, [entry(1), entry(2)]) == 1
    assert [recorded.offset for recorded in store.entries()] == [0, 1, 2]


@pytest.mark.slow
def test_several_writers_leave_no_gap_in_the_numbers(store: RecordStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = [replace(RUN, first_run=f"first-{n}") for n in range(8)]
        list(pool.map(lambda run: [store.append(run, [entry(n)]) for n in range(10)], runs))
    assert [recorded.id for recorded in store.entries()] == list(range(1, 81))


def test_a_run_id_that_is_used_again_is_another_run(store: RecordStore) -> None:
    filled(store, 1)
    again = replace(RUN, first_run="first-2")
    filled(store, 1, again)
    assert store.run("default", "trip-1") == again


async def test_all_runs_of_an_id_are_erased_and_nothing_is_written_there_again(
    store: RecordStore, temporal: Client
) -> None:
    runs = [replace(RUN, namespace=temporal.namespace, first_run=first) for first in ("first-1", "first-2")]
    for run in runs:
        filled(store, 2, run)
    progress, record = Progress(store, temporal.namespace), Record(store, temporal)
    for workflow in ("trip-1/late", "trip-1"):
        for run in runs:
            progress.keep(WorkflowProgress(run, workflow, 2, run.first_run, NOON, complete=workflow == "trip-1"))
    with pytest.raises(ErasureRefused, match="a workflow below it"):
        await record.erase("trip-1", "user:ana")
    for run in runs:
        progress.keep(WorkflowProgress(run, "trip-1/late", 2, run.first_run, NOON, complete=True))
    assert await record.erase("trip-1", "user:ana") == 4
    assert (store.append(runs[0], [entry(2)]), store.keep_blueprint(runs[0], {"name": "trip"}, NOON)) == (0, 0)
    assert [recorded.content for recorded in store.entries() if recorded.type != ERASED] == [None] * 4


def test_one_of_two_holds_the_lease(store: RecordStore) -> None:
    first, second = Lease(store, "recorder"), Lease(store, "recorder")
    assert (first.hold(), second.hold(), first.hold()) == (True, False, True)


def test_a_lease_is_free_after_its_end(store: RecordStore) -> None:
    first, second = Lease(store, "recorder", seconds=-1), Lease(store, "recorder")
    assert (first.hold(), second.hold(), first.hold()) == (True, True, False)


def test_a_released_lease_is_free_at_once(store: RecordStore) -> None:
    first, second = Lease(store, "recorder"), Lease(store, "recorder")
    first.hold()
    first.release()
    assert second.hold()


async def test_a_lease_is_renewed_while_its_holder_works(store: RecordStore) -> None:
    first, second = Lease(store, "recorder", seconds=0.3), Lease(store, "recorder")
    assert first.hold()

    async def read_end() -> str:
        with store.engine.connect() as connection:
            return connection.execute(select(LEASES.c.until)).scalar_one()

    async def is_renewed() -> bool:
        return await read_end() != begun

    begun = await read_end()
    async with renewing(first):
        await until(is_renewed, "a renewal")
    assert second.hold()


async def test_a_feed_goes_on_where_its_reader_was(store: RecordStore) -> None:
    filled(store, 3)
    page = await Feed(store, "notices").page()
    await Feed(store, "notices").advance(page[1])
    assert [recorded.offset for recorded in await Feed(store, "notices").page()] == [2]


async def test_a_feed_gives_the_types_that_its_reader_wants(store: RecordStore) -> None:
    store.append(RUN, [entry(0), entry(1, "question.asked", id="q"), entry(2)])
    assert [recorded.offset for recorded in await Feed(store, "notices", ["question.asked"]).page()] == [1]


@pytest.mark.slow
@pytest.mark.parametrize("shift", [-86_400, 86_400])
def test_a_process_whose_clock_is_off_takes_no_lease_that_is_held(
    store: RecordStore, tmp_path: Path, shift: int
) -> None:
    assert Lease(store, shifted.NAME, seconds=3_600).hold()
    assert not shifted.holds(f"sqlite:{tmp_path / 'record.sqlite'}", shift)


@pytest.mark.slow
def test_a_lease_ends_in_time_where_the_clock_of_its_holder_was_ahead(store: RecordStore, tmp_path: Path) -> None:
    assert shifted.holds(f"sqlite:{tmp_path / 'record.sqlite'}", 86_400, seconds=-1)
    assert Lease(store, shifted.NAME).hold()
