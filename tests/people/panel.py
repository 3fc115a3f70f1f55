"""A workflow of an author's own that asks a panel."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import workflow

from holdfast.workflows import HumanInTheLoop


@workflow.defn
class Panel(HumanInTheLoop):
    @workflow.run
    async def run(self, people: list[str], minutes: int) -> Any:
        reminder = timedelta(minutes=minutes)
        return await self.human.ask(
            "Publish?", options=["yes", "no"], assignees=people, quorum=2, remind_every=reminder
        )
