"""The workflow of one agent with tools: ask its model, make the calls, return the results, until there is an output.

Started as a child by `workflows.agents.run_agent`; `workflows.plan.agent_workflow` extends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds.references import MCP
from holdfast.protocol.agents import Message, ModelReply, ModelRequest, ToolCall, ToolSpec, name_tools
from holdfast.protocol.names import AGENT_WORKFLOW
from holdfast.protocol.runs import AgentDefinition, AgentResult, AgentState, Failure
from holdfast.workflows.agent import commands
from holdfast.workflows.agent.agent_calls import FINAL_RESULT, AgentCalls
from holdfast.workflows.agent.checks import Result, check_rules, describe_present
from holdfast.workflows.agent.context import ModelContext
from holdfast.workflows.agent.ending import EndingTools
from holdfast.workflows.agent.mailbox import Mailbox
from holdfast.workflows.agent.object_turns import ObjectTurns
from holdfast.workflows.agent.work import AgentWork
from holdfast.workflows.agents import MOST_MISFITS, AgentCall, ask_model, is_overflow, tell_misfit, unwrap_list
from holdfast.workflows.concurrency import run_together
from holdfast.workflows.failures import failure, find_failure
from holdfast.workflows.handlers import handles
from holdfast.workflows.loop_guard import add_call, is_repetition
from holdfast.workflows.run import RunWorkflow
from holdfast.workflows.sizes import can_be_sent
from holdfast.workflows.tool_calls import name_tool_error
from holdfast.workflows.toolbox import ASK_PERSON, describe_person, describe_tools, list_tools_of_workers
from holdfast.workflows.turns import tell_left_out

MOST_OVERFLOWS = 5


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
        is_bounded = definition.bounds is not None
        self.ending = EndingTools(state, is_bounded=is_bounded) if definition.ends_with_tool else None
        self.work = AgentWork(self, definition, self.mailbox)
        self.context = ModelContext(self.work)
        self.calls = AgentCalls(self.work, state, self.ending)
        self.object = ObjectTurns(self.work, self.calls)
        self.tool_calls = self.calls.tool_calls

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
        result = await self.run_to_result(self._work(), self._make_result)
        return self._make_cancelled() if result is None else result

    def _make_cancelled(self) -> AgentResult:
        """Return what an agent did that was cancelled; if that is too much, without what its tools returned."""
        result = self._make_result(None)
        if can_be_sent(result, self.host.identity.history_limits.value):
            return result
        return result.model_copy(update={"returned": [], "log": []})

    def _make_result(self, output: JSON) -> AgentResult:
        return AgentResult(
            output=output,
            turns=self.state.turn,
            log=self.state.log,
            made=self.tool_calls.made,
            declined=self.work.declined,
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
            await (self._begin() if self.agent.source is None else self.object.begin(self.agent.source))
        while self.work.output is None:
            await self._turn()
        return self.work.output[0]

    async def _turn(self) -> None:
        await self.host.until_resumed()
        self.context.hear()
        await self.context.shorten()  # also before continue-as-new: its input must stay below the 2 MB of a payload
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
            other = await self.tool_calls.replace(tool, cause, self.work.frame())
            self.work.say(Message(role="user", content=f"The tool {tool} is missing; call {other.name} in its place."))
        self._check_tools(missing)

    async def _describe_tools(self) -> tuple[list[ToolSpec], dict[str, Failure]]:
        """Return the descriptions of the tools, and why those are missing in whose place others may be called."""
        wanted = list_tools_of_workers(self.work.tools)
        specs, missing = await describe_present(wanted, self.agent, self.host.activities, self.address)
        # An author may name a tool by itself and again through its server.
        specs = list({spec.reference: spec for spec in specs}.values())
        return [*specs, *describe_tools(self.work.tools, self.definition.blueprint)], missing

    def _check_tools(self, missing: Iterable[str] = ()) -> None:
        """Raise a failure if two tools share a name, or one has a name that is reserved."""
        self.work.toolbox.check(self.address)
        own = (
            [ASK_PERSON] if self.agent.output_schema is None or not self._calls_at_once else [ASK_PERSON, FINAL_RESULT]
        )
        for spec in self.work.toolbox.specs:
            if spec.name in own and spec != describe_person():
                uses = "asks a person" if spec.name == ASK_PERSON else "gives its output"
                text = f"no tool may be called {spec.name!r}: that is how the model {uses}"
                raise failure("reserved_tool", text, self.address)
        # A planner may direct several steps, and name tools of another one's registry, which loading has checked. What
        # an MCP server has only this step can tell.
        if self._calls_at_once or any(tool.name.startswith(MCP) for tool in self.work.tools):
            name, key = self.definition.name, "agent" if self._calls_at_once else "planner"
            place, specs = key if name is None else f"agents.{name}", self.work.toolbox.specs
            check_rules(self.agent, place, specs, list(missing), self.address)

    @property
    def _calls_at_once(self) -> bool:
        return self.definition.registry is None

    def _list_offered(self) -> list[ToolSpec]:
        specs = list(self.work.toolbox.specs)
        if self.ending is not None:
            return self.ending.select_open(specs)
        return specs if self.definition.registry is None else commands.list_commands(specs)

    # A turn

    async def _reply(self) -> ModelReply:
        """Return the model's next reply; a conversation that is too long for the model is cut until it fits."""
        turn = self.state.turn + 1
        if turn > self.agent.max_turns:
            text = f"{self.definition.step} returned no output in {say_count(self.agent.max_turns, 'turn')}"
            raise failure("max_turns", text, self.address)
        self.advance(turn=turn)
        overflows = 0
        while True:
            try:
                return await ask_model(
                    self._request(), self.asking, self.work.frame(), f"{self.definition.step}, turn {turn}"
                )
            except ActivityError as error:
                # Cutting turns from before the agent is not counted: they may be many, and each cut halves them.
                overflows += not self.state.earlier
                if overflows == MOST_OVERFLOWS or not is_overflow(error) or not self.context.cut():
                    raise

    def _request(self) -> ModelRequest:
        return ModelRequest(
            step=self.definition.step,
            agent=self.definition.name,
            model=self.agent.model,
            instructions=self.definition.instructions,
            messages=tell_left_out(self.state.messages, self.state.left_out, self.state.earlier),
            tools=self._list_offered(),
            output_schema=self.agent.output_schema,
            native_output=self.agent.output_mode == "native",
            settings=self.agent.model_settings,
            use=self.state.use,
        )

    async def _take(self, reply: ModelReply) -> None:
        """Make the calls of a reply, have the model correct it, or take it as the output."""
        reply = self.calls.name_calls(reply)
        if self.state.use is not None:
            await self.object.take(reply, self.state.use)
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
            self.work.say(Message(role="assistant", content=reply.output))
        else:
            self.work.finish(reply.output)

    def _correct(self, reply: ModelReply, problem: str, type_: str = "output_invalid") -> None:
        misfits = self.state.misfits + 1
        if misfits >= MOST_MISFITS:
            output = unwrap_list(reply, self.agent)
            raise failure(type_, f"{self.definition.step}: {problem}", self.address, output=output)
        self.advance(misfits=misfits)
        self.work.say(*tell_misfit(reply, problem))

    # Calls

    async def _answer_call(self, call: ToolCall, index: int, before: int, *, again: bool) -> Result:
        """Make one call and return its result for the model."""
        return await self.calls.answer(call, index, before, again=again)

    async def _call(self, reply: ModelReply) -> None:
        """Make the calls of a turn, and add exactly one result for each, in the order of the calls."""
        before = self.state.calls - self.state.surplus - len(reply.tool_calls)
        recent = self.state.recent
        works = []
        for index, call in enumerate(reply.tool_calls):
            recent = add_call(recent, call)
            works.append(partial(self._answer_call, call, index, before + index, again=is_repetition(recent, call)))
        self.advance(recent=recent)
        self.work.fork_requests()
        if self.ending is not None:
            self.ending.begin_turn(reply.output)
        if self._calls_at_once and self.ending is None:
            results = await run_together(work() for work in works)
        else:  # a later command of a planner may depend on an earlier one; a no of a person ends all
            results = [await work() for work in works if not self.work.declined]
        if self.ending is not None:
            self.calls.end_with_tools(results)
            if self.work.output is not None:
                return
        answers = [
            Message(role="tool", call=call.id, tool=call.name, content=result.content)
            for call, result in zip(reply.tool_calls, results, strict=True)
        ]
        said = Message(role="assistant", content=reply.output, tool_calls=reply.tool_calls, raw=reply.raw)
        self.work.say(said, *answers)
        self.calls.count_bad(results)
        surplus = len(results) - self.agent.max_tool_calls_per_turn
        if surplus > 0 and self.agent.max_tool_calls is not None:
            self.advance(surplus=self.state.surplus + surplus)
