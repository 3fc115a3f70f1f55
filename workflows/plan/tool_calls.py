"""One call of a tool for a step of a plan: leave is asked, errors are told apart, and a person reconnects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.blueprint.jsonschemas import BadSchema, misfit
from holdfast.blueprint.kinds import Agent, AgentTool, PlanStep
from holdfast.blueprint.kinds.references import AGENT, IMPORT
from holdfast.blueprint.plan.tools import lack_of
from holdfast.protocol.agents import FindTool, ToolCall, ToolSpec
from holdfast.protocol.events import StepRetrying, ToolDenied
from holdfast.protocol.tool_errors import ErrorKind, kind_of_failure, kind_of_result, useful
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, failure_of
from holdfast.workflows.frame import Frame
from holdfast.workflows.permissions import Denied, Policy, permitted, speaks_of, with_defaults
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.errors import Tally
from holdfast.workflows.plan.questions import reconnected
from holdfast.workflows.toolbox import Toolbox, described_here


@dataclass(frozen=True)
class Succeeded:
    """A call that gave something."""

    data: Any


@dataclass(frozen=True)
class Failed:
    """A call that failed; `kind` None: in a way that trying again does not mend."""

    kind: ErrorKind | None
    type: str
    message: str


class ToolCaller:
    """Calls the tools of one step; what it learns of them is kept for all its calls."""

    def __init__(self, step: PlanStep, desk: PlanContext) -> None:
        self._step, self._desk = step, desk
        self.agent: Agent = desk.ruling(step)
        self.specs = desk.specs
        self._calls = 0

    async def learn(self, tool: str) -> Failed | None:
        """Find out what a tool takes; gives the error of one that is not there, or that the agent may not use."""
        lack = lack_of(tool, self._step, self._desk.author, self.agent)
        if lack is not None:
            kind: ErrorKind | None = "tool_missing" if lack.type == "unknown_tool" else None
            return Failed(kind, lack.type, f"{lack.message}; {lack.hint}" if lack.hint else lack.message)
        if tool in self.specs:
            return None
        try:
            [spec] = await self._described(tool)
        except HANDLED as error:
            if is_cancelled(error):
                raise
            what = failure_of(error, self._desk.frame.address)
            return Failed(kind_of_failure(what.type, what.message), what.type, what.message)
        except ValueError:
            return Failed(None, "bad_tool", f"{tool!r} is more than one tool: name one of them")
        self.specs[tool] = spec
        return None

    async def _described(self, tool: str) -> list[ToolSpec]:
        frame = self._desk.frame
        if tool.startswith((AGENT, IMPORT)):
            return described_here([AgentTool(name=tool)], frame.blueprint)
        return await frame.host.activities.describe_tools([tool])

    async def call(
        self, tool: str, args: dict[str, Any], frame: Frame, tally: Tally, id_: str = ""
    ) -> Succeeded | Failed:
        """What a call gives. One that lacks authorisation is made again once a person has reconnected the tool."""
        while True:
            outcome = await self._once(tool, args, frame, id_)
            if (
                not isinstance(outcome, Failed)
                or outcome.kind != "authorisation"
                or not tally.may_retry("authorisation")
            ):
                return outcome
            match await reconnected(tool, outcome.message, self._desk, self._step):
                case "cancelled":
                    return Failed(None, "cancelled", f"a person cancelled {self._step.id}")
                case "no":
                    return outcome
            frame.note(StepRetrying(tool=tool))

    async def _once(self, tool: str, args: dict[str, Any], frame: Frame, id_: str) -> Succeeded | Failed:
        spec = self.specs[tool]
        wrong = _misfit(spec, args)
        if wrong is not None:
            return Failed("bad_parameters", "tool_input", f"the arguments of {tool} do not fit: {wrong}")
        self._calls += 1
        call = ToolCall(id=id_ or f"call_{self._calls}", name=spec.name, args=args)
        box = Toolbox(self.agent, self.agent.tools, [spec], unsure_is_final=True)
        here = frame.at("tool", spec.name, call.id)
        try:
            whole = with_defaults(call, spec)
            allowed = await permitted(whole, box.settings(spec), spec, self.agent, here, self._others(spec))
            self._desk.scope.note_call(self._step.id, tool)
            result = await box.run(allowed, spec, here)
        except Denied as denied:
            here.note(ToolDenied(tool=tool, reason=str(denied)))
            return Failed(None, "not_approved", str(denied))
        except HANDLED as error:
            what = failure_of(error, here.address)
            if is_cancelled(error) or what.final:
                raise
            return Failed(kind_of_failure(what.type, what.message), what.type, what.message)
        return _made(result)

    def _others(self, spec: ToolSpec) -> list[Policy]:
        """Who has a say beside the agent whose tools they are."""
        agents = [agent for agent in self._desk.also_ruling(self._step) if speaks_of(agent, spec)]
        return [Policy(agent, Toolbox(agent, agent.tools, [spec]).settings(spec)) for agent in agents]

    async def other_tool(self, tool: str) -> str | None:
        """Another tool that does what the step wants, in the place of one that is not there."""
        among = [one.name for one in self.agent.tools]
        wanted = FindTool(service=self._step.service, instruction=self._step.instruction, among=among, missing=tool)
        found = await self._desk.frame.host.activities.find_tool(wanted)
        return found if found not in (tool, None) else None


def _made(result: Any) -> Succeeded | Failed:
    said = kind_of_result(result)
    if said is None:
        return Succeeded(useful(result))
    kind, message = said
    return Failed(kind, kind, message)


def _misfit(spec: ToolSpec, args: dict[str, Any]) -> str | None:
    try:
        return misfit(spec.parameters, args) or None
    except BadSchema as error:
        return str(error)
