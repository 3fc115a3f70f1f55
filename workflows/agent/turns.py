"""The turns of one agent with tools: ask its model, make the calls, return the results, until there is an output.

`AgentWorkflow` takes them in a workflow of the agent's own, `AgentInRun` in that of its run; a plan's driver extends
them (`workflows.plan.agent_workflow`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from temporalio.exceptions import ActivityError

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds.references import MCP
from holdfast.protocol.agents import Message, ModelReply, ModelRequest, ToolCall, ToolSpec, name_tools
from holdfast.protocol.children import AgentDefinition, AgentResult, AgentState, Failure
from holdfast.workflows.agent import commands
from holdfast.workflows.agent.agent_calls import FINAL_RESULT, AgentCalls
from holdfast.workflows.agent.checks import Result, check_rules, describe_present
from holdfast.workflows.agent.context import ModelContext
from holdfast.workflows.agent.ending import EndingTools
from holdfast.workflows.agent.mailbox import Mailbox
from holdfast.workflows.agent.object_turns import ObjectTurns
from holdfast.workflows.agent.work import AgentPlace, AgentWork
from holdfast.workflows.agents import MOST_MISFITS, AgentCall, ask_model, is_overflow, tell_misfit, unwrap_list
from holdfast.workflows.concurrency import run_together
from holdfast.workflows.failures import failure, find_failure
from holdfast.workflows.loop_guard import add_call, is_repetition
from holdfast.workflows.tool_calls import name_tool_error
from holdfast.workflows.toolbox import ASK_PERSON, describe_person, describe_tools, list_tools_of_workers
from holdfast.workflows.turns import tell_left_out

MOST_OVERFLOWS = 5


class AgentTurns:
    """One agent, from its first turn or from that after a continue-as-new on.

    Args:
        place: Where it works.
        definition: The agent.
        mailbox: Messages of people that no turn has read yet.
    """

    def __init__(self, place: AgentPlace, definition: AgentDefinition, mailbox: Mailbox) -> None:
        self.definition, self.agent, self.mailbox = definition, definition.agent, mailbox
        self.host, self.address = place.host, place.address
        self.work = AgentWork(place, definition, mailbox)
        self._place = place
        self._asking = AgentCall(
            definition.agent, definition.name, definition.step, definition.timeout, definition.retry
        )
        is_bounded = definition.bounds is not None
        state = self.work.state
        self._ending = EndingTools(state, is_bounded=is_bounded) if definition.ends_with_tool else None
        self._context = ModelContext(self.work)
        self.calls = AgentCalls(self.work, state, self._ending)
        self._object = ObjectTurns(self.work, self.calls)
        self._tool_calls = self.calls.tool_calls

    @property
    def state(self) -> AgentState:
        """The state that the next history begins with, but for `collect_state`."""
        return self.work.state

    def collect_state(self) -> dict[str, Any]:
        """Return fields of the state that are kept elsewhere while the agent works."""
        return {
            "told": list(self.mailbox.told),
            "made": self._tool_calls.made,
            "tool_errors": self._tool_calls.tries,
            **({} if self._ending is None else self._ending.collect_state()),
        }

    def make_result(self, output: JSON, **handed_back: Any) -> AgentResult:
        """Return the result; `handed_back`: the fields of every workflow's."""
        return AgentResult(
            output=output,
            turns=self.state.turn,
            log=self.state.log,
            made=self._tool_calls.made,
            declined=self.work.declined,
            returned=[] if self._ending is None else self._ending.returned,
            text="" if self._ending is None else self._ending.text,
            **handed_back,
        )

    def list_failure_fields(self, error: BaseException) -> dict[str, Any]:
        """Return further fields of the agent's failure: the tools that were called, unless what failed says more."""
        made = self._tool_calls.made
        if self._ending is not None:
            returned = [call.model_dump(mode="json") for call in self._ending.returned]
            output = {"called": name_tools(made), "returned": returned, "tool_error": name_tool_error(error)}
            return {"made": made, "output": output}
        if not made or find_failure(error, self.address).output is not None:
            return {"made": made}
        return {"made": made, "output": {"called": name_tools(made)}}

    async def take(self) -> JSON:
        """Take turns until there is an output, and return it."""
        if self.state.tools is None:
            await (self._begin() if self.agent.source is None else self._object.begin(self.agent.source))
        while self.work.output is None:
            await self.take_one()
        return self.work.output[0]

    async def take_one(self) -> None:
        """Take one turn."""
        await self.host.until_resumed()
        self._context.hear()
        await self._context.shorten()  # also before continue-as-new: its input must stay below the 2 MB of a payload
        await self._place.next_round()
        await self._take_reply(await self._reply())

    async def _begin(self) -> None:
        """Ask the workers for the tools' descriptions, and set the first messages."""
        missing: dict[str, Failure] = {}
        if self.definition.specs is None:
            specs, missing = await self._describe_tools()
        else:
            specs = list(self.definition.specs)
        if "ask" in self.agent.human:
            specs.append(describe_person())
        if self._ending is not None:
            self._ending.begin(specs)
        opening = self.definition.messages
        self.work.advance(tools=specs, messages=opening, earlier=len(opening) - 1)
        for tool, cause in missing.items():
            other = await self._tool_calls.replace(tool, cause, self.work.frame())
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
        own = [ASK_PERSON] if self.agent.output_schema is None or not self.calls_at_once else [ASK_PERSON, FINAL_RESULT]
        for spec in self.work.toolbox.specs:
            if spec.name in own and spec != describe_person():
                uses = "asks a person" if spec.name == ASK_PERSON else "gives its output"
                text = f"no tool may be called {spec.name!r}: that is how the model {uses}"
                raise failure("reserved_tool", text, self.address)
        # A planner may direct several steps, and name tools of another one's registry, which loading has checked. What
        # an MCP server has only this step can tell.
        if self.calls_at_once or any(tool.name.startswith(MCP) for tool in self.work.tools):
            name, key = self.definition.name, "agent" if self.calls_at_once else "planner"
            place, specs = key if name is None else f"agents.{name}", self.work.toolbox.specs
            check_rules(self.agent, place, specs, list(missing), self.address)

    @property
    def calls_at_once(self) -> bool:
        return self.definition.registry is None

    def list_offered(self) -> list[ToolSpec]:
        specs = list(self.work.toolbox.specs)
        if self._ending is not None:
            return self._ending.select_open(specs)
        return specs if self.definition.registry is None else commands.list_commands(specs)

    # A turn

    async def _reply(self) -> ModelReply:
        """Return the model's next reply; a conversation that is too long for the model is cut until it fits."""
        turn = self.state.turn + 1
        if turn > self.agent.max_turns:
            text = f"{self.definition.step} returned no output in {say_count(self.agent.max_turns, 'turn')}"
            raise failure("max_turns", text, self.address)
        self.work.advance(turn=turn)
        overflows = 0
        while True:
            try:
                return await ask_model(
                    self._request(), self._asking, self.work.frame(), f"{self.definition.step}, turn {turn}"
                )
            except ActivityError as error:
                # Cutting turns from before the agent is not counted: they may be many, and each cut halves them.
                overflows += not self.state.earlier
                if overflows == MOST_OVERFLOWS or not is_overflow(error) or not self._context.cut():
                    raise

    def _request(self) -> ModelRequest:
        return ModelRequest(
            step=self.definition.step,
            agent=self.definition.name,
            model=self.agent.model,
            instructions=self.definition.instructions,
            messages=tell_left_out(self.state.messages, self.state.left_out, self.state.earlier),
            tools=self.list_offered(),
            output_schema=self.agent.output_schema,
            native_output=self.agent.output_mode == "native",
            settings=self.agent.model_settings,
            use=self.state.use,
        )

    async def _take_reply(self, reply: ModelReply) -> None:
        """Make the calls of a reply, have the model correct it, or take it as the output."""
        reply = self.calls.name_calls(reply)
        if self.state.use is not None:
            await self._object.take(reply, self.state.use)
        elif reply.problem is not None:
            self.correct(reply, reply.problem)
        elif reply.tool_calls:
            self.work.advance(misfits=0)
            await self._call(reply)
        elif self._ending is not None:
            names = " or ".join(spec.name for spec in self.list_offered() if spec.reference != ASK_PERSON)
            self.correct(reply, f"call {names}: its result is the output", "no_tool_result")
        else:
            self.conclude(reply)

    def conclude(self, reply: ModelReply) -> None:
        """Take a reply without calls as the output, unless a person has sent a message meanwhile."""
        if self.mailbox.told and self.state.turn < self.agent.max_turns:
            self.work.say(Message(role="assistant", content=reply.output))
        else:
            self.work.finish(reply.output)

    def correct(self, reply: ModelReply, problem: str, type_: str = "output_invalid") -> None:
        misfits = self.state.misfits + 1
        if misfits >= MOST_MISFITS:
            output = unwrap_list(reply, self.agent)
            raise failure(type_, f"{self.definition.step}: {problem}", self.address, output=output)
        self.work.advance(misfits=misfits)
        self.work.say(*tell_misfit(reply, problem))

    # Calls

    async def answer_call(self, call: ToolCall, index: int, before: int, *, again: bool) -> Result:
        """Make one call and return its result for the model."""
        return await self.calls.answer(call, index, before, again=again)

    async def _call(self, reply: ModelReply) -> None:
        """Make the calls of a turn, and add exactly one result for each, in the order of the calls."""
        before = self.state.calls - self.state.surplus - len(reply.tool_calls)
        recent = self.state.recent
        works = []
        for index, call in enumerate(reply.tool_calls):
            recent = add_call(recent, call)
            works.append(partial(self.answer_call, call, index, before + index, again=is_repetition(recent, call)))
        self.work.advance(recent=recent)
        self.work.fork_requests()
        if self._ending is not None:
            self._ending.begin_turn(reply.output)
        if self.calls_at_once and self._ending is None:
            results = await run_together(work() for work in works)
        else:  # a later command of a planner may depend on an earlier one; a no of a person ends all
            results = [await work() for work in works if not self.work.declined]
        if self._ending is not None:
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
            self.work.advance(surplus=self.state.surplus + surplus)
