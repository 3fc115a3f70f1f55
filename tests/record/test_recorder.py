"""The recorder: what it reads of running and ended runs, each event once, at no cost in a history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NoReturn
from uuid import uuid4

import pytest
import yaml
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import ResetReapplyExcludeType
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import WorkflowExecutionDescription

from holdfast.client.tree import Tree
from holdfast.protocol.names import WAITING_ATTRIBUTE
from holdfast.runtime.errors import NotReadable
from holdfast.runtime.payloads import PayloadsUnreachable
from holdfast.server.record import progress, reads, recorder
from holdfast.server.record.entries import ASKED, ENDED, GAP
from holdfast.server.record.progress import FirstRuns, ListedWorkflow, WorkflowProgress, describe, read_listed
from holdfast.server.record.reader import ReadWorkflow
from holdfast.server.record.record import Record
from holdfast.server.record.recorder import Recorder, choose_pause
from holdfast.server.record.story import story
from holdfast.server.record.verification import RecordCheck, verify
from tests.conftest import Harness, until, worker_for
from tests.flows import written
from tests.people.verified import AGENTS, BACK, ask
from tests.record.ground import ASK, KEY, LOOP, Recording
from tests.unread import refuse_queries


@pytest.mark.parametrize(
    ("seconds", "recorded", "lacks_worker", "pause"),
    [(5.0, 0, False, 50.0), (5.0, 3, False, 5.0), (0.1, 3, False, 1.0), (30.0, 0, False, 60.0), (30.0, 0, True, 10.0)],
)
def test_the_next_round_comes_soon_after_one_that_had_something_to_record_or_lacked_a_worker(
    seconds: float, recorded: int, lacks_worker: bool, pause: float
) -> None:
    assert choose_pause(seconds, recorded, lacks_worker) == pause


async def test_a_run_that_was_parked_before_is_recorded(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    await recording.house.one(run)
    entries = await recording.until_recorded(run, "question.asked")
    assert [entry.type for entry in entries if entry.offset is not None] == [
        "run.started",
        "step.started",
        "question.asked",
    ]


async def test_an_open_question_is_recorded_as_it_is_shown(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    question = await recording.house.one(run)
    [asked] = [e for e in await recording.until_recorded(run, "question.asked") if e.type == "question.asked"]
    assert (asked.question, asked.shown) == (question.id, question.model_dump(mode="json"))


@pytest.mark.parametrize(("attribute", "is_new"), [(WAITING_ATTRIBUTE, True), ("BuildIds", False)])
def test_a_listed_workflow_is_new_when_other_people_are_awaited(attribute: str, is_new: bool) -> None:
    info = WorkflowExecutionInfo()
    before = read_listed(info)
    info.search_attributes.indexed_fields[attribute].data = b'["anyone"]'
    assert (read_listed(info).signature != before.signature) is is_new


async def test_a_workflow_that_has_something_new_is_described_once(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await recording.house.start(ASK)
    await recording.house.one(run)

    async def describe(*_: object) -> NoReturn:
        raise AssertionError("it was described before")

    monkeypatch.setattr(Tree, "describe", describe)
    monkeypatch.setattr(progress, "describe", describe)
    sharing = recording.house.runs.sharing_queries()
    recording.recorder = Recorder(sharing.tree, recording.store, KEY, sharing.task_queue)
    assert await recording.until_recorded(run, "question.asked")


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_child_that_is_read_before_its_run_is_of_the_blueprint_of_the_run(
    recording: Recording, is_known: bool
) -> None:
    """A notice of its question names the blueprint; an author's own workflow has no events before the child's."""
    run = await recording.house.start(CHOICE)
    question = await recording.house.one(run)
    client, runs = recording.house.client, FirstRuns(recording.house.client, recording.store)
    own, child = [await describe(client, workflow) for workflow in (run, question.owner)]
    assert own is not None and child is not None and child.workflow != run
    if is_known:
        await runs.of(own)
    assert await runs.of(child) == await runs.of(own)
    assert (await runs.of(child)).blueprint == "choice"


@pytest.mark.parametrize("error", [PayloadsUnreachable("it is away"), NotReadable("a codec"), ValueError("no number")])
async def test_a_run_that_cannot_be_read_keeps_no_other_from_being_recorded(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    run, other = [await recording.house.start(ASK) for _ in range(2)]
    for one in (run, other):
        await recording.house.one(one)
    with monkeypatch.context() as patch:
        refuse_queries(patch, run, error)
        assert await recording.until_recorded(other, "question.asked")
        await recording.house.runs.control.cancel(run)
        await recording.recorder.round()
        assert not recording.entries(run)
    assert await recording.until_recorded(run, ENDED)


LONG = "Which one? " + "A word. " * 100
CHOICE = f"""
name: choice
steps:
  - kind: loop
    name: twice
    loop:
      max_loops: 3
      checkpoint_every: 1
      body: [{{kind: hitl, name: pick, message: "{LONG}", ask: decision, options: [warm, formal]}}]
"""


@pytest.mark.slow
async def test_questions_that_closed_before_the_recorder_came_are_recorded_in_full(recording: Recording) -> None:
    run, shown = await recording.house.start(CHOICE), []
    for _ in range(3):
        shown.append(await recording.house.one(run))
        await recording.house.answer(run, "warm", shown[-1])
    await recording.house.output(run)
    asked = [one for one in await recording.until_recorded(run, ENDED) if one.type == "question.asked"]
    assert [one.shown for one in asked] == [question.model_dump(mode="json") for question in shown]
    assert len(shown[0].message) > 256 and [option.id for option in shown[0].options] == ["warm", "formal"]


async def test_the_events_are_those_of_the_run(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    await recording.house.answered(run, "Rome")
    await recording.house.output(run)
    entries = await recording.until_recorded(run, ENDED)
    assert [
        entry.to_event() for entry in entries if entry.offset is not None
    ] == await recording.house.runs.watch.events(run)


async def test_every_event_is_recorded_once(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    await recording.house.one(run)
    first = await recording.until_recorded(run, "question.asked")
    again = recording.another()
    await again.round()
    assert recording.entries(run) == first


@pytest.mark.slow
async def test_a_run_that_goes_on_is_recorded_further(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    await recording.house.one(run)
    await recording.until_recorded(run, "question.asked")
    await recording.house.answered(run, "Rome")
    answered = next(e for e in await recording.until_recorded(run, "question.answered") if e.offset == 3)
    assert (answered.type, answered.data["content"]) == ("question.answered", "Rome")


@pytest.mark.slow
async def test_a_loop_that_continued_as_new_is_recorded_whole(recording: Recording) -> None:
    run = await recording.house.start(LOOP)
    await recording.house.answered(run, "a", "b", "c", "stop")
    await recording.house.output(run)
    entries = await recording.until_recorded(run, ENDED)
    inner = [entry for entry in entries if entry.workflow != run]
    assert [entry.offset for entry in inner] == list(range(len(inner)))
    assert [entry.data["iteration"] for entry in inner if entry.type == "loop.iteration"] == [1, 2, 3, 4]


async def test_the_end_is_recorded_with_its_outcome(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    await recording.house.answered(run, "Rome")
    await recording.house.output(run)
    end = (await recording.until_recorded(run, ENDED))[-1]
    assert end.data == {"status": "completed", "how": "completed"}
    assert end.content and end.content["outcome"]["output"] == "Rome"


async def test_a_terminated_run_is_recorded_with_its_end(recording: Recording) -> None:
    run = await recording.house.start(LOOP)
    await recording.house.one(run)
    await recording.house.runs.control.cancel(run, force=True)
    entries = await recording.until_recorded(run, ENDED)
    assert "question.asked" in [entry.type for entry in entries]
    assert [entry.data for entry in entries if entry.type == ENDED] == [{"status": "failed", "how": "terminated"}]


TWO = """
name: letter
steps:
  - {kind: hitl, name: tone, message: "Which tone?"}
  - {kind: hitl, name: title, message: "Which title?"}
output: "{{ steps.tone.output }} {{ steps.title.output }}"
"""


async def reset(house: Harness, run: str) -> None:
    """Reset a run to its first task, as an operator does by Temporal's own means; answers are not applied again."""
    execution = WorkflowExecution(workflow_id=run)
    request = ResetWorkflowExecutionRequest(
        namespace=house.client.namespace,
        workflow_execution=execution,
        reason="wrong tone",
        workflow_task_finish_event_id=3,
        request_id=uuid4().hex,
        reset_reapply_exclude_types=[
            ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL,
            ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE,
        ],
    )
    await house.client.workflow_service.reset_workflow_execution(request)


@pytest.mark.slow
@pytest.mark.parametrize("is_seen_before", [True, False])
async def test_what_follows_a_reset_is_recorded_as_it_was_and_stops_no_recorder(
    recording: Recording, is_seen_before: bool
) -> None:
    house = recording.house
    run = await house.start(TWO)
    await house.answered(run, "warm")
    await house.one(run)
    if is_seen_before:
        await recording.until_recorded(run, "question.answered")
    described = await describe(house.client, run)
    assert described is not None
    before = described.first_run
    await reset(house, run)
    question = await house.one(run)
    assert question.message == "Which tone?"
    await house.answered(run, "formal")
    record = Record(recording.store, house.client, KEY)

    async def is_recorded() -> bool:
        await recording.recorder.round()  # it waits for no end of a run
        ended = [entry for entry in recording.store.entries(first_run=before) if entry.type == ENDED]
        rows = story(await record.entries(run))
        return bool(ended) and [(row.action, row.content) for row in rows] == [
            ("reset run", "wrong tone"),
            ("accept", "formal"),
        ]

    await until(is_recorded, "both runs in the record")
    assert [(row.action, row.content) for row in story(recording.store.entries(first_run=before))] == [
        ("accept", "warm"),
        ("reset run", None),
    ]
    other = await recording.ended(ASK, "Rome")
    await house.answered(run, "Fine")
    assert await house.output(run) == "formal Fine"
    await recording.until_recorded(run, ENDED)
    end = await record.end(run)
    assert end is not None and (end.status, end.output) == ("completed", "formal Fine")
    await record.erase(run, "user:ana")
    assert {row.content for row in story(recording.store.entries(first_run=before))} == {None}
    assert other and verify(recording.store, [KEY.public]).faults == []


@pytest.mark.slow
async def test_recording_costs_no_event_in_a_history(recording: Recording) -> None:
    run = await recording.house.start(LOOP)
    await recording.house.one(run)
    before = [len(history.events) for history in await recording.house.histories(run)]
    await recording.until_recorded(run, "question.asked")
    assert [len(history.events) for history in await recording.house.histories(run)] == before


async def test_a_refused_signal_is_recorded(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    await recording.house.one(run)
    await recording.house.runs.client.get_workflow_handle(run).signal(
        "answer", {"question": "nonsense", "content": "x"}
    )
    [refused] = [e for e in await recording.until_recorded(run, "answer.refused") if e.type == "answer.refused"]
    assert (refused.data["code"], refused.data["via"]) == ("unknown_question", "signal")


async def test_a_refused_signal_stands_in_the_story_with_its_question(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    question = await recording.house.one(run)
    await recording.house.runs.client.get_workflow_handle(run).signal(
        "answer", {"question": question.id, "content": {"a": 1}}
    )
    [row] = story(await recording.until_recorded(run, "answer.refused"))
    assert (row.action, row.question, row.message) == ("refuse", question.id, question.message)


async def test_signals_refused_in_one_activation_are_all_recorded(recording: Recording) -> None:
    client = recording.house.client
    away = Harness(client, f"test-{uuid4().hex[:8]}", recording.house.folder)
    run = await away.start(ASK)
    for name in ("eve", "mallory"):
        await away.runs.client.get_workflow_handle(run).signal(
            "answer", {"question": "none", "content": "x", "by": f"user:{name}"}
        )
    async with worker_for(client, away.runs.task_queue):
        await away.one(run)
        await recording.recorder.catch_up(run)
        refused = [entry for entry in recording.entries(run) if entry.type == "answer.refused"]
        assert [entry.data["by"] for entry in refused] == ["user:eve", "user:mallory"]
        await away.answered(run, "x")
        await away.output(run)


@pytest.mark.slow
async def test_a_signal_that_was_refused_before_a_loop_continued_as_new_is_recorded(recording: Recording) -> None:
    house = recording.house
    run = await house.start(LOOP)
    question = await house.one(run)
    await house.client.get_workflow_handle(question.owner).signal("answer", {"question": "nonsense", "content": "x"})
    await house.answered(run, "a", "b")
    await house.one(run)
    assert len(await house.histories(run)) > 2  # the loop's first history has ended with the refusal in it
    await recording.recorder.catch_up(run)
    assert [e.data["code"] for e in recording.entries(run) if e.type == "answer.refused"] == ["unknown_question"]
    await recording.recorder.catch_up(run)
    assert len([e for e in recording.entries(run) if e.type == "answer.refused"]) == 1


async def test_of_two_recorders_one_records(recording: Recording) -> None:
    other = recording.another()
    assert recording.recorder.lease.hold()
    run = await recording.house.start(ASK)
    await recording.house.one(run)
    await other._round_if_ours()
    assert recording.entries(run) == []


@pytest.mark.slow
async def test_a_read_that_does_not_end_holds_up_no_other(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "SLOW_SECONDS", 0.5)
    recorder, stuck = recording.recorder, await recording.house.start(ASK)
    await recording.house.one(stuck)
    read = recorder._reader.read

    async def hang(progress: WorkflowProgress, described: WorkflowExecutionDescription | None = None) -> ReadWorkflow:
        if progress.workflow == stuck:
            await asyncio.Event().wait()
        return await read(progress, described)

    monkeypatch.setattr(recorder._reader, "read", hang)
    assert recorder.lease.hold()
    await recorder.round()
    run = await recording.ended(ASK, "Rome")
    assert await recording.until_recorded(run, ENDED)
    assert stuck in recorder.progress.slow_reads and recorder.lease.is_held()
    assert recording.entries(stuck) == []
    await recorder._reads.close()
    monkeypatch.setattr(recorder._reader, "read", read)
    assert await recording.until_recorded(stuck, "question.asked")
    assert stuck not in recorder.progress.slow_reads


async def is_listed(recording: Recording, run: str) -> bool:
    """Note what has closed, as the recorder does; return whether the run is in it."""
    await recording.recorder._list_closed()
    return run in {progress.workflow for progress in recording.recorder.progress.unread(1000)}


async def test_a_run_that_temporal_forgot_leaves_a_gap(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    await recording.house.answered(run, "Rome")
    await recording.house.output(run)
    await until(lambda: is_listed(recording, run), "visibility to list the end")
    recording.house.started.remove(run)
    await recording.forget(run)
    gap = (await recording.until_recorded(run, GAP))[-1]
    assert gap.data == {"first": 0, "until": None}


async def test_a_run_that_was_deleted_while_no_recorder_looked_leaves_a_gap(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def list_nothing(*_: object) -> AsyncIterator[ListedWorkflow]:
        for workflow in list[ListedWorkflow]():
            yield workflow

    waits, run = await recording.house.start(ASK), await recording.house.start(ASK)
    await recording.house.one(waits)
    await recording.until_recorded(waits, ASKED)
    await recording.until_recorded(run, ASKED)
    await recording.house.answered(run, "Rome")
    await recording.house.output(run)
    recording.house.started.remove(run)
    await recording.forget(run)
    monkeypatch.setattr(recorder, "list_closed_workflows", list_nothing)
    recording.recorder = recording.another()
    gap = (await recording.until_recorded(run, GAP))[-1]
    assert gap.data == {"first": 3, "until": None}
    await recording.recorder.round()
    assert not [entry for entry in recording.entries(waits) if entry.type == GAP]
    assert recording.recorder.progress.longest_unread() is None


@pytest.mark.slow
async def test_an_answer_that_an_agent_gave_back_stands_in_the_story(recording: Recording) -> None:
    recording.house.script(yaml.safe_dump({"ask": [BACK]}))
    run = await recording.house.start(written(ask(), agents=AGENTS))
    await recording.house.answered(run, "here", "there")
    await recording.house.output(run)
    rows = story(await recording.until_recorded(run, ENDED))
    assert [(row.action, row.by) for row in rows if row.action == "verify"] == [("verify", "editor")] * 2
    verdicts = [row.content for row in rows if row.action == "verify"]
    assert [verdict["given_back"] for verdict in verdicts] == [True, False]


LONG = "It was a long road, and the answer is longer than an event. " * 20


def whole_answers(recording: Recording, run: str) -> list[object]:
    return [row.content for row in story(recording.entries(run)) if row.action == "accept"]


@pytest.mark.slow
async def test_a_long_answer_is_recorded_whole_with_its_comment(recording: Recording) -> None:
    run = await recording.house.start(LOOP)
    question = await recording.house.one(run)
    await recording.house.answer(run, LONG, question, comment=LONG[::-1])
    await recording.house.answered(run, LONG.upper(), "stop")
    entries = await recording.until_recorded(run, ENDED)
    rows = [row for row in story(entries) if row.action == "accept"]
    assert [(row.content, row.comment) for row in rows] == [(LONG, LONG[::-1]), (LONG.upper(), None), ("stop", None)]


async def test_of_two_signals_the_one_that_was_taken_is_recorded_whole(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    question = await recording.house.one(run)
    handle = recording.house.client.get_workflow_handle(run)
    for content, digest in (("refused " + LONG, "another"), (LONG, None)):
        await handle.signal("answer", {"question": question.address, "content": content, "digest": digest})
    await recording.until_recorded(run, ENDED)
    assert whole_answers(recording, run) == [LONG]


@pytest.mark.slow
async def test_the_whole_of_a_long_answer_is_erased_with_the_run(recording: Recording) -> None:
    run = await recording.ended(ASK, LONG)
    record = Record(recording.store, recording.house.client, KEY)
    assert whole_answers(recording, run) == [LONG]
    sealed = verify(recording.store, [KEY.public]).checkpoints
    await record.erase(run, "user:ana")
    assert whole_answers(recording, run) == [None]
    assert verify(recording.store, [KEY.public]) == RecordCheck([], len(recording.entries(run)), sealed + 1, 0)


@pytest.mark.slow
async def test_an_open_question_can_be_shown_from_the_record_until_it_is_closed(recording: Recording) -> None:
    run = await recording.house.start(ASK)
    question = await recording.house.one(run)
    record = Record(recording.store, recording.house.client)
    await recording.until_recorded(run, ASKED)
    shown = await record.find_shown(question.id)
    assert shown is not None and (shown.digest, shown.message) == (question.digest, question.message)
    await recording.house.answered(run, "Rome")
    await recording.until_recorded(run, ENDED)
    assert await record.find_shown(question.id) is None
