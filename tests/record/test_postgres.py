"""The record in PostgreSQL: the same as in a file."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from holdfast.server.record.checkpoints import seal
from holdfast.server.record.jobs import Lease
from holdfast.server.record.store import RecordStore, open_store
from holdfast.server.record.verification import verify
from tests.postgres import postgres
from tests.record import shifted
from tests.record.ground import KEY, NOON, RUN, entry, filled

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store() -> Iterator[RecordStore]:
    with postgres() as server:
        store = open_store(server.get_uri())
        yield store
        store.close()


def place_of(store: RecordStore) -> str:
    return store.engine.url.render_as_string(hide_password=False).replace("+psycopg", "")


def test_several_writers_leave_no_gap_in_the_numbers(store: RecordStore) -> None:
    runs = [replace(RUN, first_run=f"written-{n}") for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda run: [store.append(run, [entry(n)]) for n in range(10)], runs))
    assert [recorded.id for recorded in store.entries()] == list(range(1, store.last() + 1))


def test_a_record_is_sealed_verified_and_erased(store: RecordStore) -> None:
    filled(store, 3)
    seal(store, KEY, NOON)
    assert store.erase([RUN], NOON, "user:ana") == 3
    assert verify(store, [KEY.public]).faults == []


def test_one_of_two_holds_the_lease(store: RecordStore) -> None:
    assert (Lease(store, "recorder").hold(), Lease(store, "recorder").hold()) == (True, False)


@pytest.mark.parametrize("shift", [-86_400, 86_400])
def test_a_process_whose_clock_is_off_takes_no_lease_that_is_held(store: RecordStore, shift: int) -> None:
    lease = Lease(store, shifted.NAME, seconds=3_600)
    assert lease.hold()
    assert not shifted.holds(place_of(store), shift)
    lease.release()


def test_a_lease_ends_in_time_where_the_clock_of_its_holder_was_ahead(store: RecordStore) -> None:
    assert shifted.holds(place_of(store), 600, seconds=-1)
    assert Lease(store, shifted.NAME).hold()
