"""Raw bytes at every handler of a run, by update, signal and query, on a real server.

`python -m tests.fuzz.door SECONDS [SEED]`. Afterwards a question is open or answered, never neither; the run has not
failed; no workflow task has; the run can be cancelled, and replays. It waits for states: a machine that does a hundred
other things makes it slower, and finds nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from random import randrange
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.client import Client, WorkflowHistory, WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.client import WorkflowUpdateRPCTimeoutOrCancelledError as UpdateTimeout
from temporalio.common import RawValue
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer, Worker

from holdfast.client.states import RunState
from holdfast.protocol.questions import Question
from holdfast.protocol.runs import HistoryLimits
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.embedded.server import find_temporal_binary
from holdfast.runtime.workers import NoWorker, TaskFailing
from holdfast.workflows import OWN_RUNNER, RUNNER, WORKFLOWS
from tests.conftest import ATTRIBUTES, Harness, worker_for
from tests.fuzz.messages import Sent, messages_to
from tests.own_questions import Inquiry

HITL = "steps: [{kind: hitl, name: ask, message: Go?, on_decline: continue, %s}]"
KINDS = {
    "text": HITL % "ask: input",
    "form": HITL % "input_schema: {type: object}",
    "any": HITL % "input_schema: {}",
    "number": HITL % "input_schema: {type: number}, sink_to: answer",
    "choice": HITL % "options: [warm, cool]",
    "clarification": HITL % "ask: clarification, options: [warm, cool], multiple: 2",
    "decision": HITL % "ask: decision, options: [warm, cool]",
    "permission": HITL % "ask: permission",
    "review": HITL % "ask: review, input: {x: 1}, input_schema: {type: object}",
    "free review": HITL % "ask: review, input: text",
    "secret": HITL % "ask: secret",
    "secrets": HITL % "ask: secret, input_schema: {type: object, properties: {A: {type: string}}}",
    "hold": "steps: [{kind: hitl, name: ask, message: Go?, ask: hold}]",
    "quorum": HITL % "ask: decision, options: [warm, cool], quorum: 3",
    "sink": HITL % "input_schema: {type: object}, sink_to: answer",
    "checkpoint": "steps: [{name: a, input: 1, interrupt_before: true}]",
    "fact": "steps: [{kind: clarify, name: c, goal: Tea, schema: {type: object, required: [x], properties: "
    "{x: {type: string}, n: {type: integer}}}}]",
    "plan": "steps: [{kind: plan, name: p, plan: {goal: Tea, confirm: true, steps: [{id: '1', instruction: "
    "'ASK_INFO: Go?'}]}}]",
    "interrupt": "steps: [{name: a, uses: 'tests.tools:wants_anything'}]",
    "loop": "steps: [{kind: loop, name: l, loop: {max_loops: 4, checkpoint_every: 2, body: [{kind: hitl, name: ask, "
    "message: Go?, on_decline: continue}]}}]",
    "map": "steps: [{kind: map, name: m, map: {iterable_input: '{{ range(55) }}', body: [{kind: hitl, name: ask, "
    "message: Go?, on_decline: continue}]}}]",
    "agent": "{agents: {boss: {model: 'scripted:replies.yaml', human: [ask]}}, steps: [{name: boss, agent: boss, "
    "input: Tea}]}",
    "driven": "{agents: {boss: {model: 'scripted:replies.yaml', human: [ask]}}, steps: [{kind: plan, name: driver, "
    "plan: {goal: Tea, driver: agent, agent: boss, steps: [{id: '1', instruction: 'ASK_INFO: Go?'}, "
    "{id: '2', instruction: 'ASK_INFO: Where?'}]}}]}",
    "attachment": HITL % "attachments: [{name: draft.md, text: Tea}]",
    "assigned": HITL % "assignees: ['user:ana', 'group:editors'], not_by: ['user:eve']",
    "own": "",
}
"""A blueprint that asks, for each kind of question and of workflow; `own` is a workflow of an author's own."""
ASKS = {"tool_calls": [{"name": "request_user_info", "args": {"question": "Go?"}}]}
REPLIES = {"boss": [ASKS, ASKS, "done"], "driver": [ASKS] * 5}
STOPPED = ("stopped", "question_declined", "question_cancelled", "plan_rejected", "plan_failed", "plan_cancelled")
"""How a run may fail: somebody declined what ends it."""
LATE = (
    RPCStatusCode.NOT_FOUND,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.RESOURCE_EXHAUSTED,
)
"""Of a message to a workflow that has ended, or over a slow server: what became of it is looked at all the same."""
PATIENCE = 300
"""Seconds until something that has not happened is a finding."""
MOST_MESSAGES = 40
"""To one run; then it is cancelled, as a question that was handed to somebody else takes no answers any more."""
REPLAYED_TOGETHER = 50
LIMITS = HistoryLimits(rounds=2)


@dataclass
class Target:
    """A run that is shot at, and the question of it that is open."""

    run: str
    question: Question
    messages: int = 0


@dataclass
class Range:
    """The runs that are shot at: one of each kind, started anew when its question has been answered."""

    harness: Harness
    targets: dict[str, Target] = field(default_factory=dict)
    started: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    histories: list[WorkflowHistory] = field(default_factory=list)

    async def check(self, sent: Sent) -> None:
        """Send it, and see what became of the question. Raises AssertionError for a finding."""
        target = self.targets.pop(sent.kind, None) or await self._start(sent.kind)
        self.counts[await self._send(target.question, sent)] += 1
        target.messages += 1
        state = await self._settled(target.run, target.question)
        if target.question.id not in {question.id for question in state.questions}:
            self.counts["answered"] += 1
            if not state.questions:
                await self._check_ended(target.run)
                return
            target.question = state.questions[0]
        if target.messages < MOST_MESSAGES:
            self.targets[sent.kind] = target
        else:
            await self._cancel(target.run)

    async def end(self) -> None:
        """Cancel what still asks, and check what was recorded."""
        for target in self.targets.values():
            await self._cancel(target.run)
        await self._check_replay()

    async def _start(self, kind: str) -> Target:
        run = f"fuzz-{uuid.uuid4().hex[:8]}"
        if kind == "own":
            asks = {"message": "Go?", "on_decline": "continue", "name": "ask"}
            await self.harness.client.start_workflow(Inquiry.run, asks, id=run, task_queue="own")
        else:
            await self.harness.runs.start(self.harness.load(KINDS[kind]), run=run, history_limits=LIMITS)
        self.started += 1
        state = await self._settled(run, None)
        assert len(state.questions) == 1, f"{kind} asks nothing: {state}"
        return Target(run, state.questions[0])

    async def _send(self, question: Question, sent: Sent) -> str:
        """Send a message, and return what is known of it."""
        payloads = [_payload(data.replace(b"QUESTION", question.id.encode()), how) for data, how in sent.payloads]
        handle = self.harness.client.get_workflow_handle(question.owner)
        try:
            if sent.by == "signal":
                await handle.signal(sent.name, args=payloads)
            elif sent.by == "update":
                await handle.execute_update(sent.name, args=payloads)
            else:
                await handle.query(sent.name, args=payloads)
        except (WorkflowUpdateFailedError, WorkflowQueryFailedError):
            return f"{sent.by} refused"
        except UpdateTimeout:
            return "late"
        except RPCError as error:
            assert error.status in LATE, f"{question.owner}: {error}"
            return "late"
        return sent.by if sent.by != "update" else f"{sent.name} taken"

    async def _settled(self, run: str, question: Question | None) -> RunState:
        """Return the state of a run once it waits or has ended; one that was paused goes on."""
        state: object = None
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                state = await self.harness.runs.state(run)
                if state.is_paused:
                    await self.harness.runs.control.resume(run)
                elif state.questions or state.status in ("completed", "failed", "cancelled"):
                    return state
            except TaskFailing:
                raise
            except NoWorker as silence:  # the machine is busy
                state = silence
            await asyncio.sleep(0.02)
        raise AssertionError(f"the run neither asks nor ends: {question}; {state!r}")

    async def _check_ended(self, run: str) -> None:
        outcome = await self.harness.runs.result(run)
        stopped = outcome.error is not None and outcome.error.type in STOPPED
        assert outcome.status == "completed" or stopped, f"the run is {outcome.status}: {outcome.error}"
        await self._keep(run)

    async def _cancel(self, run: str) -> None:
        stopped = await self.harness.runs.control.cancel(run, wait=PATIENCE)
        assert stopped.status == "cancelled", f"{run} cannot be cancelled: {stopped}"
        self.counts["cancelled"] += 1
        await self._keep(run)

    async def _keep(self, run: str) -> None:
        """Keep the histories of a run that has ended, and check them."""
        for history in await self.harness.histories(run):
            _check_tasks(history)
            self.histories.append(history)
        if len(self.histories) >= REPLAYED_TOGETHER:
            await self._check_replay()

    async def _check_replay(self) -> None:
        async def one_by_one() -> AsyncIterator[WorkflowHistory]:
            for history in self.histories:
                yield history

        replayer = Replayer(
            workflows=[*WORKFLOWS, Inquiry],
            workflow_runner=RUNNER,
            unsandboxed_workflow_runner=OWN_RUNNER,
            data_converter=DATA_CONVERTER,
        )
        await replayer.replay_workflows(one_by_one())
        self.counts["replayed"] += len(self.histories)
        self.histories.clear()


def _check_tasks(history: WorkflowHistory) -> None:
    """Raise AssertionError if a workflow task has failed.

    Not for a task whose end met a message that had just arrived: the server has such a one done again.
    """
    for event in history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            cause = event.workflow_task_failed_event_attributes.cause
            met = cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND
            assert met, f"{history.workflow_id}: {event}"


def _payload(data: bytes, encoding: str) -> RawValue:
    return RawValue(Payload(metadata={"encoding": encoding.encode()} if encoding else {}, data=data))


def shoot(range_: Range, loop: asyncio.AbstractEventLoop, seconds: float, first: int) -> None:
    """Send messages until the time is over. Raises AssertionError with the smallest message that is a finding."""
    end = time.monotonic() + seconds

    @settings(
        max_examples=100,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(messages_to(KINDS))
    def one(sent: Sent) -> None:
        if time.monotonic() < end + 30:  # what is being shrunk gets some seconds more
            asyncio.run_coroutine_threadsafe(range_.check(sent), loop).result(3 * PATIENCE)

    for number in range(sys.maxsize):
        if time.monotonic() >= end:
            return
        seed(first + number)(one)()


async def _fuzz(client: Client, folder: Path, seconds: float, first: int) -> None:
    harness = Harness(client, "fuzz", folder)
    harness.script(json.dumps(REPLIES))
    range_ = Range(harness)
    own = Worker(client, task_queue="own", workflows=[Inquiry], workflow_runner=RUNNER)
    async with worker_for(client, "fuzz"), own:
        await asyncio.to_thread(shoot, range_, asyncio.get_running_loop(), seconds, first)
        await range_.end()
    print(f"seed {first}: {dict(sorted(range_.counts.items()))} in {range_.started} runs")


async def fuzz(seconds: float, first: int) -> None:
    """Fuzz a server of its own."""
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)  # it tells of each signal that it drops
    environment = await WorkflowEnvironment.start_local(
        dev_server_existing_path=find_temporal_binary(), data_converter=DATA_CONVERTER, search_attributes=ATTRIBUTES
    )
    async with environment:
        with TemporaryDirectory() as folder:
            await _fuzz(environment.client, Path(folder), seconds, first)


if __name__ == "__main__":
    words: list[Any] = sys.argv[1:]
    asyncio.run(fuzz(float(words[0]) if words else 60, int(words[1]) if words[1:] else randrange(2**32)))
