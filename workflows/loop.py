"""One loop, in a history of its own: between iterations it may continue as new."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from temporalio import workflow

from blueprint.expressions import ExpressionError, text_of
from blueprint.grammar import HistoryManagement, Loop, LoopBlock, Operation
from protocol.address import Address, parts, segment
from protocol.agents import ToolRequest
from protocol.questions import Decision
from protocol.runs import LOOP_WORKFLOW, Failure, LoopDefinition, LoopResult, LoopState
from workflows.agents import Asking, run_agent
from workflows.failures import HANDLED, failure, failure_of, raised
from workflows.frame import HISTORY, Frame, Scope, Store, history_of
from workflows.host import Host, inherited
from workflows.interpreter import run_steps
from workflows.limits import Meter
from workflows.together import is_cancelled
from workflows.tools import call_tool

MOST_EVENTS = 1_000
MOST_UPDATES = 1_500
CHARACTERS_PER_TOKEN = 4


class LoopFailed(Exception):
    """What failed in this loop, with its exit reason."""

    def __init__(self, reason: str, what: Failure) -> None:
        super().__init__(what.message)
        self.reason, self.what = reason, what


@workflow.defn(name=LOOP_WORKFLOW, failure_exception_types=[ExpressionError])
class LoopWorkflow(Host):
    """The iterations of one loop. A continued loop is the same loop: iteration numbers and event offsets go on."""

    @workflow.init
    def __init__(self, definition: LoopDefinition, state: LoopState) -> None:
        super().__init__(**inherited(definition, state))
        self.definition, self.state = definition, state
        (self.step,) = (step for step in definition.blueprint.steps if isinstance(step, Loop))
        self.store = Store(state.context, definition.blueprint.context_schema)
        self.meter = Meter(state.budgets)
        self.first_iteration = state.iteration
        self.longest = 0
        self.exit: dict[str, Any] = {}
        if state.iteration:
            self.iteration = state.iteration

    @property
    def block(self) -> LoopBlock:
        return self.step.loop

    def current_context(self) -> dict[str, Any]:
        return self.store.value

    @workflow.run
    async def run(self, definition: LoopDefinition, state: LoopState) -> LoopResult:
        shown = asyncio.create_task(self.keep_shown())
        try:
            return await self._iterate()
        except LoopFailed as failed:
            self._completed(failed.reason)
            await self.close("failed")
            reason = failed.what.reason or failed.reason
            kept = {"reason": reason, "context": self.state.context, "usage": self.usage}
            raise raised(failed.what.model_copy(update=kept)) from failed.__cause__
        except (asyncio.CancelledError, *HANDLED):  # `_iterate` lets nothing else through than a cancellation
            self._completed("cancelled")
            await self.close("cancelled")
            raise
        finally:
            shown.cancel()

    async def _iterate(self) -> LoopResult:
        while True:
            await self.until_resumed()
            if self._history_is_long():
                await self._continue()
            before = workflow.info().get_current_history_length()
            frame = await self._iteration()
            if await self._exit_holds(frame):
                return await self._finish(frame, "condition")
            if not await self._may_go_on(frame):
                return await self._finish(frame, "max_loops")
            await self._propagate(frame)
            self.longest = max(self.longest, workflow.info().get_current_history_length() - before)

    async def _iteration(self) -> Frame:
        """Run the body once, on a fork of the context that is taken over when the iteration is done."""
        number = self.iteration = self.state.iteration + 1
        self.store = Store(self.state.context, self.definition.blueprint.context_schema)
        frame = self._frame(number, self.store)
        frame.note("loop.iteration", iteration=number)
        given = self.state.input
        if number == 1:
            given = await self._begin(frame.after(given))
        output = await self._guard("body_step_error", frame, run_steps(self.block.body, frame, given))
        await self._guard("body_step_error", frame, self._shorten_history(frame))
        answer = frame.scope.resume_input
        self._advance(iteration=number, context=self.store.value, output=output, resume_input=answer)
        return frame.after(output)

    def _frame(self, number: int, store: Store) -> Frame:
        definition = self.definition
        return Frame(
            host=self,
            address=self._address(number),
            blueprint=definition.blueprint,
            store=store,
            scope=Scope(outer=Scope(dict(definition.steps)), resume_input=self.state.resume_input),
            run_steps=run_steps,
            names={**definition.names, "input": definition.input, "iteration": number},
            n=number,
            iteration=number,
            turn_source=self.block.ai_turn_source,
            conversing=self.block.conversation,
            place=f"{self.step.name} {number}",
            meter=self.meter,
        )

    def _address(self, number: int) -> Address:
        """The loop's address with its iteration: `…;loop:clarify:2`."""
        parent, _, _ = self.address.rpartition(";")
        return Address(f"{parent};{segment('loop', parts(self.address)[-1][1], number)}")

    async def _begin(self, frame: Frame) -> Any:
        """`init`, once, before iteration 1, on the iteration's own context; gives iteration 1's input."""
        return await self._guard("initial_input_mapper_error", frame, self._initialise(frame))

    async def _initialise(self, frame: Frame) -> Any:
        block = self.block
        if block.conversation:
            self._start_conversation(frame)
        self._operate(block.init, frame)
        if block.initial_input_mapper is None:
            return frame.previous
        return await self._map(frame, block.initial_input_mapper, frame.previous, frame.store.value)

    def _start_conversation(self, frame: Frame) -> None:
        """The history is there, and begins with the loop's input unless `init` begins it."""
        frame.apply("set", HISTORY, history_of(frame.store.value))
        begun = any(operation.write.target == HISTORY for operation in self.block.init)
        if not begun and frame.previous is not None:
            frame.turn("User", frame.previous)

    def _operate(self, operations: list[Operation], frame: Frame) -> None:
        for operation in operations:
            frame.apply(operation.verb, operation.write.target, frame.render(operation.write.value))

    async def _shorten_history(self, frame: Frame) -> None:
        rule = self.block.history_management
        if rule is None:
            return
        history = history_of(frame.store.value)
        kept = newest(history, rule)
        if rule.strategy != "summarize":
            frame.apply("set", HISTORY, kept)
        elif len(history) > len(kept) + 1:  # one more is the summary itself
            summary = await self._summary(history[: len(history) - len(kept)], rule, frame)
            frame.apply("set", HISTORY, [f"Summary: {summary}", *kept])

    async def _summary(self, turns: list[str], rule: HistoryManagement, frame: Frame) -> str:
        asking = Asking.of(rule.agent or "", rule.agent or "", frame.blueprint)
        told = "\n".join(map(text_of, turns))
        return text_of((await run_agent(asking, told, frame.at("agent", asking.step))).output)

    async def _exit_holds(self, frame: Frame) -> bool:
        return bool(await self._guard("exit_condition_error", frame, self._test_exit(frame)))

    async def _test_exit(self, frame: Frame) -> bool:
        block = self.block
        if block.exit_condition is not None:
            met = await self._map(frame, block.exit_condition, frame.previous, frame.store.value)
            self.exit = {"expression": block.exit_condition, "value": met}
            return bool(met)
        if block.exit_expression is None:
            return False
        met, value = frame.holds(block.exit_expression)
        self.exit = {"expression": block.exit_expression, "value": value}
        return met

    async def _may_go_on(self, frame: Frame) -> bool:
        """Whether `max_loops` leaves another iteration; a loop that may not end there fails, or asks."""
        limit, done = self.block.max_loops, self.state.iteration
        if limit is None or done < limit + self.state.granted:
            return True
        match self.block.at_the_limit:
            case "finish":
                return False
            case "ask":
                return bool(await self._guard("max_loops", frame, self._ask_for_more(frame, limit)))
            case _:
                text = f"loop {self.step.name} did not meet its exit in {done} iterations"
                raise LoopFailed("max_loops", Failure(type="max_loops", message=text, address=self.address))

    async def _ask_for_more(self, frame: Frame, limit: int) -> bool:
        more = [{"id": "more", "label": f"{limit} more"}, {"id": "finish"}, {"id": "fail"}]
        text = f"Loop {self.step.name} has not met its exit in {self.state.iteration} iterations. Go on?"
        reply = await frame.at("hitl", "max_loops").ask(Decision.model_validate({"message": text, "options": more}))
        if reply.content == "more":
            self._advance(granted=self.state.granted + limit)
        elif reply.content != "finish":
            raise failure("max_loops", f"loop {self.step.name} was ended by {reply.by or 'somebody'}", self.address)
        return bool(reply.content == "more")

    async def _propagate(self, frame: Frame) -> None:
        given = await self._guard("iteration_input_mapper_error", frame, self._next_input(frame))
        self._advance(input=given, context=frame.store.value)

    async def _next_input(self, frame: Frame) -> Any:
        self._operate(self.block.state, frame)
        mapper = self.block.iteration_input_mapper
        if mapper is not None:
            return await self._map(frame, mapper, frame.previous, frame.store.value, self.state.iteration)
        match self.block.propagation.next_input:
            case "context":
                return frame.store.value
            case "previous_output":
                return frame.previous
            case template:
                return _read_json(frame.render(template))

    async def _finish(self, frame: Frame, reason: str) -> LoopResult:
        output = await self._guard("loop_output_mapper_error", frame, self._output(frame))
        self._completed(reason, output)
        await self.close("completed")
        return LoopResult(
            output=output,
            context=frame.store.value,
            reason=reason,
            iterations=self.state.iteration,
            usage=self.usage,
            permits=self.permits,
            budgets=self.meter.budgets,
        )

    async def _output(self, frame: Frame) -> Any:
        block = self.block
        if block.loop_output_mapper is not None:
            return await self._map(frame, block.loop_output_mapper, frame.previous, frame.store.value)
        if block.output_template is not None:
            return frame.render(block.output_template)
        return frame.previous if block.output is None else frame.render(block.output)

    async def _map(self, frame: Frame, function: str, *args: Any) -> Any:
        return await call_tool(ToolRequest(tool=function, args=list(args)), frame, function)

    async def _guard(self, reason: str, frame: Frame, work: Any) -> Any:
        """A failure of the work is a failed loop with this exit reason."""
        try:
            return await work
        except HANDLED as error:
            if is_cancelled(error):
                raise
            what = failure_of(error, frame.address)
            raise LoopFailed("limit" if what.type == "limit_reached" else reason, what) from error

    def _completed(self, reason: str, output: Any = None) -> None:
        self.note(
            self.address, "loop.completed", reason=reason, iterations=self.state.iteration, output=output, **self.exit
        )

    def _advance(self, **changes: Any) -> None:
        self.state = self.state.model_copy(update=changes)

    def _history_is_long(self) -> bool:
        done = self.state.iteration - self.first_iteration
        if done == 0:
            return False
        info = workflow.info()
        return (
            done >= self.block.checkpoint_every
            or info.get_current_history_length() + self.longest > MOST_EVENTS
            or info.is_continue_as_new_suggested()
            or self.questions.taken >= MOST_UPDATES
        )

    async def _continue(self) -> None:
        """The same loop in a fresh history. What is carried: the state, no events."""
        state = self.state.model_copy(update={**await self.carried(), "budgets": self.meter.budgets})
        workflow.continue_as_new(args=[self.definition, state])


def newest(history: list[str], rule: HistoryManagement) -> list[str]:
    """The last turns, as many as the rule keeps; at least one.

    >>> newest(["a" * 8, "b" * 8, "c" * 8], HistoryManagement(strategy="truncate_tokens", max_tokens=10, max_turns=2))
    ['bbbbbbbb', 'cccccccc']
    """
    kept = history if rule.max_turns is None else history[-rule.max_turns :]
    if rule.max_tokens is None:
        return kept
    while len(kept) > 1 and sum(len(text_of(turn)) for turn in kept) > rule.max_tokens * CHARACTERS_PER_TOKEN:
        kept = kept[1:]
    return kept


def _read_json(value: Any) -> Any:
    """A text that is a JSON object or list as that value; everything else as it is."""
    if not isinstance(value, str) or not value.strip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
