"""Every kind of question from a workflow of an author's own, and blueprints that such a workflow runs."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from holdfast import Answer, Refusal, loads
from holdfast.activities import all_activities
from holdfast.client.history import histories
from holdfast.protocol.address import Address
from holdfast.protocol.events import QuestionReturned
from holdfast.workflows import RUNNER, WORKFLOWS
from holdfast.workflows.human_requests import Wording, make_question
from tests.conftest import RUNNERS, Replays, until
from tests.flows import ASK, repeat, written
from tests.own import Either
from tests.own_blueprints import Agency
from tests.own_desk import Desk
from tests.own_questions import Inquiry
from tests.progress import has_continued

OWN = [*WORKFLOWS, Agency, Either, Inquiry]


@pytest_asyncio.fixture(scope="module")
async def own_queue(temporal: Client) -> AsyncIterator[str]:
    """A queue with one worker for the module: it takes half a second to look at classes in the sandbox."""
    queue, activities = f"own-{uuid.uuid4().hex[:8]}", all_activities(["tests"], {})
    async with Worker(temporal, task_queue=queue, workflows=OWN, activities=activities, **RUNNERS):
        yield queue


@pytest_asyncio.fixture(scope="module")
async def own_replays() -> AsyncIterator[Replays]:
    replays = Replays(OWN, RUNNER)
    yield replays
    if failures := await replays.failures():
        pytest.fail("\n".join(failures), pytrace=False)


@pytest_asyncio.fixture
async def desk(
    temporal: Client, own_queue: str, own_replays: Replays, request: pytest.FixtureRequest
) -> AsyncIterator[Desk]:
    made = Desk(temporal, own_queue)
    yield made
    for id_ in made.started:
        own_replays.add(request.node.nodeid, [history async for history in histories(temporal, id_)])


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("asks", "content", "answered"),
    [
        ({"kind": "permission"}, {"granted": True}, True),
        (
            {"kind": "review", "payload": {"title": "Tea"}},
            {"verdict": "edited", "payload": {"title": "Coffee"}},
            {"title": "Coffee"},
        ),
        ({"kind": "secret"}, "secret:env/TOKEN", "secret:env/TOKEN"),
        ({"kind": "hold"}, None, None),
        ({"kind": "decision", "options": ["a", "b", "c"], "multiple": 2}, ["c", "a"], ["c", "a"]),
        ({"kind": "clarification", "options": ["a"]}, "my own", "my own"),
        ({"schema": {"type": "integer"}}, 3, 3),
    ],
)
async def test_an_own_workflow_asks_each_kind(desk: Desk, asks: Any, content: Any, answered: Any) -> None:
    handle = await desk.start(Inquiry.run, {"message": "Well?", **asks})
    await desk.answer(handle, content)
    assert await handle.result() == answered


async def test_the_reply_stands_beside_what_was_asked(desk: Desk) -> None:
    handle = await desk.start(Inquiry.run, {"message": "Pay?", "kind": "permission", "with_reply": True})
    await desk.answer(handle, "no, too dear", by="user:ana")
    output, reply = await handle.result()
    assert (output, reply["action"], reply["by"], reply["reason"]) == (False, "accept", "user:ana", "too dear")


async def test_no_default_approves(desk: Desk) -> None:
    handle = await desk.start(Inquiry.run, {"message": "Pay?", "kind": "permission", "default": True})
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    assert "only people may" in str(caught.value.cause)


async def test_an_answer_comes_back_as_an_instance_of_the_model(desk: Desk) -> None:
    handle = await desk.start(Inquiry.run, {"message": "When?", "schema": "trip"})
    await desk.answer(handle, {"start": 3, "end": 9})
    assert await handle.result() == "3 to 9"


async def test_who_is_asked_at_a_rung_finds_the_question_in_the_list(desk: Desk) -> None:
    eve = f"user:{desk.name}"
    asks = {"message": "Pay?", "assignees": ["user:ana"], "escalate": [(0.1, [eve])]}
    handle = await desk.start(Inquiry.run, asks)

    async def listed() -> bool:  # a question for anyone, of whatever run, is in the list, too
        rows, _ = await desk.runs.lists.find_waiting(user=eve)
        return [row.waiting_for for row in rows if row.owner == handle.id] == [[eve]]

    await until(listed, "the question in the list")
    await desk.answer(handle, "yes", by=eve)
    assert await handle.result() == "yes"


async def test_a_question_that_the_author_gives_up_is_in_no_list(desk: Desk) -> None:
    handle = await desk.start(Either.run)

    async def listed() -> list[str]:
        return [
            id_ for row in (await desk.runs.lists.find_waiting())[0] if row.owner == handle.id for id_ in row.questions
        ]

    await until(lambda: _both(listed), "two questions")
    await desk.runs.answer(handle.id, [Answer(question="pipeline:Either;hitl:ana", content="yes")])

    async def gone() -> bool:
        return await listed() == []

    await until(gone, "the end of both")
    await handle.terminate()


async def _both(listed: Callable[[], Awaitable[list[str]]]) -> bool:
    return len(await listed()) == 2


async def test_an_answer_that_breaks_a_rule_of_the_model_is_asked_for_again(desk: Desk) -> None:
    times = {"timeout": 999.0, "escalate": [(99.0, ["user:eve"])]}
    handle = await desk.start(Inquiry.run, {"message": "When?", "schema": "trip", **times})
    first = await desk.question(handle, "When?")
    await desk.answer(handle, {"start": 9, "end": 3})
    again = await desk.question(handle, "The answer was returned: end: the end is before the start\n\nWhen?")
    assert again.round == 2
    assert (again.deadline, again.escalates_at) == (first.deadline, first.escalates_at)
    await desk.answer(handle, {"start": 3, "end": 9})
    assert await handle.result() == "3 to 9"


async def test_a_review_shows_all_of_an_instance_and_takes_a_correction_of_a_part(desk: Desk) -> None:
    handle = await desk.start(Inquiry.run, {"message": "Go?", "kind": "review", "schema": "trip", "payload": "trip"})
    asked = await desk.question(handle, "Go?")
    assert asked.info == {"payload": {"start": 3, "end": 9, "by": "train"}}
    await desk.answer(handle, {"end": 5})
    assert await handle.result() == "3 to 5"


async def test_an_answer_that_breaks_a_rule_of_the_model_is_told_as_given_back(desk: Desk) -> None:
    handle = await desk.start(Inquiry.run, {"message": "When?", "schema": "trip"})
    first = await desk.question(handle, "When?")
    await desk.answer(handle, {"start": 9, "end": 3})
    await desk.question(handle, "The answer was returned: ")
    events = await desk.runs.watch.events(handle.id)
    [returned] = [event.data for event in events if isinstance(event.data, QuestionReturned)]
    assert (returned.id, returned.reason) == (first.id, "end: the end is before the start")
    await handle.terminate()


async def test_a_default_is_given_as_its_model_has_it(desk: Desk) -> None:
    default = {"start": "3", "end": "9"}  # the model makes numbers of these
    handle = await desk.start(Inquiry.run, {"message": "When?", "schema": "trip", "timeout": 0.1, "default": default})
    assert await handle.result() == "3 to 9"


async def test_who_may_not_answer_is_refused(desk: Desk) -> None:
    asks = {"message": "Pay?", "kind": "permission", "assignees": ["user:ana", "user:bob"], "not_by": ["user:bob"]}
    handle = await desk.start(Inquiry.run, asks)
    with pytest.raises(Refusal, match="user:bob may not answer it"):
        await desk.answer(handle, {"granted": True}, by="user:bob")
    await desk.answer(handle, {"granted": False, "reason": "no"}, by="user:ana")
    assert await handle.result() is False


async def test_a_question_climbs_to_the_next_assignees(desk: Desk) -> None:
    asks = {"message": "Pay?", "assignees": ["user:ana"], "escalate": [(0.1, ["user:eve"])]}
    handle = await desk.start(Inquiry.run, asks)

    async def climbed() -> bool:
        return (await desk.question(handle)).assignees == ["user:eve"]

    await until(climbed, "the escalation")
    await desk.answer(handle, "yes", by="user:eve")
    assert await handle.result() == "yes"


async def test_times_are_read_like_those_of_a_blueprint(desk: Desk) -> None:
    asks = {"message": "Pay?", "timeout": "2d", "remind_every": "1h30m", "escalate": [("1d", ["user:eve"])]}
    handle = await desk.start(Inquiry.run, asks)
    question = await desk.question(handle)
    assert question.deadline is not None and question.deadline - question.asked_at == timedelta(days=2)
    await desk.answer(handle, "yes")
    assert await handle.result() == "yes"


@pytest.mark.parametrize(
    ("asks", "output"),
    [
        ({"kind": "permission"}, False),
        ({"kind": "review", "payload": 1}, None),
        ({"on_decline": "continue"}, None),
    ],
)
async def test_a_decline_is_a_no_or_goes_on(desk: Desk, asks: Any, output: Any) -> None:
    handle = await desk.start(Inquiry.run, {"message": "Well?", **asks})
    await desk.answer(handle, None, action="decline")
    assert await handle.result() == output


@pytest.mark.parametrize(
    ("asks", "type_"),
    [
        ({"kind": "vote"}, "unknown_kind"),
        ({"kind": "permission", "options": ["a"]}, "bad_options"),
        ({"options": [{"label": "no id"}]}, "bad_options"),
        ({"options": ["Yes", {"id": "yes", "label": "Perhaps"}]}, "bad_options"),
        ({"assignees": "user:ana"}, "bad_assignees"),
        ({"not_by": ["ana"]}, "bad_assignees"),
        ({"assignees": []}, "bad_assignees"),
        ({"assignees": None}, "bad_assignees"),
        ({"not_by": []}, "bad_assignees"),
        ({"escalate": [[3600, []]]}, "bad_assignees"),
        ({"quorum": 2, "assignees": ["user:ana"]}, "bad_quorum"),
        ({"options": ["yes", "no"], "default": "maybe", "timeout": 3}, "bad_default"),
        ({"schema": {"type": "integer"}, "default": "x", "timeout": 3}, "bad_default"),
        ({"schema": {"type": "nope"}}, "bad_schema"),
        ({"schema": ["a"]}, "bad_schema"),
        ({"not_by": ["requester"]}, "bad_assignees"),
        ({"quorum": 0}, "bad_quorum"),
        ({"escalate": [(9, ["user:ana"]), (3, ["user:bob"])]}, "bad_escalation"),
        ({"escalate": [(3, ["user:ana"]), ("soon", ["user:bob"])]}, "bad_escalation"),
        ({"escalate": ["1d", ["user:ana"]]}, "bad_escalation"),
        ({"remind_every": "5m"}, "bad_reminder"),
        ({"remind_every": "often"}, "bad_reminder"),
        ({"timeout": "soon"}, "bad_timeout"),
        ({"timeout": 0}, "bad_timeout"),
        ({"quorum": "2"}, "bad_quorum"),
        ({"asignees": ["user:ana"]}, "unknown_option"),
        ({"kind": "decision"}, "bad_options"),
        ({"schema": "trip", "default": {"start": 9, "end": 3}}, "bad_default"),
        ({"message": "  "}, "empty_message"),
    ],
)
async def test_what_cannot_be_asked_fails_the_workflow_with_its_reason(desk: Desk, asks: Any, type_: str) -> None:
    handle = await desk.start(Inquiry.run, {"message": "Well?", **asks})
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError) and failed.value.cause.type == type_


BRIEF = """
agents: {writer: {model: echo}}
steps:
- {name: draft, agent: writer}
- {kind: hitl, name: review, message: Is it right?}
"""


async def test_an_own_workflow_runs_a_blueprint_whose_questions_are_its_own(desk: Desk) -> None:
    handle = await desk.start(Agency.run, loads(BRIEF, name="brief"), "Tea")
    question = await desk.question(handle, "Is it right?")
    assert (question.run, question.address) == (handle.id, "pipeline:Agency;child:brief;hitl:review")
    await desk.answer(handle, "yes")
    await desk.question(handle, "Send it?")
    await desk.answer(handle, "now")
    assert await handle.result() == ["yes", 1, "now"]


@pytest.mark.slow
async def test_the_trace_of_a_blueprint_stands_below_the_workflow_that_ran_it(desk: Desk) -> None:
    handle = await desk.start(Agency.run, loads(BRIEF, name="brief"), "Tea")
    await desk.answer(handle, "yes")
    await desk.question(handle, "Send it?")
    events = await desk.runs.watch.events(handle.id)
    assert "pipeline:Agency;child:brief;agent:draft" in {event.address for event in events}
    await desk.answer(handle, "now")
    await handle.result()


@pytest.mark.slow
async def test_a_pause_holds_the_blueprint_and_the_next_question_of_an_own_workflow(desk: Desk) -> None:
    handle = await desk.start(Agency.run, loads(BRIEF, name="brief"), "Tea")
    await desk.question(handle, "Is it right?")
    assert (await desk.runs.control.pause(handle.id)).left == []
    await desk.answer(handle, "yes")
    assert (await desk.runs.state(handle.id)).status == "paused"
    assert (await desk.runs.control.resume(handle.id)).left == []
    await desk.question(handle, "Send it?")
    await desk.answer(handle, "now")
    assert (await handle.result())[2] == "now"


@pytest.mark.slow
async def test_a_cancel_reaches_a_loop_that_has_continued_as_new_in_a_blueprint_of_an_own_workflow(desk: Desk) -> None:
    handle = await desk.start(Agency.run, loads(written(repeat(ASK, every=1)), name="brief"), None)
    loop = f"{handle.id}/child:brief;loop:l"
    await desk.answer(handle, "yes")
    await until(lambda: has_continued(desk, loop), "a boundary")
    await desk.question(handle)
    await handle.cancel()
    await until(lambda: has_ended(desk, loop), "the end of the loop")
    await until(lambda: has_ended(desk, handle.id), "the end")


async def has_ended(desk: Desk, workflow: str) -> bool:
    described = await desk.client.get_workflow_handle(workflow).describe()
    return described.status == WorkflowExecutionStatus.CANCELED


async def test_a_blueprint_that_fails_fails_the_call_with_its_reason(desk: Desk) -> None:
    handle = await desk.start(Agency.run, loads("inputs: {type: integer}\nsteps: [{name: a, input: 1}]"), "text")
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert "the run's input does not fit" in str(failed.value.cause.cause)  # type: ignore[union-attr]


@pytest.mark.slow
async def test_lists_know_an_own_workflow_that_has_asked_and_not_what_it_runs(desk: Desk) -> None:
    handle = await desk.start(Agency.run, loads(BRIEF, name="brief"), "Tea")
    await desk.answer(handle, "yes")
    await desk.question(handle, "Send it?")
    await until(lambda: listed(desk, handle.id), "the workflow in the list")
    assert f"{handle.id}/child:brief" not in {row.run for row in await desk.runs.lists.all()}
    assert {row.run for row in await desk.runs.lists.all(blueprint="Agency")} >= {handle.id}
    assert await desk.runs.resolve(handle.id[:-1]) == handle.id
    await desk.answer(handle, "now")
    await handle.result()


async def listed(desk: Desk, run: str) -> bool:
    return ("waiting", "Agency") in {
        (row.status, row.blueprint) for row in await desk.runs.lists.all() if row.run == run
    }


def test_multiple_without_a_number_is_all_options() -> None:
    wording = Wording.read("Which?", None, {"kind": "decision", "options": ["a", "b"], "multiple": True})
    asked = make_question(wording, None, Address("workflow:w"))
    assert asked.read_output(asked.accept(["a", "b"])) == ["a", "b"]


@pytest.mark.slow
async def test_a_blueprint_with_an_agent_of_the_team_runs_under_it(desk: Desk, tmp_path: Path) -> None:
    calls = "{tool_calls: [{name: ask_office, args: {about: rain}}]}"
    (tmp_path / "replies.yaml").write_text(f"[{calls}, 'It rains.']")
    agent = "{from: 'tests.team_agents:plain', model: 'scripted:replies.yaml'}"
    blueprint = loads(f"steps: [{{name: s, agent: {agent}}}]", name="b", folder=tmp_path)
    handle = await desk.start(Agency.run, blueprint, "Go")
    assert "ask_office" in (await desk.question(handle)).message
    await desk.answer(handle, "yes")
    assert "Send it?" in (await desk.question(handle, "Send it?")).message
    await desk.answer(handle, "no")
    assert await handle.result() == ["It rains.", 2, "no"]
