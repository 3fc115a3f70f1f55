"""Calls in a block of which it is not known how they ended, when the block is cancelled."""

from __future__ import annotations

from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob
from temporalio.exceptions import ApplicationError

from drills.simulate.world import fail, succeed
from holdfast.protocol.agents import Completed
from holdfast.protocol.tool_errors import OUTCOME_UNKNOWN
from holdfast.protocol.usage import Usage
from tests.people.activations import FedRun

PAY = "{name: pay, uses: pay, input: x, undo: {uses: repay, input: x}}"


def lose_call() -> WorkflowActivationJob:
    """The end of the first call, of which nobody knows whether it took effect."""
    lost = WorkflowActivationJob()
    lost.resolve_activity.seq = 1
    lost.resolve_activity.result.CopyFrom(fail(ApplicationError("lost", type=OUTCOME_UNKNOWN, non_retryable=True)))
    return lost


def test_a_lost_call_of_which_nobody_has_said_how_it_ended_is_asked_about_before_it_is_undone() -> None:
    run = FedRun(f"steps: [{{kind: block, name: b, steps: [{PAY}]}}]")
    run.feed(lose_call())
    assert [question.asked.kind for question in run.questions] == ["lost_call"]
    run.feed(run.cancel())
    assert [question.address for question in run.questions] == ["pipeline:test;block:b;step:pay;undo:pay"]


def test_a_call_that_turns_out_to_be_lost_after_a_cancel_is_asked_about_before_it_is_undone() -> None:
    run = FedRun(f"steps: [{{kind: block, name: b, steps: [{PAY}]}}]")
    run.feed(run.cancel())
    run.feed(lose_call())
    assert [question.address for question in run.questions] == ["pipeline:test;block:b;step:pay;undo:pay"]


def test_a_result_that_comes_with_a_cancel_is_undone_also_where_the_time_is_limited() -> None:
    run = FedRun(f"limits: {{seconds: 60}}\nsteps: [{{kind: block, name: b, steps: [{PAY}]}}]")
    done = WorkflowActivationJob()
    done.resolve_activity.seq = 1
    done.resolve_activity.result.CopyFrom(succeed(Completed(result="paid")))
    run.feed(done, run.cancel())
    assert "step.undoing" in run.events


def test_what_a_call_has_spent_that_a_cancel_met_is_in_the_total() -> None:
    run = FedRun("steps: [{name: pay, uses: pay}]")
    done = WorkflowActivationJob()
    done.resolve_activity.seq = 1
    done.resolve_activity.result.CopyFrom(succeed(Completed(result="paid", usage=Usage(requests=2, input_tokens=7))))
    run.feed(run.cancel())
    run.feed(done)
    assert (run.view.usage.requests, run.view.usage.input_tokens) == (2, 7)
