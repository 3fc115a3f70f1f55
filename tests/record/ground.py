"""What the tests of the record share."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError

from holdfast.server.record.checkpoints import SigningKey
from holdfast.server.record.entries import ENDED, Recorded, RecordedRun, RecordEntry
from holdfast.server.record.progress import describe
from holdfast.server.record.recorder import Recorder
from holdfast.server.record.store import RecordStore
from tests.conftest import Harness, until

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
RUN = RecordedRun("default", "trip-1", "first-1", "trip")

ASK = """
name: ask
steps:
  - {kind: hitl, name: city, message: "Which city?"}
output: "{{ steps.city.output }}"
"""
LOOP = """
name: talk
steps:
  - kind: loop
    name: clarify
    loop:
      max_loops: 9
      checkpoint_every: 1
      exit_expression: output == 'stop'
      body:
        - {kind: hitl, name: more, message: "Round {{ iteration }}?"}
"""


@dataclass
class Recording:
    """A harness, the record of its runs, and its recorder."""

    house: Harness
    store: RecordStore
    recorder: Recorder

    def another(self) -> Recorder:
        """A recorder of another process, which begins where the record ends."""
        return Recorder(self.house.runs.tree, self.store, KEY, self.house.runs.task_queue)

    async def forget(self, run: str) -> None:
        """Have Temporal delete a closed run, as it does at the end of the retention."""
        execution = WorkflowExecution(workflow_id=run)
        request = DeleteWorkflowExecutionRequest(namespace=self.house.client.namespace, workflow_execution=execution)

        async def is_gone() -> bool:
            # Again each time: the server drops a deletion that comes before it has finished with the end of the run.
            with suppress(RPCError):
                await self.house.client.workflow_service.delete_workflow_execution(request, retry=True)
            return await describe(self.house.client, run) is None

        await until(is_gone, f"the end of {run}")

    def entries(self, run: str) -> list[Recorded]:
        recorded = self.store.run(self.house.client.namespace, run)
        return [] if recorded is None else list(self.store.entries(first_run=recorded.first_run))

    async def until_recorded(self, run: str, type_: str, count: int = 1) -> list[Recorded]:
        """The entries of the run, once there are so many of this type."""

        async def recorded() -> list[Recorded]:
            await self.recorder.round()
            entries = self.entries(run)
            return entries if sum(entry.type == type_ for entry in entries) >= count else []

        entries: list[Recorded] = await until(recorded, f"{count} {type_} in the record")
        return entries

    async def ended(self, text: str, *answers: str) -> str:
        """A run that has ended and is in the record."""
        run = await self.house.start(text)
        await self.house.answered(run, *answers)
        await self.house.output(run)
        await self.until_recorded(run, ENDED)
        return run


def entry(n: int, type_: str = "step.started", **data: object) -> RecordEntry:
    """An event of the run's own workflow."""
    return RecordEntry(RUN.run, str(n), type_, "pipeline:trip", NOON, {"data": data}, offset=n)


def filled(store: RecordStore, count: int, run: RecordedRun = RUN) -> Sequence[Recorded]:
    store.append(run, [entry(n) for n in range(count)])
    return list(store.entries(first_run=run.first_run))


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file of this process grow beyond 36 KiB: a database can be read, as on a full disk, and not written.

    SQLite needs 32 KiB of shared memory to read.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (36 * 1024, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
