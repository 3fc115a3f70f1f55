"""Tools that are called within bounds: described, checked, approved, called, and replaced where one is missing.

A step of a plan makes its calls here, and a step with `uses` that of the tool which takes the place of a missing one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import AgentTool
from holdfast.blueprint.parts import ToolErrors
from holdfast.protocol.address import Address
from holdfast.protocol.agents import FindTool, ToolCall, ToolSpec
from holdfast.protocol.children import Failure, ToolBounds
from holdfast.protocol.events import ToolDenied
from holdfast.protocol.permissions import Policy, collect_policies
from holdfast.protocol.tool_errors import kind_of_failure
from holdfast.workflows.approvals import Denied, add_defaults, approve_call
from holdfast.workflows.calls import Activities
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, ToolErrorFailure, failure, find_failure, make_error
from holdfast.workflows.frame import Frame
from holdfast.workflows.tool_calls import ToolCalls, ToolReplaced
from holdfast.workflows.toolbox import BadCall, Toolbox, check_call, describe_tools


class BoundedTools:
    """The tools of one step, and the calls of them.

    Args:
        bounds: Which may be called, and under whose rules.
        rules: What follows errors.
        frame: The frame of the step.
        specs: The descriptions so far, by reference; more are added to them.
        find_lack: Returns why a tool may not be used at all; None if it may.
        **kept: See `ToolCalls`.
    """

    def __init__(
        self,
        bounds: ToolBounds,
        rules: ToolErrors | None,
        frame: Frame,
        specs: dict[str, ToolSpec] | None = None,
        find_lack: Callable[[str], Failure | None] = lambda _: None,
        **kept: Any,
    ) -> None:
        self.frame = frame
        self.specs = {} if specs is None else specs
        self.calls = ToolCalls(rules, self._replace, **kept)
        self.replaced: dict[str, str] = {}
        """By the tool that is missing, the one that was found for it."""
        self._bounds, self._rules, self._find_lack = bounds, rules, find_lack

    async def describe(self, tool: str) -> ToolSpec:
        """Return the description of a tool. Raises a failure if it is missing, or if the step may not use it."""
        if (lack := self._find_lack(tool)) is not None:
            raise make_error(lack)
        if tool not in self.specs:
            specs = describe_tools([AgentTool(name=tool)], self.frame.blueprint)
            specs = specs or await self.frame.host.activities.describe_tools([tool], self.frame.address)
            if len(specs) != 1:  # a server that is named as a whole
                raise failure("bad_tool", f"{tool!r} is more than one tool: name one of them", self.frame.address)
            [self.specs[tool]] = specs
        return self.specs[tool]

    async def describe_or_replace(self, tool: str) -> ToolSpec:
        """Return the description of a tool; of one that is missing, that of another which takes its place."""
        try:
            return await self.describe(tool)
        except HANDLED as error:
            cause = find_failure(error, self.frame.address)
            if is_cancelled(error) or kind_of_failure(cause.type, cause.message) != "missing":
                raise
            return await self.calls.replace(tool, cause, self.frame)

    async def call(self, spec: ToolSpec, args: JSONObject, frame: Frame) -> JSON:
        """Call a tool, in a frame at the call's address, and return its result.

        Raises what the call raises, `ToolErrorFailure` where there is no further call, and `ToolReplaced`.
        """
        call = ToolCall(id=frame.address, name=spec.name, args=args)
        try:
            check_call(call, spec, [spec.name])
        except BadCall as error:
            self.calls.count_misfit(spec.reference, str(error), frame)
            raise failure("tool_input", str(error), frame.address) from None
        policies, note = list_policies(self._bounds, spec)
        try:
            allowed = await approve_call(add_defaults(call, spec), spec, policies, frame, note=note)
        except Denied as denied:
            frame.note(ToolDenied(tool=spec.reference, reason=str(denied)))
            cause = Failure(type="not_approved", message=str(denied), address=frame.address)
            raise ToolErrorFailure(cause) from None
        if allowed.earlier is not None:
            return allowed.earlier.output
        agent, is_final = self._bounds.agents[0], self._rules is not None and self._rules.timeout is not None
        box = Toolbox(agent, agent.tools, [spec], unsure_is_final=is_final)
        result = await self.calls.make(spec.reference, allowed.call.args, partial(box.run, allowed, spec, frame), frame)
        self.calls.note(*box.inner_calls)
        return result

    async def call_as_given(self, tool: str, args: JSONObject) -> JSON:
        """Call a tool, and what takes its place while it is missing, with arguments that nobody corrects."""
        spec = await self.describe_or_replace(tool)
        while True:
            try:
                return await self.call(spec, args, self.frame)
            except ToolReplaced as replaced:
                spec = replaced.other

    def find_current(self, tool: str) -> str:
        """Return the tool that has taken the place of a missing one; the tool itself if none has."""
        while tool in self.replaced:
            tool = self.replaced[tool]
        return tool

    async def _replace(self, tool: str) -> ToolSpec | None:
        spec = await find_replacement(self._bounds, tool, self.frame.host.activities, self.frame.address)
        if spec is not None:
            self.specs[spec.reference] = spec
            self.replaced[tool] = spec.reference
        return spec


def list_policies(bounds: ToolBounds, spec: ToolSpec) -> tuple[list[Policy], str]:
    """Return who has a say in a call, and a note for whom it is put to."""
    policies = collect_policies(spec, bounds.agents[0], bounds.agents[1:])
    if bounds.is_approved(spec.reference):
        return policies, ""
    return [*policies, Policy(None, AgentTool(name=spec.reference, approve="always"))], bounds.explain_lack(
        spec.reference
    )


async def find_replacement(bounds: ToolBounds, missing: str, work: Activities, address: Address) -> ToolSpec | None:
    """Return another tool that does what a step is for; None if there is none that it may use."""
    among = [listed.name for listed in bounds.agents[0].tools]
    if not among and not bounds.replaces:
        return None
    wanted = FindTool(service=bounds.service, instruction=bounds.instruction, among=among, missing=missing)
    name = await work.find_tool(wanted, address)
    if name is None or name == missing or (not among and ":" in name):
        return None
    specs = await work.describe_tools([name], address, lenient=True)
    return next((spec for spec in specs if not spec.problem), None)
