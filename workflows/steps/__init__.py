"""The step kinds: a file for each kind, with one function ``(step, frame) -> output`` that the interpreter calls."""

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.blueprint.kinds import (
    AgenticLoop,
    Cache,
    Clarify,
    Conditional,
    Hitl,
    Loop,
    Map,
    Parallel,
    PlainStep,
    Plan,
)
from holdfast.workflows.steps.cache import run_cache
from holdfast.workflows.steps.clarify import run_clarify
from holdfast.workflows.steps.conditional import run_conditional
from holdfast.workflows.steps.hitl import run_hitl
from holdfast.workflows.steps.loop import run_loop
from holdfast.workflows.steps.map import run_map
from holdfast.workflows.steps.parallel import run_parallel
from holdfast.workflows.steps.plan import run_plan
from holdfast.workflows.steps.planner import run_planner
from holdfast.workflows.steps.step import run_plain

STEPS: dict[type, Callable[[Any, Any], Awaitable[Any]]] = {
    PlainStep: run_plain,
    Hitl: run_hitl,
    Conditional: run_conditional,
    Loop: run_loop,
    Map: run_map,
    Parallel: run_parallel,
    Clarify: run_clarify,
    Cache: run_cache,
    AgenticLoop: run_planner,
    Plan: run_plan,
}
