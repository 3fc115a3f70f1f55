"""Where pytest looks for examples in docstrings: in the files that have some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Any:
    """Leave out the modules without an example, which each process of a test run would import and search."""
    collectors = yield
    if file_path.suffix != ".py" or ">>>" in file_path.read_text():
        return collectors
    return [collector for collector in collectors if not isinstance(collector, DoctestModule)]
