"""Tests of workflows of your own that ask people: a Temporal server in memory, skipped time, scripted answers.

    async with testing.environment(workflows=[Invitations]) as env:
        assert await env.run(Invitations.run, ["Ana"], answers=["yes"]) == "sent to 1"

See docs/own-workflows.md. Tests of blueprints are files (docs/testing.md).
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.workflow.v1 import PendingChildExecutionInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer, Worker

from holdfast.blueprint.json_values import JSON
from holdfast.client.answer_files import ENTRY_KEYS, Entry, waits_for_escalation
from holdfast.client.answering import Answering, Sender
from holdfast.client.history import histories
from holdfast.client.runs import Runs
from holdfast.client.signals import Sent
from holdfast.plugin import Plugin
from holdfast.protocol.guard import DEPLOYMENT
from holdfast.protocol.questions import Question
from holdfast.runtime.config import Config, load_config
from holdfast.runtime.config.sections import EncryptionSection, PayloadsSection
from holdfast.runtime.converters import read_failure_text
from holdfast.runtime.errors import ServerError
from holdfast.runtime.workers import read_failed_task, read_last_events
from holdfast.testkit.environment import INBOX, start_server

PATIENCE = timedelta(seconds=60)
"""How long a workflow may take to ask, to wait for a timer or to end, in real time."""
TESTER = "user:tester"
PAUSE = 0.02
"""Seconds between two looks at a workflow."""
Answers = Sequence[JSON]
"""Answers in the order in which they are used.

A value answers any question; `{"question": GLOB, "content": VALUE}`, or `"decline": True` in place of the content,
answers a question whose id, name or address fits, `times` questions; `"by"` is the person who answers, as `user:ana`.
"""


class NoAnswer(AssertionError):
    """A workflow waits for an answer that the test does not have, or an answer was not used."""


@asynccontextmanager
async def environment(
    *,
    workflows: Sequence[type],
    activities: Sequence[Callable[..., Any]] = (),
    config: Config | None = None,
    **worker: Any,
) -> AsyncIterator[Environment]:
    """Start a server in memory with Holdfast's search attributes, and a worker for workflows of your own.

    Args:
        workflows: Your workflow classes; those of Holdfast are added.
        activities: Your activities, or fakes of them; those of Holdfast are added.
        config: By default that of the nearest `holdfast.toml`; its `[payloads]` and `[encryption]` do not count here.
        worker: Further arguments of `temporalio.worker.Worker`.

    Yields:
        The environment; its client has `holdfast.Plugin`.

    Raises:
        ServerUnreachable: The server did not start.
        ConfigError: The configuration cannot be read.
    """
    folder = Path(tempfile.mkdtemp(prefix="holdfast-test-"))
    own = {"payloads": PayloadsSection(external=f"dir:{folder / 'payloads'}"), "encryption": EncryptionSection()}
    config = (config or load_config()).model_copy(update=own)
    plugin, queue = Plugin(config), f"test-{uuid.uuid4().hex[:8]}"
    try:
        async with (
            await start_server(folder, plugins=[plugin]) as server,
            Worker(server.client, task_queue=queue, workflows=workflows, activities=activities, **worker),
        ):
            runs = Runs(server.client, queue, Answering(inbox=INBOX, limits=config.limits))
            yield Environment(server, runs, queue, Replayer(workflows=workflows, plugins=[plugin]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Environment:
    """A server in memory with a worker. Time stands still until `run` or `skip` moves it."""

    server: WorkflowEnvironment
    runs: Runs
    """Questions, answers, results and cancels, as in a program of your own."""
    task_queue: str
    _replayer: Replayer

    async def run(self, workflow: Any, *args: Any, answers: Answers = (), id: str | None = None) -> Any:
        """Start a workflow and return its result; see `start` and `finish`.

        Raises:
            WorkflowFailureError: The workflow failed.
            NoAnswer: It waits for an answer that there is none for, or an answer was left over.
        """
        return await self.finish(await self.start(workflow, *args, id=id), answers)

    async def start(self, workflow: Any, *args: Any, id: str | None = None) -> WorkflowHandle[Any, Any]:
        """Start a workflow on the worker of this environment; `id` is by default a random one."""
        id = id or f"test-{uuid.uuid4().hex[:8]}"
        return await self.server.client.start_workflow(workflow, args=args, id=id, task_queue=self.task_queue)

    async def finish(self, handle: WorkflowHandle[Any, Any], answers: Answers = ()) -> Any:
        """Answer what is asked until the workflow ends, and return its result.

        Where no answer fits, or only one of somebody who is asked later, the time moves to the next deadline,
        escalation or timer. At the end every history is replayed.

        Raises:
            WorkflowFailureError: The workflow failed.
            NoAnswer: It waits for an answer that there is none for, or an answer was left over.
        """
        scripted, asked = [_read_answer(answer) for answer in answers], list[str]()
        while questions := await self._settle(handle):
            fitting = ((one, answer) for one in questions for answer in scripted if answer.may_send(one))
            if match := next(fitting, None):
                asked.append(match[0].message)
                await self._send(handle, *match)
            elif not await self._skip_to_next_moment(handle, questions):
                waits = "; ".join(f"{question.message!r} ({question.address})" for question in questions)
                raise NoAnswer(f"no answer fits what {handle.id} waits for: {waits}")
        async for history in histories(self.server.client, handle.id):
            await self._replayer.replay_workflow(history)
        result = await handle.result()
        if unused := [answer.entry for answer in scripted if not answer.entry.tried]:
            left = ", ".join(f"{entry.pattern}: {entry.content!r}" for entry in unused)
            raise NoAnswer(f"not used: {left}; asked: {asked}")
        return result

    async def questions(self, handle: WorkflowHandle[Any, Any]) -> list[Question]:
        """Return the open questions of a workflow and its children, once nothing in them moves; [] at their end."""
        return await self._settle(handle)

    async def answer(
        self, handle: WorkflowHandle[Any, Any], content: JSON, question: str = "*", *, by: str = TESTER
    ) -> None:
        """Answer one open question.

        Args:
            content: As for `Runs.answer`.
            question: A glob over the question's id, name or address; by default any question.
            by: The person who answers, such as `user:ana`.

        Raises:
            NoAnswer: No open question fits.
            Refusal: The answer does not fit the question.
        """
        answer = _ScriptedAnswer(Entry(question, content), by)
        questions = await self._settle(handle)
        for open_question in questions:
            if answer.entry.fits(open_question):
                return await self._send(handle, open_question, answer)
        raise NoAnswer(f"no open question of {handle.id} fits {question!r}: {[one.address for one in questions]}")

    async def skip(self, handle: WorkflowHandle[Any, Any], duration: timedelta) -> None:
        """Move the clock of one workflow forward."""
        await self.server.fast_forward(handle, duration)

    async def _send(self, handle: WorkflowHandle[Any, Any], question: Question, answer: _ScriptedAnswer) -> None:
        # The deployment of this process is that of the environment used last.
        DEPLOYMENT.inbox = INBOX
        runs = self.runs.acting_as(Sender(answer.by, proof=question.proof)) if question.proof else self.runs
        try:
            receipts = await runs.answer(handle.id, [answer.entry.answer(question)], by=answer.by)
        except ServerError as error:
            if failures := await self._find_failures(handle.id):
                raise NoAnswer(f"{handle.id} does not go on: {failures}") from error
            raise
        unconfirmed = any(isinstance(receipt, Sent) for receipt in receipts)
        if unconfirmed and (failures := await self._find_failures(handle.id)):
            raise NoAnswer(f"{handle.id} does not go on: {failures}")

    async def _settle(self, handle: WorkflowHandle[Any, Any]) -> list[Question]:
        """Return the open questions once each workflow waits for people or timers; [] once the workflow has ended.

        While only timers run, their time is skipped.
        """
        end = time.monotonic() + PATIENCE.total_seconds()
        while time.monotonic() < end:
            tree = await self._describe(handle.id)
            if not tree:
                return []
            has_failed = any(raw.pending_workflow_task.attempt > 1 for raw in tree)
            if has_failed and (failures := await self._find_failures(handle.id)):
                raise NoAnswer(f"{handle.id} does not go on: {failures}")
            if not any(map(_moves, tree)):
                if questions := await self.runs.questions(handle.id):
                    return questions
                if not await self._skip_to_next_moment(handle, []):
                    await self._check_hidden_children(tree[1:])
            await asyncio.sleep(PAUSE)
        failures = await self._find_failures(handle.id) or "nothing has failed"
        raise NoAnswer(f"{handle.id} still runs after {PATIENCE.total_seconds():.0f} s, and asks nothing: {failures}")

    async def _find_failures(self, id: str) -> str:
        """Return the last failure of each workflow task and activity that is tried again; empty where there is none."""
        client, found = self.server.client, list[str]()
        for raw in await self._describe(id):
            execution = raw.workflow_execution_info.execution
            if raw.pending_workflow_task.attempt > 1:
                events = await read_last_events(client, execution.workflow_id, execution.run_id, 1)
                if (task := await read_failed_task(client, events)) is not None:
                    found.append(task.message)
            for call in raw.pending_activities:
                if call.HasField("last_failure"):
                    message = await read_failure_text(client.data_converter, call.last_failure)
                    found.append(f"{call.activity_type.name}: {message}")
        return "; ".join(found)

    async def _check_hidden_children(self, children: Sequence[DescribeWorkflowExecutionResponse]) -> None:
        """Raise `NoAnswer` if a child asks that was not started as one of ours."""
        for raw in children:
            child = raw.workflow_execution_info.execution.workflow_id
            if questions := await self.runs.questions(child):
                way_out = "self.run_human starts one whose questions are found under its parent"
                text = f"{child} asks {questions[0].message!r}, and was started by Temporal's own call; {way_out}"
                raise NoAnswer(text)

    async def _describe(self, id: str) -> list[DescribeWorkflowExecutionResponse]:
        """Return what the server knows of a workflow that is open and of its open children; [] for one that is not."""
        description = await self.server.client.get_workflow_handle(id).describe()
        if description.status != WorkflowExecutionStatus.RUNNING:
            return []
        raw = description.raw_description
        below = [await self._describe(child.workflow_id) for child in raw.pending_children if _is_there(child)]
        return [raw, *(one for descriptions in below for one in descriptions)]

    async def _skip_to_next_moment(self, handle: WorkflowHandle[Any, Any], questions: Sequence[Question]) -> bool:
        """Move the clock of the workflow whose timer is due first to that moment; return whether anything changes.

        If other questions are open by now, a timer has just fired, and the next one is not skipped to.
        """
        moments = [
            (moment, raw.workflow_execution_info.execution.workflow_id)
            for raw in await self._describe(handle.id)
            for moment in await self._moments(raw)
        ]
        if await self.runs.questions(handle.id) != questions:
            return True
        if not moments:
            return False
        moment, id = min(moments)
        workflow: WorkflowHandle[Any, Any] = self.server.client.get_workflow_handle(id)
        await self.skip(workflow, max(moment - await self.server.get_current_time(workflow), timedelta()))
        return True

    async def _moments(self, raw: DescribeWorkflowExecutionResponse) -> list[datetime]:
        """Return when the timers of a workflow end."""
        execution = raw.workflow_execution_info.execution
        workflow: WorkflowHandle[Any, Any] = self.server.client.get_workflow_handle(
            execution.workflow_id, run_id=execution.run_id
        )
        timers: dict[str, datetime] = {}
        async for event in workflow.fetch_history_events():
            match event.event_type:
                case EventType.EVENT_TYPE_TIMER_STARTED:
                    started = event.timer_started_event_attributes
                    begun = event.event_time.ToDatetime(UTC)
                    timers[started.timer_id] = begun + started.start_to_fire_timeout.ToTimedelta()
                case EventType.EVENT_TYPE_TIMER_FIRED:
                    timers.pop(event.timer_fired_event_attributes.timer_id, None)
                case EventType.EVENT_TYPE_TIMER_CANCELED:
                    timers.pop(event.timer_canceled_event_attributes.timer_id, None)
        return list(timers.values())


@dataclass(frozen=True)
class _ScriptedAnswer:
    """An answer of a test, and who gives it."""

    entry: Entry
    by: str = TESTER

    def may_send(self, question: Question) -> bool:
        """Return whether to send it now: the answer of somebody who is asked after an escalation is kept until then."""
        return self.entry.can_answer(question) and not waits_for_escalation(question, self.by, DEPLOYMENT.groups)


def _read_answer(answer: JSON) -> _ScriptedAnswer:
    """Return a written answer. Raises `ValueError` for a key that an answer does not have."""
    if not (isinstance(answer, Mapping) and "question" in answer):
        return _ScriptedAnswer(Entry("*", answer))
    if unknown := sorted(answer.keys() - {*ENTRY_KEYS, "by"}):
        raise ValueError(f"unknown key {unknown[0]!r} of an answer; it has: {', '.join((*ENTRY_KEYS, 'by'))}")
    entry = Entry(answer["question"], answer.get("content"), bool(answer.get("decline")), answer.get("times", 1))
    return _ScriptedAnswer(entry, answer.get("by", TESTER))


def _is_there(child: PendingChildExecutionInfo) -> bool:
    """Return whether a child has started: before, the server knows no workflow of its id."""
    return bool(child.run_id)


def _moves(raw: DescribeWorkflowExecutionResponse) -> bool:
    """Return whether a workflow is at work: it has a task or an activity, or a child that is not there yet."""
    info = raw.workflow_execution_info
    is_at_work = raw.HasField("pending_workflow_task") or bool(raw.pending_activities) or info.history_length < 3
    return is_at_work or not all(map(_is_there, raw.pending_children))
