"""The machines of a crash test, stopped at its end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.machines import Machines


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    made.start_server()
    yield made
    made.stop()
