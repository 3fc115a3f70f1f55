"""What a query brings before its task: applied as far as it does not depend on the rest of the task."""

from __future__ import annotations

from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob

from tests.people.activations import SIGNAL, FedRun

ASK = "{kind: hitl, name: ask, message: Go?}"
AGENT = "agents: {a: {model: echo}}\n"


def fail_activity(number: int) -> WorkflowActivationJob:
    job = WorkflowActivationJob()
    job.resolve_activity.seq = number
    job.resolve_activity.result.failed.failure.message = "no"
    job.resolve_activity.result.failed.failure.application_failure_info.non_retryable = True
    return job


def test_an_end_that_a_query_has_brought_is_withheld_and_comes_with_the_task() -> None:
    run = FedRun(f"{AGENT}steps: [{{name: one, agent: a, input: x}}]")
    assert run.feed(fail_activity(1), by_query=True) == []
    assert run.evictions == 1
    again = FedRun(f"{AGENT}steps: [{{name: one, agent: a, input: x}}]")
    again.feed(fail_activity(1))
    assert (again.ended, again.evictions) == ("failed", 0)


def test_a_result_that_a_query_has_brought_goes_on_at_once() -> None:
    branches = f"one: [{{name: one, agent: a, input: x}}], two: [{ASK}]"
    run = FedRun(f"{AGENT}steps: [{{kind: parallel, name: p, on_branch_failure: ignore, branches: {{{branches}}}}}]")
    run.feed(fail_activity(1), by_query=True)
    assert (run.ended, run.evictions) == (None, 0)
    assert run.feed(run.answer("me"))[-1] == "complete_workflow_execution"


def test_a_signal_that_a_query_has_brought_is_left_to_its_task() -> None:
    run = FedRun(f"steps: [{ASK}]")
    run.feed(run.answer("me", by=SIGNAL), by_query=True)
    assert (len(run.questions), run.evictions) == (1, 1)


def test_a_query_right_after_signals_evicts_as_it_may_have_brought_them() -> None:
    run = FedRun(f"steps: [{ASK}, {{kind: hitl, name: then, message: And?}}]")
    run.feed(run.answer("me", by=SIGNAL))
    assert [question.message for question in run.questions] == ["And?"]
    assert run.evictions == 1
