"""The same commands and results, however core groups the jobs of tasks: recorded histories, local activities."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import chain

import pytest
from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from examples.invite_guests.workflow import Invitations
from holdfast.protocol.agents import ModelReply
from holdfast.protocol.names import VIEW
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.testkit.clock import CLOCK_RUNNER
from holdfast.workflows import RUNNER, WORKFLOWS
from tests.people.activations import SIGNAL, UPDATE, FedRun
from tests.replay import recordings
from tests.replay.groupings import Recorded, Recorder

QUICK = ["several", "continued"]


async def replay(name: str) -> list[Recorded]:
    """Replay the histories of a recording; what their instances were fed."""
    own, authors = Recorder(CLOCK_RUNNER), Recorder(RUNNER)
    replayer = Replayer(
        workflows=[*WORKFLOWS, Invitations],
        workflow_runner=authors,
        unsandboxed_workflow_runner=own,
        data_converter=DATA_CONVERTER,
    )

    async def histories() -> AsyncIterator[WorkflowHistory]:
        for history in recordings.histories(name):
            yield history

    await replayer.replay_workflows(histories(), raise_on_replay_failure=False)
    return own.recorded + authors.recorded


def regroup(recorded: Recorded) -> int:
    """Group each activation anew in each way; return in how many."""
    ways = 0
    for index in range(len(recorded.activations)):
        for commands in recorded.regroup(index):
            ways += 1
            assert commands == recorded.commands, (recorded.details.info.workflow_id, index)
    return ways


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in recordings.names()],
)
async def test_a_history_leads_to_the_same_however_it_is_grouped(name: str) -> None:
    recorded = await replay(name)
    ways = await asyncio.to_thread(lambda: sum(map(regroup, recorded)))
    assert recorded and (ways or name not in QUICK)


TEXT = """
agents: {quick: {model: echo}, slow: {model: "scripted:none"}}
steps:
  - kind: parallel
    name: p
    branches:
      one: [{name: quick, agent: quick, input: x}, {name: slow, agent: slow, input: y}]
      two: [{kind: hitl, name: ask, message: Go?}, {name: slow, agent: slow, input: z}]
"""


def end_local(number: int = 1) -> WorkflowActivationJob:
    job = WorkflowActivationJob()
    job.resolve_activity.seq, job.resolve_activity.is_local = number, True
    [payload] = DATA_CONVERTER.payload_converter.to_payloads([ModelReply(output="x")])
    job.resolve_activity.result.completed.result.CopyFrom(payload)
    return job


def ask_in_task() -> WorkflowActivationJob:
    job = WorkflowActivationJob()
    job.query_workflow.query_id, job.query_workflow.query_type = "one", VIEW
    return job


def begin() -> FedRun:
    """A run with a question, and a local activity under way."""
    run = FedRun(TEXT)
    assert [one.WhichOneof("variant") for one in run.commands].count("schedule_local_activity") == 1
    return run


def list_calls(run: FedRun) -> list[str]:
    """The ids of the activities that were scheduled, in their order."""
    commands = chain.from_iterable(commands for _, commands in run._fed)
    return [one.schedule_activity.activity_id for one in commands if one.HasField("schedule_activity")]


@pytest.mark.parametrize("by", [SIGNAL, UPDATE])
def test_what_comes_with_a_result_or_before_it_leads_to_the_same(by: str) -> None:
    together, apart = begin(), begin()
    together.feed(together.answer("yes", by=by), end_local())
    apart.feed(apart.answer("yes", by=by))
    apart.feed(end_local())
    assert list_calls(together) == list_calls(apart) and len(list_calls(apart)) == 2
    together.replay()
    apart.replay()


def test_a_signal_is_applied_after_the_result_of_the_task_before() -> None:
    run, plain = begin(), begin()
    run.feed(run.answer("yes", by=SIGNAL))
    assert list_calls(run) == []
    run.feed(end_local())
    plain.feed(end_local())
    plain.feed(plain.answer("yes", by=SIGNAL))
    assert list_calls(run) == list_calls(plain)


def test_an_update_is_applied_at_once() -> None:
    run = begin()
    run.feed(run.answer("yes"))
    assert (run.updates, len(list_calls(run))) == (["completed"], 1)


def test_a_query_that_came_with_the_task_is_answered_after_its_local_activity() -> None:
    run = begin()
    assert run.feed(ask_in_task()) == []
    assert run.feed(end_local())[-1] == "respond_to_query"
    assert run.evictions == 0


def test_a_local_activity_does_not_start_because_of_a_query() -> None:
    agents = 'agents: {quick: {model: echo}, slow: {model: "scripted:none"}}'
    steps = "[{name: s, agent: slow, input: x, on_error: continue}, {name: q, agent: quick, input: y}]"
    run, failed = FedRun(f"{agents}\nsteps: {steps}"), WorkflowActivationJob()
    failed.resolve_activity.seq = 1
    failed.resolve_activity.result.failed.failure.application_failure_info.non_retryable = True
    assert run.feed(failed, by_query=True) == []
    assert run.evictions == 1


def test_a_query_right_after_a_result_evicts_as_it_may_have_brought_the_task_of_the_result() -> None:
    run = begin()
    assert run.questions
    before = run.evictions
    run.feed(end_local())
    assert run.questions
    assert run.evictions == before + 1
