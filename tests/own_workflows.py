"""Workflows of somebody's own, for blueprints that start and signal them; nothing of ours is imported."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError


@workflow.defn
class ShipOrder:
    """Ship: by what its argument says, return it, fail, wait for a signal, or wait for ever."""

    def __init__(self) -> None:
        self.paid: list[Any] = []

    @workflow.run
    async def run(self, order: Any) -> Any:
        match order:
            case {"fail": kind}:
                raise ApplicationError("no 17 left", {"type": "x", "message": "y", "more": 1}, type=kind)
            case {"nodes": count}:
                return [0] * count
            case "bytes":
                return b"\x00\x01"
            case "nothing":
                return None
            case "paid":
                await workflow.wait_condition(lambda: bool(self.paid))
                return self.paid
            case "patient":
                try:
                    await workflow.wait_condition(lambda: False)
                except asyncio.CancelledError:
                    await workflow.sleep(0.1)  # what it has begun is undone first
                    raise
            case {"until": attempt} if workflow.info().attempt < attempt:
                raise ApplicationError("not yet")
        return {"shipped": order, "attempt": workflow.info().attempt}

    @workflow.signal(name="paid")
    def take(self, amount: Any) -> None:
        self.paid.append(amount)


@workflow.defn
class Sum:
    """Add up its two arguments."""

    @workflow.run
    async def run(self, a: int, b: int) -> int:
        return a + b


@workflow.defn
class Nothing:
    """Take no argument."""

    @workflow.run
    async def run(self) -> str:
        return "done"
