"""One stage for all tests of this room, and a place to write tests of blueprints."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import indent

import pytest
import pytest_asyncio

from holdfast.runtime.config import Config, load_config
from holdfast.testkit.environment import TestEnvironment
from holdfast.testkit.files import CaseFile, read_cases
from holdfast.testkit.matching import Difference
from holdfast.testkit.running import CaseResult, run_case
from tests.blueprint.written import yaml

CONFIGURATION = """
[worker]
imports = ["tests.tools"]
[groups]
bosses = ["user:ana", "user:bo"]
"""


@pytest_asyncio.fixture(scope="session")
async def stage() -> AsyncIterator[TestEnvironment]:
    stage = await TestEnvironment.open()
    yield stage
    await stage.close()


class Desk:
    """A folder with a blueprint, `flow.yaml`, and its tests."""

    def __init__(self, stage: TestEnvironment, folder: Path) -> None:
        self.stage, self.folder = stage, folder

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(yaml(text))
        return path

    def read(self, tests: str, blueprint: str | None = None) -> CaseFile:
        if blueprint is not None:
            self.write("flow.yaml", blueprint)
        return read_cases(self.write("flow.test.yaml", tests), self.config())

    def config(self) -> Config:
        return load_config(self.folder)

    async def verdicts(self, blueprint: str, tests: str) -> list[CaseResult]:
        file = self.read(tests, blueprint)
        return [await run_case(self.stage, file, case) for case in file.cases]

    async def differences(self, blueprint: str, test: str) -> list[Difference]:
        """Of the only test, given without its name."""
        [verdict] = await self.verdicts(blueprint, f"tests:\n  - name: it works\n{indent(yaml(test), '    ')}")
        return verdict.differences

    async def passes(self, blueprint: str, test: str) -> None:
        assert await self.differences(blueprint, test) == []


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose configuration holds for all below it, so that one worker is enough."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "holdfast.toml").write_text(CONFIGURATION)
    return folder


@pytest.fixture
def desk(stage: TestEnvironment, project: Path) -> Desk:
    return Desk(stage, Path(tempfile.mkdtemp(dir=project)))
