"""The turns of an agent object of the team's own code: what its library does with a reply, in activities."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from holdfast.blueprint.json_values import JSON
from holdfast.protocol.agent_objects import FINAL_OUTPUT, AgentDescription, ObjectReference, ObjectUse
from holdfast.protocol.agents import (
    Completed,
    Message,
    ModelReply,
    ObjectCall,
    ObjectTool,
    ToolCall,
    ToolRequest,
    ToolSpec,
)
from holdfast.workflows.agent import objects
from holdfast.workflows.agent.agent_calls import AgentCalls
from holdfast.workflows.agent.checks import Result
from holdfast.workflows.agent.work import AgentWork
from holdfast.workflows.approvals import add_defaults, approve_call
from holdfast.workflows.concurrency import run_together
from holdfast.workflows.frame import Frame
from holdfast.workflows.loop_guard import add_call, is_repetition
from holdfast.workflows.toolbox import BadCall, ask_result, describe_person
from holdfast.workflows.tools import call_tool, complete_tool


class NotReturned(ApplicationError):
    """Raised within a call of which the library told the model that it did not do what it is for."""

    def __init__(self, done: Completed) -> None:
        super().__init__(done.problem, type="tool_error", non_retryable=True)
        self.done = done


class ObjectTurns:
    """An agent object at work."""

    def __init__(self, work: AgentWork, calls: AgentCalls) -> None:
        self.work, self.calls = work, calls

    async def begin(self, source: str) -> None:
        """Have a worker find the agent object; one that is a function is called at once."""
        agent = self.work.agent
        tools = objects.list_named_tools(agent, self.work.definition.name)
        reference = ObjectReference(
            reference=source, deps=agent.deps, model=agent.model, tools=tools, keys=agent.keys_of_turns
        )
        description = await self.work.host.activities.describe_agent(reference, self.work.address)
        opening, prompt = self.work.definition.messages, self.work.definition.messages[-1].content
        if description.kind == "function":
            self.work.output = (await self._call_function(description, source, prompt),)
            return
        run = workflow.info().workflow_id
        use = ObjectUse(reference=source, deps=agent.deps, run=run, prompt=prompt, tools=tools)
        specs = [describe_person()] if "ask" in agent.human else []
        self.work.advance(tools=specs, messages=opening, earlier=len(opening) - 1, use=use)

    async def _call_function(self, description: AgentDescription, source: str, prompt: JSON) -> JSON:
        """Call a function that is an agent, unless an earlier plan did and a person wants that to stand."""
        definition, frame = self.work.definition, self.work.frame()
        call = ToolCall(name=description.name, args={"input": prompt})
        spec = ToolSpec(name=description.name, reference=source, idempotent=description.idempotent)
        allowed = await approve_call(call, spec, (), frame)
        if allowed.earlier is not None:
            return allowed.earlier.output
        await frame.within_limits("model")
        request = ToolRequest(tool=description.name, input=prompt)
        retry = definition.retry or self.work.agent.retry
        timeout = definition.timeout or self.work.agent.timeout
        work = partial(call_tool, request, frame, source, timeout=timeout, retry=retry)
        return await self.calls.tool_calls.make(source, call.args, work, frame)

    async def take(self, reply: ModelReply, use: ObjectUse) -> None:
        """Do with a reply what the object's library does with one."""
        self.work.advance(use=objects.add_reply(use, reply))
        answer = Message(role="assistant", content=reply.output, tool_calls=reply.tool_calls, raw=reply.raw)
        if reply.problem is not None:
            self.work.say(answer, *self._count_correction(reply.corrections))
        elif reply.tool_calls:
            await self._call_for_object(reply, answer)
        else:
            checked = await self._check_output(reply, answer) if reply.unchecked else Completed(result=reply.output)
            self._conclude_object(checked, answer)

    def _count_correction(self, corrections: list[Message]) -> list[Message]:
        """Count an output that has to be given again, and return what the model is told."""
        assert self.work.state.use is not None
        self.work.advance(use=objects.add_correction(self.work.state.use, corrections))
        return corrections

    def _conclude_object(self, checked: Completed, answer: Message) -> None:
        """Take a checked output, unless it has to be given again, or a person has sent a message meanwhile."""
        if checked.again:
            self.work.say(answer, *self._count_correction(checked.messages))
        elif self.work.mailbox.told and self.work.state.turn < self.work.agent.max_turns:
            self.work.say(answer)
        else:
            self.work.finish(checked.result)

    async def _check_output(self, reply: ModelReply, answer: Message) -> Completed:
        """Have the functions of the object's authors check an output, in an activity of its own."""
        request = ToolRequest(
            tool=f"{self.work.agent.source}/{FINAL_OUTPUT}",
            idempotent=not reply.output_function,
            of_agent=self._object_call(None, answer),
        )
        frame = self.work.frame().at("tool", FINAL_OUTPUT, str(self.work.state.turn))
        await self.work.host.until_resumed()
        return await complete_tool(request, frame, FINAL_OUTPUT)

    def _object_call(self, call: ToolCall | None, answer: Message) -> ObjectCall:
        assert self.work.state.use is not None
        return ObjectCall(
            use=self.work.state.use,
            model=self.work.agent.model,
            instructions=self.work.definition.instructions,
            messages=[*self.work.state.messages, answer],
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
        self.work.say(answer, *objects.order_results(reply.tool_calls, messages))
        self.calls.count_bad([results[index] for index in calls])

    async def _make_calls(self, reply: ModelReply, answer: Message, indices: list[int]) -> dict[int, Result]:
        """Make these calls, those at once that may be, and count what came of them."""
        before = self.work.state.calls - self.work.state.surplus - len(reply.tool_calls)
        results: dict[int, Result] = {}
        for group in objects.group_calls(reply.object_tools, indices):
            works = []
            for index in group:
                call, tool = reply.tool_calls[index], reply.object_tools[index]
                self.work.advance(recent=add_call(self.work.state.recent, call))
                make = partial(self._make_object_call, call, tool, answer, is_repetition(self.work.state.recent, call))
                works.append(partial(self.calls.settle, call, index, before + index, make))
            self.work.fork_requests()
            results |= dict(zip(group, await run_together(work() for work in works), strict=True))
        made = [reply.tool_calls[index] for index in results]
        assert self.work.state.use is not None
        self.work.advance(use=objects.add_results(self.work.state.use, made, list(results.values())))
        return results

    async def _make_object_call(
        self, call: ToolCall, tool: ObjectTool, answer: Message, again: bool, frame: Frame
    ) -> Result:
        """Make a call of a tool that the object has; one of the blueprint's is made like any other."""
        if self.work.toolbox.spec(call.name) is not None:
            return Result(await self.calls.make_call(call, frame, again))
        if call.unreadable is not None:
            raise BadCall(f"the arguments of {call.name} cannot be read: {call.unreadable}")
        spec = objects.make_spec(self.work.agent, call, tool)
        settings = objects.make_settings(self.work.agent, spec)
        whole = add_defaults(call, spec)
        allowed = await self.calls.approve(whole, spec, settings, frame, call if again else None)
        if allowed.earlier is not None:
            return Result(allowed.earlier.output)
        changed = allowed.call.args != whole.args
        if tool.demand == "external":
            ask = partial(ask_result, allowed.call, spec.reference, frame)
            return Result(await self.calls.tool_calls.make(spec.reference, allowed.call.args, ask, frame))
        request = ToolRequest(
            tool=spec.reference,
            input=allowed.call.args,
            by_name=True,
            idempotent=settings.idempotent,
            consent=allowed.consent,
            of_agent=self._object_call(allowed.call if changed else call, answer),
        )
        complete = partial(complete_tool, request, frame, call.name, timeout=settings.timeout, retry=settings.retry)
        done = await self._complete_call(request, complete, frame)
        return Result(done.result, messages=done.messages, again=done.again)

    async def _complete_call(
        self, request: ToolRequest, complete: Callable[[], Awaitable[Completed]], frame: Frame
    ) -> Completed:
        """Make a call, and record it for whoever plans what is left; one that did not return counts as failed."""

        async def work() -> JSON:
            done = await complete()
            if done.again or done.refused:
                raise NotReturned(done)
            ended.append(done)
            return done.result

        ended: list[Completed] = []
        try:
            await self.calls.tool_calls.make(request.tool, request.input, work, frame)
        except NotReturned as error:
            return error.done
        return ended[0]
