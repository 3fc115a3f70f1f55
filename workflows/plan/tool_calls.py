"""The tools of one step of a plan: their calls, their approvals, and the table of what follows an error.

Both drivers call them here: the scheduler with arguments from a model, a driving agent by `execute_step_tool`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema, misfit
from holdfast.blueprint.kinds import Agent, AgentTool
from holdfast.blueprint.plan.tools import MOST_RETRIES, lack_of
from holdfast.protocol.agents import FindTool, ToolCall, ToolSpec
from holdfast.protocol.events import StepRetrying, ToolDenied
from holdfast.protocol.permissions import Policy, policies_of
from holdfast.protocol.plans import UnitResult
from holdfast.protocol.tool_errors import ErrorKind, kind_of_failure, kind_of_result, useful
from holdfast.workflows.approvals import Denied, add_defaults, approve_call
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, find_failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.questions import ask_to_reconnect
from holdfast.workflows.plan.results import failed, skipped
from holdfast.workflows.plan.scope import StepRun
from holdfast.workflows.toolbox import Toolbox

RETRIES: dict[ErrorKind, int] = {
    "authorisation": 1,
    "tool_missing": 1,
    "bad_parameters": 2,
    "timeout": 0,  # it may have taken effect all the same
    "business": 1,
}
_BY_A_MODEL = ("tool_missing", "bad_parameters", "business")
"""Errors after which a model may call again; after others a person has been asked, or nothing helps."""


@dataclass(frozen=True)
class CallError:
    """An error of a call; `kind` None: no retry helps."""

    kind: ErrorKind | None
    type: str
    message: str

    @staticmethod
    def of(type_: str, message: str) -> CallError:
        """Return the error of a failed activity."""
        return CallError(kind_of_failure(type_, message), type_, message)


@dataclass(frozen=True)
class CallOutcome:
    """The outcome of a call: the tool's data, or an error; with one, how the step ends by it, or None for a retry."""

    data: JSON = None
    error: CallError | None = None
    ending: UnitResult | None = None


class StepTools:
    """The tools of one step. The state holds what they returned, which were called, and the number of retries."""

    def __init__(self, run: StepRun, frame: Frame) -> None:
        self._run, self._frame = run, frame
        self.step, self._context = run.step, run.scope.context
        self._agent: Agent = self._context.policy_agent(run.step)

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

    def may_retry(self, kind: ErrorKind) -> bool:
        """Return whether the step has a retry left; it is counted."""
        tries = Counter(self._run.result.tries)
        if tries[kind] >= RETRIES[kind] or tries.total() >= MOST_RETRIES:
            return False
        tries[kind] += 1
        self._run.mark(tries=dict(tries))
        return True

    async def look_up(self, tool: str) -> CallError | None:
        """Look up a tool's description; return the error of one that is missing, or that the agent may not use."""
        lack = lack_of(tool, self.step, self._context.author, self._agent)
        if lack is not None:
            kind: ErrorKind | None = "tool_missing" if lack.type == "unknown_tool" else None
            return CallError(kind, lack.type, f"{lack.message}; {lack.hint}" if lack.hint else lack.message)
        try:
            await self._context.catalogue.require(tool, self._frame)
        except HANDLED as error:
            if is_cancelled(error):
                raise
            cause = find_failure(error, self._run.scope.frame.address)
            return CallError.of(cause.type, cause.message)
        except ValueError:
            return CallError(None, "bad_tool", f"{tool!r} is more than one tool: name one of them")
        return None

    async def replacement(self, tool: str) -> str | None:
        """Return another tool that does what the step wants, in place of one that is missing."""
        among = [listed.name for listed in self._agent.tools]
        wanted = FindTool(service=self.step.service, instruction=self.step.instruction, among=among, missing=tool)
        name = await self._frame.host.activities.find_tool(wanted, self._frame.address)
        if name in (tool, None) or await self.look_up(name) is not None:
            return None
        return name

    async def call(self, tool: str, args: JSONObject) -> CallOutcome:
        """Call a tool and record what it returned; a call that lacks authorisation is repeated by a person's word."""
        made = await self._authorised(tool, args)
        if isinstance(made, CallError):
            return CallOutcome(error=made, ending=self.ending(made))
        call = {"tool": tool, "parameters": args, "data": made.data}
        self._run.mark(tool_results=[*self.returned, call])
        return made

    def refused(self, message: str) -> CallOutcome:
        """Return the outcome of a call that cannot be made."""
        error = CallError("bad_parameters", "tool_input", message)
        return CallOutcome(error=error, ending=self.ending(error))

    def ending(self, error: CallError) -> UnitResult | None:
        """Return how the step ends by an error; None if the model may call again, which is counted."""
        if error.kind is None:
            return failed(error.type, error.message)
        if error.kind in _BY_A_MODEL and self.may_retry(error.kind):
            self._frame.note(StepRetrying(error=error.kind, message=error.message))
            return None
        if error.kind == "timeout" and self.step.optional:
            what = {"type": error.kind, "message": error.message}
            return skipped("timeout", error=what)
        return failed(error.kind, error.message)

    async def _authorised(self, tool: str, args: JSONObject) -> CallOutcome | CallError:
        while True:
            made = await self._once(tool, args)
            if isinstance(made, CallOutcome) or made.kind != "authorisation" or not self.may_retry("authorisation"):
                return made
            match await ask_to_reconnect(tool, made.message, self._run):
                case "cancelled":
                    return CallError(None, "cancelled", f"a person cancelled {self.step.id}")
                case "no":
                    return made
            self._frame.note(StepRetrying(tool=tool))

    async def _once(self, tool: str, args: JSONObject) -> CallOutcome | CallError:
        spec = self.spec(tool)
        if (wrong := _misfit(spec, args)) is not None:
            return CallError("bad_parameters", "tool_input", f"the arguments of {tool} do not fit: {wrong}")
        # Each failed call is a retry or the end of the step, so that this number is given once.
        number = len(self.returned) + sum(self._run.result.tries.values()) + 1
        call = ToolCall(id=f"call_{number}", name=spec.name, args=args)
        frame = self._frame.at("tool", spec.name, call.id)
        try:
            return _outcome_of(await self._permitted_call(tool, call, spec, frame))
        except Denied as denied:
            frame.note(ToolDenied(tool=tool, reason=str(denied)))
            return CallError(None, "not_approved", str(denied))
        except HANDLED as error:
            cause = find_failure(error, frame.address)
            if is_cancelled(error) or cause.final:
                raise
            self._note_calls(*cause.called)
            return CallError.of(cause.type, cause.message)

    def _note_calls(self, *tools: str) -> None:
        self._run.mark(called=list(dict.fromkeys([*self._run.result.called, *tools])))

    async def _permitted_call(self, tool: str, call: ToolCall, spec: ToolSpec, frame: Frame) -> JSON:
        box = Toolbox(self._agent, self._agent.tools, [spec], unsure_is_final=True)
        policies = policies_of(spec, self._agent, self._context.further_policy_agents(self.step))
        note = ""
        if not self._context.is_approved(tool, self.step):
            policies.append(Policy(None, AgentTool(name=spec.reference, approve="always")))
            note = f"{tool} is not in the plan that was approved for step {self.step.id}."
        allowed = await approve_call(add_defaults(call, spec), spec, policies, frame, note=note)
        # Noted before the call: a step that is broken off in it may have had its effect, and is not called cancelled
        # then.
        self._note_calls(tool)
        result = await box.run(allowed, spec, frame)
        self._note_calls(*box.inner_calls)
        return result


def _outcome_of(result: object) -> CallOutcome | CallError:
    error = kind_of_result(result)
    if error is None:
        return CallOutcome(useful(result))
    kind, message = error
    return CallError(kind, kind, message)


def _misfit(spec: ToolSpec, args: JSONObject) -> str | None:
    try:
        return misfit(spec.parameters, args) or None
    except BadSchema as error:
        return str(error)
