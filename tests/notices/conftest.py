"""The record of a test's runs, as the tests of the record have it, and one that is written by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notices.office import Office
from tests.record.conftest import recording, store

__all__ = ["office", "recording", "store"]


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    office = Office(tmp_path)
    yield office
    office.store.close()
