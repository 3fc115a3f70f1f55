"""Workflows of an author's own, for the tests: one that runs another, which continues as new."""

from __future__ import annotations

from temporalio import workflow

from holdfast.workflows import HumanInTheLoop


@workflow.defn
class Approvals(HumanInTheLoop):
    """Asks once in each of its histories."""

    @workflow.run
    async def run(self, n: int) -> None:
        await self.human.ask(f"Approve {n}?")
        workflow.continue_as_new(n + 1)


@workflow.defn
class Office(HumanInTheLoop):
    """Runs another workflow of the author's."""

    @workflow.run
    async def run(self) -> None:
        await self.run_human(Approvals.run, 1, name="approvals")
