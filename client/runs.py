"""The Python API for runs: start, inspect, answer, follow, pause and cancel them.

`Runs` is used by programs directly and by every command of the CLI. Times are in seconds.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowHandle

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Blueprint
from holdfast.client.answering import (
    Answering,
    OpenQuestions,
    Sender,
    Sent,
    TakenByAnother,
    find_question,
    no_signals,
)
from holdfast.client.archive import Archive, ArchivedEnd
from holdfast.client.events import Cursor, all_events, below, follow, iterations, last_iteration
from holdfast.client.history import started_with
from holdfast.client.listing import (
    RunsFilter,
    WaitingFilter,
    cursor_of,
    has_more_behind,
    listed_runs,
    only_match,
    place_of,
    running_runs,
    runs_behind,
    runs_place,
    runs_waiting_for,
    waiting_page,
    waiting_workflows,
)
from holdfast.client.lookup import Checked, Placed, look_up
from holdfast.client.obstacles import Obstacle, find_obstacles
from holdfast.client.outcomes import current_context, final_outcome, outcome_of
from holdfast.client.outgoing import check_outgoing
from holdfast.client.permissions import Permissions
from holdfast.client.plans import Planned, check_change, planned, send_change
from holdfast.client.replies import EarlierReply, closes, find_reply
from holdfast.client.starting import check_start, new_run_id, start_pipeline
from holdfast.client.states import STATUSES, Done, Listed, Outcome, RunState, Stopped, Waiting, as_ended, status_of
from holdfast.client.stopping import Family, Left, at_once
from holdfast.client.trace import Span, trace_of
from holdfast.client.tree import CLOSED, Tree, UnknownRun, questions_of
from holdfast.protocol.access import AccessPolicy, Capability, Person, RunAccess, refusal_of
from holdfast.protocol.address import Address, name_at, parts, root
from holdfast.protocol.answers import Answer, AnswerBatch, Receipt, Refusal
from holdfast.protocol.assignment import (
    CLAIM_SECONDS,
    AssignmentCommand,
    AssignmentReceipt,
    Claim,
    Delegation,
    Reassignment,
    Release,
)
from holdfast.protocol.attachments import ATTACHMENT, AttachmentContent, AttachmentQuery
from holdfast.protocol.context import BadWrite, with_value
from holdfast.protocol.events import Event, StepCompleted
from holdfast.protocol.incoming import EventReceipt, read_event
from holdfast.protocol.people import ANYONE, MANY, names_of, why_not
from holdfast.protocol.questions import Question
from holdfast.protocol.runs import (
    PAUSE,
    PAUSED_MEMO,
    PIPELINE_WORKFLOW,
    RESUME,
    SHOWN,
    TASK_QUEUE,
    TELL,
    Definition,
    HistoryLimits,
    LossPolicy,
    PipelineState,
    Status,
    WorkflowView,
)
from holdfast.runtime.errors import Ambiguous, BadInput, raising_server_errors
from holdfast.runtime.workers import Busy, NoWorker, check_hold

PAGE = 100
PACE_SECONDS = 0.2
CANCEL_SECONDS = 30.0
"""The default time that `cancel` waits for the end of a run."""
PAUSE_SECONDS = 10.0
"""The default time that `pause` and `unpause` wait until every workflow of a run has taken the command."""
EDIT_HINT = "stops are made by interrupt_before and interrupt_after, or by: holdfast run --interrupt-before STEP"


SEND_AGAIN = "nothing waits for it there: send the command again once a worker answers"
"""The hint for a workflow that a command has not reached, of a run that takes no signals."""
EVENT_LOOKS = 5
"""How often a run is looked at for the step that waits for an event."""


@raising_server_errors
class Runs:
    """The runs of one deployment. What Temporal refuses or does not answer is a `ServerError`.

    Args:
        client: A connected client; see `holdfast.client.connect`.
        task_queue: The queue that the workers of the deployment poll.
        answering: How commands are signed and limited, and which questions are remembered for when no worker runs.
        archive: Where runs are read from that Temporal has deleted, such as the record.
        permissions: What the person may do for whom these are; None: whatever Temporal lets them do.
    """

    def __init__(
        self,
        client: Client,
        task_queue: str = TASK_QUEUE,
        answering: Answering | None = None,
        archive: Archive | None = None,
        permissions: Permissions | None = None,
    ) -> None:
        self.client, self.task_queue, self.archive = client, task_queue, archive
        self.tree = Tree(client, task_queue, archive)
        self.answering, self.permissions = answering or Answering(), permissions

    def acting_as(self, sender: Sender, permissions: Permissions | None = None) -> Runs:
        """Return these runs for one person: commands carry their name, their groups and what proves them.

        Args:
            sender: The person.
            permissions: What they may do; None: lists show everything, and a command is checked where it arrives.
        """
        return Runs(self.client, self.task_queue, replace(self.answering, sender=sender), self.archive, permissions)

    async def may(self, capability: Capability, run: str, by: str | None = None) -> bool:
        """Return whether a person may do something with a run.

        Args:
            capability: What they want to do.
            run: The id of the run.
            by: The person, where these runs are for nobody in particular, such as `user:ana`.

        Raises:
            UnknownRun: There is no such run.
        """
        permissions = self._permissions_of(by)
        if not permissions.rules.enforced and capability not in ("steer", "administer"):
            return True  # what a blueprint says of answers its workflow checks, and an answer costs no call more
        return permissions.may(capability, await self._access(permissions, run))

    async def require(self, capability: Capability, run: str, by: str | None = None) -> None:
        """Raise `Refusal` (`not_allowed`) unless a person may do something with a run; args as in `may`.

        A run that they may not see is unknown to them: `UnknownRun`.
        """
        if await self.may(capability, run, by):
            return
        if not await self.may("see", run, by):
            raise UnknownRun(run)
        permissions = self._permissions_of(by)
        written = (await self._access(permissions, run)).written
        raise Refusal("not_allowed", refusal_of(capability, self.answering.sender_of(by), written))

    @property
    def sees_all(self) -> bool:
        """True if the person may see the runs of every blueprint that does not say itself who may."""
        return self.permissions is None or self.permissions.sees_all

    @property
    def start_filter(self) -> Callable[[Blueprint], bool] | None:
        """What says whether the person may start runs of a blueprint; None where they may start all."""
        permissions = self.permissions
        if permissions is None or not permissions.rules.enforced:
            return None
        return lambda blueprint: permissions.may("start", self.access_to(blueprint, None))

    async def select_visible(self, run: str, questions: Sequence[Question], user: str | None = None) -> list[Question]:
        """Return those questions of a run that the person may see for whom these runs are.

        Args:
            run: The id of the run.
            questions: The questions.
            user: The person, where only those are asked for that they may answer: of the ones without assignees.
        """
        permissions = self.permissions
        if permissions is None or not permissions.rules.enforced or not questions:
            return list(questions)
        access = await self._access(permissions, run)
        may_answer = user is None or permissions.may("answer", access)
        return [
            question
            for question in questions
            if permissions.may_see_question(question, access) and (may_answer or question.assignees)
        ]

    async def visible_questions(self, run: str) -> list[Question]:
        """Return the open questions of a run that the person may see. Raises as `standing` does.

        A run of which they may see nothing is unknown to them.
        """
        visible = await self.select_visible(run, await self.questions(run))
        if not visible and not await self.may("see", run):
            raise UnknownRun(run)
        return visible

    async def sees_part(self, run: str) -> bool:
        """Return whether the person may see a run, or one of its open questions."""
        with suppress(UnknownRun, NoWorker):
            return await self.may("see", run) or bool(await self.visible_questions(run))
        return False

    async def answerable(self, run: str, names: Sequence[str]) -> OpenQuestions:
        """Return the open questions that the person may see, for answers to some; raises as `open_questions` does.

        Args:
            run: The id of the run.
            names: The questions that are to be answered. One that is closed may be named by who could see it: they
                are told who was first, or get the receipt of an answer that is sent again.
        """
        found = await self.open_questions(run)
        found = replace(found, questions=await self.select_visible(run, found.questions))
        if await self.may("see", run):
            return found
        for name in names:
            if find_question(found.questions, name) is None:
                await self.require_reply(run, await find_reply(self.tree, run, closes(name)))
        return replace(found, events=[])

    async def require_question(self, run: str, id: str) -> None:
        """Raise `UnknownRun` unless the person may see a question of a run, open or closed."""
        if await self.may("see", run):
            return
        if any(question.id == id for question in await self.select_visible(run, await self.questions(run))):
            return
        await self.require_reply(run, await find_reply(self.tree, run, closes(id)))

    async def require_comment(self, run: str) -> None:
        """Raise `Refusal` (`not_allowed`) where the person sees a run and may not comment; an assignee may."""
        if await self.may("see", run):
            await self.require("comment", run)

    async def require_reply(self, run: str, reply: EarlierReply | None) -> None:
        """Raise `UnknownRun` unless the person may see the run, or could see the question that a reply has closed."""
        if await self.may("see", run):
            return
        permissions = self._permissions_of(None)
        if reply is not None and reply.data.by not in permissions.person.names:
            with suppress(NoWorker):
                asked = await self.tree.query(reply.workflow, SHOWN, [reply.data.id], list[Question])
                if await self.select_visible(run, asked):
                    return
        if reply is None or reply.data.by not in permissions.person.names:
            raise UnknownRun(run)

    async def why_not_answer(self, question: Question) -> str | None:
        """Return why the person may not answer a question that they see; None if they may."""
        sender = self.answering.sender_of(None)
        if reason := why_not(question.people, sender, self.answering.known_groups):
            return reason
        if question.assignees or await self.may("answer", question.run):
            return None
        permissions = self._permissions_of(None)
        return refusal_of("answer", sender, (await self._access(permissions, question.run)).written)

    async def _check_answering(self, open_questions: OpenQuestions, names: Sequence[str]) -> None:
        """Refuse answers to questions without assignees of a person who may not give them, before they are sent."""
        if self.permissions is None:
            return
        every = [*open_questions.questions, *open_questions.events]
        asked = [find_question(every, name) for name in names]
        if any(question is not None and not question.assignees for question in asked):
            await self.require("answer", open_questions.run)

    async def _check_steering(self, run: str) -> None:
        """Refuse a command of a person who may not steer, before it is sent: not every run checks who sends one."""
        if self.permissions is not None:
            await self.require("steer", run)

    async def _access(self, permissions: Permissions, run: str) -> RunAccess:
        return await permissions.cache.read(self.tree, self.archive, run)

    def _permissions_of(self, by: str | None) -> Permissions:
        person = Person.of(self.answering.sender_of(by), self.answering.known_groups)
        return self.permissions or Permissions(person)

    def with_archive(self, archive: Archive | None) -> Runs:
        """Return these runs with an archive, from which they are read as far as it goes."""
        return Runs(self.client, self.task_queue, self.answering, archive, self.permissions)

    async def start(
        self,
        blueprint: Blueprint,
        input: object = None,
        *,
        run: str | None = None,
        started_by: str | None = None,
        check: bool = False,
        history_limits: HistoryLimits | None = None,
        loss_policy: LossPolicy | None = None,
    ) -> str:
        """Start a run and return its id.

        Args:
            blueprint: The blueprint to run.
            input: A JSON value that fits the blueprint's `inputs`.
            run: The id of the run; by default made of the blueprint's name and a random suffix.
            started_by: The person who starts it, such as `user:ana`.
            check: Ask a worker first for the names that the blueprint uses (see `look_up`). If no worker can be
                asked, the run starts unchecked.
            history_limits: When the workflows of the run continue as new, where the defaults do not suit it.
            loss_policy: When a worker is taken for lost, and its calls go to another one.

        Raises:
            BadInput: The input or the id cannot be used.
            BlueprintError: The check found a missing name.
            RunExists: A run of this id was started before.

        Nothing has been started when it raises.
        """
        run, limits = run or new_run_id(blueprint), self.answering.limits
        check_start(blueprint, input, run, limits.input)
        await check_hold(self.client, self.task_queue)
        if check and (checked := await self.look_up(blueprint)).problems:
            raise BlueprintError(checked.problems)
        definition = self.definition(blueprint, run, history_limits, loss_policy)
        state = PipelineState(input=input, started_by=self.answering.sender_of(started_by))
        await start_pipeline(self.client, self.task_queue, definition, state, self.access_to(blueprint, started_by))
        return run

    def access_to(self, blueprint: Blueprint, started_by: str | None) -> RunAccess:
        """Return what a run that is started here says of the access to it.

        Args:
            blueprint: Its blueprint.
            started_by: The person who starts it.
        """
        sender = self.answering.sender
        return RunAccess(
            blueprint=blueprint.name,
            started_by=self.answering.sender_of(started_by),
            signed_in=sender is not None and sender.proof == "person",
            written=AccessPolicy.read(blueprint),
        )

    def definition(
        self,
        blueprint: Blueprint,
        run: str,
        history_limits: HistoryLimits | None = None,
        loss_policy: LossPolicy | None = None,
    ) -> Definition:
        """Return the definition of a run of this deployment; an empty id means the id of the run's workflow."""
        return Definition(
            blueprint=blueprint,
            run=run,
            guarded=bool(self.answering.keys),
            access=AccessPolicy.read(blueprint),
            size_limits=self.answering.limits,
            history_limits=history_limits or HistoryLimits(),
            loss_policy=loss_policy or LossPolicy(),
        )

    async def look_up(self, blueprint: Blueprint, placed: Placed | None = None, *, connect: bool = False) -> Checked:
        """Ask a worker for the tools, functions, models, MCP servers and groups that the blueprint names.

        This is a snapshot, not a guarantee: a step whose name is missing later still fails.

        Args:
            blueprint: The blueprint whose names are looked up.
            placed: Makes a problem of a path, a code and a message; by default without a position in a file.
            connect: Connect to the MCP servers, too.

        Returns:
            The problems found, or in `unchecked` the reason why no worker could be asked.
        """
        return await look_up(self.client, self.task_queue, blueprint, placed, connect=connect)

    async def resolve(self, prefix: str) -> str:
        """Return the id of the only run whose id starts with `prefix`. Raises `UnknownRun` or `Ambiguous`."""
        try:
            return (await self.find(prefix)).id
        except UnknownRun:
            matches = [] if self.archive is None else await self.archive.runs_like(prefix)
            if prefix in matches or len(matches) == 1:
                return prefix if prefix in matches else matches[0]
            raise

    async def find(self, prefix: str) -> WorkflowExecutionDescription:
        """Return Temporal's description of the only run whose id starts with `prefix`. Raises as `resolve` does."""
        with suppress(UnknownRun):
            return await self.tree.describe(prefix)
        return await self.tree.describe(await only_match(self.client, prefix))

    async def runs(self, *, blueprint: str | None = None, waiting: bool = False) -> list[Listed]:
        """Return the runs in the order of Temporal's visibility, newest first.

        Args:
            blueprint: Only runs of the blueprint with this name.
            waiting: Only runs with an open question.
        """
        return await listed_runs(self.client, blueprint, waiting=waiting)

    async def page(
        self, page: int = 1, *, blueprint: str | None = None, status: Status | None = None, size: int = 50
    ) -> tuple[list[Listed], bool]:
        """Return a page of the runs, newest first, and whether there are more.

        Unlike `runs` it reads only as much of visibility as the page needs.

        Args:
            page: The page, from 1.
            blueprint: Only runs of the blueprint with this name.
            status: Only runs of this status.
            size: The runs of a page.
        """
        rows, cursor = await self.page_from(page=page, blueprint=blueprint, status=status, size=size)
        return rows, cursor is not None

    async def page_from(
        self,
        cursor: str | None = None,
        *,
        page: int = 1,
        blueprint: str | None = None,
        status: Status | None = None,
        size: int = 50,
    ) -> tuple[list[Listed], str | None]:
        """Return runs, newest first, from where an earlier page ended, and the cursor of the next page.

        Args:
            cursor: What an earlier call with the same filters gave; None: `page` counts.
            page: The page, from 1; all before it are read.
            blueprint: Only runs of the blueprint with this name.
            status: Only runs of this status.
            size: The runs of a page.

        Returns:
            The runs, and a cursor; None after the last page.

        Raises:
            BadCursor: The cursor is none of this list.
        """
        wanted = RunsFilter(blueprint, status, self.permissions)
        if cursor is None:
            place, is_there = await runs_place(self.client, wanted, (page - 1) * size)
            if not is_there:
                return [], None
        else:
            place = place_of(cursor, wanted)
        rows, after = await runs_behind(self.client, wanted, place, size)
        return rows, None if after is None else cursor_of(after, wanted)

    async def blueprint(self, run: str) -> Blueprint:
        """Return the blueprint that a run was started with, from its history or the archive; no worker is asked.

        Raises:
            UnknownRun: There is no such run, or it is forgotten and its blueprint was not archived.
            BadInput: It is a workflow of an author's own, without a blueprint.
        """
        try:
            described = await self.tree.describe(run)
        except UnknownRun:
            archived = None if self.archive is None else await self.archive.blueprint(run)
            if archived is None:
                raise
            return archived
        return (await started_with(self.client, described)).blueprint

    async def waiting(
        self,
        page: int = 1,
        user: str | None = None,
        *,
        blueprint: str | None = None,
        since: datetime | None = None,
        deadline: datetime | None = None,
    ) -> list[Waiting]:
        """Return the workflows with open questions, from Temporal's visibility, newest first.

        Args:
            page: The page, from 1; a page has 100 rows.
            user: Only what this user may answer: assigned to them, to one of their groups, or to anyone. `many`
                (more assignees than a search attribute holds) is listed, too, as it may include them.
            blueprint: Only workflows of runs of the blueprint with this name.
            since: Only workflows with a question that was asked at this time or before.
            deadline: Only workflows with a question whose deadline is at this time or before.
        """
        names = [] if user is None else [ANYONE, MANY, *self._names_of(user)]
        wanted = WaitingFilter(names, blueprint, since, deadline, permissions=self.permissions)
        return (await waiting_page(self.client, wanted, PAGE, page=page))[0]

    async def waiting_from(
        self, cursor: str | None, user: str | None = None, *, page: int = 1, size: int = 50
    ) -> tuple[list[Waiting], str | None]:
        """Return workflows with open questions from where an earlier page ended, and the cursor of the next page.

        Args:
            cursor: What an earlier call for the same user gave; None: `page` counts.
            user: Only workflows with questions that this user may answer, such as `user:ana`; None: all.
            page: The number of the page, from 1.
            size: The number of workflows on a page.

        Raises:
            BadCursor: The cursor is none of this list.
        """
        names = [] if user is None else [ANYONE, MANY, *self._names_of(user)]
        wanted = WaitingFilter(names, permissions=self.permissions)
        rows, after = await waiting_page(self.client, wanted, size, page=page, cursor=cursor)
        rows = await self.select_waiting(rows)
        has_more = after is not None and await has_more_behind(self.client, wanted, after)
        return rows, cursor_of(after, wanted) if after is not None and has_more else None

    def _names_of(self, user: str) -> list[str]:
        """Return a user with their groups."""
        return names_of(user, self.answering.known_groups)

    async def questions_of(self, rows: Sequence[Waiting], user: str | None = None) -> list[list[Question] | None]:
        """Return the open questions of each of these workflows; None for one that no worker can be asked for.

        Args:
            rows: The workflows, from `waiting` or `waiting_from`.
            user: Only questions that still wait for this user.
        """
        lists = await asyncio.gather(*(self.tree.open_questions(row.owner) for row in rows))
        return [
            None if open_ is None else await self.select_visible(row.run, self.those_for(user, open_), user)
            for row, open_ in zip(rows, lists, strict=True)
        ]

    async def select_waiting(self, rows: Sequence[Waiting]) -> list[Waiting]:
        """Return the workflows of a list that wait for the person for whom these runs are, or whose run they may see.

        Of `many` assignees they may be one, which their questions show.
        """
        if self.permissions is None or not self.permissions.rules.enforced:
            return list(rows)
        names = {*self.permissions.person.names, MANY}
        seen = await asyncio.gather(*(self._sees(row.run) for row in rows))
        return [row for row, is_seen in zip(rows, seen, strict=True) if is_seen or names & set(row.waiting_for)]

    async def _sees(self, run: str) -> bool:
        try:
            return await self.may("see", run)
        except UnknownRun:  # it has ended since it was listed
            return False

    def those_for(self, user: str | None, questions: Sequence[Question]) -> list[Question]:
        """Return the questions that still wait for this user; all for None."""
        groups = self.answering.known_groups
        return [question for question in questions if user is None or question.waits_for(user, groups)]

    async def standing(self, run: str) -> RunState:
        """Return the status and the views of a run.

        The status is `waiting` if a question is open and nothing of the run can go on without an answer.

        Raises:
            UnknownRun: There is no such run.
            NoWorker: No worker answers the query.
        """
        if (end := await self._end(run)) is not None:
            return RunState(run, end.status, end.blueprint, [] if end.view is None else [end.view])
        described = await self.tree.describe(run)
        views = await self.tree.views(run)
        closed = STATUSES.get(described.status) if described.status else None
        if closed is not None:
            views = [as_ended(view, closed) for view in views]
        state = RunState(run, closed or status_of(views), views[0].blueprint, views)
        self.answering.memory.keep(state.questions)
        return state

    async def find_obstacles(self, state: RunState) -> list[Obstacle]:
        """Return what keeps the workflows of a run from going on though nobody is asked."""

        async def look(view: WorkflowView) -> list[Obstacle]:
            try:
                return await find_obstacles(self.client, await self.tree.describe(view.workflow))
            except UnknownRun:  # it has ended, and is not retained
                return []

        open_views = [view for view in state.views if view.status not in CLOSED]
        return [obstacle for found in await at_once(look, open_views) for obstacle in found]

    async def questions(self, run: str) -> list[Question]:
        """Return the open questions of a run and of its children, sorted by address. Raises as `standing` does."""
        return (await self.standing(run)).questions

    async def question(self, id: str) -> Question:
        """Return the open question of this id, of whatever run.

        Raises:
            Refusal: `unknown_question`: no open question has this id.
            NoWorker: No worker answers.
        """
        seen = self.answering.memory.find(id)
        # Visibility learns of a question a moment after it was asked; who asks by id has mostly just seen it.
        owners = [] if seen is None else [seen.owner]
        owners += [row.owner async for row in waiting_workflows(self.client, wanted=WaitingFilter(question=id))]
        for owner in dict.fromkeys(owners):
            with suppress(UnknownRun):  # it has ended since it was listed
                view = await self.tree.view(owner, unless_ended=True)
                found = [candidate for candidate in questions_of([view]) if candidate.id == id]
                if visible := await self.select_visible(view.run, found):
                    return visible[0]
        raise Refusal("unknown_question", f"no open question has the id {id[:40]!r}; it may have been answered")

    async def open_questions(self, run: str | WorkflowExecutionDescription, *, patient: bool = True) -> OpenQuestions:
        """Return the open questions of a run, for `answer`; if no worker answers, those seen last.

        Args:
            run: The run: its id, or its description (see `find`).
            patient: Raise `Busy` if a worker is there and does not answer, instead of taking the questions seen last.

        Raises:
            UnknownRun: There is no such run.
            Busy: A worker is there and does not answer.
        """
        described = await self.tree.describe(run) if isinstance(run, str) else run
        return await self.answering.open_questions(self.tree, described, patient=patient)

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
        open_questions: OpenQuestions | None = None,
    ) -> list[Receipt | Sent]:
        """Answer questions of a run. Each workflow accepts or refuses all of the answers that are meant for it.

        Args:
            run: The id of the run.
            answers: The answers; each names its question by id, address, step name or a unique prefix of the id.
            by: The person who answers, such as `user:ana`.
            key: Idempotency key: the same answers under the same key count once. By default a random one.
            comment: A comment stored with the answers.
            signal: Send a signal without waiting for a worker.
            owner: The id of the workflow that asks, for a signal about a question that is not known here.
            open_questions: The open questions, where the run has just been asked for them (see `open_questions`).

        Returns:
            A `Receipt` for each answer; a `Sent` for each if they were sent as a signal, which also happens when no
            worker answers.

        Raises:
            Refusal: An answer was refused; its `code` says why.
            NothingSent: No worker answers, and the answers cannot be sent as a signal.
            UnknownRun: There is no such run.
            Ambiguous: An answer could mean several questions.
        """
        batch = AnswerBatch(answers=list(answers), by=by, key=key or secrets.token_hex(8), comment=comment)
        open_questions = open_questions or await self.open_questions(run, patient=not signal)
        await self._check_answering(open_questions, [answer.question for answer in answers])
        try:
            return await self.answering.answer(self.tree, open_questions, batch, signal=signal, owner=owner)
        except Refusal as refusal:
            if self.archive is not None:
                sender = self.answering.sender
                user, proof = (by, None) if sender is None else (sender.user, sender.proof)
                await self.archive.note_refusal(run, batch, refusal, user, proof)
            raise

    async def send_event(
        self, run: str, name: str, key: str, payload: JSON = None, *, id: str | None = None, by: str | None = None
    ) -> EventReceipt:
        """Send an event of another system to a run, for its step of kind `wait` that waits for this name and key.

        An event that no step waits for yet is kept by the run: at most 100 of them, for a day.

        Args:
            run: The id of the run.
            name: The event's name.
            key: What tells it from others of its name.
            payload: A JSON value.
            id: The event's id: the same event under the same id counts once. By default a random one.
            by: The system that sends it, such as `user:billing`.

        Raises:
            Refusal: The event was refused; its `code` says why.
            NothingSent: No worker answers, and it cannot be sent as a signal.
            UnknownRun: There is no such run.
        """
        event = read_event(
            {"name": name, "key": key, "payload": payload, "id": id or secrets.token_hex(8)}
            | {"by": self.answering.sender_of(by)}
        )
        for _ in range(EVENT_LOOKS):
            try:
                state = await self.standing(run)
            except NoWorker as error:
                if isinstance(error, Busy) and error.is_alive:
                    raise
                return await self.answering.signal_event(self.tree, run, event)
            with suppress(TakenByAnother):
                return await self.answering.send_event(self.tree, state.views, event)
        raise Refusal("busy", f"the steps of {run} that wait for {name} come and go; send the event again")

    async def waiting_for(self, name: str, key: str) -> list[str]:
        """Return the ids of the runs with a step that waits for an event, by Temporal's visibility, which lags behind.

        Args:
            name: The name of the event, as in `for` of the step.
            key: The key of the event.
        """
        return await runs_waiting_for(self.client, name, key)

    async def claim(
        self,
        run: str,
        question: str,
        *,
        by: str,
        seconds: float = CLAIM_SECONDS,
        key: str | None = None,
        comment: str | None = None,
    ) -> AssignmentReceipt:
        """Keep a question for one person: until the claim ends nobody else may answer. A second claim extends it.

        Args:
            run: The id of the run.
            question: The question, by id, address, step name or a unique prefix of the id.
            by: The person who claims it, such as `user:ana`; they must be among those who may answer.
            seconds: How long the claim lasts, at most seven days.
            key: Idempotency key. By default a random one.
            comment: A comment stored with the event.

        Raises:
            Refusal: The command was refused; its `code` says why.
            NothingSent: No worker answers.
            UnknownRun: There is no such run.
            Ambiguous: Several questions could be meant.
        """
        return await self.assign(
            await self.open_questions(run), Claim, question=question, by=by, key=key, comment=comment, seconds=seconds
        )

    async def release(
        self, run: str, question: str, *, by: str, key: str | None = None, comment: str | None = None
    ) -> AssignmentReceipt:
        """End a claim: one's own, or as who may steer the run that of somebody else. Args and raises as in `claim`."""
        return await self.assign(
            await self.open_questions(run), Release, question=question, by=by, key=key, comment=comment
        )

    async def delegate(
        self, run: str, question: str, to: str, *, by: str, key: str | None = None, comment: str | None = None
    ) -> AssignmentReceipt:
        """Delegate an answer: `by` may no longer answer the question, and `to` may.

        Args:
            run: The id of the run.
            question: The question, by id, address, step name or a unique prefix of the id.
            to: `user:NAME` or `group:NAME`; a delegate counts once in a quorum.
            by: The person who delegates; they must be among those who may answer.
            key: As in `claim`.
            comment: As in `claim`.

        Raises:
            Refusal: As in `claim`; also if `to` may not answer, or if too few people would be left for the quorum.
        """
        return await self.assign(
            await self.open_questions(run), Delegation, question=question, by=by, key=key, comment=comment, to=to
        )

    async def reassign(
        self,
        run: str,
        question: str,
        to: Sequence[str],
        *,
        by: str | None = None,
        key: str | None = None,
        comment: str | None = None,
    ) -> AssignmentReceipt:
        """Replace the assignees of a question, for example because one of them is away. A claim and delegations end.

        Args:
            run: The id of the run.
            question: The question, by id, address, step name or a unique prefix of the id.
            to: The new assignees, each `user:NAME` or `group:NAME`.
            by: The person who sends it; they must be among those who may steer the run.
            key: As in `claim`.
            comment: As in `claim`.

        Raises:
            Refusal: As in `claim`; also if too few people would be left for the quorum.
        """
        return await self.assign(
            await self.open_questions(run),
            Reassignment,
            question=question,
            by=by,
            key=key,
            comment=comment,
            to=list(to),
        )

    async def assign(
        self,
        open_questions: OpenQuestions,
        kind: type[AssignmentCommand],
        *,
        question: str,
        key: str | None = None,
        **fields: JSON,
    ) -> AssignmentReceipt:
        """Send one of these commands with its fields, where the run has just been asked for its questions."""
        if kind.steers:
            await self._check_steering(open_questions.run)
        else:
            await self._check_answering(open_questions, [question])
        command = kind.read({**fields, "question": question, "key": key or secrets.token_hex(8)})
        return await self.answering.assign(self.tree, open_questions, command)

    async def attachment(self, question: Question, n: int) -> bytes:
        """Return the content of an attachment of an open question.

        Args:
            question: The question, as `questions` gives it.
            n: The number of the attachment, from 1.

        Raises:
            BadInput: The question has no such attachment.
            Refusal: The question is not open any more.
            NoWorker: No worker answers.
        """
        if n not in [attachment.n for attachment in question.attachments]:
            raise BadInput(f"question {question.id} has no attachment {n}; it has {len(question.attachments)}")
        wanted = AttachmentQuery(question=question.id, n=n)
        try:
            content = await self.tree.query(question.owner, ATTACHMENT, wanted, AttachmentContent)
        except UnknownRun:
            content = AttachmentContent()
        if content.data is None:
            raise Refusal("unknown_question", f"question {question.id} is not open any more; its attachments are gone")
        return base64.b64decode(content.data)

    async def outcome(self, run: str) -> Outcome:
        """Return the outcome of a run; before its end the status and context. Raises `UnknownRun` or `NoWorker`."""
        if (end := await self._end(run)) is not None:
            return outcome_of(end)
        described = await self.tree.describe(run)
        if described.status in STATUSES:
            return await final_outcome(self.tree, described)
        state = await self.standing(run)
        return Outcome(run, state.status, context=await self.context(state))

    async def result(self, run: str) -> Outcome:
        """Wait for the end of a run, without limit, and return its outcome. Raises `UnknownRun`."""
        if (end := await self._end(run)) is not None:
            return outcome_of(end)
        return await final_outcome(self.tree, await self.tree.describe(run))

    async def done(self, run: str, last: int | None = 100) -> list[Done]:
        """Return the completed steps of a run in the order of their completion.

        Args:
            run: The id of the run.
            last: The number of last iterations of each loop whose steps are returned; None: all.
        """
        return [
            Done(event.address, event.data.name, event.data.kind, event.data.output)
            for event in await below(self.tree, run, last)
            if isinstance(event.data, StepCompleted)
        ]

    async def context(self, state: RunState) -> JSONObject:
        """Return the context of a run; if it waits in a loop, that of the iteration with the first open question."""
        end = await self._end(state.run) if state.status in CLOSED else None
        if end is not None and (end.context is not None or end.view is None):
            return end.context or {}
        return await current_context(self.tree, state)

    async def trace(self, state: RunState, last: int | None = 100) -> Span:
        """Return the run as a tree of spans.

        Args:
            state: The run, from `standing`.
            last: How many iterations of each loop are kept, the last ones; None keeps all.
        """
        return _trace(state, await below(self.tree, state.run, last), last)

    async def iterations(self, state: RunState, address: Address, workflow: str, first: int, before: int) -> Span:
        """Return some iterations of a loop as a span of the loop; of a long one only these are read.

        Args:
            state: The run, from `standing`.
            address: The address of the loop.
            workflow: The loop's workflow (see `Span.workflow`).
            first: The first iteration, from 1.
            before: The iteration to end before.

        Raises:
            UnknownRun: The run has no such workflow, or it is forgotten.
            NoWorker: No worker answers.
        """
        if not workflow.startswith(f"{state.run}/"):
            raise UnknownRun(workflow)
        events = await iterations(self.tree, workflow, first, before)
        name = name_at(address)
        return replace(trace_of(events, name=name, address=address, status=state.status), kind="loop")

    async def last_iteration(self, workflow: str) -> int:
        """Return the number of the last iteration of a loop's workflow; 0 if there is none. Raises as `iterations`."""
        return await last_iteration(self.tree, workflow)

    async def events(self, run: str) -> list[Event]:
        """Return the events of a run and its children so far, in order; `offset` counts from 0 over the whole run."""
        return await all_events(self.tree, run)

    async def follow(self, run: str, after: int = -1) -> AsyncIterator[Event]:
        """Yield the events with an offset above `after` as they come, until the run has ended."""
        async for event, _ in self.follow_from(run):
            if event.offset > after:
                yield event

    async def follow_from(
        self, run: str, after: Cursor | None = None, pace: float = PACE_SECONDS
    ) -> AsyncGenerator[tuple[Event, Cursor], None]:
        """Yield the events behind a cursor as they come, each with its own cursor, until the run has ended.

        Args:
            run: The id of the run.
            after: The cursor of the last event that is known; None: yield all.
            pace: Seconds between two looks at the run.

        Raises:
            UnknownRun: There is no such run.
            NoWorker: No worker answers; go on later with the last cursor.
        """
        async for placed in follow(self.tree, run, after, self._until_closed(run, pace)):
            yield placed

    async def _until_closed(self, run: str, pace: float) -> AsyncIterator[bool]:
        while True:
            yield await self.has_ended(run)
            await asyncio.sleep(pace)

    async def has_ended(self, run: str) -> bool:
        """Return whether a run has ended. Raises `UnknownRun`."""
        return await self._end(run) is not None or (await self.tree.describe(run)).status in STATUSES

    async def pause(self, run: str, by: str | None = None, *, wait: float = PAUSE_SECONDS) -> list[Left]:
        """Pause a run: no further step starts, but answers are accepted and deadlines run.

        Args:
            run: The id of the run.
            by: The person who pauses it.
            wait: Seconds to wait until every workflow of the run is paused.

        Returns:
            The workflows that were not paused within that time, each with the reason; empty if all are.

        Raises:
            Refusal: A workflow refused the command.
            NothingSent: No worker answers, and the deployment signs its commands, which signals cannot carry.
            UnknownRun: There is no such run.
        """
        return await self._steer(run, PAUSE, by, wait)

    async def is_paused(self, run: str) -> bool:
        """Return whether a run, or any of its children, is paused.

        If the run itself is paused this needs no worker.

        Raises:
            UnknownRun: There is no such run.
            NoWorker: No worker answers.
        """
        return await self._has_paused_memo(run) or (await self.standing(run)).is_paused

    async def _has_paused_memo(self, run: str) -> bool:
        return PAUSED_MEMO in (await self.tree.describe(run)).raw_info.memo.fields

    async def resume(self, run: str, by: str | None = None) -> bool | list[Question]:
        """Resume a paused run, or answer the questions of a run that only wait for a go-ahead.

        Returns:
            Of a paused run, whether every workflow of it has resumed; else the questions that were answered (see
            `go_on`), which may be none.

        Raises:
            Refusal: A workflow refused the command or the answer.
            NoWorker: No worker answers.
        """
        state = None if await self._has_paused_memo(run) else await self.standing(run)
        if state is None or state.is_paused:
            return not await self.unpause(run, by)
        return await self._go_on(state, by)

    async def go_on(self, run: str, by: str | None = None) -> list[Question]:
        """Answer the questions that need no value, and return them.

        Those are holds, breakpoints and interrupts that take no value; never an approval. Raises as `answer` does.
        """
        return await self._go_on(await self.standing(run), by)

    async def _go_on(self, state: RunState, by: str | None) -> list[Question]:
        held = [question for question in state.questions if question.asked.needs_no_data]
        if held:
            answers = [Answer(question=question.id) for question in held]
            await self.answer(state.run, answers, by=by, open_questions=state.open_questions)
        return held

    async def unpause(self, run: str, by: str | None = None, *, wait: float = PAUSE_SECONDS) -> list[Left]:
        """Resume a paused run and answer no question. Args, returns and raises as in `pause`."""
        return await self._steer(run, RESUME, by, wait)

    async def edit(
        self, run: str, changes: Mapping[str, JSON], by: str | None = None, *, digest: str | None = None
    ) -> list[Receipt | Sent]:
        """Continue from a breakpoint with a changed context.

        Args:
            run: The id of the run.
            changes: The new value for each path of the context, such as `{"draft.title": "Hello"}`.
            by: The person who changes it.
            digest: That of the checkpoint as the person saw it; by default as it is now.

        Raises:
            BadInput: The run is not at exactly one breakpoint, or a path cannot be set.
            Refusal: The change was refused.
        """
        await self._check_steering(run)
        state = await self.standing(run)
        stops = [question for question in state.questions if question.asked.is_breakpoint]
        if len(stops) != 1:
            raise BadInput(_which_stop(run, stops))
        context = stops[0].info
        for path, value in changes.items():
            context = _set(context, path, value)
        answer = Answer(question=stops[0].id, content=context, digest=digest or stops[0].digest)
        return await self.answer(run, [answer], by=by, open_questions=state.open_questions)

    async def plan(self, run: str, address: str | None = None, *, last: int | None = 100) -> Planned:
        """Return a plan of a run with the status of each of its steps, also when the plan is over.

        Args:
            run: The id of the run.
            address: The name or the address of the plan's step, where the run has several plans.
            last: How many iterations of each loop are read, the last ones; None reads all.

        Raises:
            BadInput: There is no such plan.
            Ambiguous: There are several.
        """
        state = await self.standing(run)
        events = await below(self.tree, run, last)
        return await planned(self.tree, run, _trace(state, events, last), events, state.questions, address)

    async def change_plan(
        self,
        run: str,
        plan: object,
        address: str | None = None,
        *,
        reason: str = "",
        by: str | None = None,
        revision: int | None = None,
    ) -> int:
        """Replace the plan of a run. Steps that have started or ended must stay as they are.

        Args:
            run: The id of the run.
            plan: The new plan, as JSON has it.
            address: The name or the address of the plan's step, where the run has several plans.
            reason: The reason, stored with the revision.
            by: The person who changes it.
            revision: The revision that the change was made for: it is refused if the plan has changed since.

        Returns:
            The number of the new revision.

        Raises:
            Refusal: The plan was refused; the message lists every problem.
            BadInput: There is no such plan.
            Ambiguous: There are several.
        """
        await self._check_steering(run)
        check_outgoing({"plan": plan}, self.answering.limits.answer)
        check_change(plan)
        change = {"plan": plan, "reason": reason, "by": by}
        current = await self.plan(run, address)
        while True:
            try:
                wanted = {**change, "revision": revision or current.view.revision}
                return await send_change(self.tree, self.answering, current, wanted)
            except Refusal:
                before, current = current.view.workflow, await self.plan(run, current.address)
                # Try again only if another workflow holds the plan now: a loop took it over, or handed it back.
                if current.view.workflow == before:
                    raise

    async def tell(self, run: str, text: str, *, agent: str | None = None, by: str | None = None) -> str:
        """Send a message to an agent that works in turns; it reads the message in its next turn.

        Args:
            run: The id of the run.
            text: The message.
            agent: The name or the address of the agent's step, where several agents work; for an agent that drives a
                plan, those of the plan.
            by: The person who sends it.

        Returns:
            The address of the agent.

        Raises:
            BadInput: No such agent is at work.
            Ambiguous: Several agents are.
            Refusal: The message was refused, or the agent has finished.
        """
        await self._check_steering(run)
        check_outgoing({"text": text}, self.answering.limits.answer)
        views = [view for view in await self.tree.views(run) if view.hears]
        matches = [view for view in views if agent in (None, view.address, _agent_of(view.address))]
        if len(matches) != 1:
            names = ", ".join(f"{view.address} ({_agent_of(view.address)})" for view in views) or "none"
            if matches:
                raise Ambiguous(f"several agents are at work in {run}; name one, or its address, with --agent: {names}")
            missing = f"no agent of a step {agent!r}" if agent else "no agent"
            readers = "agents with tools and those that drive a plan read messages while they work"
            raise BadInput(f"{missing} in {run} reads messages now ({readers}); at work: {names}")
        try:
            await self.answering.steer(self.tree, run, matches[0].workflow, TELL, {"text": text, "by": by}, type(None))
        except UnknownRun:
            raise Refusal("run_closed", "the agent has finished; it no longer accepts messages") from None
        return matches[0].address

    async def cancel(
        self, run: str, *, wait: float = CANCEL_SECONDS, force: bool = False, by: str | None = None
    ) -> Stopped:
        """Cancel a run and its children; their questions close. Cancelling a run that has ended is no error.

        Args:
            run: The id of the run.
            wait: Seconds to wait for the end of the whole tree.
            force: Terminate the run instead: nothing that it has started is cleaned up, and its status is `failed`.
            by: The person who cancels it; Temporal and the record keep the name. They must be among those who may
                steer the run.

        Returns:
            The status of the run, with the workflows that had not ended in time, each with the reason, and those that
            had activities under way.

        Raises:
            UnknownRun: There is no such run.
            Refusal: They may not steer it.
        """
        await self.tree.describe(run)
        await self.require("steer", run, by)
        family = Family(self.client, self.tree, run, by)
        remaining, undone = await (family.terminate(wait) if force else family.cancel(wait))
        status = (await self.tree.describe(run)).status
        return Stopped(run, STATUSES.get(status, "running") if status else "running", remaining, undone)

    async def running(self, blueprint: str | None = None) -> list[str]:
        """Return the ids of all runs that have not ended, or of those with this blueprint's name."""
        return await running_runs(self.client, blueprint)

    async def _steer(self, run: str, name: str, by: str | None, wait: float) -> list[Left]:
        """Send a command to every workflow of a run; return those that have not taken it after `wait` seconds.

        With a worker it is sent as an update, so that it has taken effect on return. A workflow that no update has
        reached gets a signal, which waits for the next worker: the last one may have gone a moment ago.
        """
        await self._check_steering(run)
        described = await self.tree.describe(run)
        family = Family(self.client, self.tree, run)
        reached_by_update = await self.tree.worker_polls(run)
        left: list[Left] = []
        if reached_by_update:
            argument = partial(self.answering.steering, run, command=name, payload={"by": by})
            left = await family.steer(name, argument, paused=name == PAUSE, seconds=wait)
            if not left:
                return []
        if await self._takes_signals(described):
            return await family.signal(name, {workflow.workflow for workflow in left} if reached_by_update else None)
        if reached_by_update:
            return [replace(workflow, reason=f"{workflow.reason}; {SEND_AGAIN}") for workflow in left]
        raise no_signals()

    async def _takes_signals(self, described: WorkflowExecutionDescription) -> bool:
        """Return whether a run takes commands by signal: not where it checks who sends them."""
        if self.answering.keys:
            return False
        if described.workflow_type != PIPELINE_WORKFLOW:
            return True
        definition = await started_with(self.client, described)
        return not definition.guarded and definition.access.steer is None

    def handle(self, run: str) -> WorkflowHandle[Any, Any]:
        """Return Temporal's handle of the run's own workflow."""
        return self.client.get_workflow_handle(run)

    async def _end(self, run: str) -> ArchivedEnd | None:
        """Return the end of a run from the archive; None if it is not there, or Temporal has more of it."""
        end = None if self.archive is None else await self.archive.end(run)
        if end is None or end.view is not None:
            return end
        try:
            await self.tree.describe(run)
        except UnknownRun:
            return end
        return None


def _which_stop(run: str, stops: Sequence[Question]) -> str:
    """Return the message for a run that is not at exactly one breakpoint."""
    # Breakpoints of several branches have the same address: the message of each tells them apart.
    if not stops:
        return f"run {run} is not at a stop; {EDIT_HINT}"
    places = "; ".join(f"{stop.id} at {stop.address}: {stop.message}" for stop in stops)
    return f"run {run} is at {len(stops)} stops; answer one: holdfast answer {run} ID --content CONTEXT ({places})"


def _agent_of(address: Address) -> str:
    """Return the name of the innermost agent or agent-driven plan at an address."""
    return next((id_ for kind, id_, _ in reversed(parts(address)) if kind in ("agent", "plan")), "")


def _trace(state: RunState, events: Sequence[Event], last: int | None) -> Span:
    address = root(state.blueprint)
    return trace_of(events, name=state.blueprint, address=address, status=state.status, last=last)


def _set(context: JSON, path: str, value: JSON) -> JSON:
    try:
        return with_value(context, path, value)
    except BadWrite as error:
        raise BadInput(str(error)) from None
