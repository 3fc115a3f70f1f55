"""The examples are tested as authors test: each has a file of tests beside it, which pytest collects with the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.runtime.config import load_config
from holdfast.testkit import SUFFIX
from holdfast.testkit.files import read_cases
from tests.repository import EXAMPLES, ROOT


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_its_tests_beside_it(path: Path) -> None:
    beside = path.with_name(path.stem + SUFFIX)
    assert read_cases(beside, load_config(ROOT)).cases


def test_the_tests_of_the_examples_are_run_with_all_others(pytestconfig: pytest.Config) -> None:
    assert "examples" in pytestconfig.getini("testpaths")
    assert pytestconfig.pluginmanager.has_plugin("holdfast.testkit.plugin")
