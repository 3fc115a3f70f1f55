"""An answer asks the server no more than it must: the calls are counted by the SDK's own metrics."""

import json
from collections import Counter
from typing import Any, NoReturn

import pytest
from temporalio.client import Client
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig

from holdfast.client.answering import Answering
from holdfast.client.earlier_answers import EarlierAnswers
from holdfast.client.runs import Runs
from holdfast.client.tree import Tree
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.questions import Question
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.workers import Unconfirmed
from tests.conftest import Harness

NESTED = """
steps:
- kind: loop
  name: outer
  loop:
    max_loops: 1
    body: [{kind: hitl, name: ask, message: Go?}]
"""


async def counted(house: Harness) -> tuple[Runs, MetricBuffer]:
    """Return the runs by a client of its own, and the metrics of its calls."""
    metrics = MetricBuffer(10_000)
    runtime = Runtime(telemetry=TelemetryConfig(metrics=metrics))
    address = house.client.service_client.config.target_host
    client = await Client.connect(
        address, namespace=house.client.namespace, data_converter=DATA_CONVERTER, runtime=runtime
    )
    metrics.retrieve_updates()
    return Runs(client, house.runs.task_queue, Answering()), metrics


def calls(metrics: MetricBuffer) -> Counter[str]:
    counts: Counter[str] = Counter()
    for update in metrics.retrieve_updates():
        if update.metric.name in ("temporal_request", "temporal_long_request"):
            counts[str(update.attributes["operation"])] += int(update.value)
    return counts


async def test_an_answer_to_a_step_walks_the_tree_once(house: Harness) -> None:
    run = await house.start(NESTED)
    await house.one(run)
    runs, metrics = await counted(house)
    found = await runs.find_questions(run, ["ask"])
    await runs.answer(run, [Answer(question="ask", content="yes")], open_questions=found)
    assert calls(metrics) == {
        "DescribeWorkflowExecution": 1,
        "DescribeTaskQueue": 1,
        "QueryWorkflow": 2,  # the run and its loop
        "UpdateWorkflowExecution": 1,
    }


async def test_who_shares_queries_describes_a_run_once_for_an_answer_by_name(house: Harness) -> None:
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?}]")
    await house.one(run)
    runs, metrics = await counted(house)
    await runs.sharing_queries().answer(run, [Answer(question="ask", content="yes")])
    assert calls(metrics) == {
        "DescribeWorkflowExecution": 1,
        "DescribeTaskQueue": 1,
        "QueryWorkflow": 1,
        "UpdateWorkflowExecution": 1,
    }


TWO_CALLS = {"QueryWorkflow": 1, "UpdateWorkflowExecution": 1}


@pytest.mark.parametrize("given", ["whole", "beginning"])
async def test_who_has_seen_a_question_answers_it_in_two_calls(house: Harness, given: str) -> None:
    run, question, runs, metrics = await seen(house)
    found = await runs.find_questions(run if given == "whole" else run[:-3], [question.id])
    await runs.answer(run, [Answer(question=question.id, content="yes")], key="k", open_questions=found)
    assert calls(metrics) == TWO_CALLS


async def test_a_program_that_lists_and_answers_asks_nothing_more_of_the_run(house: Harness) -> None:
    run, question, runs, metrics = await seen(house)
    [receipt] = await runs.answer(run, [Answer(question=question.id, content="yes")])
    counted_calls = calls(metrics)
    counted_calls.pop("DescribeTaskQueue", None)  # once a second, for all answers
    assert (receipt.status, counted_calls) == ("answered", {"UpdateWorkflowExecution": 1})


async def test_a_question_with_assignees_is_looked_at_before_it_is_answered(house: Harness) -> None:
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?, assignees: [user:ana]}]")
    await house.one(run)
    runs, metrics = await counted(house)
    [question] = await runs.questions(run)
    calls(metrics)
    await runs.answer(run, [Answer(question=question.id, content="yes")], by="user:ana")
    assert calls(metrics) == TWO_CALLS


async def test_who_has_seen_a_question_claims_it_in_two_calls(house: Harness) -> None:
    run, question, runs, metrics = await seen(house)
    await runs.assignment.claim(run, question.id, by="user:ana")
    assert calls(metrics) == TWO_CALLS


async def test_a_question_that_was_seen_is_read_in_one_call(house: Harness) -> None:
    _, question, runs, metrics = await seen(house)
    assert await runs.lists.find_question(question.id) == question
    assert calls(metrics) == {"QueryWorkflow": 1}


async def test_a_question_that_was_seen_and_answered_since_is_told_by_the_run(house: Harness) -> None:
    run, question, runs, _ = await seen(house)
    await house.runs.answer(run, [Answer(question=question.id, content="yes")], by="user:bob")
    with pytest.raises(Refusal, match="was answered by user:bob"):
        await runs.answer(run, [Answer(question=question.id, content="no")])


async def test_an_answer_that_nobody_confirms_soon_is_sent_again_as_the_same_one(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, question, runs, _ = await seen(house)

    async def lose(tree: Tree, workflow: str, *arguments: Any, id: str) -> Any:
        await tree.update(workflow, *arguments, id=id)
        raise Unconfirmed(run, workflow)

    monkeypatch.setattr(Tree, "try_update", lose)
    [receipt] = await runs.answer(run, [Answer(question=question.id, content="yes")])
    assert (receipt.status, (await house.output(run))) == ("answered", "yes")


async def test_a_question_is_not_answered_as_one_of_another_run(house: Harness) -> None:
    _, question, runs, _ = await seen(house)
    other = await house.start(NESTED)
    await house.one(other)
    with pytest.raises(Refusal) as refused:
        await runs.answer(other, [Answer(question=question.id, content="yes")])
    assert refused.value.code == "unknown_question"


async def test_whether_it_was_answered_before_is_read_in_one_walk(house: Harness) -> None:
    """Under a key, by the key and by the question: one walk serves all who ask, and all answers of a batch."""
    run, question, runs, metrics = await seen(house)
    await house.runs.answer(run, [Answer(question=question.id, content="yes")], key="first")
    await house.output(run)
    earlier = EarlierAnswers(runs.tree, run)
    assert await earlier.find_under("other") is None
    walk = calls(metrics)
    assert await earlier.find_closing("none") is None
    assert (await earlier.find_closing(question.id), await earlier.find_retried("first")) != (None, None)
    assert walk and not calls(metrics)


async def test_a_run_that_is_at_work_is_described_once_to_show_it(house: Harness) -> None:
    run, _, runs, metrics = await seen(house)
    shown = await runs.watch.view(run)
    whole = calls(metrics)["DescribeWorkflowExecution"]
    await runs.watch.find_obstacles(shown.state)
    assert whole - calls(metrics)["DescribeWorkflowExecution"] == 1


class UnopenedArchive:
    """An archive that nobody may ask."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"the archive was asked for {name}")


async def test_the_state_of_a_run_that_is_at_work_opens_no_archive(house: Harness) -> None:
    run = await house.start(NESTED)
    await house.one(run)
    runs = Runs(house.client, house.runs.task_queue, Answering(), UnopenedArchive())  # type: ignore[arg-type]
    assert (await runs.state(run)).questions
    assert not await runs.watch.has_ended(run)


async def seen(house: Harness) -> tuple[str, Question, Runs, MetricBuffer]:
    """Start a run; return it with its question, and a client that has listed it."""
    run = await house.start(NESTED)
    await house.one(run)
    runs, metrics = await counted(house)
    [question] = await runs.questions(run)
    calls(metrics)
    return run, question, runs, metrics


async def test_what_an_answer_leaves_out_is_not_in_the_history(house: Harness) -> None:
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?}]")
    question = await house.one(run)
    await house.runs.answer(run, [Answer(question=question.id, content="yes")], by="user:ana", key="k")
    await house.runs.result(run)
    history = await house.client.get_workflow_handle(run).fetch_history()
    [request] = [
        event.workflow_execution_update_accepted_event_attributes.accepted_request
        for event in history.events
        if event.HasField("workflow_execution_update_accepted_event_attributes")
    ]
    sent = json.loads(request.input.args.payloads[0].data)
    assert sent == {"answers": [{"question": question.id, "content": "yes"}], "by": "user:ana", "key": "k"}
    assert len(request.meta.update_id) == 16  # it stands four times in the events of an update
