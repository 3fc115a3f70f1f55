"""What a query brings before its task: shown in its answer, and replayed with the task."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob

from holdfast.workflows.human import HumanInTheLoop
from tests.people.activations import SIGNAL, FedRun

ASK = "{kind: hitl, name: ask, message: Go?}"
AGENT = "agents: {a: {model: 'scripted:none'}}\n"


@workflow.defn
class Hasty(HumanInTheLoop):
    """Asks, and ends when it is told to, without the answer."""

    def __init__(self) -> None:
        self.told = False

    @workflow.run
    async def run(self) -> str:
        asking = asyncio.create_task(self.human.ask("Pay?"))
        await workflow.wait_condition(lambda: self.told)
        return "without" if not asking.done() else "with"

    @workflow.signal
    def go(self) -> None:
        self.told = True


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


def test_a_result_that_a_query_has_brought_goes_on_and_evicts() -> None:
    # A task without jobs may come and go unseen, and then another query with later events and the time of that task.
    branches = f"one: [{{name: one, agent: a, input: x}}], two: [{ASK}]"
    run = FedRun(f"{AGENT}steps: [{{kind: parallel, name: p, on_branch_failure: ignore, branches: {{{branches}}}}}]")
    run.feed(fail_activity(1), by_query=True)
    assert (run.ended, run.evictions) == (None, 1)
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


def test_a_query_right_after_a_deadline_evicts_as_an_answer_may_still_come_with_its_task() -> None:
    run = FedRun(f"steps: [{{kind: hitl, name: late, message: Soon?, timeout: 2h, on_timeout: skip}}, {ASK}]")
    run.feed(run.timer(), after=timedelta(hours=2))
    assert [question.message for question in run.questions] == ["Go?"]
    assert run.evictions == 1


def test_a_query_right_after_an_update_evicts_nothing() -> None:
    run = FedRun(f"steps: [{ASK}, {{kind: hitl, name: then, message: And?}}]")
    run.feed(run.answer("me"))
    assert [question.message for question in run.questions] == ["And?"]
    assert run.evictions == 0


def test_what_waits_for_an_end_is_evicted_and_goes_on_to_no_question() -> None:
    block = "kind: block, name: b, deadline: 1h, on_deadline: finish, steps: [{name: one, agent: a, input: x}]"
    run = FedRun(f"{AGENT}steps: [{{{block}}}, {ASK}]")
    assert "request_cancel_activity" in run.feed(run.timer(), after=timedelta(hours=1))
    run.evict()


def test_an_answer_that_comes_with_the_end_of_an_authors_workflow_is_refused() -> None:
    run = FedRun(Hasty)
    kinds = run.feed(run.answer("me"), run.message("go", by=SIGNAL))
    assert (run.updates, run.ended, kinds[-1]) == (["rejected"], "completed", "complete_workflow_execution")
