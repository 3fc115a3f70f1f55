"""Workflows of an author's own whose questions share a name."""

from __future__ import annotations

import asyncio

from temporalio import workflow

from holdfast.workflows import HumanInTheLoop


@workflow.defn
class Sides(HumanInTheLoop):
    @workflow.run
    async def run(self) -> list[str]:
        both = [self.human.ask(message, name="side") for message in ("Left?", "Right?", "Up?")]
        return [*await asyncio.gather(*both), await self.human.ask("Again?", name="side")]
