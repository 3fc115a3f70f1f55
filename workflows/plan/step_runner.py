"""One step of a plan under the scheduler: a question, an agent's work, or tools with arguments from a model."""

from __future__ import annotations

from dataclasses import replace

from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.expressions.lists import LIST_OUTPUT
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.plan import asks
from holdfast.blueprint.plan.references import references_of
from holdfast.blueprint.plan.tools import TOOL_ERRORS, TOOL_ERRORS_AS_WRITTEN
from holdfast.protocol.agents import Message, ModelReply, ModelRequest, ToolCall
from holdfast.protocol.plans import UnitResult, text_of_result
from holdfast.workflows.agents import AgentCall, add_own_limits, ask_model, run_agent, tell_misfit
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, find_failure
from holdfast.workflows.plan.questions import ask
from holdfast.workflows.plan.results import Ended, end_by_error, failed, name_error
from holdfast.workflows.plan.scope import StepRun
from holdfast.workflows.plan.step_tools import CallOutcome, StepTools
from holdfast.workflows.tool_calls import ToolErrorFailure
from holdfast.workflows.toolbox import ASK_PERSON, ask_person, describe_person

RESULT_SHOWN = 20_000
"""Most characters of a result that a model is shown without a reference to it."""


async def run_step(run: StepRun) -> None:
    """Run a step to its end; a failure is a result, too."""
    await run.frame.host.until_resumed()
    try:
        await run.start()
        result = await _result(run)
    except HANDLED as error:
        cause = find_failure(error, run.frame.address)
        if is_cancelled(error) or cause.final:
            raise
        is_of_tool = isinstance(error, ToolErrorFailure)
        result = end_by_error(cause, optional=run.step.optional) if is_of_tool else failed(cause.type, cause.message)
    run.finish(result)


async def _result(run: StepRun) -> UnitResult:
    if asks(run.step):
        answer = await ask(run)
        if answer.status != "completed" or not run.step.tools:
            return answer
    return await _ToolStep(run).work() if run.step.tools else await _agents_work(run)


async def _agents_work(run: StepRun) -> UnitResult:
    """Return what an agent gives for the instruction: a text, or data."""
    opening = [Message(role="user", content=run.scope.fill(run.step.instruction))]
    call = run.scope.context.toolless_call(run.step)
    if run.feeds_loop:
        call = _asking_for_list(call)
    try:
        output = (await run_agent(call, opening, run.frame, surroundings(run))).output
    except HANDLED as error:
        cause = find_failure(error, run.frame.address)
        if call.agent.output_schema != LIST_OUTPUT or cause.type != "output_invalid" or cause.output is None:
            raise
        output = cause.output  # still no list: the loop asks a person for its items, or fails, or has one item
    if isinstance(output, str):
        return UnitResult(status="completed", response=output)
    return UnitResult(status="completed", response=text_of_result(output), data=output)


def _asking_for_list(call: AgentCall) -> AgentCall:
    """Return the call of an agent whose output a loop goes through; an author's own schema counts more."""
    if call.agent.output_schema is not None:
        return call
    return replace(call, agent=call.agent.model_copy(update={"output_schema": LIST_OUTPUT}))


def surroundings(run: StepRun) -> str:
    """Return what a model gets of the plan around a step, beside the step's instruction."""
    step, scope = run.step, run.scope
    lines = [f"You work on one step of a plan, and on nothing else. The plan's goal: {scope.context.plan.goal}"]
    lines.append(f"The step: {step.id}{f', {step.title}' if step.title else ''}")
    if step.expected_result:
        lines.append(f"Expected result: {step.expected_result}")
    if run.feeds_loop:
        lines.append("Return a list: the plan continues with each of its items.")
    if scope.context.task is not None:
        lines.append(f"Input of the plan: {_shown(scope.context.task)}")
    referred = {str(reference) for reference in references_of(step.instruction)}
    if scope.around and "CURRENT_ITEM" not in referred:
        item = scope.around[-1]
        lines.append(f"It runs once for each item; this is item {item.index}: {_shown(item.item)}")
    for id_ in run.unit.needs:
        need = scope.lookup(id_)
        if f"RESULT_FROM_{id_}" not in referred and need.succeeded:
            lines.append(f"Result of {id_}: {_shown(need.value)}")
    return "\n".join(lines)


def _shown(value: object) -> str:
    text = text_of(value)
    return text if len(text) <= RESULT_SHOWN else f"{text[:RESULT_SHOWN]}…"


class _ToolStep:
    """The tools of one step, in their order, with arguments from a model; a tool that is done is not called again."""

    def __init__(self, run: StepRun) -> None:
        self.run, self.step = run, run.step
        self.agent_call = run.scope.context.agent_call(run.step)
        self.frame = add_own_limits(run.beside("step", run.id), self.agent_call)
        rules = TOOL_ERRORS if run.step.arguments is None else TOOL_ERRORS_AS_WRITTEN
        self.tools = StepTools(run, self.frame, rules, self._replace)
        self.open = list(run.step.tools)
        """Tools that are still to be called."""
        self.done_before: set[str] = set()
        """Tools that were done by an earlier reply."""
        self.text = ""
        """The model's text beside its last calls."""
        self.requests = 0
        self.messages = [Message(role="user", content=self._instruction())]

    def _instruction(self) -> JSON:
        instruction = self.run.scope.fill(self.step.instruction)
        if asks(self.step):
            return f"A person has agreed to this: {text_of(instruction)}"
        return instruction or f"Call {', '.join(self.step.tools)}."

    async def work(self) -> UnitResult:
        """Return how the step ends."""
        try:
            while self.open:
                for tool in list(self.open):
                    await self._look_up(tool)
                await (self._turn() if self.step.arguments is None else self._call_as_written())
        except Ended as end:
            return end.result
        data = self.tools.returned[-1]["data"]
        return UnitResult(status="completed", response=self.text or text_of_result(data), data=data)

    async def _turn(self) -> None:
        """Ask the model for calls, and make them."""
        if self.requests >= self.agent_call.agent.max_turns:
            raise Ended(failed("max_turns", f"{self.step.id} was not done in {self.requests} requests to the model"))
        reply = await self._reply()
        if reply.problem is not None:
            self._correct(reply, reply.problem)
        elif reply.tool_calls:
            await self._make_calls(reply)
        else:
            self._correct(reply, f"call {self.open[0]}: the step is done by it", "no_tool_result")

    async def _call_as_written(self) -> None:
        """Call the only tool with the arguments in the plan; one that is missing is replaced, and its other called."""
        await self._call_tool(self.open[0], self.run.scope.fill(self.step.arguments))

    async def _look_up(self, tool: str) -> None:
        """Look a tool up; one that is missing is replaced by another, if there is one."""
        try:
            await self.tools.look_up(tool)
        except HANDLED as error:
            cause = find_failure(error, self.frame.address)
            if is_cancelled(error) or name_error(cause) != "missing":
                raise
            await self.tools.calls.replace(tool, cause, self.frame)

    async def _replace(self, tool: str) -> str | None:
        """Put another tool in place of one that is missing; return what the model calls it, None if there is none."""
        other = await self.tools.find_replacement(tool)
        if other is None:
            return None
        self.open = [other if name == tool else name for name in self.open if name != other]
        if other not in self.open:
            self.open.append(other)
        return self.tools.spec(other).name

    async def _reply(self) -> ModelReply:
        specs = [self.tools.spec(tool) for tool in self.open]
        if self._may_ask:
            specs.append(describe_person())
        agent = self.agent_call.agent
        self.requests += 1
        instructions = text_of(self.frame.render(agent.instructions))
        request = ModelRequest(
            step=self.step.id,
            agent=self.agent_call.name,
            model=agent.model,
            instructions=f"{instructions}\n\n{surroundings(self.run)}".strip(),
            messages=self.messages,
            tools=specs,
            settings=agent.model_settings,
        )
        return await ask_model(request, self.agent_call, self.frame, self.step.id)

    @property
    def _may_ask(self) -> bool:
        return "ask" in self.agent_call.agent.human

    def _correct(self, reply: ModelReply, problem: str, type_: str = "tool_input") -> None:
        """Give the model's reply back with its problem, as long as there is a retry."""
        self.tools.refuse(self.open[0], f"{self.step.id}: {problem}", type_)
        self.messages = [*self.messages, *tell_misfit(reply, problem)]

    async def _make_calls(self, reply: ModelReply) -> None:
        """Make the calls of a reply in their order, up to the first that fails; every call gets one result."""
        results: list[Message] = []
        self.done_before = {call["tool"] for call in self.tools.returned}
        calls = [call.model_copy(update={"id": call.id or f"call_{n}"}) for n, call in enumerate(reply.tool_calls, 1)]
        erred = False
        for call in calls:
            content: JSON = "not called, as the one before failed"
            if not erred:
                content, erred = await self._make_call(call)
            results.append(Message(role="tool", call=call.id, tool=call.name, content=content))
        self.text = reply.output if isinstance(reply.output, str) and reply.output.strip() else ""
        assistant = Message(role="assistant", content=reply.output, tool_calls=calls, raw=reply.raw)
        self.messages = [*self.messages, assistant, *results]

    async def _make_call(self, call: ToolCall) -> tuple[JSON, bool]:
        """Make a call; return its result for the model, and whether it failed."""
        if call.name == ASK_PERSON and self._may_ask:
            return await ask_person(call, self.frame.at("tool", call.name, call.id)), False
        tool = self._tool_called(call.name)
        if call.unreadable is not None:
            attempt = self.tools.refuse(call.name, f"the arguments cannot be read: {call.unreadable}")
        elif tool is None:
            names = ", ".join(self.tools.spec(tool).name for tool in self.open)
            attempt = self.tools.refuse(call.name, f"this step has no tool {call.name!r}; call {names}")
        elif (earlier := self._earlier_result(call, tool)) is not None:
            return earlier[0], False
        else:
            attempt = await self._call_tool(tool, call.args)
        return (attempt.data, False) if attempt.error is None else (f"error: {attempt.error.message}", True)

    def _earlier_result(self, call: ToolCall, tool: str) -> tuple[JSON] | None:
        """Return the result for a call that is not made again, as it was made before; None for any other."""
        for made in self.tools.returned:
            if (made["tool"], made["parameters"]) == (tool, call.args):
                return (made["data"],)
        if tool not in self.open and tool in self.done_before:
            return (f"{call.name} was done before, and is not run again; call {self.open[0]}",)
        return None

    def _tool_called(self, name: str) -> str | None:
        """Return the tool that the model means, of those that are to be called, else of those that are done."""
        tools = [*self.open, *(call["tool"] for call in self.tools.returned)]
        return next((tool for tool in tools if self.tools.spec(tool).name == name), None)

    async def _call_tool(self, tool: str, args: JSONObject) -> CallOutcome:
        """Call a tool; one that fails is still to be called, though another call of it may have succeeded."""
        is_open = tool in self.open
        attempt = await self.tools.call(tool, args)
        if attempt.error is None and is_open:
            self.open.remove(tool)
        elif attempt.error is not None and not is_open and tool not in self.open:
            self.open.append(tool)
        return attempt
