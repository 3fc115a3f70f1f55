"""For pytest: `*.test.yaml` files are collected like any other tests, and run on one server for the whole session."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testkit import SUFFIX

if TYPE_CHECKING:
    from testkit.files import Case, CaseFile
    from testkit.running import Verdict
    from testkit.stage import Stage


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.name.endswith(SUFFIX):
        return Sheet.from_parent(parent, path=file_path)
    return None


class Sheet(pytest.File):
    """A file of tests."""

    def collect(self) -> Iterator[pytest.Item]:
        """See base class."""
        shown = os.path.relpath(self.path, self.config.invocation_params.dir)
        file = _kit(self.config).read(Path(shown))
        for case in file.cases:
            yield Rehearsal.from_parent(self, name=case.name, file=file, case=case)


class Rehearsal(pytest.Item):
    """One test."""

    def __init__(self, *, file: CaseFile, case: Case, **how: Any) -> None:
        super().__init__(**how)
        self.file, self.case = file, case

    def runtest(self) -> None:
        """See base class."""
        verdict = _kit(self.config).run(self.file, self.case)
        if not verdict.passed:
            raise Unmet(verdict)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """See base class."""
        if isinstance(excinfo.value, Unmet):
            return "\n".join(_kit(self.config).told(excinfo.value.verdict))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """See base class; lines count from 0 here."""
        return self.path, self.case.place.line - 1, self.name


class Unmet(Exception):
    """A test with differences."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.case.name)
        self.verdict = verdict


class _Kit:
    """What runs the tests. Imported when a test is met: pytest loads this plugin in every project."""

    def __init__(self) -> None:
        self._files = importlib.import_module("testkit.files")
        self._config = importlib.import_module("client.config")
        self._running = importlib.import_module("testkit.running")
        self._stages = importlib.import_module("testkit.stage")
        self._telling = importlib.import_module("testkit.telling")
        # A loop of its own, which only turns while a test runs: other plugins have theirs.
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._stage: Stage | None = None

    def read(self, path: Path) -> CaseFile:
        try:
            file: CaseFile = self._files.read_cases(path, self._config.load_config(path.parent))
        except ValueError as error:  # a BlueprintError, a ConfigError or a BadUsage
            raise pytest.Collector.CollectError(str(error)) from None
        return file

    def run(self, file: CaseFile, case: Case) -> Verdict:
        if self._stage is None:
            self._stage = self._do(self._stages.Stage.open())
        verdict: Verdict = self._do(self._running.run_case(self._stage, file, case))
        return verdict

    def told(self, verdict: Verdict) -> list[str]:
        return [line for one in verdict.differences for line in self._telling.difference_lines(one)]

    def close(self) -> None:
        if self._stage is not None:
            self._do(self._stage.close())
        self._runner.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)


_KIT = pytest.StashKey[_Kit]()


def _kit(config: pytest.Config) -> _Kit:
    if _KIT not in config.stash:
        config.stash[_KIT] = _Kit()
        config.add_cleanup(config.stash[_KIT].close)
    return config.stash[_KIT]
