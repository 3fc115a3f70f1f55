"""The executors of the step kinds, a file for each: ``(step, frame) -> output``, called by the interpreter."""

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.blueprint.kinds import KINDS
from holdfast.workflows.steps.agentic_loop import run_agentic_loop
from holdfast.workflows.steps.block import run_block
from holdfast.workflows.steps.cache import run_cache
from holdfast.workflows.steps.clarify import run_clarify
from holdfast.workflows.steps.conditional import run_conditional
from holdfast.workflows.steps.hitl import run_hitl
from holdfast.workflows.steps.loop import run_loop
from holdfast.workflows.steps.map import run_map
from holdfast.workflows.steps.parallel import run_parallel
from holdfast.workflows.steps.plan import run_plan
from holdfast.workflows.steps.step import run_plain
from holdfast.workflows.steps.timer import run_timer
from holdfast.workflows.steps.wait import run_wait
from holdfast.workflows.steps.workflow import run_workflow

EXECUTORS: dict[str, Callable[[Any, Any], Awaitable[Any]]] = {
    "step": run_plain,
    "hitl": run_hitl,
    "conditional": run_conditional,
    "loop": run_loop,
    "map": run_map,
    "parallel": run_parallel,
    "block": run_block,
    "clarify": run_clarify,
    "cache": run_cache,
    "agentic_loop": run_agentic_loop,
    "plan": run_plan,
    "timer": run_timer,
    "workflow": run_workflow,
    "wait": run_wait,
    "states": run_loop,
}


def check_executors() -> None:
    """Raise `RuntimeError` for a step kind without an executor.

    A worker calls it at its start: inside a run the mistake would fail every workflow task, and the run would hang.
    """
    if missing := sorted(KINDS.keys() - EXECUTORS.keys()):
        raise RuntimeError(f"no executor in workflows/steps for the step kinds: {', '.join(missing)}")
