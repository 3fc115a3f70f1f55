"""The tools of one step of a plan: which it may call, by whose approval, and what they returned.

A driving agent calls them here by `execute_step_tool`, the scheduler those whose arguments the plan gives.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.parts import ToolErrors
from holdfast.blueprint.plan.tools import lack_of
from holdfast.protocol.agents import ToolCall, ToolSpec
from holdfast.protocol.events import ToolDenied
from holdfast.protocol.runs import Failure
from holdfast.protocol.tool_errors import kind_of_result, useful
from holdfast.workflows.agent.checks import BadCall, check_call
from holdfast.workflows.agent.ending import find_replacement, list_policies
from holdfast.workflows.approvals import Denied, add_defaults, approve_call
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, failure, find_failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.results import name_error
from holdfast.workflows.plan.scope import StepRun
from holdfast.workflows.tool_calls import ToolCalls, ToolErrorFailure
from holdfast.workflows.toolbox import Toolbox


class CallOutcome(NamedTuple):
    """A call that was made: the tool's data, or an error after which the model may call again."""

    data: JSON = None
    error: Failure | None = None


class StepTools:
    """The tools of one step. The state holds what they returned, which were called, and the number of retries.

    Args:
        rules: What follows errors.
    """

    def __init__(self, run: StepRun, frame: Frame, rules: ToolErrors) -> None:
        self._run, self._frame = run, frame
        self.step, self._context = run.step, run.scope.context
        self._bounds = self._context.bounds(run.step)
        self._agent = self._bounds.agents[0]
        self.tools = list(dict.fromkeys(run.step.tools))
        """The step's tools, or what was found in their place."""
        before = run.result
        self.calls = ToolCalls(rules, self._replace, by_model=True, tries=before.tries, made=before.made, keep=run.mark)

    @property
    def returned(self) -> list[JSONObject]:
        """Return the calls that succeeded: `tool`, `parameters` and `data`."""
        return self._run.result.tool_results

    def spec(self, tool: str) -> ToolSpec:
        """Return the description of a tool that was looked up."""
        return self._context.catalogue.specs[tool]

    def last(self, tool: str) -> JSONObject | None:
        """Return the last call of a tool that succeeded."""
        return next((call for call in reversed(self.returned) if call["tool"] == tool), None)

    async def look_up(self, tool: str) -> None:
        """Look up a tool's description. Raises a failure if it is missing, or if the agent may not use it."""
        lack = lack_of(tool, self.step, self._context.author, self._agent)
        if lack is not None:
            text = f"{lack.message}; {lack.hint}" if lack.hint else lack.message
            raise failure(lack.type, text, self._frame.address)
        try:
            await self._context.catalogue.require(tool, self._frame)
        except ValueError:
            text = f"{tool!r} is more than one tool: name one of them"
            raise failure("bad_tool", text, self._frame.address) from None

    async def look_up_all(self) -> list[str]:
        """Look up the step's tools and return them; one that is missing is replaced by another, if there is one."""
        for tool in list(self.tools):
            try:
                await self.look_up(tool)
            except HANDLED as error:
                cause = find_failure(error, self._frame.address)
                if is_cancelled(error) or name_error(cause) != "missing":
                    raise
                await self.calls.replace(tool, cause, self._frame)
        return self.tools

    async def _replace(self, tool: str) -> str | None:
        """Put another tool in place of one that is missing; return what a model calls it, None if there is none."""
        spec = await find_replacement(self._bounds, tool, self._frame.host.activities, self._frame.address)
        if spec is None:
            return None
        self._context.catalogue.specs[spec.reference] = spec
        self.tools = list(dict.fromkeys(spec.reference if name == tool else name for name in self.tools))
        return spec.name

    async def call(self, tool: str, args: JSONObject) -> CallOutcome:
        """Call a tool and record what it returned. Raises `ToolErrorFailure` where the step ends by its error."""
        spec = self.spec(tool)
        # Each failed call is a retry or the end of the step, so that this number is given once.
        number = len(self.returned) + sum(self.calls.tries.values()) + 1
        call = ToolCall(id=f"call_{number}", name=spec.name, args=args)
        frame = self._frame.at("tool", spec.name, call.id)
        try:
            check_call(call, spec, [spec.name])
        except BadCall as error:
            return self.refuse(tool, str(error))
        try:
            result = await self._permitted_call(tool, call, spec, frame)
        except Denied as denied:
            frame.note(ToolDenied(tool=tool, reason=str(denied)))
            cause = Failure(type="not_approved", message=str(denied), address=frame.address)
            raise ToolErrorFailure(cause) from None
        except ToolErrorFailure:
            raise
        except HANDLED as error:
            cause = find_failure(error, frame.address)
            if is_cancelled(error) or cause.final:
                raise
            return CallOutcome(error=cause)
        if (found := kind_of_result(result)) is not None:
            return CallOutcome(error=Failure(type=found[0], message=found[1], address=frame.address))
        self._run.mark(tool_results=[*self.returned, {"tool": tool, "parameters": args, "data": useful(result)}])
        return CallOutcome(useful(result))

    def refuse(self, tool: str, message: str, type_: str = "tool_input") -> CallOutcome:
        """Return the error of a call that cannot be made. Raises `ToolErrorFailure` after the last retry."""
        self.calls.count_misfit(tool, message, self._frame, type_)
        return CallOutcome(error=Failure(type=type_, message=message, address=self._frame.address))

    async def _permitted_call(self, tool: str, call: ToolCall, spec: ToolSpec, frame: Frame) -> JSON:
        box = Toolbox(self._agent, self._agent.tools, [spec], unsure_is_final=True)
        policies, note = list_policies(self._bounds, spec)
        allowed = await approve_call(add_defaults(call, spec), spec, policies, frame, note=note)
        result = await self.calls.make(tool, allowed.call.args, partial(box.run, allowed, spec, frame), frame)
        self.calls.note(*box.inner_calls)
        return result
