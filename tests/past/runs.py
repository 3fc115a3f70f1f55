"""Blueprints whose tool fails until its cause is mended, and their retries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from holdfast.client.tree import CLOSED
from tests.conftest import Harness, until
from tests.tools import calls

ASK = {"kind": "hitl", "name": "ask", "ask": "permission", "message": "Pay?"}
"""A question whose answer must not be asked for again."""


def pay(folder: Path, name: str, step: str = "pay") -> dict[str, Any]:
    """Return a step that pays once, and counts it."""
    arguments = {"folder": str(folder), "payee": name, "amount": 1}
    return {"name": step, "uses": "pay_out", "arguments": arguments}


def mend(folder: Path, name: str = "mended", after: int = 0, **more: Any) -> dict[str, Any]:
    """Return a step that fails until the cause is mended, once so many payments were made."""
    arguments = {"folder": str(folder), "name": name, "after": after}
    return {"name": "mend", "uses": "mendable", "arguments": arguments, **more}


async def fail(house: Harness, steps: list[Any], *answers: Any, **how: Any) -> str:
    """Start a run that pays, asks and fails, and return its id."""
    (house.folder / "broken").touch()
    more = how.pop("blueprint", {})
    run = await house.start(yaml.safe_dump({"steps": steps, **more}), how.pop("input", None), **how)
    await house.answered(run, *answers)
    outcome = await house.result(run)
    assert outcome.status == "failed" and outcome.error is not None
    assert "can be mended" in outcome.error.message
    return run


async def retry(house: Harness, run: str, **how: Any) -> str:
    """Mend the cause, retry the run, and return the new one."""
    (house.folder / "broken").unlink(missing_ok=True)
    retried = await house.runs.retry(run, **how)
    house.started.append(retried.run)
    return retried.run


async def finish(house: Harness, run: str) -> Any:
    """Return the output of a run; of a payment that was broken off in its middle say that it was made."""

    async def has_ended() -> bool:
        state = await house.runs.state(run)
        for question in state.questions:
            await house.answer(run, {"outcome": "done"}, question)
        return state.status in CLOSED

    await until(has_ended, "the end")
    return await house.output(run)


def paid(house: Harness) -> int:
    """Return how often was paid."""
    return calls(house.folder, "pay")
