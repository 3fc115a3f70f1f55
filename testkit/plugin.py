"""The pytest plugin: it collects `*.test.yaml` files, and runs them on one server for the whole session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.testkit import SUFFIX

if TYPE_CHECKING:
    from holdfast.testkit.environment import TestEnvironment
    from holdfast.testkit.files import Case, CaseFile
    from holdfast.testkit.running import CaseResult


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.name.endswith(SUFFIX):
        return CaseFileCollector.from_parent(parent, path=file_path)
    return None


class CaseFileCollector(pytest.File):
    """A test file."""

    def collect(self) -> Iterator[pytest.Item]:
        """See base class."""
        name = os.path.relpath(self.path, self.config.invocation_params.dir)
        file = _kit(self.config).read(Path(name))
        for case in file.cases:
            yield CaseItem.from_parent(self, name=case.name, file=file, case=case)


class CaseItem(pytest.Item):
    """A test."""

    def __init__(self, *, file: CaseFile, case: Case, **options: Any) -> None:
        super().__init__(**options)
        self.file, self.case = file, case

    def runtest(self) -> None:
        """See base class."""
        result = _kit(self.config).run(self.file, self.case)
        if not result.passed:
            raise Mismatch(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """See base class."""
        if isinstance(excinfo.value, Mismatch):
            return "\n".join(_kit(self.config).failure_lines(excinfo.value.result))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """See base class; lines count from 0 here."""
        return self.path, self.case.place.line - 1, self.name


class Mismatch(Exception):
    """A test that has differences."""

    def __init__(self, result: CaseResult) -> None:
        super().__init__(result.case.name)
        self.result = result


class _Kit:
    """The runner of the tests. It imports late: pytest loads this plugin in projects without test files, too."""

    def __init__(self) -> None:
        from holdfast.runtime import config  # noqa: PLC0415 pytest loads this plugin where no test file is
        from holdfast.testkit import environment, files, report, running  # noqa: PLC0415 for the same reason

        self._files, self._config, self._running = files, config, running
        self._environments, self._report = environment, report
        # A loop of its own, which only turns while a test runs: other plugins have theirs.
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._environment: TestEnvironment | None = None

    def read(self, path: Path) -> CaseFile:
        try:
            file: CaseFile = self._files.read_cases(path, self._config.load_config(path.parent))
        except ValueError as error:  # a BlueprintError, a ConfigError or a BadUsage
            raise pytest.Collector.CollectError(str(error)) from None
        return file

    def run(self, file: CaseFile, case: Case) -> CaseResult:
        if self._environment is None:
            self._environment = self._do(self._environments.TestEnvironment.open())
        result: CaseResult = self._do(self._running.run_case(self._environment, file, case))
        return result

    def failure_lines(self, result: CaseResult) -> list[str]:
        return [line for difference in result.differences for line in self._report.difference_lines(difference)]

    def close(self) -> None:
        if self._environment is not None:
            self._do(self._environment.close())
        self._runner.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)


_KIT = pytest.StashKey[_Kit]()


def _kit(config: pytest.Config) -> _Kit:
    if _KIT not in config.stash:
        config.stash[_KIT] = _Kit()
        config.add_cleanup(config.stash[_KIT].close)
    return config.stash[_KIT]
