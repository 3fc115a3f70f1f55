"""Signals to a child on their way: the server may deliver the second of two before the first."""

from __future__ import annotations

from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob

from holdfast.protocol.names import PAUSE, RESUME
from tests.people.activations import SIGNAL, FedRun

LOOP = "steps: [{kind: loop, name: l, loop: {max_loops: 2, body: [{kind: hitl, name: ask, message: Go?}]}}]"


def list_signals(run: FedRun) -> list[str]:
    """Return the names of the signals that the last activation has sent."""
    sent = [one for one in run.commands if one.HasField("signal_external_workflow_execution")]
    return [one.signal_external_workflow_execution.signal_name for one in sent]


def start_child(run: FedRun) -> None:
    started = WorkflowActivationJob()
    started.resolve_child_workflow_execution_start.seq = 1
    started.resolve_child_workflow_execution_start.succeeded.run_id = "child"
    run.feed(started)


def tell_delivered(number: int) -> WorkflowActivationJob:
    delivered = WorkflowActivationJob()
    delivered.resolve_signal_external_workflow.seq = number
    return delivered


def test_a_child_is_told_of_a_resume_once_it_knows_of_the_pause() -> None:
    run = FedRun(LOOP)
    start_child(run)
    run.feed(run.message(PAUSE, by=SIGNAL))
    assert list_signals(run) == [PAUSE]
    run.feed(run.message(RESUME, by=SIGNAL))
    assert list_signals(run) == []
    run.feed(tell_delivered(1))
    assert list_signals(run) == [RESUME]
    run.feed(run.message(PAUSE, by=SIGNAL))
    run.feed(tell_delivered(2))
    assert list_signals(run) == [PAUSE]
    run.replay()


def test_a_child_is_told_nothing_of_what_was_taken_back_meanwhile() -> None:
    run = FedRun(LOOP)
    start_child(run)
    for command in (PAUSE, RESUME, PAUSE):
        run.feed(run.message(command, by=SIGNAL))
    run.feed(tell_delivered(1))
    assert list_signals(run) == []
    run.replay()
