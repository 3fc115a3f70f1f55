"""The undisturbed run of a seed on a real server: does the simulated one imitate it?

The same blueprint, the same answers, events and results of calls, with Temporal's server, the SDK's own worker and its
core. The clock of the run is moved to the next timer or deadline once nothing else can happen, as `testkit` moves it.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from drills.simulate.blueprints import Generated
from drills.simulate.core import Violation
from drills.simulate.extras import NOBODY
from drills.simulate.simulation import Outcome, check_same, prepare_seed
from drills.simulate.world import FIND, LATE, RUN, World
from holdfast.client.runs import Runs
from holdfast.client.states import STATUSES, RunState
from holdfast.protocol.answers import Answer, AnswerBatch
from holdfast.protocol.incoming import SEND_EVENT, SystemEvent
from holdfast.protocol.names import ANSWER
from holdfast.protocol.questions import Question
from holdfast.protocol.runs import Definition, PipelineState
from holdfast.protocol.views import RunResult
from holdfast.runtime.connection import make_converter
from holdfast.runtime.errors import ServerUnreachable
from holdfast.runtime.workers import NoWorker
from holdfast.testkit.clock import CLOCK_RUNNER, name_signal
from holdfast.testkit.environment import UNSANDBOXED, start_server
from holdfast.worker import create_worker

QUEUE, ELSEWHERE = "simulated", "elsewhere"
PATIENCE = 300.0
"""Seconds in which something must happen, on a loaded machine."""
STARTS = 10
"""How often a server is started that does not answer."""
PAUSE = 0.03
"""Seconds between two looks at the run."""


@workflow.defn(name="Foreign")
class ForeignWorkflow:
    """The workflow that is not ours, and that generated blueprints run."""

    @workflow.run
    async def run(self, given: Any) -> str:
        return f"done {workflow.info().workflow_id}"


def run_seed_for_real(seed: int) -> str | None:
    """Run the blueprint of a seed on a server of its own; return how it differs from the simulated run, if it does."""
    generated, expected = prepare_seed(seed)
    try:
        check_same(expected, asyncio.run(_run(generated)))
    except Violation as violation:
        return str(violation)
    return None


async def _run(generated: Generated) -> Outcome:
    """Return how the run has ended. Raises `Violation` if it does not."""
    world = World(generated.events)
    async with AsyncExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-simulate-")))
        converter = make_converter(f"dir:{folder / 'payloads'}")
        environment = await exits.enter_async_context(await _start_server(folder, data_converter=converter))
        client = environment.client
        activities = [_make_activity(world)]
        ours = create_worker(
            client, task_queue=QUEUE, activities=activities, runner=UNSANDBOXED, own_runner=CLOCK_RUNNER
        )
        foreign = Worker(client, task_queue=ELSEWHERE, workflows=[ForeignWorkflow], workflow_runner=UNSANDBOXED)
        for worker in (ours, foreign):
            await exits.enter_async_context(worker)
        definition = Definition(run="", blueprint=generated.blueprint, local_tools=[FIND])
        arguments = [definition, PipelineState(input="tea")]
        handle: WorkflowHandle[Any, RunResult] = await client.start_workflow(
            "Pipeline", args=arguments, id=RUN, task_queue=QUEUE, result_type=RunResult
        )
        await RealRun(client, world, generated.events).attend()
        return await _read_outcome(handle, world)


async def _start_server(folder: Path, **options: Any) -> WorkflowEnvironment:
    """Start a server. The SDK waits five seconds for it, and a loaded machine may need more: then once more."""
    for _ in range(STARTS):
        with suppress(ServerUnreachable):
            return await start_server(folder, **options)
    return await start_server(folder, **options)


def _make_activity(world: World) -> Callable[..., Any]:
    """Return the activity that does what all those of the simulated worker do."""

    @activity.defn(dynamic=True)
    async def call(arguments: Sequence[RawValue]) -> object:
        return world.activities.perform(activity.info().activity_type, arguments[0].payload)

    return call


async def _read_outcome(handle: WorkflowHandle[Any, RunResult], world: World) -> Outcome:
    effects = tuple(sorted(world.activities.effects.items()))
    try:
        result = await handle.result()
    except WorkflowFailureError as error:
        status = "failed" if isinstance(error.cause, ApplicationError) else "cancelled"
        return Outcome(status, getattr(error.cause, "type", None), None, effects)
    return Outcome("completed", result.output, result.context, effects)


class RealRun:
    """A run on a server, and what happens to it: one thing at a time, and the clock last.

    Args:
        client: Of the server.
        world: Says what people answer.
        events: Those that other systems send, each a name and a key.
    """

    def __init__(self, client: Client, world: World, events: Sequence[tuple[str, str]]) -> None:
        self._client, self._world, self._to_send = client, world, list(events)
        self._runs = Runs(client, QUEUE)
        self._answered: dict[str, int] = {}
        """How many people have answered each question, by id."""

    async def attend(self) -> None:
        """Answer, send events, and let the time pass, until the run has ended."""
        last = time.monotonic()
        while (state := await self._look()).status not in STATUSES.values():
            if await self._act(state):
                last = time.monotonic()
            if time.monotonic() > last + PATIENCE:
                raise Violation(f"nothing happens for {PATIENCE:g} s on the server: {_describe(state)}")
            await asyncio.sleep(PAUSE)

    async def _look(self) -> RunState:
        """Return the state of the run. A worker of a loaded machine is now and then too busy to answer."""
        while True:
            with suppress(NoWorker):
                return await self._runs.state(RUN)

    async def _act(self, state: RunState) -> bool:
        """Do the next thing; return whether there was one."""
        for question in state.questions:
            if self._may_answer(question):
                await self._answer(question)
                return True
        if not is_calm(state):
            return False
        waiting = {question.asked.awaits for question in state.events}
        for name, key in self._to_send:
            if name != LATE or (name, key) in waiting:
                self._to_send.remove((name, key))
                await self._send(name, key)
                return True
        moment, owner = min(_list_moments(state), default=(None, ""))
        if moment is None:
            return False
        await self._client.get_workflow_handle(owner).signal(name_signal(moment))
        await self._await_moment(moment, owner)
        return True

    def _may_answer(self, question: Question) -> bool:
        is_for_somebody = not question.message.startswith(NOBODY)
        return is_for_somebody and self._answered.get(question.id, 0) < question.quorum

    async def _answer(self, question: Question) -> None:
        count = self._answered.get(question.id, 0)
        by = f"user:{('ana', 'ben', 'sue')[count]}"
        content = self._world.choose_content(question)
        key = f"{question.id}-{count}"
        batch = AnswerBatch(answers=[Answer(question=question.id, content=content)], by=by, key=key)
        await self._update(question.owner, ANSWER, batch, key)
        self._answered[question.id] = count + 1

    async def _send(self, name: str, key: str) -> None:
        event = SystemEvent(name=name, key=key, payload=f"paid {key}", id=f"{name}-{key}")
        await self._update(RUN, SEND_EVENT, event, f"event-{key}")

    async def _update(self, workflow_id: str, name: str, argument: object, key: str) -> None:
        try:
            await self._client.get_workflow_handle(workflow_id).execute_update(name, argument, id=key)
        except WorkflowUpdateFailedError as error:
            raise Violation(f"{name} was refused on the server: {error.cause}") from error

    async def _await_moment(self, moment: datetime, owner: str) -> None:
        """Wait until the workflow has noticed that a moment has come."""
        end = time.monotonic() + PATIENCE
        while (moment, owner) in set(_list_moments(await self._look())):
            if time.monotonic() > end:
                raise Violation(f"{owner} does not notice on the server that it is {moment.isoformat()}")
            await asyncio.sleep(PAUSE)


def is_calm(state: RunState) -> bool:
    """Return whether every workflow of a run waits, and no child is about to start or end."""
    views = {view.workflow: view for view in state.views}
    children = {child for view in views.values() for child in view.children}
    waiting = [view.timers or view.deadlines or view.events or view.questions or view.children for view in state.views]
    return children <= views.keys() and all(waiting) and not any(view.moving for view in state.views)


def _list_moments(state: RunState) -> Iterator[tuple[datetime, str]]:
    """Yield when something happens by itself, each with the workflow in which it does."""
    yield from state.timers
    yield from state.deadlines
    for question in [*state.questions, *state.events]:
        if question.deadline is not None:
            yield question.deadline, question.owner


def _describe(state: RunState) -> str:
    views = [
        f"{view.workflow} questions {len(view.questions)} children {view.children} moving {view.moving}"
        for view in state.views
    ]
    return "; ".join(views)
