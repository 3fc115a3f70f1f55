"""The calls of an agent: checked, approved, made, and told to the model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.jsonschemas import misfit
from holdfast.blueprint.kinds import AgentTool
from holdfast.protocol.agents import FindTool, ModelReply, ToolCall, ToolSpec
from holdfast.protocol.children import AgentState, Failure, ToolBounds
from holdfast.protocol.events import ToolDenied, ToolFailed
from holdfast.protocol.ledger import LedgerEntry
from holdfast.protocol.permissions import Policy, find_settings
from holdfast.workflows.agent import commands
from holdfast.workflows.agent.checks import Result, check_question
from holdfast.workflows.agent.ending import EndingTools
from holdfast.workflows.agent.work import AgentWork
from holdfast.workflows.approvals import Allowed, Declined, Denied, Refused, add_defaults, approve_call
from holdfast.workflows.bounded_tools import find_replacement, list_policies
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, ToolErrorFailure, failure, find_failure, read_traceback
from holdfast.workflows.frame import Frame
from holdfast.workflows.loop_guard import drop_call
from holdfast.workflows.tool_calls import ToolCalls
from holdfast.workflows.toolbox import ASK_PERSON, BadCall, ask_person, check_call

ENDING = ("outcome_unknown", "doom_loop", "tool_retries", "agent_cancelled", "agent_unsupported")
"""Types of the failures of a call that end the agent."""
FINAL_RESULT = "final_result"
"""Name of the tool by which a model gives an output that has a schema."""
MOST_BAD_CALLS = 5

Make = Callable[[Frame], Awaitable[Result]]
"""Makes a call, in a frame at its address."""


class AgentCalls:
    """The calls of an agent at work.

    Args:
        work: The agent.
        state: Its state at the beginning of this history.
        ending: Its tools, if it ends with them.
    """

    def __init__(self, work: AgentWork, state: AgentState, ending: EndingTools | None) -> None:
        self.work, self.ending = work, ending
        self.tool_calls = ToolCalls(
            work.agent.tool_errors, self._find_other, by_model=True, tries=state.tool_errors, made=state.made
        )
        self._one_question_at_a_time = asyncio.Lock()

    async def answer(self, call: ToolCall, index: int, before: int, *, again: bool) -> Result:
        """Make one call and return its result for the model."""

        async def make(frame: Frame) -> Result:
            if self.ending is None:
                return Result(await self.make_call(call, frame, again))
            return await self._make_ending_call(self.ending, call, frame, again)

        return await self.settle(call, index, before, make)

    async def _make_ending_call(self, ending: EndingTools, call: ToolCall, frame: Frame, again: bool) -> Result:
        """Make a call of an agent that ends with its tools, unless it was made before."""
        spec = self.work.toolbox.spec(call.name)
        if (earlier := ending.find_earlier(call, spec)) is not None:
            return Result(earlier[0])
        tries = sum(self.tool_calls.tries.values())
        try:
            content = await self.make_call(call, frame, again)
        except (BadCall, *HANDLED):
            ending.take_failure(spec)
            raise
        finally:
            if sum(self.tool_calls.tries.values()) > tries:  # the author wants it again: that is no repetition
                self.work.advance(recent=drop_call(self.work.state.recent, call))
        assert spec is not None
        ends = spec.reference != ASK_PERSON and ending.take_result(call, spec, content)
        return Result(content, ends=ends)

    async def settle(self, call: ToolCall, index: int, before: int, make: Make) -> Result:
        """Return what a call gives; a failure that is not final becomes a text for the model."""
        target = self._find_target(call)
        frame = self.work.frame().at("tool", target.name, call.id)
        if self.work.definition.registry is None:  # a planner's commands are done one after the other
            frame = replace(frame, request_counts=self.work.fork_counts())
        tool = self._name_tool(target)
        try:
            self._check_limits(index, before)
            await self.work.host.until_resumed()
            return await make(frame)
        except BadCall as error:
            frame.note(ToolFailed(tool=tool, error="bad_call", message=str(error)))
            if self.work.toolbox.spec(call.name) is not None:
                self.tool_calls.count_misfit(call.name, str(error), frame)
            return Result(f"error: {error}", bad=True)
        except Denied as denied:  # a result like any other: in a peer a denied permission ended the agent
            frame.note(ToolDenied(tool=tool, reason=str(denied)))
            if self.work.bounds is not None and isinstance(denied, Refused):
                cause = Failure(type="not_approved", message=str(denied), address=frame.address)
                raise ToolErrorFailure(cause) from None
            if self.ending is not None and isinstance(denied, Declined):
                self.work.declined, self.work.output = True, (None,)
            return Result(str(denied))
        except HANDLED as error:
            if is_cancelled(error):
                raise
            cause = find_failure(error, frame.address)
            trace = read_traceback(error)
            frame.note(ToolFailed(tool=tool, error=cause.type, message=cause.message, traceback=trace))
            if cause.final or cause.type in ENDING or isinstance(error, ToolErrorFailure):
                raise
            return Result(f"error: {cause.message}")

    def _find_target(self, call: ToolCall) -> ToolCall:
        """Return the call that is made: of a planner's `run_agent`, that of the tool or agent which it names."""
        names_one = self.work.definition.registry is not None and call.name == commands.RUN_AGENT
        if names_one and self.work.toolbox.spec(str(call.args.get("agent"))) is not None and "input" in call.args:
            return commands.make_inner_call(call)
        return call

    def _name_tool(self, call: ToolCall) -> str:
        """Return the name of a called tool as events have it: the same at its beginning and at each of its ends."""
        if (spec := self.work.toolbox.spec(call.name)) is not None:
            return spec.reference
        return call.name if self.work.state.use is None else f"{self.work.agent.source}/{call.name}"

    def _check_limits(self, index: int, before: int) -> None:
        agent = self.work.agent
        if index >= agent.max_tool_calls_per_turn:
            raise Denied(f"error: not made, as a turn has at most {say_count(agent.max_tool_calls_per_turn, 'call')}")
        if agent.max_tool_calls is not None and before >= agent.max_tool_calls:
            raise Denied(f"error: no calls are left of {agent.max_tool_calls}; give your output with what you know")

    async def make_call(self, call: ToolCall, frame: Frame, again: bool) -> JSON:
        """Check a call, get the approval that it needs, and make it."""
        if self.work.definition.registry is not None:
            return await self._command(call, frame, again)
        if call.name == FINAL_RESULT and self.work.agent.output_schema is not None:
            raise Denied("not taken: give it alone, once the other calls have their results")
        spec = check_call(call, self.work.toolbox.spec(call.name), self.work.toolbox.names())
        if spec.reference == ASK_PERSON:
            check_question(call)
            if again:
                await self.check_repetition(call, frame)
            async with self._one_question_at_a_time:
                return await ask_person(call, frame)
        return await self._run_tool(call, spec, frame, call if again else None)

    async def _run_tool(self, call: ToolCall, spec: ToolSpec, frame: Frame, repeated: ToolCall | None) -> JSON:
        whole = add_defaults(call, spec)
        allowed = await self.approve(whole, spec, find_settings(self.work.tools, spec), frame, repeated)
        if allowed.earlier is not None:
            return self._tell_earlier(allowed.earlier)
        toolbox = self.work.toolbox
        work = partial(toolbox.run, allowed, spec, frame)
        result = await self.tool_calls.make(spec.reference, allowed.call.args, work, frame)
        self.tool_calls.note(*toolbox.inner_calls)
        if allowed.call.args == whole.args or self.ending is not None:
            return result
        return {"note": "A person changed the arguments before the call.", "args": allowed.call.args, "result": result}

    def _tell_earlier(self, earlier: LedgerEntry) -> JSON:
        """Return what an earlier plan got by the same call, in place of a call that a person does not want again."""
        if self.ending is not None:
            return earlier.output
        return {"note": f"Not called again. {earlier.describe()}", "result": earlier.output}

    async def _find_other(self, tool: str) -> ToolSpec | None:
        """Return another tool of the agent that can do what a missing one was for."""
        if self.ending is not None and self.work.bounds is not None:
            return await self._find_for_plan(tool, self.ending, self.work.bounds)
        spec = next((spec for spec in self.work.toolbox.specs if spec.reference == tool), None)
        among = [other.name for other in self.work.tools if other.name != tool]
        if not among:
            return None
        task = FindTool(instruction=f"{tool} {spec.description if spec else ''}", among=among, missing=tool)
        found = await self.work.host.activities.find_tool(task, self.work.address)
        return next((other for other in self.work.toolbox.specs if other.reference == found), None)

    async def _find_for_plan(self, tool: str, ending: EndingTools, bounds: ToolBounds) -> ToolSpec | None:
        """Return a tool that now takes the place of a missing one in a step of a plan."""
        other = await find_replacement(bounds, tool, self.work.host.activities, self.work.address)
        if other is None:
            return None
        kept = [spec for spec in self.work.toolbox.specs if spec.reference not in (tool, other.reference)]
        self.work.advance(tools=[*kept, other])
        ending.replace(tool, other.reference)
        return other

    async def check_repetition(self, call: ToolCall, frame: Frame) -> None:
        """Ask a person whether a repeated call that is none of a tool goes on; without a person, end the agent."""
        await self.approve(call, ToolSpec(name=call.name, reference=call.name), None, frame, call)

    async def approve(
        self, call: ToolCall, spec: ToolSpec, settings: AgentTool | None, frame: Frame, repeated: ToolCall | None
    ) -> Allowed:
        """Return the call as it may be made; `repeated` is the model's own call if it is a repeated one."""
        policies, note = ([] if settings is None else [Policy(self.work.agent, settings)]), ""
        if self.work.bounds is not None and settings is not None:
            policies, note = list_policies(self.work.bounds, spec)
        if repeated is None:
            return await approve_call(call, spec, policies, frame, note=note)
        attended = self.work.agent.human or self.work.definition.registry is not None
        allowed = await approve_call(call, spec, policies, frame, "asks" if attended else "ends", note)
        self.work.advance(recent=drop_call(self.work.state.recent, repeated))
        return allowed

    async def _command(self, call: ToolCall, frame: Frame, again: bool) -> JSON:
        """Run one command of a planner, and log it when it is done."""
        if self.work.output is not None:
            raise Denied("error: not done: the loop has finished")
        offered = commands.list_commands(self.work.toolbox.specs)
        spec = next((spec for spec in offered if spec.name == call.name), None)
        check_call(call, spec, [spec.name for spec in offered])
        if again and call.name in (commands.ASK_HUMAN, commands.FINISH):
            await self.check_repetition(call, frame)
        match call.name:
            case commands.ASK_HUMAN:
                check_question(call)
                result = await ask_person(call, frame)
            case commands.FINISH:
                if self.work.mailbox.told and self.work.state.turn < self.work.agent.max_turns:
                    raise Denied("not done: a person has sent a message meanwhile; it follows")
                schema = self.work.agent.output_schema
                if schema is not None and (wrong := misfit(schema, call.args["output"])):
                    raise BadCall(f"the output does not fit: {wrong}")
                self.work.finish(call.args["output"])
                return call.args["output"]
            case _:
                inner = commands.make_inner_call(call)
                target = check_call(inner, self.work.toolbox.spec(inner.name), self.work.toolbox.names())
                result = await self._run_tool(inner, target, frame, call if again else None)
        self.work.log(call.name, call.args, result)
        return result

    def count_bad(self, results: list[Result]) -> None:
        bad = self.work.state.bad_calls
        for result in results:
            bad = bad + 1 if result.bad else 0
            if bad >= MOST_BAD_CALLS:
                text = f"{self.work.definition.step} made {bad} invalid calls in a row: {result.content}"
                raise failure("bad_calls", text, self.work.address)
        self.work.advance(bad_calls=bad)

    def name_calls(self, reply: ModelReply) -> ModelReply:
        """Return the reply with a unique id for each call.

        Models leave ids empty or repeat them, and an id is part of an address: an empty one becomes the call's number,
        a repeated one gets `~2`.
        """
        calls, taken, count = [], list(self.work.state.call_ids), self.work.state.calls
        for call in reply.tool_calls:
            count += 1
            base = call.id or str(count)
            id_, suffix = base, 2
            while id_ in taken:
                id_, suffix = f"{base}~{suffix}", suffix + 1
            taken.append(id_)
            calls.append(call.model_copy(update={"id": id_}))
        self.work.advance(call_ids=taken, calls=count)
        renamed = {old.id: new.id for old, new in zip(reply.tool_calls, calls, strict=True)}
        corrections = [
            message.model_copy(update={"call": renamed.get(message.call, message.call)})
            for message in reply.corrections
        ]
        return reply.model_copy(update={"tool_calls": calls, "corrections": corrections})

    def end_with_tools(self, results: list[Result]) -> None:
        """End if each of the tools has returned: with the first result of this turn."""
        assert self.ending is not None
        found = [result.content for result in results if result.ends]
        if found and not self.ending.open:
            self.work.output, self.work.declined = (found[0],), False
