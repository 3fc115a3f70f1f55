"""The workflow of one loop; it continues as new between iterations, before its history gets long."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal, NamedTuple, TypeVar

from temporalio import workflow

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.texts import read_structure
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import HistoryManagement, Loop, LoopBlock, Operation, States
from holdfast.blueprint.kinds.loop_block import MOST_IDLE_ITERATIONS
from holdfast.protocol.address import Address, name_at, segment
from holdfast.protocol.agents import Message, ToolRequest
from holdfast.protocol.children import Failure, LoopDefinition, LoopResult, LoopState
from holdfast.protocol.events import AgentShortened, LoopCompleted, LoopIteration
from holdfast.protocol.names import LOOP_WORKFLOW
from holdfast.workflows.agents import AgentCall, run_agent
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, find_context, find_failure
from holdfast.workflows.frame import HISTORY, ContextStore, Frame, Scope, read_history
from holdfast.workflows.interpreter import run_steps
from holdfast.workflows.limits import ExhaustedLimit
from holdfast.workflows.machine import visit_state
from holdfast.workflows.run import RunWorkflow
from holdfast.workflows.tools import call_tool
from holdfast.workflows.turns import keep_newest

Guarded = TypeVar("Guarded")
OUTPUT_FAILED = "loop_output_mapper_error"


class Failing(NamedTuple):
    """Why a loop fails, and where; the reason is that of its exit."""

    reason: str
    address: Address


@workflow.defn(name=LOOP_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
class LoopWorkflow(RunWorkflow):
    """A workflow that runs the iterations of one loop."""

    definition: LoopDefinition
    state: LoopState

    @workflow.init
    def __init__(self, definition: LoopDefinition, state: LoopState) -> None:
        (self.step,) = (step for step in definition.blueprint.steps if isinstance(step, Loop | States))
        self.block: LoopBlock = self.step.loop
        super().__init__(definition, state, self.block.checkpoint_every)
        self.store = ContextStore(state.context, definition.blueprint.context_schema)
        self.exit: tuple[str | None, JSON] = (None, None)
        """The exit condition that was tested last, and its value."""
        self._failing = Failing("body_step_error", self.address)
        if state.iteration:
            self.host.progress.iteration = state.iteration

    def current_context(self) -> JSONObject:
        return self.store.value

    @workflow.run
    async def run(self, definition: LoopDefinition, state: LoopState) -> LoopResult:
        result = await self.run_to_undos(self._iterate(), self._make_result)
        if result is None:
            return LoopResult(reason="cancelled", iterations=self.state.iteration, **self.collect_result())
        return result

    def _make_result(self, ended: tuple[Frame, str, JSON]) -> LoopResult:
        frame, reason, output = ended
        return LoopResult(
            output=output,
            context=frame.store.value,
            reason=reason,
            iterations=self.state.iteration,
            resume_input=self.state.resume_input if self.state.heard else None,
            heard=self.state.heard,
            **self.collect_spending(),
        )

    async def _iterate(self) -> tuple[Frame, str, JSON]:
        """Return the last iteration's frame, the reason why it is the last, and the loop's output."""
        while True:
            await self.next_round()
            frame = await self._run_iteration()
            # The exit comes first: its expression sees the context as the iteration left it, before `state` changes it.
            if await self._exit_holds(frame):
                return await self._finish(frame, "condition")
            reached = self._find_reached_limit()
            if reached is not None and not await self._may_go_on(frame, reached):
                return await self._finish(frame, reached)
            await self._propagate(frame)

    async def _finish(self, frame: Frame, reason: str) -> tuple[Frame, str, JSON]:
        return frame, reason, await self._guard(OUTPUT_FAILED, frame, self._render_output(frame))

    def on_success(self, output: tuple[Frame, str, JSON]) -> None:
        """See base class."""
        _, reason, value = output
        self._note_completion(reason, value)

    def on_failure(self, error: BaseException) -> None:
        """See base class."""
        self._note_completion("cancelled" if is_cancelled(error) else self._failing.reason)

    def make_failure(self, error: BaseException) -> Failure:
        """See base class; the context of the completed iterations, and that of the failed one, are kept."""
        inner = find_context(error, self.address)
        cause = find_failure(error, self._failing.address)
        extra = {
            "reason": cause.reason or self._failing.reason,
            "context": self.state.context,
            "reached": self.store.value if inner is None else inner,
            "output": self.state.output if cause.output is None else cause.output,
            **self.collect_spending(),
        }
        if self._failing.reason == OUTPUT_FAILED:
            extra |= {"message": f"the iterations are done, but the output of the loop failed: {cause.message}"}
        return cause.model_copy(update=extra)

    async def _run_iteration(self) -> Frame:
        """Run the body once, on a fork of the context that replaces it when the iteration is done."""
        number = self.host.progress.iteration = self.state.iteration + 1
        self.store = ContextStore(self.state.context, self.definition.blueprint.context_schema)
        frame = self._frame(number, self.store)
        frame.note(LoopIteration(iteration=number))
        value = self.state.input
        if number == 1:
            value = await self._begin(frame.after(value))
        output = await self._guard("body_step_error", frame, self._body(frame, value))
        await self._guard("body_step_error", frame, self._shorten_history(frame))
        answer, heard = frame.scope.resume_input, self.state.heard or frame.scope.was_answered
        self.advance(iteration=number, context=self.store.value, output=output, resume_input=answer, heard=heard)
        return frame.after(output)

    async def _body(self, frame: Frame, value: JSON) -> JSON:
        if isinstance(self.step, States):
            output, following, visits = await visit_state(self.step, self.state, frame, value)
            self.advance(at=following, visits=visits)
            return output
        return await run_steps(self.block.body, frame, value, self.block.max_parallel)

    def _frame(self, number: int, store: ContextStore) -> Frame:
        definition = self.definition
        return self.frame(
            store,
            Scope(outer=Scope(dict(definition.steps)), resume_input=self.state.resume_input),
            {**definition.names, "input": definition.input, "iteration": number},
            address=self._address(number),
            iteration=number,
            turn_source=self.block.ai_turn_source,
            conversing=self.block.conversation,
            history_management=self.block.history_management,
            left_out=self.state.left_out,
            place=f"{self.step.name} {number}",
        )

    def _address(self, number: int) -> Address:
        """Return the loop's address with its iteration: `…;loop:clarify:2`."""
        parent, _, _ = self.address.rpartition(";")
        return Address(f"{parent};{segment('loop', name_at(self.address), number)}")

    async def _begin(self, frame: Frame) -> JSON:
        """Run `init` before iteration 1, on the iteration's own context; return iteration 1's input."""
        return await self._guard("initial_input_mapper_error", frame, self._initialise(frame))

    async def _initialise(self, frame: Frame) -> JSON:
        block = self.block
        if block.conversation:
            # Before `init`, which may append to the list.
            self._start_conversation(frame)
        self._operate(block.init, frame)
        if block.initial_input_mapper is None:
            return frame.previous
        return await self._map(frame, block.initial_input_mapper, frame.previous, frame.store.value)

    def _start_conversation(self, frame: Frame) -> None:
        """Create the history; it begins with the loop's input unless `init` writes it."""
        frame.apply("set", HISTORY, read_history(frame.store.value))
        begun = any(operation.write.target == HISTORY for operation in self.block.init)
        if not begun and frame.previous is not None:
            frame.turn("User", frame.previous)

    def _operate(self, operations: list[Operation], frame: Frame) -> None:
        for operation in operations:
            frame.operate(operation)

    async def _shorten_history(self, frame: Frame) -> None:
        rule = self.block.history_management
        if rule is None:
            return
        history = read_history(frame.store.value)
        kept = keep_newest(history, rule)
        dropped, summarizes = len(history) - len(kept), rule.strategy == "summarize"
        if not summarizes:
            frame.apply("set", HISTORY, kept)
            self.advance(left_out=self.state.left_out + dropped)
        elif dropped > 1:  # one more is the summary itself
            summary = await self._summary(history[:dropped], rule, frame)
            frame.apply("set", HISTORY, [f"Summary: {summary}", *kept])
        if dropped > summarizes:
            self.host.note(self.address, AgentShortened(turns=dropped, reason="rule", summarized=summarizes))

    async def _summary(self, turns: list[str], rule: HistoryManagement, frame: Frame) -> str:
        asking = AgentCall.of(rule.agent or "", rule.agent or "", frame.blueprint)
        opening = [Message(role="user", content="\n".join(map(write_text, turns)))]
        return write_text((await run_agent(asking, opening, frame.at("agent", asking.step))).output)

    async def _exit_holds(self, frame: Frame) -> bool:
        return bool(await self._guard("exit_condition_error", frame, self._test_exit(frame)))

    async def _test_exit(self, frame: Frame) -> bool:
        block = self.block
        if isinstance(self.step, States):
            return self.state.at in self.step.ends
        if block.exit_condition is not None:
            met = await self._map(frame, block.exit_condition, frame.previous, frame.store.value)
            self.exit = (block.exit_condition, met)
            return bool(met)
        if block.exit_expression is None:
            return False
        met, value = frame.holds(block.exit_expression)
        self.exit = (block.exit_expression, value)
        return met

    def _find_reached_limit(self) -> Literal["max_loops", "no_progress"] | None:
        """Return which limit allows no further iteration: the author's, or the ceiling of a loop without one."""
        waits = self._count_waits()
        self.advance(idle=0 if waits > self.state.questions else self.state.idle + 1, questions=waits)
        limit = self.block.max_loops
        if limit is None:
            return "no_progress" if self.state.idle >= MOST_IDLE_ITERATIONS else None
        return "max_loops" if self.state.iteration >= limit + self.state.granted else None

    async def _may_go_on(self, frame: Frame, reached: str) -> bool:
        """Return whether a loop at its limit goes on: it finishes, asks a person, or fails."""
        name, rounds = self.step.name, self._describe_rounds(reached)
        amount = self.block.max_loops or MOST_IDLE_ITERATIONS
        hint = "; if it needs more, set max_loops" if reached == "no_progress" and isinstance(self.step, Loop) else ""
        limit = ExhaustedLimit(
            type=reached,
            key="max_loops",
            address=self.address,
            then=self.block.at_the_limit,
            amount=amount,
            message=f"loop {name} did not reach its exit in {rounds}{hint}",
            question=f"Loop {name} has not reached its exit in {rounds}. Go on?",
            ended=f"loop {name} was ended",
            finish="End the loop with its current result",
            fail="Let the loop fail",
        )
        if not await self._guard(reached, frame, frame.go_beyond(limit)):
            return False
        granted = 0 if self.block.max_loops is None else amount
        self.advance(granted=self.state.granted + granted, idle=0, questions=self._count_waits())
        return True

    def _count_waits(self) -> int:
        """Return how often something was waited for: a round with a wait is not an idle one."""
        return self.host.progress.usage.questions + self.host.progress.usage.timers

    def _describe_rounds(self, reached: str) -> str:
        if reached == "no_progress":
            return f"{say_count(self.state.idle, 'iteration')} in a row in which nobody was asked"
        return say_count(self.state.iteration, "iteration")

    async def _propagate(self, frame: Frame) -> None:
        value = await self._guard("iteration_input_mapper_error", frame, self._next_input(frame))
        self.advance(input=value, context=frame.store.value)

    async def _next_input(self, frame: Frame) -> JSON:
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
                return read_structure(frame.render(template))

    async def _render_output(self, frame: Frame) -> JSON:
        block = self.block
        if isinstance(self.step, States):
            return {"end": self.state.at, "output": frame.previous}
        if block.loop_output_mapper is not None:
            return await self._map(frame, block.loop_output_mapper, frame.previous, frame.store.value)
        if block.output_template is not None:
            return frame.render(block.output_template)
        return frame.previous if block.output is None else frame.render(block.output)

    async def _map(self, frame: Frame, function: str, *args: object) -> JSON:
        return await call_tool(ToolRequest(tool=function, args=list(args)), frame, function)

    async def _guard(self, reason: str, frame: Frame, work: Awaitable[Guarded]) -> Guarded:
        """Return the result of the work; if it fails, the loop fails with this exit reason."""
        try:
            return await work
        except HANDLED as error:
            limited = not is_cancelled(error) and find_failure(error, frame.address).type == "limit_reached"
            self._failing = Failing("limit" if limited else reason, frame.address)
            raise

    def _note_completion(self, reason: str, output: object = None) -> None:
        expression, value = self.exit
        completed = self.state.iteration
        self.host.note(
            self.address,
            LoopCompleted(reason=reason, iterations=completed, output=output, expression=expression, value=value),
        )
