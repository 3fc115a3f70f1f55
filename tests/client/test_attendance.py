"""What a terminal says while nothing can be asked of a run."""

import io
from types import SimpleNamespace
from typing import Any, cast

from temporalio.client import WorkflowExecutionStatus

from holdfast.cli.attendance import Attendance
from holdfast.cli.tables import console
from holdfast.client.runs import Runs
from holdfast.runtime.workers import Busy, Version

RUNNING, COMPLETED = WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED


class Stuck:
    """The API of a run whose worker was killed; after three looks the run has ended."""

    tree = None

    def __init__(self) -> None:
        self.looks = 0
        self.client = self

    async def state(self, run: str) -> Any:
        self.looks += 1
        raise Busy("queue", 60 + self.looks, Version("", ""))

    def get_workflow_handle(self, run: str) -> Any:
        return self

    async def describe(self) -> Any:
        return SimpleNamespace(status=COMPLETED if self.looks == 3 else RUNNING)

    async def result(self, run: str) -> str:
        return "ended"


async def test_a_worker_that_does_not_answer_is_told_of_once() -> None:
    out = io.StringIO()
    attendance = Attendance(cast(Runs, Stuck()), "r", sources=[], by="user:ana", out=console(out))
    assert cast(str, await attendance.until_rest()) == "ended"
    [line] = out.getvalue().splitlines()
    assert "it polled 61 s ago" in line


class Recorded(Stuck):
    def __init__(self, archives: list[object]) -> None:
        super().__init__()
        self.archives = archives

    def with_archive(self, archive: object) -> Any:
        self.archives.append(archive)
        return Stuck()


async def test_a_run_that_was_just_started_is_read_from_temporal_alone() -> None:
    """Opening the record loads the library of its database: a tenth of what the command costs."""
    runs = Recorded([])
    out = console(io.StringIO())
    attendance = Attendance(cast(Runs, runs), "r", sources=[], by="user:ana", out=out, is_new=True)
    assert cast(str, await attendance.until_rest()) == "ended"
    assert (runs.archives, runs.looks) == ([None], 0)
