"""The `conditional` kind: one of several branches."""

from __future__ import annotations

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Conditional
from holdfast.protocol.agents import ToolRequest
from holdfast.protocol.events import BranchCompleted, BranchStarted
from holdfast.workflows.builtins import BUILTINS
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.tools import call_tool


async def run_conditional(step: Conditional, frame: Frame) -> JSON:
    value = frame.read_input(step)
    key = write_text(await _choose(step, frame, value))
    branch = step.branches.get(key, step.default_branch)
    if branch is None:
        names = ", ".join(step.branches)
        raise failure("no_branch", f"no branch {key!r} and no default_branch; branches: {names}", frame.address)
    inside = frame.inside("branch", key)
    inside.note(BranchStarted(branch=key))
    output = await frame.run_steps(branch, inside, value, step.max_parallel)
    inside.note(BranchCompleted(branch=key))
    return output


async def _choose(step: Conditional, frame: Frame, value: object) -> JSON:
    if step.condition_expression is not None:
        return frame.after(value).evaluate(step.condition_expression)
    assert step.condition is not None
    if step.condition in BUILTINS:
        return BUILTINS[step.condition](value, frame)
    request = ToolRequest(tool=step.condition, args=[value, frame.store.value])
    return await call_tool(request, frame, step.name)
