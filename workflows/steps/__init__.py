"""What each step kind does: one file a kind, one function ``(step, frame) -> output``."""

from collections.abc import Awaitable, Callable
from typing import Any

from blueprint.grammar import AgenticLoop, Cache, Clarify, Conditional, Hitl, Loop, Map, Parallel, PlainStep, Plan
from workflows.steps.cache import run_cache
from workflows.steps.clarify import run_clarify
from workflows.steps.conditional import run_conditional
from workflows.steps.hitl import run_hitl
from workflows.steps.loop import run_loop
from workflows.steps.map import run_map
from workflows.steps.parallel import run_parallel
from workflows.steps.plan import run_plan
from workflows.steps.planner import run_planner
from workflows.steps.step import run_plain

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
