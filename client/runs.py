"""Runs from outside: start, look, answer, follow. The Python API, and what every command stands on."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from blueprint.grammar import Blueprint
from blueprint.jsonschemas import problems_of
from client.answering import Answering, Sent
from client.errors import Ambiguous, BadInput, RunExists, failure_from
from client.events import all_events, below, follow
from client.plans import Planned, check_change, planned, send_change
from client.trace import Span, trace_of
from client.tree import Tree, UnknownRun, questions_of, rests
from protocol.address import Address, parts, root
from protocol.agents import Usage
from protocol.answers import Answer, Answers, Receipt, Refusal
from protocol.context import BadWrite, written
from protocol.people import ANYONE, MANY, names_of
from protocol.plans import change_id
from protocol.questions import Question
from protocol.runs import (
    BLUEPRINT_ATTRIBUTE,
    CONTEXT,
    LONGEST_RUN_ID,
    PAUSE,
    PIPELINE_WORKFLOW,
    RESUME,
    TASK_QUEUE,
    TELL,
    WAITING_ATTRIBUTE,
    Definition,
    Event,
    Failure,
    PipelineState,
    RunResult,
    Status,
    Told,
    WorkflowView,
    summary_of,
)

BLUEPRINT_KEY = SearchAttributeKey.for_keyword(BLUEPRINT_ATTRIBUTE)
WAITING_KEY = SearchAttributeKey.for_keyword_list(WAITING_ATTRIBUTE)
PAGE = 100
PACE_SECONDS = 0.2
EDIT_HINT = "stops are made by interrupt_before and interrupt_after, or by: holdfast run --interrupt-before STEP"
STATUSES: dict[WorkflowExecutionStatus, Status] = {
    WorkflowExecutionStatus.COMPLETED: "completed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.TERMINATED: "failed",
    WorkflowExecutionStatus.TIMED_OUT: "failed",
}


@dataclass(frozen=True)
class Outcome:
    """How a run stands: its output once it has completed, the error once it has failed.

    A run that fails by a plan has an output too: what the plan's steps gave all the same.
    """

    run: str
    status: Status
    output: Any = None
    context: dict[str, Any] | None = None
    error: Failure | None = None


@dataclass(frozen=True)
class Standing:
    """Where a run stands now."""

    run: str
    status: Status
    blueprint: str
    views: list[WorkflowView]

    @property
    def questions(self) -> list[Question]:
        return questions_of(self.views)

    @property
    def usage(self) -> Usage:
        return sum((view.usage for view in self.views), Usage())


@dataclass(frozen=True)
class Listed:
    """A run in a list."""

    run: str
    blueprint: str
    status: Status
    started: datetime
    closed: datetime | None


@dataclass(frozen=True)
class Waiting:
    """A workflow that waits for people."""

    run: str
    owner: str
    waiting_for: list[str]
    since: datetime


class Runs:
    """The runs of one deployment. `answering` may remember questions for when no worker is there."""

    def __init__(self, client: Client, task_queue: str = TASK_QUEUE, answering: Answering | None = None) -> None:
        self.client, self.task_queue = client, task_queue
        self.tree = Tree(client, task_queue)
        self.answering = answering or Answering()

    async def start(
        self,
        blueprint: Blueprint,
        input: Any = None,
        *,
        run: str | None = None,
        started_by: str | None = None,
    ) -> str:
        """Start a run and give its id. Raises `BadInput` or `RunExists` before anything has started."""
        run = run or f"{blueprint.name[: LONGEST_RUN_ID - 9]}-{secrets.token_hex(4)}"
        _check_start(blueprint, input, run)
        guarded = self.answering.key is not None
        try:
            await self.client.start_workflow(
                PIPELINE_WORKFLOW,
                args=[
                    Definition(blueprint=blueprint, run=run, guarded=guarded),
                    PipelineState(input=input, started_by=started_by),
                ],
                id=run,
                task_queue=self.task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                static_summary=_summary(blueprint),
                search_attributes=TypedSearchAttributes([SearchAttributePair(BLUEPRINT_KEY, blueprint.name)]),
            )
        except WorkflowAlreadyStartedError:
            raise RunExists(run) from None
        return run

    async def resolve(self, prefix: str) -> str:
        """The id of the one run that begins so. Raises `UnknownRun` or `Ambiguous`."""
        try:
            await self._describe(prefix)
        except UnknownRun:
            wanted = f"WorkflowId STARTS_WITH '{_quoted(prefix)}' AND WorkflowType = '{PIPELINE_WORKFLOW}'"
            found = sorted({one.id async for one in self.client.list_workflows(wanted, limit=20)})
        else:
            return prefix
        if not found:
            raise UnknownRun(prefix)
        if len(found) > 1:
            raise Ambiguous(f"{prefix!r} could be any of {', '.join(found)}; type more of it")
        return found[0]

    async def runs(self, *, blueprint: str | None = None, waiting: bool = False) -> list[Listed]:
        """The runs, newest first; only those of a blueprint, or those that wait for a person."""
        wanted = f"WorkflowType = '{PIPELINE_WORKFLOW}'"
        if blueprint is not None:
            wanted += f" AND {BLUEPRINT_ATTRIBUTE} = '{_quoted(blueprint)}'"
        awaited = {one.run async for one in self._all_waiting()}
        rows = []
        async for one in self.client.list_workflows(wanted):
            status: Status = STATUSES.get(one.status, "running") if one.status else "running"
            if status == "running" and one.id in awaited:
                status = "waiting"
            if waiting and status != "waiting":
                continue
            name = one.typed_search_attributes.get(BLUEPRINT_KEY) or ""
            rows.append(Listed(one.id, name, status, one.start_time, one.close_time))
        return rows

    async def waiting(self, page: int = 1, user: str | None = None) -> list[Waiting]:
        """Who waits where, from visibility: a page of 100, the longest waiting first on the last.

        With a user: what waits for them, for a group that they are in, or for anyone; `many` may mean them, too.
        """
        skipped = (page - 1) * PAGE
        names = [] if user is None else [ANYONE, MANY, *names_of(user, self.answering.groups)]
        return [one async for one in self._all_waiting(skipped + PAGE, names)][skipped:]

    async def _all_waiting(self, limit: int | None = None, names: Sequence[str] = ()) -> AsyncIterator[Waiting]:
        wanted = f"{WAITING_ATTRIBUTE} IS NOT NULL AND ExecutionStatus = 'Running'"
        if names:
            listed = ", ".join(f"'{_quoted(name)}'" for name in names)
            wanted += f" AND {WAITING_ATTRIBUTE} IN ({listed})"
        async for one in self.client.list_workflows(wanted, limit=limit):
            awaited = one.typed_search_attributes.get(WAITING_KEY) or []
            if awaited:
                yield Waiting(one.id.partition("/")[0], one.id, list(awaited), one.execution_time or one.start_time)

    async def standing(self, run: str) -> Standing:
        """Status and views; `waiting` means that a question is open and nothing else of the run can move."""
        described = await self._describe(run)
        views = await self.tree.views(run)
        closed = STATUSES.get(described.status) if described.status else None
        self.answering.remember(questions_of(views))
        return Standing(run, closed or _status(views), views[0].blueprint, views)

    async def questions(self, run: str) -> list[Question]:
        """The open questions of a run and of everything below it, by address."""
        return (await self.standing(run)).questions

    async def answer(
        self,
        run: str,
        answers: Sequence[Answer],
        *,
        by: str | None = None,
        key: str | None = None,
        comment: str | None = None,
        signal: bool = False,
        owner: str | None = None,
    ) -> list[Receipt | Sent]:
        """Answer some of a run's questions; each workflow takes or refuses its part whole.

        Raises `Refusal`. If no worker is there, or with `signal`, the answers are sent as a signal and give `Sent`.
        """
        batch = Answers(answers=list(answers), by=by, key=key or secrets.token_hex(8), comment=comment)
        return await self.answering.answer(self.tree, run, batch, signal=signal, owner=owner)

    async def outcome(self, run: str) -> Outcome:
        """How the run ended; of a run that is under way, its status and context."""
        described = await self._describe(run)
        if described.status in STATUSES:
            return await self._ended(run)
        standing = await self.standing(run)
        return Outcome(run, standing.status, context=await self.context(standing))

    async def result(self, run: str) -> Outcome:
        """Wait for the run's end."""
        return await self._ended(run)

    async def _ended(self, run: str) -> Outcome:
        handle = self.client.get_workflow_handle(run)
        described = await self._describe(run)
        try:
            if described.workflow_type != PIPELINE_WORKFLOW:
                return Outcome(run, "completed", await handle.result())
            result = await self.client.get_workflow_handle(run, result_type=RunResult).result()
        except WorkflowFailureError as error:
            status, failure = failure_from(error)
            ended: Status = "cancelled" if status == "cancelled" else "failed"
            return Outcome(run, ended, failure.output, error=failure)
        return Outcome(run, "completed", result.output, result.context)

    async def context(self, standing: Standing) -> dict[str, Any]:
        """The context; of a run that waits in a loop, that of the place where the question stands."""
        asked = next((question.address for question in standing.questions), "")
        holders = [view for view in standing.views if f"{asked};".startswith(_list_of(view.address))]
        where = max(holders, key=lambda view: len(view.address), default=standing.views[0]).workflow
        context: dict[str, Any] = await self.tree.query(where, CONTEXT, None, dict[str, Any])
        return context

    async def trace(self, standing: Standing, last: int | None = 100) -> dict[str, Any]:
        """The run as a tree; of each loop the last iterations, or all of them with `last=None`."""
        return _traced(standing, await below(self.tree, standing.run, last), last)

    async def events(self, run: str) -> list[Event]:
        """Every event of the run so far, in the run's order, with offsets of the run."""
        return await all_events(self.tree, run)

    async def follow(self, run: str, after: int = -1) -> AsyncIterator[Event]:
        """Events as they come, from the one behind the offset `after`; ends when the run has ended."""
        async for event in follow(self.tree, run, after, self._until_closed(run)):
            yield event

    async def _until_closed(self, run: str) -> AsyncIterator[bool]:
        while True:
            closed = (await self._describe(run)).status in STATUSES
            yield closed
            await asyncio.sleep(PACE_SECONDS)

    async def pause(self, run: str) -> None:
        """No further step starts; answers are still taken and deadlines still run."""
        await self._steer(run, PAUSE)

    async def resume(self, run: str, by: str | None = None) -> bool | list[Question]:
        """Go on after a pause: true. A run that is not paused: what it was waiting for without need of an answer
        is answered (holds, stops, interrupts that take none; never an approval), and given.
        """
        standing = await self.standing(run)
        if standing.status == "paused":
            await self._steer(run, RESUME)
            return True
        held = [question for question in standing.questions if question.needs_no_data]
        if held:
            await self.answer(run, [Answer(question=question.id) for question in held], by=by)
        return held

    async def edit(self, run: str, changes: Mapping[str, Any], by: str | None = None) -> list[Receipt | Sent]:
        """Go on from a stop with these paths of the context changed. Raises `BadInput` where the run is at none."""
        stops = [question for question in await self.questions(run) if question.kind == "checkpoint"]
        if len(stops) != 1:
            raise BadInput(_which_stop(run, stops))
        context = stops[0].info
        for path, value in changes.items():
            context = _set(context, path, value)
        answer = Answer(question=stops[0].id, content=context, digest=stops[0].digest)
        return await self.answer(run, [answer], by=by)

    async def plan(self, run: str, address: str | None = None, *, last: int | None = 100) -> Planned:
        """A plan of a run, under way or over: what it says, and where its steps stand.

        `address` names it where there are several: its step's name, or its address. Raises `BadInput` or `Ambiguous`.
        """
        standing = await self.standing(run)
        events = await below(self.tree, run, last)
        return await planned(self.tree, run, _traced(standing, events, last), events, standing.questions, address)

    async def change_plan(
        self,
        run: str,
        plan: Any,
        address: str | None = None,
        *,
        reason: str = "",
        by: str | None = None,
        revision: int | None = None,
    ) -> int:
        """Go on with another plan; gives its revision.

        What has begun or is over must stay as it is. With `revision`, only if the plan has not changed since then.
        Raises `Refusal` with everything that is wrong.
        """
        check_change(plan)
        change = {"plan": plan, "reason": reason, "by": by, "token": self.answering.token(run, change_id(plan), by)}
        found = await self.plan(run, address)
        while True:
            try:
                return await send_change(self.tree, found, {**change, "revision": revision or found.view.revision})
            except Refusal:
                before, found = found.view.workflow, await self.plan(run, found.address)
                if found.view.workflow == before:  # else a loop has taken the plan over, or given it back
                    raise

    async def tell(self, run: str, text: str, *, agent: str | None = None, by: str | None = None) -> str:
        """Say something to an agent that works in turns, for its next turn; gives the address where it works.

        `agent` names it where several are at work: its step's name (of one that drives a plan, the plan's), or its
        address. Raises `BadInput` or `Ambiguous`.
        """
        views = [view for view in await self.tree.views(run) if view.hears]
        found = [view for view in views if agent in (None, view.address, _agent_of(view.address))]
        if len(found) != 1:
            known = ", ".join(f"{view.address} ({_agent_of(view.address)})" for view in views) or "none"
            if found:
                raise Ambiguous(f"several agents are at work in {run}; name one, or its address, with --agent: {known}")
            who = f"no agent of a step {agent!r}" if agent else "no agent"
            raise BadInput(f"{who} is at work in turns in {run}; at work: {known}")
        handle = self.client.get_workflow_handle(found[0].workflow)
        await handle.execute_update(TELL, Told(text=text, by=by))
        return found[0].address

    async def cancel(self, run: str) -> None:
        """End the run; its questions close. Cancelling twice, or what has ended, is fine."""
        await self._describe(run)
        try:
            await self.client.get_workflow_handle(run).cancel()
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise

    async def _steer(self, run: str, name: str) -> None:
        """By update where a worker is there, so that it has happened when this returns; else by signal."""
        await self._describe(run)
        handle = self.client.get_workflow_handle(run)
        if await self.tree.worker_polls(run):
            await handle.execute_update(name)
        else:
            await handle.signal(name)

    def handle(self, run: str) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(run)

    async def _describe(self, run: str) -> WorkflowExecutionDescription:
        try:
            return await self.client.get_workflow_handle(run).describe()
        except RPCError as error:
            if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
                raise UnknownRun(run) from None
            raise


def _status(views: Sequence[WorkflowView]) -> Status:
    if views[0].status == "paused":
        return "paused"
    return "waiting" if questions_of(views) and rests(views) else "running"


def _which_stop(run: str, stops: Sequence[Question]) -> str:
    """Why it is not clear which stop is meant; those of several branches stand at one address: their words differ."""
    if not stops:
        return f"run {run} is at no stop; {EDIT_HINT}"
    places = "; ".join(f"{one.id} at {one.address}: {one.message}" for one in stops)
    return f"run {run} is at {len(stops)} stops; answer one: holdfast answer {run} ID --content CONTEXT ({places})"


def _agent_of(address: Address) -> str:
    """The name of the agent, or of the plan that an agent drives, that works here: in a loop, the one around it."""
    return next((id_ for kind, id_, _ in reversed(parts(address)) if kind in ("agent", "plan")), "")


def _traced(standing: Standing, events: Sequence[Event], last: int | None) -> Span:
    address = root(standing.blueprint)
    return trace_of(events, name=standing.blueprint, address=address, status=standing.status, last=last)


def _set(context: Any, path: str, value: Any) -> Any:
    try:
        return written(context, path, value)
    except BadWrite as error:
        raise BadInput(str(error)) from None


def _list_of(address: str) -> str:
    """How the addresses of what runs in a loop or a run begin; an agent holds no context of its own."""
    kind = parts(address)[-1][0]
    return f"{address}:" if kind == "loop" else f"{address};" if kind == "pipeline" else "\0"


def _quoted(text: str) -> str:
    """Text inside the quotes of a visibility query."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _summary(blueprint: Blueprint) -> str:
    text = f"{blueprint.name}: {blueprint.description}" if blueprint.description else blueprint.name
    return summary_of(text)


def _check_start(blueprint: Blueprint, input: Any, run: str) -> None:
    if len(run.encode()) > LONGEST_RUN_ID or "/" in run or not run.strip():
        raise BadInput(f"run id {run!r}: at most {LONGEST_RUN_ID} bytes, and no '/'")
    problems = [] if blueprint.inputs is None else list(problems_of(blueprint.inputs, input))
    if problems:
        told = "; ".join(f"{path or 'the input'} {reason}" for path, reason in problems)
        raise BadInput(f"the input does not fit what {blueprint.name!r} wants: {told}")
