"""The workflow of one agent with tools: ask its model, make the calls, return the results, until there is an output.

Started as a child by `workflows.agents.run_agent`; `workflows.plan.agent_workflow` extends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from holdfast.blueprint.amounts import counted
from holdfast.blueprint.expressions import ExpressionError, text_of
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import misfit
from holdfast.blueprint.kinds import AgentHistory, AgentTool
from holdfast.blueprint.kinds.references import MCP
from holdfast.protocol.agent_objects import FINAL_OUTPUT, ObjectReference, ObjectUse
from holdfast.protocol.agents import (
    Completed,
    FindTool,
    Message,
    ModelReply,
    ModelRequest,
    ObjectCall,
    ObjectTool,
    ToolCall,
    ToolRequest,
    ToolSpec,
    name_tools,
)
from holdfast.protocol.events import ToolDenied, ToolFailed
from holdfast.protocol.permissions import Policy, settings_of
from holdfast.protocol.runs import (
    AGENT_WORKFLOW,
    AgentDefinition,
    AgentResult,
    AgentState,
    Command,
    Failure,
    ToolBounds,
)
from holdfast.workflows.agent import commands, objects
from holdfast.workflows.agent import conversation as talk
from holdfast.workflows.agent.checks import Result, check_question, check_rules, describe_present
from holdfast.workflows.agent.ending import EndingTools
from holdfast.workflows.agent.mailbox import Mailbox
from holdfast.workflows.agents import MOST_MISFITS, AgentCall, ask_model, is_overflow, tell_misfit, unwrap_list
from holdfast.workflows.approvals import Allowed, Declined, Denied, Refused, add_defaults, approve_call
from holdfast.workflows.bounded_tools import find_replacement, list_policies
from holdfast.workflows.concurrency import is_cancelled, run_together
from holdfast.workflows.failures import HANDLED, failure, find_failure, read_traceback
from holdfast.workflows.frame import ContextStore, Frame, Scope
from holdfast.workflows.handlers import handles
from holdfast.workflows.loop_guard import add_call, drop_call, is_repetition
from holdfast.workflows.run import RunWorkflow
from holdfast.workflows.tool_calls import ToolCalls, ToolErrorFailure, name_tool_error
from holdfast.workflows.toolbox import (
    ASK_PERSON,
    BadCall,
    Toolbox,
    ask_person,
    ask_result,
    check_call,
    describe_person,
    describe_tools,
    list_tools_of_workers,
)
from holdfast.workflows.tools import call_tool, complete_tool
from holdfast.workflows.turns import drop_older

FINAL_RESULT = "final_result"
"""Name of the tool by which a model gives an output that has a schema."""
MOST_BAD_CALLS = 5
ENDING = ("outcome_unknown", "doom_loop", "tool_retries", "agent_cancelled", "agent_unsupported")
"""Types of the failures of a call that end the agent."""
MOST_OVERFLOWS = 5


Make = Callable[[Frame], Awaitable[Result]]
"""Makes a call, in a frame at its address."""


@workflow.defn(name=AGENT_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
@handles(Mailbox)
class AgentWorkflow(RunWorkflow):
    """A workflow that runs one agent."""

    definition: AgentDefinition
    state: AgentState

    @workflow.init
    def __init__(self, definition: AgentDefinition, state: AgentState) -> None:
        super().__init__(definition, state, definition.history_limits.rounds)
        self.host.view.hears = lambda: self.hears
        self.mailbox = Mailbox(self.host, state.told)
        self.agent = definition.agent
        self.asking = AgentCall(
            definition.agent, definition.name, definition.step, definition.timeout, definition.retry
        )
        self.tools = self.agent.tools if definition.registry is None else definition.registry
        self._one_question_at_a_time = asyncio.Lock()
        self._output: tuple[JSON] | None = None
        self._declined = False
        self.bounds = definition.bounds
        self.ending = EndingTools(state, is_bounded=self.bounds is not None) if definition.ends_with_tool else None
        self.tool_calls = ToolCalls(
            self.agent.tool_errors, self._find_other, by_model=True, tries=state.tool_errors, made=state.made
        )
        # Calls of one turn run at once: each counts from where the turn began, or the number of a request would depend
        # on the order in which they wake.
        self._fork_counts = self.request_counts.make_fork()

    @property
    def hears(self) -> bool:
        """Return whether the agent takes messages."""
        return self.host.progress.ended is None

    def collect_state(self) -> dict[str, Any]:
        """See base class."""
        return {
            "told": list(self.mailbox.told),
            "made": self.tool_calls.made,
            "tool_errors": self.tool_calls.tries,
            **({} if self.ending is None else self.ending.collect_state()),
        }

    def current_context(self) -> JSONObject:
        if self.definition.registry is None:
            return {}
        return {"command_log": [entry.model_dump(mode="json") for entry in self.state.log]}

    @workflow.run
    async def run(self, definition: AgentDefinition, state: AgentState) -> AgentResult:
        return AgentResult(
            output=await self.run_to_result(self._work()),
            turns=self.state.turn,
            log=self.state.log,
            made=self.tool_calls.made,
            declined=self._declined,
            returned=[] if self.ending is None else self.ending.returned,
            text="" if self.ending is None else self.ending.text,
            **self.collect_result(),
        )

    def list_failure_fields(self, error: BaseException) -> dict[str, Any]:
        """See base class: the tools that were called, unless what failed says more."""
        made = self.tool_calls.made
        if self.ending is not None:
            returned = [call.model_dump(mode="json") for call in self.ending.returned]
            output = {"called": name_tools(made), "returned": returned, "tool_error": name_tool_error(error)}
            return {"made": made, "output": output}
        if not made or find_failure(error, self.address).output is not None:
            return {"made": made}
        return {"made": made, "output": {"called": name_tools(made)}}

    async def _work(self) -> JSON:
        if self.state.tools is None:
            await (self._begin() if self.agent.source is None else self._begin_object(self.agent.source))
        while self._output is None:
            await self._turn()
        return self._output[0]

    async def _turn(self) -> None:
        await self.host.until_resumed()
        self._hear()
        await self._shorten()  # also before continue-as-new: its input must stay below the 2 MB of a payload
        await self.next_round()
        await self._take(await self._reply())

    async def _begin(self) -> None:
        """Ask the workers for the tools' descriptions, and set the first messages."""
        missing: dict[str, Failure] = {}
        if self.definition.specs is None:
            specs, missing = await self._describe_tools()
        else:
            specs = list(self.definition.specs)
        if "ask" in self.agent.human:
            specs.append(describe_person())
        if self.ending is not None:
            self.ending.begin(specs)
        opening = self.definition.messages
        self.advance(tools=specs, messages=opening, earlier=len(opening) - 1)
        for tool, cause in missing.items():
            other = await self.tool_calls.replace(tool, cause, self._frame())
            self._say(Message(role="user", content=f"The tool {tool} is missing; call {other.name} in its place."))
        self._check_tools(missing)

    async def _describe_tools(self) -> tuple[list[ToolSpec], dict[str, Failure]]:
        """Return the descriptions of the tools, and why those are missing in whose place others may be called."""
        wanted = list_tools_of_workers(self.tools)
        specs, missing = await describe_present(wanted, self.agent, self.host.activities, self.address)
        # An author may name a tool by itself and again through its server.
        specs = list({spec.reference: spec for spec in specs}.values())
        return [*specs, *describe_tools(self.tools, self.definition.blueprint)], missing

    async def _begin_object(self, source: str) -> None:
        """Have a worker find the agent object; one that is a function is called at once."""
        agent = self.agent
        tools = objects.list_named_tools(agent, self.definition.name)
        reference = ObjectReference(
            reference=source, deps=agent.deps, model=agent.model, tools=tools, keys=agent.keys_of_turns
        )
        description = await self.host.activities.describe_agent(reference, self.address)
        opening, prompt = self.definition.messages, self.definition.messages[-1].content
        if description.kind == "function":
            request = ToolRequest(tool=description.name, input=prompt)
            retry = self.definition.retry or agent.retry
            timeout = self.definition.timeout or agent.timeout
            self._output = (await call_tool(request, self._frame(), source, timeout=timeout, retry=retry),)
            return
        run = workflow.info().workflow_id
        use = ObjectUse(reference=source, deps=agent.deps, run=run, prompt=prompt, tools=tools)
        specs = [describe_person()] if "ask" in agent.human else []
        self.advance(tools=specs, messages=opening, earlier=len(opening) - 1, use=use)

    def _check_tools(self, missing: Iterable[str] = ()) -> None:
        """Raise a failure if two tools share a name, or one has a name that is reserved."""
        self.toolbox.check(self.address)
        own = (
            [ASK_PERSON] if self.agent.output_schema is None or not self._calls_at_once else [ASK_PERSON, FINAL_RESULT]
        )
        for spec in self.toolbox.specs:
            if spec.name in own and spec != describe_person():
                uses = "asks a person" if spec.name == ASK_PERSON else "gives its output"
                text = f"no tool may be called {spec.name!r}: that is how the model {uses}"
                raise failure("reserved_tool", text, self.address)
        # A planner may direct several steps, and name tools of another one's registry, which loading has checked. What
        # an MCP server has only this step can tell.
        if self._calls_at_once or any(tool.name.startswith(MCP) for tool in self.tools):
            name, key = self.definition.name, "agent" if self._calls_at_once else "planner"
            place, specs = key if name is None else f"agents.{name}", self.toolbox.specs
            check_rules(self.agent, place, specs, list(missing), self.address)

    @property
    def toolbox(self) -> Toolbox:
        rules = self.agent.tool_errors
        unsure_is_final = rules is not None and rules.timeout is not None
        return Toolbox(self.agent, self.tools, self.state.tools or [], unsure_is_final=unsure_is_final)

    @property
    def _calls_at_once(self) -> bool:
        return self.definition.registry is None

    def _list_offered(self) -> list[ToolSpec]:
        specs = list(self.toolbox.specs)
        if self.ending is not None:
            return self.ending.select_open(specs)
        return specs if self.definition.registry is None else commands.list_commands(specs)

    # A turn

    async def _reply(self) -> ModelReply:
        """Return the model's next reply; a conversation that is too long for the model is cut until it fits."""
        turn = self.state.turn + 1
        if turn > self.agent.max_turns:
            text = f"{self.definition.step} returned no output in {counted(self.agent.max_turns, 'turn')}"
            raise failure("max_turns", text, self.address)
        self.advance(turn=turn)
        overflows = 0
        while True:
            try:
                return await ask_model(
                    self._request(), self.asking, self._frame(), f"{self.definition.step}, turn {turn}"
                )
            except ActivityError as error:
                # Cutting turns from before the agent is not counted: they may be many, and each cut halves them.
                overflows += not self.state.earlier
                if overflows == MOST_OVERFLOWS or not is_overflow(error) or not self._cut():
                    raise

    def _cut(self) -> bool:
        """Halve the conversation, turns from before the agent first; return whether anything could be cut."""
        messages, earlier = self.state.messages, self.state.earlier
        if earlier:
            messages, earlier = drop_older(messages, earlier)
        else:
            messages = talk.halve(messages) or messages
        changed = len(messages) < len(self.state.messages)
        self.advance(messages=messages, earlier=earlier)
        return changed

    def _request(self) -> ModelRequest:
        return ModelRequest(
            step=self.definition.step,
            agent=self.definition.name,
            model=self.agent.model,
            instructions=self.definition.instructions,
            messages=self.state.messages,
            tools=self._list_offered(),
            output_schema=self.agent.output_schema,
            native_output=self.agent.output_mode == "native",
            settings=self.agent.model_settings,
            use=self.state.use,
        )

    def _frame(self) -> Frame:
        """Return a frame at the agent's own address, with the names that its agents' instructions read."""
        definition = self.definition
        names = dict(definition.names)
        inputs = {name: names.pop(name, None) for name in ("previous_step", "output", "resume_input", "history")}
        store = ContextStore(names.pop("context", {}))
        scope = Scope(names.pop("steps", {}), resume_input=inputs["resume_input"])
        return self.frame(
            store,
            scope,
            names,
            previous=inputs["previous_step"] if inputs["output"] is None else inputs["output"],
            iteration=definition.iteration,
            place=definition.place,
        )

    async def _take(self, reply: ModelReply) -> None:
        """Make the calls of a reply, have the model correct it, or take it as the output."""
        reply = self._name_calls(reply)
        if self.state.use is not None:
            await self._take_from_object(reply, self.state.use)
        elif reply.problem is not None:
            self._correct(reply, reply.problem)
        elif reply.tool_calls:
            self.advance(misfits=0)
            await self._call(reply)
        elif self.ending is not None:
            names = " or ".join(spec.name for spec in self._list_offered() if spec.reference != ASK_PERSON)
            self._correct(reply, f"call {names}: its result is the output", "no_tool_result")
        else:
            self._conclude(reply)

    def _conclude(self, reply: ModelReply) -> None:
        """Take a reply without calls as the output, unless a person has sent a message meanwhile."""
        if self.mailbox.told and self.state.turn < self.agent.max_turns:
            self._say(Message(role="assistant", content=reply.output))
        else:
            self._finish(reply.output)

    def _finish(self, output: object) -> None:
        if self.definition.registry is not None:
            self._log(commands.FINISH, {"output": output}, output)
        self._output = (output,)

    def _correct(self, reply: ModelReply, problem: str, type_: str = "output_invalid") -> None:
        misfits = self.state.misfits + 1
        if misfits >= MOST_MISFITS:
            output = unwrap_list(reply, self.agent)
            raise failure(type_, f"{self.definition.step}: {problem}", self.address, output=output)
        self.advance(misfits=misfits)
        self._say(*tell_misfit(reply, problem))

    def _name_calls(self, reply: ModelReply) -> ModelReply:
        """Return the reply with a unique id for each call.

        Models leave ids empty or repeat them, and an id is part of an address: an empty one becomes the call's number,
        a repeated one gets `~2`.
        """
        calls, taken, count = [], list(self.state.call_ids), self.state.calls
        for call in reply.tool_calls:
            count += 1
            base = call.id or str(count)
            id_, suffix = base, 2
            while id_ in taken:
                id_, suffix = f"{base}~{suffix}", suffix + 1
            taken.append(id_)
            calls.append(call.model_copy(update={"id": id_}))
        self.advance(call_ids=taken, calls=count)
        renamed = {old.id: new.id for old, new in zip(reply.tool_calls, calls, strict=True)}
        corrections = [
            message.model_copy(update={"call": renamed.get(message.call, message.call)})
            for message in reply.corrections
        ]
        return reply.model_copy(update={"tool_calls": calls, "corrections": corrections})

    # Calls

    async def _call(self, reply: ModelReply) -> None:
        """Make the calls of a turn, and add exactly one result for each, in the order of the calls."""
        before = self.state.calls - self.state.surplus - len(reply.tool_calls)
        recent = self.state.recent
        works = []
        for index, call in enumerate(reply.tool_calls):
            recent = add_call(recent, call)
            works.append(partial(self._answer_call, call, index, before + index, again=is_repetition(recent, call)))
        self.advance(recent=recent)
        self._fork_counts = self.request_counts.make_fork()
        if self.ending is not None:
            self.ending.begin_turn(reply.output)
        if self._calls_at_once and self.ending is None:
            results = await run_together(work() for work in works)
        else:  # a later command of a planner may depend on an earlier one; a no of a person ends all
            results = [await work() for work in works if not self._declined]
        if self.ending is not None:
            self._end_with_tools(results)
            if self._output is not None:
                return
        answers = [
            Message(role="tool", call=call.id, tool=call.name, content=result.content)
            for call, result in zip(reply.tool_calls, results, strict=True)
        ]
        self._say(Message(role="assistant", content=reply.output, tool_calls=reply.tool_calls, raw=reply.raw), *answers)
        self._count_bad(results)
        surplus = len(results) - self.agent.max_tool_calls_per_turn
        if surplus > 0 and self.agent.max_tool_calls is not None:
            self.advance(surplus=self.state.surplus + surplus)

    def _count_bad(self, results: list[Result]) -> None:
        bad = self.state.bad_calls
        for result in results:
            bad = bad + 1 if result.bad else 0
            if bad >= MOST_BAD_CALLS:
                text = f"{self.definition.step} made {bad} invalid calls in a row: {result.content}"
                raise failure("bad_calls", text, self.address)
        self.advance(bad_calls=bad)

    async def _answer_call(self, call: ToolCall, index: int, before: int, *, again: bool) -> Result:
        """Make one call and return its result for the model."""

        async def make(frame: Frame) -> Result:
            if self.ending is None:
                return Result(await self._make_call(call, frame, again))
            return await self._make_ending_call(self.ending, call, frame, again)

        return await self._settle(call, index, before, make)

    async def _make_ending_call(self, ending: EndingTools, call: ToolCall, frame: Frame, again: bool) -> Result:
        """Make a call of an agent that ends with its tools, unless it was made before."""
        spec = self.toolbox.spec(call.name)
        if (earlier := ending.find_earlier(call, spec)) is not None:
            return Result(earlier[0])
        tries = sum(self.tool_calls.tries.values())
        try:
            content = await self._make_call(call, frame, again)
        except (BadCall, *HANDLED):
            ending.take_failure(spec)
            raise
        finally:
            if sum(self.tool_calls.tries.values()) > tries:  # the author wants it again: that is no repetition
                self.advance(recent=drop_call(self.state.recent, call))
        assert spec is not None
        ends = spec.reference != ASK_PERSON and ending.take_result(call, spec, content)
        return Result(content, ends=ends)

    def _end_with_tools(self, results: list[Result]) -> None:
        """End if each of the tools has returned: with the first result of this turn."""
        assert self.ending is not None
        found = [result.content for result in results if result.ends]
        if found and not self.ending.open:
            self._output, self._declined = (found[0],), False

    async def _settle(self, call: ToolCall, index: int, before: int, make: Make) -> Result:
        """Return what a call gives; a failure that is not final becomes a text for the model."""
        frame = replace(self._frame().at("tool", call.name, call.id), request_counts=self._fork_counts())
        try:
            self._check_limits(index, before)
            await self.host.until_resumed()
            return await make(frame)
        except BadCall as error:
            frame.note(ToolFailed(tool=call.name, error="bad_call", message=str(error)))
            if self.toolbox.spec(call.name) is not None:
                self.tool_calls.count_misfit(call.name, str(error), frame)
            return Result(f"error: {error}", bad=True)
        except Denied as denied:  # a result like any other: in a peer a denied permission ended the agent
            frame.note(ToolDenied(tool=call.name, reason=str(denied)))
            if self.bounds is not None and isinstance(denied, Refused):
                cause = Failure(type="not_approved", message=str(denied), address=frame.address)
                raise ToolErrorFailure(cause) from None
            if self.ending is not None and isinstance(denied, Declined):
                self._declined, self._output = True, (None,)
            return Result(str(denied))
        except HANDLED as error:
            if is_cancelled(error):
                raise
            cause = find_failure(error, frame.address)
            trace = read_traceback(error)
            frame.note(ToolFailed(tool=call.name, error=cause.type, message=cause.message, traceback=trace))
            if cause.final or cause.type in ENDING or isinstance(error, ToolErrorFailure):
                raise
            return Result(f"error: {cause.message}")

    def _check_limits(self, index: int, before: int) -> None:
        agent = self.agent
        if index >= agent.max_tool_calls_per_turn:
            raise Denied(f"error: not made, as a turn has at most {counted(agent.max_tool_calls_per_turn, 'call')}")
        if agent.max_tool_calls is not None and before >= agent.max_tool_calls:
            raise Denied(f"error: no calls are left of {agent.max_tool_calls}; give your output with what you know")

    async def _make_call(self, call: ToolCall, frame: Frame, again: bool) -> JSON:
        """Check a call, get the approval that it needs, and make it."""
        if self.definition.registry is not None:
            return await self._command(call, frame, again)
        if call.name == FINAL_RESULT and self.agent.output_schema is not None:
            raise Denied("not taken: give it alone, once the other calls have their results")
        spec = check_call(call, self.toolbox.spec(call.name), self.toolbox.names())
        if spec.reference == ASK_PERSON:
            check_question(call)
            if again:
                await self._check_repetition(call, frame)
            async with self._one_question_at_a_time:
                return await ask_person(call, frame)
        return await self._run_tool(call, spec, frame, call if again else None)

    async def _run_tool(self, call: ToolCall, spec: ToolSpec, frame: Frame, repeated: ToolCall | None) -> JSON:
        whole = add_defaults(call, spec)
        allowed = await self._approve(whole, spec, settings_of(self.tools, spec), frame, repeated)
        toolbox = self.toolbox
        work = partial(toolbox.run, allowed, spec, frame)
        result = await self.tool_calls.make(spec.reference, allowed.call.args, work, frame)
        self.tool_calls.note(*toolbox.inner_calls)
        if allowed.call.args == whole.args or self.ending is not None:
            return result
        return {"note": "A person changed the arguments before the call.", "args": allowed.call.args, "result": result}

    async def _find_other(self, tool: str) -> ToolSpec | None:
        """Return another tool of the agent that can do what a missing one was for."""
        if self.ending is not None and self.bounds is not None:
            return await self._find_for_plan(tool, self.ending, self.bounds)
        spec = next((spec for spec in self.toolbox.specs if spec.reference == tool), None)
        among = [other.name for other in self.tools if other.name != tool]
        if not among:
            return None
        task = FindTool(instruction=f"{tool} {spec.description if spec else ''}", among=among, missing=tool)
        found = await self.host.activities.find_tool(task, self.address)
        return next((other for other in self.toolbox.specs if other.reference == found), None)

    async def _find_for_plan(self, tool: str, ending: EndingTools, bounds: ToolBounds) -> ToolSpec | None:
        """Return a tool that now takes the place of a missing one in a step of a plan."""
        other = await find_replacement(bounds, tool, self.host.activities, self.address)
        if other is None:
            return None
        kept = [spec for spec in self.toolbox.specs if spec.reference not in (tool, other.reference)]
        self.advance(tools=[*kept, other])
        ending.replace(tool, other.reference)
        return other

    async def _check_repetition(self, call: ToolCall, frame: Frame) -> None:
        """Ask a person whether a repeated call that is none of a tool goes on; without a person, end the agent."""
        await self._approve(call, ToolSpec(name=call.name, reference=call.name), None, frame, call)

    async def _approve(
        self, call: ToolCall, spec: ToolSpec, settings: AgentTool | None, frame: Frame, repeated: ToolCall | None
    ) -> Allowed:
        """Return the call as it may be made; `repeated` is the model's own call if it is a repeated one."""
        policies, note = ([] if settings is None else [Policy(self.agent, settings)]), ""
        if self.bounds is not None and settings is not None:
            policies, note = list_policies(self.bounds, spec)
        if repeated is None:
            return await approve_call(call, spec, policies, frame, note=note)
        attended = self.agent.human or self.definition.registry is not None
        allowed = await approve_call(call, spec, policies, frame, "asks" if attended else "ends", note)
        self.advance(recent=drop_call(self.state.recent, repeated))
        return allowed

    async def _command(self, call: ToolCall, frame: Frame, again: bool) -> JSON:
        """Run one command of a planner, and log it when it is done."""
        if self._output is not None:
            raise Denied("error: not done: the loop has finished")
        spec = next((spec for spec in self._list_offered() if spec.name == call.name), None)
        check_call(call, spec, [spec.name for spec in self._list_offered()])
        if again and call.name in (commands.ASK_HUMAN, commands.FINISH):
            await self._check_repetition(call, frame)
        match call.name:
            case commands.ASK_HUMAN:
                check_question(call)
                result = await ask_person(call, self._frame().at("tool", call.name, call.id))
            case commands.FINISH:
                if self.mailbox.told and self.state.turn < self.agent.max_turns:
                    raise Denied("not done: a person has sent a message meanwhile; it follows")
                if (schema := self.agent.output_schema) is not None and (wrong := misfit(schema, call.args["output"])):
                    raise BadCall(f"the output does not fit: {wrong}")
                self._finish(call.args["output"])
                return call.args["output"]
            case _:
                inner = commands.make_inner_call(call)
                target = check_call(inner, self.toolbox.spec(inner.name), self.toolbox.names())
                inner_frame = self._frame().at("tool", inner.name, inner.id)
                result = await self._run_tool(inner, target, inner_frame, call if again else None)
        self._log(call.name, call.args, result)
        return result

    def _log(self, command: str, args: JSONObject, result: object) -> None:
        entry = Command(
            turn=self.state.turn,
            command=command,
            args=commands.shorten_value(args),
            result=commands.shorten_value(result),
        )
        self.advance(log=[*self.state.log, entry])

    # An agent object

    async def _take_from_object(self, reply: ModelReply, use: ObjectUse) -> None:
        """Do with a reply what the object's library does with one."""
        self.advance(use=objects.add_reply(use, reply))
        answer = Message(role="assistant", content=reply.output, tool_calls=reply.tool_calls, raw=reply.raw)
        if reply.problem is not None:
            self._say(answer, *self._count_correction(reply.corrections))
        elif reply.tool_calls:
            await self._call_for_object(reply, answer)
        else:
            checked = await self._check_output(reply, answer) if reply.unchecked else Completed(result=reply.output)
            self._conclude_object(checked, answer)

    def _count_correction(self, corrections: list[Message]) -> list[Message]:
        """Count an output that has to be given again, and return what the model is told."""
        assert self.state.use is not None
        self.advance(use=objects.add_correction(self.state.use, corrections))
        return corrections

    def _conclude_object(self, checked: Completed, answer: Message) -> None:
        """Take a checked output, unless it has to be given again, or a person has sent a message meanwhile."""
        if checked.again:
            self._say(answer, *self._count_correction(checked.messages))
        elif self.mailbox.told and self.state.turn < self.agent.max_turns:
            self._say(answer)
        else:
            self._finish(checked.result)

    async def _check_output(self, reply: ModelReply, answer: Message) -> Completed:
        """Have the functions of the object's authors check an output, in an activity of its own."""
        request = ToolRequest(
            tool=f"{self.agent.source}/{FINAL_OUTPUT}",
            idempotent=not reply.output_function,
            of_agent=self._object_call(None, answer),
        )
        frame = self._frame().at("tool", FINAL_OUTPUT, str(self.state.turn))
        await self.host.until_resumed()
        return await complete_tool(request, frame, FINAL_OUTPUT)

    def _object_call(self, call: ToolCall | None, answer: Message) -> ObjectCall:
        assert self.state.use is not None
        return ObjectCall(
            use=self.state.use,
            model=self.agent.model,
            instructions=self.definition.instructions,
            messages=[*self.state.messages, answer],
            call=call,
        )

    async def _call_for_object(self, reply: ModelReply, answer: Message) -> None:
        """Make the calls of a reply; an output among them comes first or last, as the object says, and may end it."""
        tools = reply.object_tools
        outputs = [index for index, tool in enumerate(tools) if tool.demand == "output"]
        calls = [index for index in range(len(tools)) if index not in outputs]
        asking = [index for index in calls if tools[index].demand]
        first = calls if not outputs else [] if reply.end_strategy == "early" else [i for i in calls if i not in asking]
        results = await self._make_calls(reply, answer, first)
        messages = {index: result.as_messages(reply.tool_calls[index]) for index, result in results.items()}
        if outputs and any(result.again for result in results.values()):
            messages |= {i: Result(objects.NOT_TAKEN).as_messages(reply.tool_calls[i]) for i in outputs}
        elif outputs:
            checked = await self._check_output(reply, answer)
            if not checked.again:
                self._conclude_object(checked, answer)
                return
            messages |= {outputs[0]: self._count_correction(checked.messages)}
        results |= await self._make_calls(reply, answer, [index for index in calls if index not in results])
        messages |= {index: results[index].as_messages(reply.tool_calls[index]) for index in calls}
        self._say(answer, *objects.order_results(reply.tool_calls, messages))
        self._count_bad([results[index] for index in calls])

    async def _make_calls(self, reply: ModelReply, answer: Message, indices: list[int]) -> dict[int, Result]:
        """Make these calls, those at once that may be, and count what came of them."""
        before = self.state.calls - self.state.surplus - len(reply.tool_calls)
        results: dict[int, Result] = {}
        for group in objects.group_calls(reply.object_tools, indices):
            works = []
            for index in group:
                call, tool = reply.tool_calls[index], reply.object_tools[index]
                self.advance(recent=add_call(self.state.recent, call))
                make = partial(self._make_object_call, call, tool, answer, is_repetition(self.state.recent, call))
                works.append(partial(self._settle, call, index, before + index, make))
            self._fork_counts = self.request_counts.make_fork()
            results |= dict(zip(group, await run_together(work() for work in works), strict=True))
        made = [reply.tool_calls[index] for index in results]
        assert self.state.use is not None
        self.advance(use=objects.add_results(self.state.use, made, list(results.values())))
        return results

    async def _make_object_call(
        self, call: ToolCall, tool: ObjectTool, answer: Message, again: bool, frame: Frame
    ) -> Result:
        """Make a call of a tool that the object has; one of the blueprint's is made like any other."""
        if self.toolbox.spec(call.name) is not None:
            return Result(await self._make_call(call, frame, again))
        if call.unreadable is not None:
            raise BadCall(f"the arguments of {call.name} cannot be read: {call.unreadable}")
        spec = objects.make_spec(self.agent, call, tool)
        settings = objects.make_settings(self.agent, spec)
        whole = add_defaults(call, spec)
        allowed = await self._approve(whole, spec, settings, frame, call if again else None)
        changed = allowed.call.args != whole.args
        if tool.demand == "external":
            return Result(await ask_result(allowed.call, frame))
        request = ToolRequest(
            tool=spec.reference,
            input=allowed.call.args,
            by_name=True,
            idempotent=settings.idempotent,
            consent=allowed.consent,
            of_agent=self._object_call(allowed.call if changed else call, answer),
        )
        done = await complete_tool(request, frame, call.name, timeout=settings.timeout, retry=settings.retry)
        return Result(done.result, messages=done.messages, again=done.again)

    # The conversation

    def _say(self, *messages: Message) -> None:
        self.advance(messages=[*self.state.messages, *messages])

    def _hear(self) -> None:
        """Add the messages from people that came since the last turn."""
        self._say(*(Message(role="user", content=message.text) for message in self.mailbox.told))
        self.mailbox.told.clear()

    async def _shorten(self) -> None:
        rule = self.agent.history_management
        before = len(self.state.messages)
        if rule is not None and talk.is_long(self.state.messages, rule):
            self.advance(messages=await talk.shorten_conversation(self.state.messages, rule, self._summary))
        self.advance(messages=talk.shorten_to_limit(self.state.messages))
        if len(self.state.messages) != before:
            self.advance(earlier=0)  # the first messages may have been cut, so their number no longer holds

    async def _summary(self, rule: AgentHistory, old: list[Message]) -> str | None:
        """Return a summary of these messages by a model; None if it gives none."""
        agent = self.agent if rule.agent is None else self.definition.blueprint.agents[rule.agent]
        step = rule.agent or f"{self.definition.step}-summary"
        request = talk.make_summary_request(agent, rule.agent, step, old)
        try:
            reply = await ask_model(
                request, AgentCall(agent, rule.agent, self.definition.step), self._frame(), "summary"
            )
        except (ActivityError, ApplicationError) as error:
            if is_cancelled(error) or (isinstance(error, ApplicationError) and error.type not in talk.BAD_TYPES):
                raise
            return None  # it must not end the agent
        return text_of(reply.output)
