"""Workflows of an author's own, for the tests: some continue as new, some start another."""

from __future__ import annotations

import asyncio
from datetime import timedelta

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


@workflow.defn
class Stray(HumanInTheLoop):
    """Starts another workflow of the author's by Temporal's own call, so that what it asks is not found here."""

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_child_workflow(Approvals.run, 1)


@workflow.defn
class Booking(HumanInTheLoop):
    """Asks what is to be done with a booking once it is cancelled."""

    @workflow.run
    async def run(self) -> str:
        try:
            await self.human.ask("Book it?")
        except asyncio.CancelledError:
            return str(await self.human.ask("Write it off?", name="loss"))
        return "booked"


@workflow.defn
class Payments(HumanInTheLoop):
    """Asks of each payment under the same name, each in a history of its own."""

    @workflow.run
    async def run(self, n: int, most: int) -> str:
        answer = await self.human.ask("Pay?", options=["yes", "no"], name="pay")
        if answer == "yes" and n < most:
            workflow.continue_as_new(args=[n + 1, most])
        return f"{answer} at {n}"


@workflow.defn
class Either(HumanInTheLoop):
    """Asks two people, takes the first answer, and goes on with something else."""

    @workflow.run
    async def run(self) -> str:
        asks = [asyncio.create_task(self.human.ask("Pay?", name=name)) for name in ("ana", "bob")]
        done, pending = await workflow.wait(asks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await workflow.wait_condition(lambda: False)
        return done.pop().result()


@workflow.defn
class Gate(HumanInTheLoop):
    """Does what it was started for once it is let through: continues as new, or runs another workflow."""

    def __init__(self) -> None:
        self.is_open = False

    @workflow.signal
    def let_through(self) -> None:
        self.is_open = True

    @workflow.run
    async def run(self, then: str) -> None:
        await workflow.wait_condition(lambda: self.is_open)
        if then == "continue":
            workflow.continue_as_new("run")
        await self.run_human(Payments.run, 1, 1, name="payments")


@workflow.defn
class Reminder(HumanInTheLoop):
    """Sleeps for a month, and asks."""

    @workflow.run
    async def run(self) -> str:
        begun = workflow.now()
        await workflow.sleep(timedelta(days=30))
        answer = await self.human.ask("Done?")
        return f"{answer} after {(workflow.now() - begun).days} days"


@workflow.defn
class Escalated(HumanInTheLoop):
    """Asks one person, and another one after three days."""

    @workflow.run
    async def run(self) -> str:
        asked = self.human.ask("Go?", assignees=["user:ana"], timeout="9d", escalate=[("3d", ["user:max"])])
        return str(await asked)


@workflow.defn
class Salary(HumanInTheLoop):
    """Asks one person, and then anybody else."""

    @workflow.run
    async def run(self) -> bool:
        first = await self.human.ask("Raise it?", kind="permission", name="first", assignees=["user:ana"])
        return first and await self.human.ask("Sure?", kind="permission", name="second", not_by=["user:ana"])


@workflow.defn
class Mistaken(HumanInTheLoop):
    """Makes a mistake, at once or once it has an answer."""

    @workflow.run
    async def run(self, asks: bool) -> None:
        answer = await self.human.ask("Go?") if asks else ""
        answer.nothing_of_a_text()
