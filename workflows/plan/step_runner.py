"""One step of a plan, done by the engine: a question, an agent's work, or tools with arguments from a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.plan import StepUnit, asks
from holdfast.blueprint.plan.lists import LIST_OUTPUT
from holdfast.protocol.agents import Message, ModelReply, ModelRequest, ToolCall, Usage
from holdfast.protocol.events import StepRetrying, StepStarted
from holdfast.protocol.plans import StepResult, said
from holdfast.workflows.agents import AgentCall, ask_model, misfit_told, run_agent, within_own_limits
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, failure_of
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.errors import Tally, failed, given_up
from holdfast.workflows.plan.questions import DECLINED, agreed, ask
from holdfast.workflows.plan.telling import tell
from holdfast.workflows.plan.tool_calls import Failed, Succeeded, ToolCaller
from holdfast.workflows.toolbox import ASK_PERSON, ask_person, person

Json = dict[str, Any]


async def perform(unit: StepUnit, desk: PlanContext) -> StepResult:
    """Do the step to its end, and tell of it; a failure is a result, too."""
    step = unit.step
    kind = "hitl" if asks(step) else "step"
    here = desk.frame.at(kind, step.id)
    await here.host.until_resumed()
    here.note(StepStarted(name=step.id, kind=kind, title=step.title))
    try:
        await here.within_limits()
        here.meter.count(Usage(steps=1))
        here.host.count(Usage(steps=1))
        result = await _done(unit, desk)
    except HANDLED as error:
        what = failure_of(error, here.address)
        if is_cancelled(error) or what.final:
            raise
        result = failed(what.type, what.message)
    tell(here, step.id, kind, result)
    return result


async def _done(unit: StepUnit, desk: PlanContext) -> StepResult:
    step = unit.step
    if asks(step):
        answer = await ask(step, desk)
        if answer.status != "completed" or not step.tools:
            return answer
        if not agreed(step, answer):
            return StepResult(status="skipped", reason=DECLINED, response=answer.response)
    if step.tools:
        return await _ToolStep(unit, desk).done()
    return await _agents_work(unit, desk)


async def _agents_work(unit: StepUnit, desk: PlanContext) -> StepResult:
    """What an agent gives for the instruction: a text, or data."""
    here = desk.frame.at("step", unit.id)
    value = desk.scope.fill(unit.step.instruction)
    opening = [Message(role="user", content=value)]
    asking = desk.worker(unit.step)
    if desk.scope.layout.feeds_loop(unit.id):
        asking = _asking_for_list(asking)
    try:
        output = (await run_agent(asking, opening, here, desk.told(unit))).output
    except HANDLED as error:
        what = failure_of(error, here.address)
        wanted = asking.agent.output_schema == LIST_OUTPUT and what.type == "output_invalid"
        if not wanted or what.output is None:
            raise
        output = what.output  # it stays no list: the loop asks a person what it lists, or fails, or has one item
    if isinstance(output, str):
        return StepResult(status="completed", response=output)
    return StepResult(status="completed", response=said(output), data=output)


def _asking_for_list(asking: AgentCall) -> AgentCall:
    """Return who works on a step that a loop goes through, asked for a list, unless its author asks for something."""
    if asking.agent.output_schema is not None:
        return asking
    return replace(asking, agent=asking.agent.model_copy(update={"output_schema": LIST_OUTPUT}))


class _ToolStep:
    """The tools of one step, in their order: those that are done are not run again, whatever the next one does."""

    def __init__(self, unit: StepUnit, desk: PlanContext) -> None:
        self.unit, self.step, self.desk = unit, unit.step, desk
        self.asking = desk.asking(unit.step)
        self.frame = within_own_limits(desk.frame.at("step", unit.id), self.asking)
        self.caller = ToolCaller(unit.step, desk)
        self.left = list(unit.step.tools)
        self.given: list[Json] = []
        self.before: set[str] = set()
        """Tools that were done by an earlier reply: they are not run again."""
        self.words = ""
        """What the model said beside its last calls."""
        self.tally = Tally()
        self.requests = 0
        self.messages = [Message(role="user", content=self._instruction())]

    def _instruction(self) -> Any:
        if asks(self.step):
            return f"A person has agreed to this: {text_of(self.desk.scope.fill(self.step.instruction))}"
        return self.desk.scope.fill(self.step.instruction) or f"Call {', '.join(self.step.tools)}."

    async def done(self) -> StepResult:
        """Return how the step ends; of one that fails, what its tools gave before."""
        result = await self._work()
        if result.status != "failed":
            return result
        known = self.desk.scope.steps.get(self.step.id)
        return result.model_copy(
            update={"tool_results": self._given_by_tools(), "called": known.called if known else []}
        )

    async def _work(self) -> StepResult:
        while self.left:
            if self.requests >= self.asking.agent.max_turns:
                return failed("max_turns", f"{self.step.id} was not done in {self.requests} requests to the model")
            for tool in list(self.left):
                if (ending := await self._learn(tool)) is not None:
                    return ending
            reply = await self._reply()
            if reply.problem is not None:
                ending = self._corrected(reply, reply.problem)
            elif reply.tool_calls:
                ending = await self._calls(reply)
            else:
                ending = self._corrected(reply, f"call {self.left[0]}: the step is done by it", "no_tool_result")
            if ending is not None:
                return ending
        data = self.given[-1]["data"]
        return StepResult(
            status="completed", response=self.words or said(data), data=data, tool_results=self._given_by_tools()
        )

    def _given_by_tools(self) -> list[Json]:
        return [{"tool": one["tool"], "data": one["data"]} for one in self.given]

    async def _learn(self, tool: str) -> StepResult | None:
        """Look a tool up; one that is not there is replaced by another, if there is one."""
        missing = await self.caller.learn(tool)
        if missing is None:
            return None
        if missing.kind == "tool_missing" and self.tally.may_retry("tool_missing"):
            other = await self.caller.other_tool(tool)
            if other is not None and await self.caller.learn(other) is None:
                self.frame.note(StepRetrying(tool=other, instead_of=tool))
                self.left[self.left.index(tool)] = other
                return None
        return failed(missing.kind or missing.type, missing.message)

    async def _reply(self) -> ModelReply:
        specs = [self.caller.specs[tool] for tool in self.left]
        if "ask" in self.asking.agent.human:
            specs.append(person())
        agent = self.asking.agent
        self.requests += 1
        request = ModelRequest(
            step=self.step.id,
            agent=self.asking.name,
            model=agent.model,
            instructions=f"{text_of(self.frame.render(agent.instructions))}\n\n{self.desk.told(self.unit)}".strip(),
            messages=self.messages,
            tools=specs,
            settings=agent.settings,
        )
        return await ask_model(request, self.asking, self.frame, self.step.id)

    def _corrected(self, reply: ModelReply, problem: str, kind: str = "bad_parameters") -> StepResult | None:
        """Tell the model what is wrong with its reply, as long as it may try again."""
        if not self.tally.may_retry("bad_parameters"):
            return failed(kind, f"{self.step.id}: {problem}")
        self.messages = [*self.messages, *misfit_told(reply, problem)]
        return None

    async def _calls(self, reply: ModelReply) -> StepResult | None:
        """Make the calls of a reply in their order, up to the first that fails; every call gets one result."""
        results: list[Message] = []
        self.before = {one["tool"] for one in self.given}
        calls = [call.model_copy(update={"id": call.id or f"call_{n}"}) for n, call in enumerate(reply.tool_calls, 1)]
        ending: StepResult | None = None
        erred = False
        for call in calls:
            if erred:
                told: Any = "not called, as the one before failed"
            else:
                told, ending, erred = await self._call(call)
            if ending is not None:
                return ending
            results.append(Message(role="tool", call=call.id, tool=call.name, content=told))
        self.words = reply.output if isinstance(reply.output, str) and reply.output.strip() else ""
        said_ = Message(role="assistant", content=reply.output, tool_calls=calls, raw=reply.raw)
        self.messages = [*self.messages, said_, *results]
        return None

    async def _call(self, call: ToolCall) -> tuple[Any, StepResult | None, bool]:
        """What the model is told of a call; how the step ends with it, if it does; whether the call failed."""
        if call.name == ASK_PERSON and "ask" in self.asking.agent.human:
            async with self.desk.one_question:
                return await ask_person(call, self.frame.at("tool", call.name, call.id)), None, False
        tool = next((tool for tool in self.left if self.caller.specs[tool].name == call.name), None)
        again = next((one["tool"] for one in self.given if self.caller.specs[one["tool"]].name == call.name), None)
        outcome: Succeeded | Failed
        if call.unreadable is not None:
            outcome = Failed("bad_parameters", "tool_input", f"the arguments cannot be read: {call.unreadable}")
        elif (meant := tool or again) is None:
            known = ", ".join(self.caller.specs[tool].name for tool in self.left)
            outcome = Failed("bad_parameters", "unknown_tool", f"this step has no tool {call.name!r}; call {known}")
        elif (same := self._given(meant, call.args)) is not None:
            return same["data"], None, False
        elif tool is None and meant in self.before:
            told = f"{call.name} was done before, and is not run again; call {self.left[0]}"
            return told, None, False
        else:
            outcome = await self.caller.call(meant, call.args, self.frame, self.tally)
            if isinstance(outcome, Succeeded):
                self.given.append({"tool": meant, "parameters": call.args, "data": outcome.data})
                if tool is not None:
                    self.left.remove(tool)
                return outcome.data, None, False
            if tool is None and outcome.kind is not None:
                self.left.append(meant)  # it is to be called once more, though another call of it succeeded
                tool = meant
        return await self._erred(outcome, tool)

    def _given(self, tool: str, args: Json) -> Json | None:
        """What the very same call gave before."""
        return next((one for one in self.given if one["tool"] == tool and one["parameters"] == args), None)

    async def _erred(self, outcome: Failed, tool: str | None) -> tuple[Any, StepResult | None, bool]:
        told = f"error: {outcome.message}"
        if outcome.kind is None:
            return told, failed(outcome.type, outcome.message), True
        if outcome.kind in ("authorisation", "timeout") or not self.tally.may_retry(outcome.kind):
            return told, given_up(outcome.kind, outcome.message, optional=self.step.optional), True
        self.frame.note(StepRetrying(error=outcome.kind, message=outcome.message))
        if outcome.kind == "tool_missing" and tool is not None:
            other = await self.caller.other_tool(tool)
            if other is None or await self.caller.learn(other) is not None:
                return told, failed("tool_missing", outcome.message), True
            self.left[self.left.index(tool)] = other
            told = f"{told}. Call {self.caller.specs[other].name} in its place"
        return told, None, True
