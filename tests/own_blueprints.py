"""A workflow of an author's own that runs a blueprint; alone in its module, see `tests/own_questions.py`."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from holdfast.blueprint.kinds import Blueprint
from holdfast.workflows import HumanInTheLoop


@workflow.defn
class Agency(HumanInTheLoop):
    """Runs a blueprint, then asks a question of its own."""

    @workflow.run
    async def run(self, blueprint: Blueprint, input: Any) -> list[Any]:
        output = await self.human.run(blueprint, input, name="brief")
        return [output, self.usage.requests, await self.human.ask("Send it?", name="send")]
