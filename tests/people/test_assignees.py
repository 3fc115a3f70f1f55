"""Who may answer: users, groups of the deployment, not the requester; and who is awaited."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.client.answering import Answering
from holdfast.client.runs import Runs
from holdfast.protocol import guard
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.people import EVERYBODY, People, list_awaited, why_not
from holdfast.runtime.errors import NothingSent
from tests.conftest import Harness, until
from tests.people.raw_answers import straight

GROUPS = {"editors": ["user:ana", "user:bob"], "legal": ["user:eve"]}
ASK = "steps: [{kind: hitl, name: ask, message: Go?, %s}]"
EDITORS = ASK % "assignees: ['group:editors', 'user:zoe']"
INNER = """
inputs: {type: object, required: [topic], properties: {topic: {type: string}}}
steps:
  - kind: loop
    name: again
    loop: {max_loops: 1, body: [{kind: hitl, name: ask, message: "Go?", not_by: [requester]}]}
"""
DEEP = """
agents: {boss: {model: "scripted:replies.yaml", tools: [imports.inner]}}
imports: {inner: inner.yaml}
steps: [{name: boss, agent: boss}]
"""


@pytest.fixture(autouse=True)
def groups(house: Harness) -> Iterator[None]:
    """What the worker and the clients of this house know of groups."""
    guard.DEPLOYMENT.groups = dict(GROUPS)
    house.runs = Runs(house.client, house.runs.task_queue, Answering(groups=GROUPS))
    yield
    guard.DEPLOYMENT.groups = {}


async def refused(house: Harness, run: str, by: str | None, **how: object) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await house.answer(run, "go", by=by, **how)
    return caught.value


@pytest.mark.first_row
@pytest.mark.parametrize("by", ["user:ana", "bob", "user:zoe"])
async def test_an_assignee_and_a_member_of_a_group_may_answer(house: Harness, by: str) -> None:
    run = await house.start(EDITORS)
    assert (await house.one(run)).assignees == ["group:editors", "user:zoe"]
    await house.answer(run, "go", by=by)
    assert await house.output(run) == "go"


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("by", "told"),
    [
        ("user:eve", "user:eve may not answer it; group:editors, user:zoe may"),
        ("group:editors", "'group:editors' is not a user"),
        (None, "it is not known who answers: name them as `by` (on the command line: --by USER)"),
        ("user:", "'user:' is not a user"),
        ("user:Eve", "user:eve may not answer it"),
    ],
)
async def test_anybody_else_is_refused_and_told_who_may(house: Harness, by: str | None, told: str) -> None:
    run = await house.start(EDITORS)
    question = await house.one(run)
    before = len((await house.client.get_workflow_handle(run).fetch_history()).events)
    refusal = await refused(house, run, by)
    assert (refusal.code, told in refusal.message) == ("not_allowed", True), refusal.message
    assert len((await house.client.get_workflow_handle(run).fetch_history()).events) == before
    await house.answer(run, "go", question, by="user:ana")


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_who_may_not_answer_may_not_decline_either(house: Harness, action: str) -> None:
    run = await house.start(EDITORS)
    question = await house.one(run)
    payload = {"answers": [{"question": question.address, "action": action}], "by": "user:eve"}
    assert (await straight(house, question, payload)).type == "not_allowed"
    await house.answer(run, "go", question, by="user:ana")


@pytest.mark.slow
async def test_nobody_decides_on_their_own_request_however_deep_it_is_asked(house: Harness) -> None:
    (house.folder / "inner.yaml").write_text(INNER)
    house.script("boss: [{tool_calls: [{name: inner, args: {topic: tea}}]}, done]")
    run = await house.start(DEEP, started_by="ana")
    question = await house.one(run)
    assert question.owner.startswith(f"{run}/agent:boss;tool:inner")
    assert question.not_by == ["user:ana"]
    refusal = await refused(house, run, "user:ana")
    assert (refusal.code, "anyone (but not user:ana) may" in refusal.message) == ("not_allowed", True)
    assert (await refused(house, run, None)).code == "not_allowed"
    await house.answer(run, "go", by="user:bob")
    assert await house.output(run) == "done"


async def test_if_nobody_knows_the_requester_the_step_fails(house: Harness) -> None:
    run = await house.start(ASK % "not_by: [requester]")
    error = (await house.result(run)).error
    assert error is not None
    assert error.type == "requester_unknown"


async def test_not_by_takes_groups_and_users_and_a_template(house: Harness) -> None:
    run = await house.start(ASK % "not_by: '{{ input }}'", ["group:editors", "user:zoe"])
    assert [(await refused(house, run, by)).code for by in ("user:ana", "user:zoe")] == ["not_allowed"] * 2
    await house.answer(run, "go", by="user:eve")


async def test_assignees_come_from_a_template(house: Harness) -> None:
    run = await house.start(ASK % "assignees: ['user:{{ input.owner }}', '{{ input.also }}']", NAMES)
    assert (await house.one(run)).assignees == ["user:ana", "group:legal"]
    await house.answer(run, "go", by="user:eve")
    run = await house.start(ASK % "assignees: '{{ input.all }}'", NAMES)
    assert (await house.one(run)).assignees == ["user:ana"]
    await house.answer(run, "go", by="user:ana")


NAMES = {"owner": "ana", "also": "group:legal", "all": ["user:ana", "user:ana"]}


@pytest.mark.first_row
@pytest.mark.parametrize("value", [[], None, "ana", ["ana"], [3], ["user:"], ["requester"]])
async def test_names_that_can_be_nobody_s_fail_the_step(house: Harness, value: object) -> None:
    run = await house.start(ASK % "assignees: '{{ input }}'", value)
    error = (await house.result(run)).error
    assert error is not None
    assert error.type == "bad_assignees"


@pytest.mark.slow
@pytest.mark.parametrize("key", ["assignees: ['user:ana']", "not_by: ['user:zoe']", "quorum: 2"])
async def test_a_question_that_says_who_may_answer_takes_no_signal(house: Harness, key: str) -> None:
    run = await house.start(ASK % key)
    question = await house.one(run)
    signal = {"answers": [{"question": question.id, "content": "go"}], "by": "user:ana"}
    await house.client.get_workflow_handle(run).signal("answer", signal)
    [told] = await until(lambda: _refused(house, run), "the refusal")
    assert (told.code, told.by) == ("not_allowed", "user:ana")
    assert (await house.one(run)).answers_so_far == 0
    with pytest.raises(NothingSent, match="takes no signals"):
        await house.runs.answer(run, [Answer(question=question.id, content="go")], by="user:ana", signal=True)
    await house.runs.control.cancel(run)


async def _refused(house: Harness, run: str) -> list:
    return (await house.runs.state(run)).views[0].refused


async def test_groups_that_change_in_mid_run_count_at_once_and_break_no_replay(house: Harness) -> None:
    run = await house.start(
        "steps: [{kind: hitl, name: a, message: A, assignees: ['group:editors']},"
        " {kind: hitl, name: b, message: B, assignees: ['group:editors']}]"
    )
    await house.answer(run, "go", by="user:ana", key="k")
    guard.DEPLOYMENT.groups = {"editors": ["user:eve"]}
    await until(lambda: _asked(house, run, "B"), "the second question")
    assert (await refused(house, run, "user:ana")).code == "not_allowed"
    guard.DEPLOYMENT.groups = {}
    told = (await refused(house, run, "user:eve")).message
    assert "(group:editors: not in [groups] of holdfast.toml, and proved by no sign-in here)" in told
    guard.DEPLOYMENT.groups = {"editors": ["user:eve"]}
    await house.answer(run, "go", by="user:eve")
    guard.DEPLOYMENT.groups = {}  # the house replays what ana and eve did, though nobody is in the group now
    assert await house.output(run) == "go"


async def _asked(house: Harness, run: str, message: str) -> bool:
    return [question.message for question in await house.runs.questions(run)] == [message]


async def test_a_batch_with_one_question_of_somebody_else_is_refused_whole(house: Harness) -> None:
    run = await house.start(EDITORS)
    question = await house.one(run)
    batch = {"answers": [{"question": question.id, "content": "go"}, {"question": "feed", "content": "x"}]}
    assert (await straight(house, question, {**batch, "by": "user:ana"})).type == "unknown_question"
    assert (await house.one(run)).answers_so_far == 0
    await house.answer(run, "go", question, by="user:ana")


# Who is awaited


def test_more_than_the_server_takes_is_many() -> None:
    users = [f"user:{number:02}" for number in range(20)]
    assert list_awaited([People(assignees=users), People(assignees=users[:3])]) == users
    assert list_awaited([People(assignees=[*users, "user:x"])]) == ["many"]
    assert list_awaited([People(assignees=["user:" + "é" * 37])]) == ["user:" + "é" * 37]
    assert list_awaited([People(assignees=["user:" + "é" * 38])]) == ["many"]
    assert list_awaited([People(assignees=[f"user:{number}é" for number in range(100, 120)])]) != ["many"]
    assert list_awaited([People(assignees=[f"user:{number}{'é' * 14}" for number in range(100, 120)])]) == ["many"]
    assert list_awaited([EVERYBODY, People(quorum=2)]) == ["anyone"]


@pytest.mark.slow
async def test_what_waits_for_a_user_is_found_through_groups_too(house: Harness) -> None:
    runs = [await house.start(ASK % f"assignees: {names}") for names in (["user:ana"], ["group:editors"])]
    runs.append(await house.start(ASK % f"assignees: {[f'user:{n:03}' for n in range(21)]}"))
    long = [f"user:{number}{'é' * 12}" for number in range(100, 120)]
    runs.append(await house.start(ASK % f"assignees: {long}"))
    runs += [await house.start(ASK % "quorum: 2"), await house.start(ASK % "assignees: ['user:zoe']")]
    for run in runs:
        await house.one(run)

    async def found(user: str | None) -> list[list[str]]:
        rows = {row.run: row.waiting_for for row in (await house.runs.lists.find_waiting(user=user))[0]}
        return [rows.get(run, []) for run in runs]

    everything = [["user:ana"], ["group:editors"], ["many"], long, ["anyone"], ["user:zoe"]]
    await until(lambda: _equal(found(None), everything), "visibility")
    assert await found("user:ana") == [["user:ana"], ["group:editors"], [], [], ["anyone"], []]
    assert await found("user:zoe") == [[], [], [], [], ["anyone"], ["user:zoe"]]
    assert await found("user:005") == [[], [], ["many"], [], ["anyone"], []]
    for run in runs:
        await house.runs.control.cancel(run)
        await house.result(run)


async def _equal(found, wanted) -> bool:
    return await found == wanted


async def test_the_attribute_changes_only_when_other_people_are_awaited(house: Harness) -> None:
    run = await house.start(
        "steps: ["
        + ", ".join(f"{{kind: hitl, name: q{n}, message: Q, assignees: ['user:ana']}}" for n in range(2))
        + ", {kind: hitl, name: last, message: Last}]"
    )
    for by in ("user:ana", "user:ana", "user:bob"):
        await house.answer(run, "go", by=by)
        await house.client.get_workflow_handle(run).query("view")
    await house.result(run)
    history = (await house.histories(run))[0]
    changes = [
        event for event in history.events if event.HasField("upsert_workflow_search_attributes_event_attributes")
    ]
    assert len(changes) <= 6  # asked, closed; three times


def test_the_reason_names_who_may_in_every_case() -> None:
    people = People(assignees=["group:editors"], not_by=["user:ana"])
    assert why_not(EVERYBODY, None, {}) is None
    assert why_not(people, "bob", GROUPS) is None
    assert why_not(people, "ana", GROUPS) == "user:ana may not answer it; group:editors (but not user:ana) may"


@pytest.mark.slow
@pytest.mark.parametrize(("written", "channels"), [("", None), ("notify: [ops]", ["ops"]), ("notify: false", [])])
async def test_a_question_says_which_channels_are_told_of_it(house: Harness, written: str, channels: object) -> None:
    run = await house.start(ASK % written)
    assert (await house.one(run)).notify == channels
    receipt = await house.answer(run, "go", by="Ana")
    assert receipt.by == "user:ana"  # as `not_by` of a later step takes it
