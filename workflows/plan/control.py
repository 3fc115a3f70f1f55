"""The control tools: how an agent drives a plan. Every rule is kept here; a wrong call is told what to do instead."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from temporalio.exceptions import ApplicationError

from holdfast.blueprint.kinds import Option, PlanBody, PlanStep
from holdfast.blueprint.plan import LoopUnit, StepUnit, asks
from holdfast.blueprint.plan.lists import list_in, structured
from holdfast.protocol.agents import FindTool, ToolCall, ToolSpec, Usage
from holdfast.protocol.answers import Refusal
from holdfast.protocol.events import LoopCompleted, LoopIteration, StepCompleted, StepFailed, StepRetrying, StepStarted
from holdfast.protocol.plans import OVER, LoopOutcome, StepResult, progress_of
from holdfast.protocol.questions import Clarification
from holdfast.protocol.runs import Failure
from holdfast.workflows.failure_review import judged
from holdfast.workflows.failures import failure_of
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.break_off import Ending, break_off, loop_broken_off
from holdfast.workflows.plan.catalogue import Catalogue, tools_of
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.driven_state import ControlError, DrivenPlan, LocatedStep, LoopAt
from holdfast.workflows.plan.errors import Tally, failed, given_up
from holdfast.workflows.plan.items import CANCELLED, items_for
from holdfast.workflows.plan.questions import DECLINED, agreed, ask
from holdfast.workflows.plan.scope import OverError, PlanScope, done_of, first_error, outcome_of
from holdfast.workflows.plan.telling import segment_of, tell, tell_settled
from holdfast.workflows.plan.tool_calls import Failed, ToolCaller

Json = dict[str, Any]
KEYS = ("steps", "results", "active_loops", "progress", "summary", "tools")
_STATE_KEY = re.compile(r"step_(?P<id>.+)_(?P<what>status|error|response)")
_TEXT = {"type": "string", "minLength": 1}


def _tool(name: str, description: str, required: list[str], **properties: Any) -> ToolSpec:
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ToolSpec(name=name, description=description, parameters=parameters, reference=f"plan:{name}")


_STEP = {**_TEXT, "description": "A step's id; in a loop that of the current iteration."}
_LOOP = {**_TEXT, "description": "A loop's id."}
CONTROL: tuple[ToolSpec, ...] = (
    _tool("get_state", "Where the plan stands.", ["key"], key={"enum": list(KEYS)}),
    _tool("get_step_result", "What a step gave.", ["step_id"], step_id=_STEP),
    _tool(
        "execute_step_tool",
        "Call a tool for a step. Then call finish_step.",
        ["step_id", "tool_name", "parameters"],
        step_id=_STEP,
        tool_name=_TEXT,
        parameters={"type": "object"},
    ),
    _tool(
        "finish_step",
        "Say that a step is done, after each step, in loops for each item.",
        ["step_id", "result_summary"],
        step_id=_STEP,
        result_summary={"type": "string"},
        result={"type": "array", "items": {}, "description": "Of a step that a loop goes through: the list."},
    ),
    _tool("start_loop", "Begin a loop, once; gives the first item.", ["loop_id"], loop_id=_LOOP),
    _tool(
        "advance_loop",
        "Go to a loop's next item, once every step of this one is finished; ends the loop after the last.",
        ["loop_id"],
        loop_id=_LOOP,
        expected_iteration={"type": "integer", "description": "The iteration that is done, to be sure."},
    ),
    _tool("get_loop_context", "Where a loop stands; nothing changes.", [], loop_id={"type": "string"}),
    _tool(
        "request_user_info",
        "Ask a person, and wait for the answer: for a step with pause_for_response, or when something is lacking.",
        ["question"],
        question=_TEXT,
        options={"type": "array", "items": _TEXT},
        step_id={
            "type": "string",
            "description": "The step that asks; empty to ask something else. Default: the next.",
        },
    ),
    ToolSpec(
        name="update_state",
        description='Set a step\'s state, such as {"step_3_status": "skipped"}, or values of your own as vars.<name>.',
        parameters={"type": "object", "minProperties": 1},
        reference="plan:update_state",
    ),
    _tool(
        "update_plan",
        "Change what is left of the plan: steps that are over or under way must stay as they are.",
        ["new_plan", "reason"],
        new_plan={"type": "object"},
        reason=_TEXT,
    ),
    _tool(
        "find_tool",
        "Find a tool in the place of one that is missing.",
        ["instruction"],
        service={"type": ["string", "null"]},
        instruction=_TEXT,
    ),
)


class Control:
    """Does what control calls say, to one plan."""

    def __init__(self, drive: DrivenPlan, desk: PlanContext, change: Callable[[Any, str], Awaitable[int]]) -> None:
        self.drive, self._desk, self._change = drive, desk, change
        self._tools: dict[str, Callable[..., Awaitable[Json]]] = {
            "get_state": self._get_state,
            "get_step_result": self._get_step_result,
            "execute_step_tool": self._execute,
            "finish_step": self._finish,
            "start_loop": self._start_loop,
            "advance_loop": self._advance_loop,
            "get_loop_context": self._get_loop_context,
            "request_user_info": self._ask,
            "update_state": self._update_state,
            "update_plan": self._update_plan,
            "find_tool": self._find_tool,
        }
        self._callers: dict[str, ToolCaller] = {}
        self.current: str | None = None
        self.progress = 0
        """How often something has changed."""

    def revised(self, plan: PlanBody) -> None:
        """Go on with another plan."""
        self.drive.revise(plan)
        self._desk = replace(self._desk, plan=plan)
        self._callers.clear()

    async def do(self, call: ToolCall, frame: Frame) -> Json:
        """The result of a call. Raises `ControlError` for one that cannot be done; then nothing has changed."""
        work = self._tools[call.name]
        if call.name == "update_state":
            return await self._update_state(**{"updates": call.args})
        if call.name == "request_user_info":
            return await self._ask(**call.args, frame=frame)
        return await work(**call.args)

    def settle(self) -> None:
        """Skip what cannot run any more, wherever it stands."""
        for scope in self.drive.scopes():
            for unit, verdict in scope.settle(self._stopped(scope), self.drive.active):
                tell_settled(unit, verdict, self._frame(scope))

    def break_off(self, ending: Ending) -> None:
        """End what the plan has begun, the innermost first, as the plan ends before it."""
        for scope in reversed(list(self.drive.scopes())):
            break_off(scope, self._frame(scope), ending, self.drive.active)
            at = next((at for at in self.drive.active.values() if at.scope is scope), None)
            if at is not None:
                self._break_off_loop(at, ending)

    def _break_off_loop(self, at: LoopAt, ending: Ending) -> None:
        done = [*at.done, at.scope.iteration(ending.status)]
        outcome = loop_broken_off(at.unit, ending, done)
        here = self._frame(self.drive.scope_around(at.unit.id)).at("loop", at.unit.id)
        self.drive.end(at, outcome)
        if outcome.error is not None:
            here.note(
                StepFailed(name=at.unit.id, kind="loop", error=outcome.error["type"], message=outcome.error["message"])
            )

    def _stopped(self, scope: PlanScope) -> str:
        """Why nothing more is started in a list; a failure stops what stands outside the loops."""
        if any(at.was_cancelled() for at in self.drive.scopes()):
            return "plan_cancelled"
        if scope is not self.drive.root:
            return ""
        root = self.drive.root
        fails = any(root.is_over(unit.id) and root.has_failed(unit) for unit in root.units)
        return "fail_fast" if self.drive.plan.fail_fast and fails else ""

    def _frame(self, scope: PlanScope) -> Frame:
        frame = replace(self._desk.frame, address=self.drive.address_of(scope))
        if not scope.around:
            return frame
        at = scope.around[-1]
        return replace(frame, iteration=at.index + 1, place=f"{at.loop} {at.index + 1}")

    def _desk_at(self, scope: PlanScope) -> PlanContext:
        return self._desk.at(self._frame(scope), scope)

    # Looking

    async def _get_state(self, key: str) -> Json:
        drive = self.drive
        steps = drive.told_steps()
        match key:
            case "steps":
                written = {unit.id: unit.step.instruction for unit in drive.layout.steps()}
                told = {id_: {**_short(result), "instruction": written[id_]} for id_, result in steps.items()}
                return {"steps": told}
            case "results":
                return {"results": {id_: result.value for id_, result in steps.items() if result.status == "completed"}}
            case "tools":
                return {"tools": self._tools_described(tools_of(drive.plan))}
            case "active_loops":
                return {"active_loops": {id_: at.context() for id_, at in drive.active.items()}}
            case "progress":
                return {"progress": {**progress_of(steps), "current_step": drive.current()}}
        statuses = {id_: result.status for id_, result in steps.items()}
        return {"goal": drive.plan.goal, "statuses": statuses, "to_do": drive.told_next(), "vars": drive.vars}

    async def _get_step_result(self, step_id: str) -> Json:
        unit = self.drive.layout.find(step_id)
        if isinstance(unit, StepUnit):
            for scope in reversed(list(self.drive.scopes())):
                result = scope.told_step(unit.id)
                if result.status != "pending":
                    return {"step_id": step_id, **result.told()}
            return {"step_id": step_id, **StepResult(status="pending").told()}
        found = self.drive.step_named(step_id)
        return {"step_id": step_id, **self.drive.result_of(found.scope, found.unit.id).told()}

    async def _get_loop_context(self, loop_id: str = "") -> Json:
        drive = self.drive
        if not loop_id.strip():
            if not drive.active:
                raise ControlError("no_active_loop", "no loop is active: call start_loop")
            return list(drive.active.values())[-1].context()
        unit = drive.loop_named(loop_id)
        if unit.id in drive.active:
            return drive.active[unit.id].context()
        scope = drive.scope_around(unit.id)
        if unit.id in scope.loops:
            return _over(unit, scope.loops[unit.id])
        raise ControlError("loop_not_started", f"the loop {unit.id!r} has not begun: call start_loop")

    # Steps

    def _startable(self, step_id: str) -> tuple[LocatedStep, StepResult]:
        """A step that may be worked on."""
        found = self.drive.step_named(step_id)
        unit, scope = found
        result = self.drive.result_of(scope, unit.id)
        if result.status in OVER:
            why = f" ({result.reason})" if result.reason else ""
            text = f"step {unit.id!r} is {result.status}{why}; {self.drive.told_next()}"
            raise ControlError("already_finished", text, status=result.status)
        if result.status == "pending" and scope.verdict(unit) == "wait":
            missing = [id_ for id_ in unit.waits if not scope.is_over(id_)]
            text = f"step {unit.id!r} waits for {', '.join(missing)}; {self.drive.told_next()}"
            raise ControlError("dependencies_not_met", text, missing=missing)
        return found, result

    def _begin(self, found: LocatedStep) -> None:
        """The step is under way from now on."""
        self.current = found.unit.id
        if self.drive.result_of(found.scope, found.unit.id).status == "pending":
            kind, id_ = segment_of(found.unit)
            frame = self._frame(found.scope)
            frame.at(kind, id_).note(StepStarted(name=id_, kind=kind, title=found.unit.step.title))
            frame.meter.count(Usage(steps=1))
            frame.host.count(Usage(steps=1))
            self.drive.record(found)
            self.progress += 1

    async def _execute(self, step_id: str, tool_name: str, parameters: Json) -> Json:
        found, result = self._startable(step_id)
        unit, scope = found
        if asks(unit.step) and result.data is None:
            text = f"step {unit.id!r} asks a person first: call request_user_info"
            raise ControlError("answer_missing", text)
        self.current = unit.id
        caller = self._caller(found)
        tool = await self._tool_named(tool_name, found, caller)
        done = [one for one in result.tool_results if one["tool"] == tool]
        if done:
            told = {"success": True, "data": done[-1]["data"], "error": None, "already_executed": True}
            same = done[-1]["parameters"] == parameters
            return (
                told if same else {**told, "note": f"{tool} was done before with other parameters; it is not run again"}
            )
        self._begin(found)
        frame = self._frame(scope).at("step", unit.id)
        await frame.within_limits()
        tally = Tally()
        tally.counts.update(self.drive.result_of(scope, unit.id).tries)
        id_ = f"call_{len(result.tool_results) + tally.counts.total() + 1}"
        outcome = await caller.call(tool, parameters, frame, tally, id_)
        self.progress += 1
        if not isinstance(outcome, Failed):
            given = [*result.tool_results, {"tool": tool, "parameters": parameters, "data": outcome.data}]
            self.drive.record(found, tool_results=given, tries=dict(tally.counts))
            return {"success": True, "data": outcome.data, "error": None}
        return self._erred(outcome, found, tally)

    def _is_missing(self, found: LocatedStep, kind: str | None) -> None:
        """From now on the step may use a tool that is found in the place of its own."""
        if kind == "tool_missing" and self._key(found) not in self.drive.missing:
            self.drive.missing.append(self._key(found))

    def _key(self, found: LocatedStep) -> str:
        return f"{self.drive.address_of(found.scope)};{found.unit.id}"

    def _caller(self, found: LocatedStep) -> ToolCaller:
        key = self._key(found)
        if key not in self._callers:
            self._callers = {key: ToolCaller(found.unit.step, self._desk_at(found.scope))}
        return self._callers[key]

    async def _tool_named(self, name: str, found: LocatedStep, caller: ToolCaller) -> str:
        """The step's tool that is meant, as the plan or as the model calls it."""
        begin = f"{self._key(found)};"
        others = [one.removeprefix(begin) for one in self.drive.found if one.startswith(begin)]
        tools = [*found.unit.step.tools, *others]
        if not found.unit.step.tools:
            text = f"step {found.unit.id!r} has no tools: do it yourself, and call finish_step with what you found"
            raise ControlError("no_tools", text)
        meant = next((tool for tool in tools if name in (tool, tool.rpartition(":")[2])), None)
        if meant is None:
            text = f"step {found.unit.id!r} has no tool {name!r}; it has {', '.join(found.unit.step.tools)}"
            raise ControlError("tool_not_in_step", text)
        missing = await caller.learn(meant)
        if missing is not None:
            self._is_missing(found, missing.kind)
            text = f"{missing.message}; call find_tool, then execute_step_tool with the tool that it names"
            raise ControlError(missing.kind or missing.type, text)
        return meant

    def _erred(self, outcome: Failed, found: LocatedStep, tally: Tally) -> Json:
        """A failed call: tried again, as often as the table says; or the end of the step."""
        error: Json = {"type": outcome.kind or outcome.type, "message": outcome.message}
        kind = outcome.kind
        self._is_missing(found, kind)
        if kind is not None and kind not in ("authorisation", "timeout") and tally.may_retry(kind):
            self.drive.record(found, tries=dict(tally.counts))
            self._frame(found.scope).at("step", found.unit.id).note(StepRetrying(error=kind))
            error["todo"] = _TODO[kind]
            return {"success": False, "data": None, "error": error}
        ending = (
            failed(outcome.type, outcome.message)
            if kind is None
            else given_up(kind, outcome.message, optional=found.unit.step.optional)
        )
        before = self.drive.result_of(found.scope, found.unit.id)
        given = [{"tool": one["tool"], "data": one["data"]} for one in before.tool_results]
        self._end(found, ending.model_copy(update={"tool_results": given, "called": before.called}))
        error["todo"] = f"step {found.unit.id} is {ending.status}; {self.drive.told_next()}"
        return {"success": False, "data": None, "error": error, "step_status": ending.status}

    def _end(self, found: LocatedStep, result: StepResult) -> None:
        unit, scope = found
        scope.steps[unit.id] = result
        kind, id_ = segment_of(unit)
        tell(self._frame(scope).at(kind, id_), id_, kind, result)
        self.progress += 1
        self.settle()

    async def _finish(self, step_id: str, result_summary: str, result: list[Any] | None = None) -> Json:
        found = self.drive.step_named(step_id)
        before = self.drive.result_of(found.scope, found.unit.id)
        if before.status == "completed" and (before.response == result_summary or asks(found.unit.step)):
            return self._finished(found)
        found, before = self._startable(step_id)
        self._end_well(found, before, result_summary, result)
        return self._finished(found)

    def _end_well(self, found: LocatedStep, before: StepResult, response: Any, result: list[Any] | None = None) -> None:
        """Take a step as completed, if it may be."""
        step = found.unit.step
        self._check_result(found, before)
        if result is None:
            result = self._list_for_loop(found, response)
        self._begin(found)
        data = before.tool_results[-1]["data"] if before.tool_results else before.data
        data = result if data is None else data
        said = before.response if asks(step) and not step.tools else response
        given = [{"tool": one["tool"], "data": one["data"]} for one in before.tool_results]
        self._end(found, StepResult(status="completed", response=said, data=data, tool_results=given))

    def _list_for_loop(self, found: LocatedStep, response: Any) -> Any:
        """The list that a loop is to go through, where a step without tools or a question gives one."""
        step = found.unit.step
        if step.tools or asks(step) or not self.drive.layout.feeds_loop(step.id) or _is_nothing(response):
            return None
        items = list_in(response) if isinstance(response, str) else structured(response)
        if items is None:
            text = f"a loop goes through what step {step.id!r} gives: call finish_step with `result`, a list"
            raise ControlError("list_needed", text)
        return items

    def _check_result(self, found: LocatedStep, before: StepResult) -> None:
        """A step with a question needs its answer, one with tools a result of each, or of what was found for it."""
        step = found.unit.step
        if asks(step) and before.data is None:
            raise ControlError("answer_missing", f"step {step.id!r} asks a person: call request_user_info first")
        given = {one["tool"] for one in before.tool_results}
        others = len(given - set(step.tools))
        missing = [tool for tool in step.tools if tool not in given][others:]
        if missing:
            text = f"step {step.id!r} is not done: call execute_step_tool with {', '.join(missing)}"
            raise ControlError("no_tool_result", text, missing=missing)

    def _finished(self, found: LocatedStep) -> Json:
        loop = found.scope.around[-1].loop if found.scope.around else None
        return {"success": True, **({} if loop is None else {"stored_in_loop": loop}), "to_do": self.drive.told_next()}

    # People

    async def _ask(
        self, question: str, frame: Frame, options: list[str] | None = None, step_id: str | None = None
    ) -> Json:
        found = None if step_id == "" else self._asking_step(step_id)
        if found is None:
            return await self._ask_freely(question, options or [], frame)
        unit, scope = found
        self._begin(found)
        self._wait(found, True)
        try:
            answer = await ask(unit.step, self._desk_at(scope), question, options or [])
        except ApplicationError as error:
            answer = failed(failure_of(error, frame.address).type, error.message)
        self._wait(found, False)
        self.progress += 1
        if answer.status == "completed" and (not unit.step.tools or agreed(unit.step, answer)):
            self.drive.record(found, data=answer.data, response=answer.response)
            return {"response": answer.response, "step_id": unit.id}
        if answer.status == "completed":
            answer = StepResult(status="skipped", reason=DECLINED, response=answer.response)
        self._end(found, answer)
        told = {"response": answer.response, "step_id": unit.id, "step_status": answer.status}
        return {**told, "to_do": self.drive.told_next()}

    def _wait(self, found: LocatedStep, waits: bool) -> None:
        before = self.drive.result_of(found.scope, found.unit.id)
        found.scope.steps[found.unit.id] = before.model_copy(update={"status": "waiting_input" if waits else "running"})

    def _asking_step(self, step_id: str | None) -> LocatedStep | None:
        """The step whose question it is: the one that is named, else the next that asks."""
        if step_id:
            found, before = self._startable(step_id)
            if not asks(found.unit.step):
                return None
            if before.data is not None:
                text = f"step {found.unit.id!r} has its answer: call finish_step"
                raise ControlError("already_answered", text, response=before.response)
            return found
        for unit, scope in self.drive.next_units():
            if isinstance(unit, StepUnit) and asks(unit.step) and self.drive.result_of(scope, unit.id).data is None:
                return LocatedStep(unit, scope)
        return None

    async def _ask_freely(self, question: str, options: list[str], frame: Frame) -> Json:
        offered = [Option(id=text, label=text) for text in dict.fromkeys(options)]
        async with self._desk.one_question:
            reply = await frame.ask(Clarification(message=question, options=offered))
        if reply.status == "answered":
            return {"response": reply.content}
        why = f": {reply.comment}" if reply.comment else ""
        return {"response": None, "note": f"nobody answered: the question was {reply.status}{why}"}

    # Loops

    async def _start_loop(self, loop_id: str) -> Json:
        drive = self.drive
        unit = drive.loop_named(loop_id)
        if unit.id in drive.active:
            return drive.active[unit.id].context(already_started=True)
        scope = drive.scope_around(unit.id)
        if unit.id in scope.loops:
            return _over(unit, scope.loops[unit.id])
        if scope.verdict(unit) != "run":
            missing = [id_ for id_ in unit.waits if not scope.is_over(id_)]
            text = f"the loop {unit.id!r} waits for {', '.join(missing)}; {drive.told_next()}"
            raise ControlError("dependency_not_completed", text, missing=missing)
        self.progress += 1
        here = self._frame(scope).at("loop", unit.id)
        here.note(StepStarted(name=unit.id, kind="loop"))
        try:
            items = await items_for(unit, self._desk_at(scope), here)
        except OverError as error:
            told = {"type": error.type, "message": str(error)}
            if error.type == CANCELLED:
                scope.loops[unit.id] = LoopOutcome(status="cancelled", reason=CANCELLED)
                self.settle()
                return {"loop_id": unit.id, "should_continue": False, "error": told}
            scope.loops[unit.id] = LoopOutcome(status="failed", error=told)
            here.note(StepFailed(name=unit.id, kind="loop", error=error.type, message=str(error)))
            self.settle()
            return {"loop_id": unit.id, "should_continue": False, "error": told, "to_do": drive.told_next()}
        if not items:
            scope.loops[unit.id] = outcome_of([])
            here.note(StepCompleted(name=unit.id, kind="loop", output=[]))
            self.settle()
            return {**_over(unit, scope.loops[unit.id]), "current_item": None, "to_do": drive.told_next()}
        at = drive.start(unit, items)
        self._tell_iteration(at)
        return at.context()

    def _tell_iteration(self, at: LoopAt) -> None:
        self._callers.clear()  # an item that is done anew has a list of its own
        self._frame(at.scope).note(LoopIteration(iteration=at.index + 1, item=at.items[at.index]))
        self.settle()

    async def _advance_loop(self, loop_id: str, expected_iteration: int | None = None) -> Json:
        drive = self.drive
        unit = drive.loop_named(loop_id)
        if unit.id not in drive.active:
            scope = drive.scope_around(unit.id)
            if unit.id in scope.loops:
                return _over(unit, scope.loops[unit.id])
            raise ControlError("loop_not_started", f"the loop {unit.id!r} has not begun: call start_loop")
        at = drive.active[unit.id]
        if expected_iteration is not None and expected_iteration != at.index:
            return at.context(note=f"the loop is at iteration {at.index}; nothing has changed")
        missing = [one.id for one in unit.body if not at.scope.is_over(one.id)]
        if missing:
            text = f"iteration {at.index} of {unit.id!r} is not complete: {', '.join(missing)} to be finished"
            raise ControlError("iteration_incomplete", text, missing=missing)
        return await self._next_item(at)

    async def _next_item(self, at: LoopAt) -> Json:
        self.progress += 1
        drive, unit = self.drive, at.unit
        iteration = at.scope.iteration()
        ended = at.scope.was_cancelled()
        failing = iteration.status == "failed" and unit.on_item_error == "fail"
        if iteration.status == "failed" and unit.on_item_error == "ask":
            what = Failure(type="item_failed", message=first_error([iteration]), address=self._frame(at.scope).address)
            verdict = await judged(what, at.items[at.index], self._frame(at.scope), takes_value=False)
            if verdict.action in ("retry", "edit"):
                if verdict.action == "edit":
                    drive.change_item(at, verdict.content)
                else:
                    drive.next_item(at, at.index, done_of(iteration))
                self._tell_iteration(at)
                return at.context(note=f"a person wants this item to be done once more; {drive.told_next()}")
            if verdict.action == "skip":
                iteration = iteration.model_copy(update={"status": "skipped"})
            failing = verdict.action == "abort"
        at.done = [*at.done, iteration]
        if at.index + 1 < len(at.items) and not failing and not ended:
            drive.next_item(at, at.index + 1)
            self._tell_iteration(at)
            return at.context()
        outcome = outcome_of(at.done, failed=failing, total=len(at.items))
        if ended:
            outcome = outcome.model_copy(update={"status": "cancelled"})
        self._end_loop(at, outcome)
        return {**_over(unit, outcome), "to_do": drive.told_next()}

    def _end_loop(self, at: LoopAt, outcome: LoopOutcome) -> None:
        here = self._frame(self.drive.scope_around(at.unit.id)).at("loop", at.unit.id)
        self.drive.end(at, outcome)
        here.note(LoopCompleted(reason=outcome.status, iterations=len(outcome.iterations)))
        if outcome.status == "failed" and outcome.error is not None:
            type_, message = outcome.error["type"], outcome.error["message"]
            here.note(StepFailed(name=at.unit.id, kind="loop", error=type_, message=message))
        else:
            here.note(StepCompleted(name=at.unit.id, kind="loop", output=outcome.status))
        self.settle()

    # Changing

    async def _update_state(self, updates: Json) -> Json:
        inner = updates.get("updates")
        wanted = inner if isinstance(inner, dict) and len(updates) == 1 else updates
        steps: dict[str, Json] = {}
        for key, value in wanted.items():
            if key.startswith("vars.") and len(key) > len("vars."):
                continue
            match = _STATE_KEY.fullmatch(key)
            if match is None:
                text = f"{key!r} cannot be set; step_<id>_status, _error, _response and vars.<name> can"
                raise ControlError("not_allowed", text)
            steps.setdefault(match["id"], {})[match["what"]] = value
        works = [(id_, self._state_of(id_, told)) for id_, told in steps.items()]
        for id_, work in works:
            found = self.drive.step_named(id_)
            if self.drive.result_of(found.scope, found.unit.id).status not in OVER:
                work()
        self.drive.vars |= {
            key.removeprefix("vars."): value for key, value in wanted.items() if key.startswith("vars.")
        }
        return {"success": True, "to_do": self.drive.told_next()}

    def _state_of(self, id_: str, told: Json) -> Callable[[], None]:
        """What setting a step's state does, once it is checked."""
        status = told.get("status")
        if status not in ("skipped", "failed", "completed", None):
            raise ControlError("not_allowed", f"a status is skipped, failed or completed, not {status!r}")
        now = self.drive.step_named(id_)
        before = self.drive.result_of(now.scope, now.unit.id)
        if before.status in OVER and status in (before.status, None) and set(told) == {"status"}:
            return lambda: None  # it is so already: the engine has skipped it
        found, before = self._startable(id_)
        if asks(found.unit.step) and status != "completed":
            text = f"step {found.unit.id!r} is a question to a person: call request_user_info"
            raise ControlError("not_allowed", text)
        if status == "completed":
            self._check_result(found, before)
        match status:
            case "skipped":
                return lambda: self._end(found, StepResult(status="skipped", reason="skipped_by_agent"))
            case "failed":
                message = str(told.get("error") or told.get("response") or "the agent says so")
                return lambda: self._end(found, failed("agent", message, response=told.get("response")))
            case "completed":
                return lambda: self._end_well(found, before, told.get("response"))
        text = f"step {id_!r}: a response or an error alone says nothing; add step_{id_}_status"
        raise ControlError("not_allowed", text)

    async def _update_plan(self, new_plan: Json, reason: str) -> Json:
        before = self.drive.plan
        try:
            revision = await self._change(new_plan, reason)
        except Refusal as refusal:
            raise ControlError("plan_refused", refusal.message) from None
        self.progress += 1
        self.settle()
        known = {tool for step in before.steps for tool in step.tools}
        tools = self._tools_described(tool for tool in tools_of(self.drive.plan) if tool not in known)
        told = {"tools": tools} if tools else {}
        return {"success": True, "revision": revision, **told, "to_do": self.drive.told_next()}

    async def _find_tool(self, instruction: str, service: str | None = None) -> Json:
        found = self._lacking()
        step = PlanStep(id="plan") if found is None else found.unit.step
        among = [tool.name for tool in self._desk.ruling(step).tools]
        missing = step.tools[0] if step.tools else ""
        # For a step the plan's words count: by words of its own a model could bring any tool into it.
        wants = instruction if found is None else step.instruction
        wanted = FindTool(service=step.service or service, instruction=wants, among=among, missing=missing)
        name = await self._desk.frame.host.activities.find_tool(wanted)
        if name is None:
            raise ControlError("tool_missing", "no tool does that; finish what can be done without, or skip the step")
        if found is not None and (one := f"{self._key(found)};{name}") not in self.drive.found:
            self.drive.found.append(one)
        if found is not None:
            await self._caller(found).learn(name)
        return {"tool_name": name, **self._tools_described([name]).get(name, {})}

    def _tools_described(self, tools: Iterable[str]) -> Json:
        """What is known of tools, for a model that is to call them."""
        specs = self._desk.specs
        return Catalogue({tool: specs[tool] for tool in tools if tool in specs}).described()

    def _lacking(self) -> LocatedStep | None:
        """The step under way, if it lacks a tool."""
        current = None if self.current is None else self.drive.layout.find(self.current)
        if not isinstance(current, StepUnit):
            return None
        try:
            found = self.drive.step_named(current.id)
        except ControlError:
            return None
        return found if self._key(found) in self.drive.missing else None


_TODO = {
    "tool_missing": "call find_tool, then execute_step_tool with the tool that it names",
    "bad_parameters": "correct the parameters, and call execute_step_tool again",
    "business": "change what can be changed, and call execute_step_tool again; else set the step's status to failed",
}


def _is_nothing(response: Any) -> bool:
    """Whether a loop over it has nothing to do."""
    return response is None or (isinstance(response, str) and not response.strip())


def _short(result: StepResult) -> Json:
    error = {} if result.error is None else {"error": result.error}
    return {"status": result.status, **error, **({} if result.reason is None else {"reason": result.reason})}


def _over(unit: LoopUnit, outcome: LoopOutcome) -> Json:
    told: Json = {"loop_id": unit.id, "should_continue": False, "completed": True, "status": outcome.status}
    why = {} if outcome.reason is None else {"reason": outcome.reason}
    return {**told, "total_iterations": len(outcome.iterations), **why}
