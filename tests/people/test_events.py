"""The step kind `wait`: events of other systems that come in time, early, twice, or never."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from holdfast.client.answering import Answering
from holdfast.client.facets import external_events
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.guard import DEPLOYMENT, Key
from holdfast.protocol.incoming import EventReceipt
from holdfast.protocol.questions import Question
from holdfast.runtime.errors import NothingSent
from holdfast.runtime.workers import NoWorker
from holdfast.workflows.handlers import events as event_handlers
from tests.conftest import Harness, until, worker_for

PAID = "{kind: wait, name: paid, for: payment.received, key: '{{ input.invoice }}'%s}"
ONE = f"steps: [{PAID}, {{name: end, input: '{{{{ steps.paid.output }}}}'}}]"
LOOP = """
steps:
  - kind: loop
    name: each
    loop:
      max_loops: 3
      checkpoint_every: 1
      body: [{kind: wait, name: paid, for: paid, key: "{{ 'k' }}"}]
      output_template: "{{ steps.paid.output }}"
      propagation: {next_input: previous_output}
"""
ASK_FIRST = "{kind: hitl, name: ask, message: Go?}"
INVOICE = {"invoice": "INV-7"}
SCHEMA = ", schema: {type: object, required: [amount], properties: {amount: {type: number}}}"


async def waited(house: Harness, run: str, count: int = 1) -> list[Question]:
    """The events that a run waits for, once there are so many."""

    async def events() -> list[Question] | None:
        found = (await house.runs.state(run)).events
        return found if len(found) == count else None

    found: list[Question] = await until(events, "the wait")
    return found


async def send(house: Harness, run: str, payload: object = 1, key: str = "INV-7", **how: Any) -> EventReceipt:
    return await house.runs.external_events.send(run, how.pop("name", "payment.received"), key, payload, **how)


async def refused(house: Harness, run: str, payload: object = 1, **how: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await send(house, run, payload, **how)
    return caught.value


async def test_an_event_is_the_output_of_the_step_that_waits_for_it(house: Harness) -> None:
    run = await house.start(ONE % "", INVOICE)
    [event] = await waited(house, run)
    receipt = await send(house, run, {"amount": 3}, id="evt-1", by="user:billing")
    assert (receipt.status, receipt.question) == ("taken", event.id)
    assert await house.output(run) == {"amount": 3}


async def test_what_no_event_came_under_is_not_looked_for(house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The events of a whole run would be read to find a reply under an id that was made for this event."""
    run = await house.start(ONE % "", INVOICE)
    await waited(house, run)
    monkeypatch.setattr("holdfast.client.earlier_answers.EarlierAnswers.find_under", None)
    assert (await send(house, run)).status == "taken"
    assert await house.output(run) == 1


async def test_the_reply_of_a_wait_says_which_event_came_and_from_whom(house: Harness) -> None:
    run = await house.start(f"steps: [{PAID % ''}, {{name: who, input: '{{{{ steps.paid.reply }}}}'}}]", INVOICE)
    await waited(house, run)
    await send(house, run, {"amount": 3}, id="evt-1", by="user:billing")
    reply = await house.output(run)
    assert (reply["action"], reply["by"]) == ("accept", "user:billing")
    assert reply["event"] == {"name": "payment.received", "key": "INV-7", "id": "evt-1"}


async def test_no_person_is_asked(house: Harness) -> None:
    run = await house.start(ONE % "", INVOICE)
    [event] = await waited(house, run)
    state = await house.runs.state(run)
    assert (state.status, state.questions, event.kind) == ("running", [], "event")
    found = await until(lambda: house.runs.external_events.find_runs("payment.received", "INV-7"), "visibility")
    assert run in found
    assert [row.run for row in (await house.runs.lists.find_waiting())[0] if row.run == run] == []
    await send(house, run)


async def test_an_early_event_is_refused_where_no_step_would_take_it(house: Harness) -> None:
    run = await house.start(f"steps: [{ASK_FIRST}, {PAID % ', early: drop'}]", INVOICE)
    question = await house.one(run)
    assert (await refused(house, run)).code == "unknown_question"
    await house.answer(run, "yes", question)
    await waited(house, run)
    await send(house, run, "in time")
    assert await house.output(run) == "in time"


async def test_an_early_event_is_left_to_the_step_that_takes_it(house: Harness) -> None:
    other = "{kind: wait, name: kept, for: payment.received, key: INV-7}"
    run = await house.start(f"steps: [{ASK_FIRST}, {PAID % ', early: drop'}, {other}]", INVOICE)
    question = await house.one(run)
    assert (await send(house, run, "early", id="e1")).status == "kept"
    await house.answer(run, "yes", question)
    await waited(house, run)
    await send(house, run, "in time", id="e2")
    assert await house.output(run) == "early"


@pytest.mark.slow
@pytest.mark.parametrize(("access", "takes"), [("", True), ("access: {steer: ['user:olga']}\n", False)])
async def test_where_no_worker_answers_it_is_sent_only_to_a_run_that_takes_signals(
    house: Harness, monkeypatch: pytest.MonkeyPatch, access: str, takes: bool
) -> None:
    run = await house.start(access + ONE % "", INVOICE)
    await waited(house, run)

    async def find_no_worker(*_: object) -> None:
        raise NoWorker("no worker answers")

    with monkeypatch.context() as patched:
        patched.setattr(external_events, "read_state", find_no_worker)
        if takes:
            assert (await send(house, run)).status == "sent"
        else:
            with pytest.raises(NothingSent):
                await send(house, run)
    assert takes or (await send(house, run)).status == "taken"
    assert await house.output(run) == 1


@pytest.mark.parametrize("wrong", [{"key": "INV-8"}, {"name": "payment.sent"}])
async def test_an_event_of_another_name_or_key_is_not_taken(house: Harness, wrong: dict[str, str]) -> None:
    run = await house.start(ONE % "", INVOICE)
    await waited(house, run)
    if "name" in wrong:
        assert (await refused(house, run, **wrong)).code == "unknown_question"
    else:
        assert (await send(house, run, **wrong)).status == "kept"
    await send(house, run, "the right one")
    assert await house.output(run) == "the right one"


async def test_a_payload_that_does_not_fit_is_refused_in_time_and_early(house: Harness) -> None:
    run = await house.start(f"steps: [{ASK_FIRST}, {PAID % SCHEMA}]", INVOICE)
    question = await house.one(run)
    early = await refused(house, run, {"amount": "much"})
    await house.answer(run, "yes", question)
    await waited(house, run)
    late = await refused(house, run, {"amount": "much"})
    assert [early.code, late.code] == ["invalid_answer", "invalid_answer"]
    assert all("amount" in str(one) for one in (early, late))
    await send(house, run, {"amount": 3})
    assert await house.output(run) == {"amount": 3}


@pytest.mark.slow
async def test_the_same_event_twice_gets_the_same_receipt_and_counts_once(house: Harness) -> None:
    run = await house.start(LOOP)
    await waited(house, run)
    first = await send(house, run, 1, "k", name="paid", id="evt-1")
    again = await send(house, run, 1, "k", name="paid", id="evt-1")
    assert again == first
    assert (await refused(house, run, 2, key="k", name="paid", id="evt-1")).code == "key_conflict"
    for number in (2, 3):
        await send(house, run, number, "k", name="paid")
    assert await house.output(run) == 3


async def test_an_event_that_comes_early_is_taken_when_the_step_begins(house: Harness) -> None:
    run = await house.start(f"steps: [{ASK_FIRST}, {PAID % ''}]", INVOICE)
    question = await house.one(run)
    first = await send(house, run, "early", id="evt-1")
    assert (first.status, (await send(house, run, "early", id="evt-1"))) == ("kept", first)
    await house.answer(run, "yes", question)
    assert await house.output(run) == "early"


@pytest.mark.slow
async def test_early_events_reach_a_loops_child_once_each_over_its_continue_as_new(house: Harness) -> None:
    run = await house.start(LOOP.replace("steps:", f"steps:\n  - {ASK_FIRST}", 1))
    question = await house.one(run)
    receipts = [await send(house, run, number, "k", name="paid", id=f"evt-{number}") for number in (1, 2)]
    assert [receipt.status for receipt in receipts] == ["kept", "kept"]
    await house.answer(run, "yes", question)
    await waited(house, run)
    assert (await send(house, run, 1, "k", name="paid", id="evt-1")).status == "taken"
    await send(house, run, 3, "k", name="paid")
    assert await house.output(run) == 3
    taken = [event.data.key for event in await house.runs.watch.events(run) if event.type == "question.answered"]
    assert taken[1:3] == ["event:evt-1", "event:evt-2"]


@pytest.mark.slow
async def test_an_event_by_signal_to_the_run_reaches_a_loops_child(house: Harness) -> None:
    run = await house.start(LOOP)
    for number in (1, 2, 3):
        await waited(house, run)
        event = {"name": "paid", "key": "k", "payload": number, "id": f"evt-{number}"}
        await house.client.get_workflow_handle(run).signal("event", event)
        await until(lambda number=number: taken(house, run, number), "the event")  # type: ignore[misc]
    assert await house.output(run) == 3


async def taken(house: Harness, run: str, count: int) -> bool:
    return (await house.types(run)).count("question.answered") == count


async def test_early_events_are_kept_up_to_a_hundred(house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    run = await house.start(f"steps: [{ASK_FIRST}, {PAID % ''}]", INVOICE)
    question = await house.one(run)
    monkeypatch.setattr(event_handlers, "MOST_KEPT", 2)
    for number in (1, 2):
        await send(house, run, number, key=f"INV-{number}")
    refusal = await refused(house, run)
    assert (refusal.code, "keeps 2 events" in str(refusal)) == ("busy", True)
    monkeypatch.undo()
    await house.answer(run, "yes", question)
    await waited(house, run)
    await send(house, run)
    await house.output(run)


@pytest.mark.parametrize(
    ("more", "output"),
    [(", default: none", "none"), (", on_timeout: skip", None)],
)
async def test_at_its_deadline_it_goes_on_as_it_says(later: Harness, more: str, output: object) -> None:
    assert await later.output(await later.start(ONE % f", timeout: 3d{more}", INVOICE)) == output


async def test_without_a_default_it_fails_at_its_deadline(later: Harness) -> None:
    error = (await later.result(await later.start(ONE % ", timeout: 3d", INVOICE))).error
    assert error is not None
    assert (error.type, error.address) == ("event_timeout", "pipeline:test;wait:paid")


async def test_a_paused_run_takes_an_event_and_goes_on_when_it_is_resumed(house: Harness) -> None:
    run = await house.start(ONE % "", INVOICE)
    await waited(house, run)
    await house.runs.control.pause(run)
    await send(house, run)
    assert (await house.runs.state(run)).status == "paused"
    await house.runs.control.resume(run)
    assert await house.output(run) == 1


@pytest.mark.slow
async def test_a_cancel_ends_the_wait_and_an_event_after_it_is_told(house: Harness) -> None:
    run = await house.start(LOOP)
    await waited(house, run)
    await house.runs.control.cancel(run)
    assert (await house.result(run)).status == "cancelled"
    assert (await refused(house, run, key="k", name="paid")).code == "run_closed"


@pytest.mark.slow
async def test_an_event_is_taken_by_another_worker_than_asked(house: Harness) -> None:
    other = Harness(house.client, f"{house.runs.task_queue}-other", house.folder)
    async with worker_for(house.client, other.runs.task_queue):
        run = await other.start(LOOP)
        await waited(other, run)
        await send(other, run, 1, "k", name="paid")
    async with worker_for(house.client, other.runs.task_queue):
        for number in (2, 3):
            await send(other, run, number, "k", name="paid")
        assert await other.output(run) == 3


async def test_a_person_may_stand_in_for_a_system(house: Harness) -> None:
    run = await house.start(ONE % "", INVOICE)
    await waited(house, run)
    await house.runs.answer(run, [Answer(question="paid", content={"payload": 5})], by="user:ana")
    assert await house.output(run) == 5


@pytest.mark.slow
async def test_a_guarded_run_takes_events_with_a_token_only(house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    key = Key("ops", "s" * 32)
    monkeypatch.setattr(DEPLOYMENT, "keys", [key])
    house.runs = Runs(house.client, house.runs.task_queue, Answering(keys=[key]))
    run = await house.start(LOOP.replace("steps:", f"steps:\n  - {ASK_FIRST}", 1))
    question = await house.one(run)
    unsigned = Runs(house.client, house.runs.task_queue, Answering())
    with pytest.raises(Refusal) as caught:
        await unsigned.external_events.send(run, "paid", "k")
    assert caught.value.code == "bad_token"
    await house.client.get_workflow_handle(run).signal("event", {"name": "paid", "key": "k", "id": "x"})
    await send(house, run, 1, "k", name="paid")
    await house.answer(run, "yes", question)
    await until(lambda: taken(house, run, 2), "the early event")
    hint = {"id": "forged", "name": "paid", "key": "k", "until": "2099-01-01T00:00:00Z"}
    child = f"{run}/loop:each"
    await house.client.get_workflow_handle(child).signal("event_kept", hint)  # no signal brings an event
    for number in (2, 3):
        await send(house, run, number, "k", name="paid", id=f"evt-{number}")
    assert await house.output(run) == 3
    answers = [event.data for event in await house.runs.watch.events(run) if event.type == "question.answered"][1:]
    assert [answer.proved_by for answer in answers] == ["client"] * 3
    assert [answer.key for answer in answers][1:] == ["event:evt-2", "event:evt-3"]


async def test_two_waits_for_one_event_take_one_each(house: Harness) -> None:
    branch = "{kind: wait, name: %s, for: paid, key: k}"
    text = f"steps: [{{kind: parallel, name: both, branches: {{a: {branch % 'x'}, b: {branch % 'y'}}}}}]"
    run = await house.start(text)
    await waited(house, run, 2)
    receipts = await asyncio.gather(*(send(house, run, n, "k", name="paid", id=f"evt-{n}") for n in (1, 2)))
    assert {receipt.status for receipt in receipts} == {"taken"}
    assert sorted((await house.output(run)).values()) == [1, 2]


@pytest.mark.parametrize("key", ["", " ", "x" * 501])
async def test_a_key_that_tells_nothing_fails_the_step(house: Harness, key: str) -> None:
    error = (await house.result(await house.start(ONE % "", {"invoice": key}))).error
    assert error is not None
    assert error.type == "bad_key"


HINT = '{"id": "%s", "name": "paid", "key": "k", "until": "2099-01-01T00:00:00%s"}'
HOSTILE = {
    "a time without an offset": ("event_kept", HINT % ("x", "")),
    "half a character": ("event_kept", HINT % ("\\ud800", "Z")),
    "an endless name": ("event_claimed", '{"id": "evt-1", "owner": "%s"}'),
    "a workflow that there is not": ("event_claimed", '{"id": "evt-1", "owner": "%.20s"}'),
    "no claim at all": ("event_claimed", "[]"),
    "an unknown event": ("event_claimed", '{"id": "x", "owner": "%.20s"}'),
}


@pytest.mark.first_row
@pytest.mark.parametrize("hostile", HOSTILE)
async def test_no_signal_of_a_stranger_wedges_a_run(house: Harness, hostile: str) -> None:
    run = await house.start(LOOP.replace("steps:", f"steps:\n  - {ASK_FIRST}", 1))
    question = await house.one(run)
    await send(house, run, 1, "k", name="paid", id="evt-1")
    name, text = HOSTILE[hostile]
    data = (text.replace("%s", f"{run}/{'x' * 1100}")).encode()
    payload = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=data))
    await house.client.get_workflow_handle(run).signal(name, payload)
    await house.answer(run, "yes", question)
    for number in (2, 3):
        await until(lambda number=number: taken(house, run, number), "the event")  # type: ignore[misc]
        await send(house, run, number, "k", name="paid")
    assert await house.output(run) == 3
