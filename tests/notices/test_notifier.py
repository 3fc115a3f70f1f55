"""The outbox and the notifier, on a record that is written by hand."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from holdfast.server.notices import notifier
from holdfast.server.notices.outbox import count_notices, find_last_trouble
from holdfast.server.notices.transports import DeliveryFailed
from holdfast.server.record.database import begin_write
from holdfast.server.record.tables import OUTBOX
from tests.conftest import until
from tests.notices.office import RUN, Office, later, rows

LONG_AGO = timedelta(days=40)


async def test_a_question_is_told_once_however_often_one_looks(office: Office) -> None:
    ops = office.channel("ops")
    office.ask()
    counts = [await office.notifier.round() for _ in range(3)]
    assert (counts, ops.kinds) == ([1, 0, 0], ["asked"])


async def test_what_was_planned_and_not_marked_is_sent_again_under_the_same_id(office: Office) -> None:
    ops = office.channel("ops")
    office.ask()
    await office.notifier.round()
    office.store.set_mark("feed:notices:default:ops", "0")  # as if the transaction had never been
    await office.notifier.round()
    assert len(ops.got) == 1
    with begin_write(office.store.engine) as connection:
        connection.execute(OUTBOX.delete())
    office.store.set_mark("feed:notices:default:ops", "0")
    await office.notifier.round()
    assert len({delivery.id for delivery in ops.got}) == 1 and len(ops.got) == 2


async def test_ids_differ_by_event_channel_and_person(office: Office) -> None:
    ways = [office.channel("ops"), office.channel("mail", is_personal=True)]
    office.ask(assignees=["group:editors"])
    office.answer()
    await office.notifier.round()
    ids = [delivery.id for way in ways for delivery in way.got]
    assert len(set(ids)) == len(ids) == 2 * 3


async def test_a_question_from_before_is_told_to_those_who_are_asked_now_and_its_past_is_not(office: Office) -> None:
    mail = office.channel("mail", is_personal=True)
    office.ask(assignees=["user:ana"], ago=LONG_AGO)
    office.note("question.reminded", {"id": "q1", "n": 1, "assignees": ["user:ana"]}, ago=LONG_AGO)
    office.note("question.escalated", {"id": "q1", "assignees": ["user:eve"]}, ago=LONG_AGO)
    office.ask("q2", assignees=["user:ana"], ago=LONG_AGO)
    office.answer("q2", ago=LONG_AGO)
    await office.notifier.round()
    assert (mail.kinds, mail.users) == (["asked"], ["user:eve"])


async def test_a_channel_that_is_added_later_hears_of_what_is_open(office: Office) -> None:
    office.channel("ops")
    office.ask(ago=LONG_AGO)
    await office.notifier.round()
    new = office.channel("new")
    await office.notifier.round()
    assert new.kinds == ["asked"]


async def test_a_channel_that_is_added_later_asks_nothing_that_was_answered(office: Office) -> None:
    office.ask()
    office.note("question.reminded", {"id": "q1", "n": 1, "assignees": []})
    office.answer()
    office.ask("q2")
    new = office.channel("new")
    await office.notifier.round()
    assert [(delivery.notice.kind, delivery.notice.question_id) for delivery in new.got] == [
        ("answered", "q1"),
        ("asked", "q2"),
    ]


async def test_nobody_is_told_of_a_step_that_waits_for_another_system(office: Office) -> None:
    ops = office.channel("ops")
    office.ask(kind="event", message="Waits for the event payment.received with the key N0.")
    office.answer()
    assert (await office.notifier.round(), ops.got) == (0, [])


async def test_a_failed_delivery_is_tried_again_under_the_same_id(office: Office) -> None:
    ops = office.channel("ops")
    ops.failures = [DeliveryFailed("HTTP 500")]
    office.ask()
    assert await office.notifier.round() == 0
    [row] = rows(office)
    assert (row.state, row.tries, row.reason) == ("waiting", 1, "HTTP 500") and row.due > time.time()
    later(office, due=0)
    assert await office.notifier.round() == 1
    assert ops.got[0].id == row.id


async def test_pauses_grow_and_heed_what_the_receiver_asks(office: Office) -> None:
    ops = office.channel("ops")
    ops.failures = [DeliveryFailed("no")] * 3 + [DeliveryFailed("no", retry_after=500)]
    office.ask()
    for pause in (5, 10, 20, 500):
        began = time.time()
        await office.notifier.round()
        assert began + pause <= rows(office)[0].due <= time.time() + pause
        later(office, due=0)


async def test_after_a_day_a_notice_is_dead_and_the_reason_stays(office: Office) -> None:
    ops = office.channel("ops")
    ops.failures = [DeliveryFailed("HTTP 500")]
    office.ask()
    await office.notifier.gather()
    later(office, made=time.time() - timedelta(days=1).total_seconds() + 1)
    await office.notifier.round()
    [row] = rows(office)
    assert (row.state, row.reason, row.body) == ("dead", "HTTP 500", None)
    assert find_last_trouble(office.store, "ops") == "HTTP 500"


async def test_people_do_not_hear_of_a_question_that_is_closed_and_programs_do(office: Office) -> None:
    people, program = office.channel("people", for_people=True), office.channel("program")
    office.ask()
    office.answer()
    await office.notifier.round()
    assert (people.kinds, program.kinds) == (["answered"], ["asked", "answered"])
    assert [row.body for row in rows(office) if row.state == "dropped"] == [None]


async def test_a_run_that_completed_is_no_news(office: Office) -> None:
    ops = office.channel("ops")
    office.end("completed")
    assert (await office.notifier.round(), ops.got) == (0, [])


@pytest.mark.parametrize("ago", [timedelta(0), LONG_AGO])
async def test_people_do_not_hear_of_a_question_whose_run_was_terminated(office: Office, ago: timedelta) -> None:
    people = office.channel("people", for_people=True)
    office.ask(ago=ago)
    office.end("terminated")
    await office.notifier.round()
    assert people.kinds == []


async def test_what_could_not_be_tried_for_a_day_is_not_sent_any_more(office: Office) -> None:
    ops = office.channel("ops")
    office.ask()
    await office.notifier.gather()
    later(office, made=time.time() - timedelta(days=1).total_seconds() - 1)
    await office.notifier.round()
    assert ops.got == [] and [(row.state, row.reason) for row in rows(office)] == [("dropped", "its time is over")]


async def test_what_one_namespace_has_to_tell_another_does_not_send(office: Office) -> None:
    ops = office.channel("ops")
    office.ask()
    await office.notifier.gather()
    assert await office.notifier_in("other").round() == 0 and ops.got == []
    assert await office.notifier.round() == 1


async def test_an_answer_is_told_without_its_content(office: Office) -> None:
    ops = office.channel("ops")
    office.ask(info={"card": "4111"}, default="warm")
    office.answer()
    await office.notifier.round()
    notice = ops.got[-1].notice
    assert notice.answer is not None and (notice.answer.status, notice.answer.by) == ("answered", "user:ana")
    assert notice.question is not None and not {"info", "default", "content"} & notice.question.keys()


async def test_what_was_sent_is_not_kept_and_no_link_ever(office: Office) -> None:
    ops = office.channel("ops")
    ops.failures = [DeliveryFailed("HTTP 500")]
    office.ask()
    await office.notifier.round()
    assert "https://inbox" not in str(rows(office))
    later(office, due=0)
    await office.notifier.round()
    assert ops.got[0].link == "https://inbox/q1"
    assert rows(office)[0].body is None


async def test_a_question_that_was_closed_before_it_could_be_read_is_told_as_its_event_says(office: Office) -> None:
    ops = office.channel("ops", to=["user:ana"])
    office.ask(shown=False, assignees=["user:ana"])
    await office.notifier.round()
    assert ops.got[0].notice.subject == "Which tone?"


async def test_runs_of_another_namespace_are_not_told(office: Office) -> None:
    ops = office.channel("ops")
    office.ask()
    notifier = office.notifier
    notifier.namespace = "other"
    await notifier.gather()
    assert (ops.got, rows(office)) == ([], [])


async def test_one_of_two_notifiers_leads_and_hands_on_when_it_ends(office: Office) -> None:
    office.channel("ops")
    first, second = office.notifier, office.notifier
    assert (first.lease.hold(), second.lease.hold(), first.lease.hold()) == (True, False, True)
    first.lease.release()
    assert second.lease.hold()


async def test_a_notice_that_failed_waits_and_the_others_count_as_delivered(office: Office) -> None:
    ops = office.channel("mail", is_personal=True)
    ops.failures = [DeliveryFailed("no mail server")]
    office.ask(assignees=["group:editors"])
    await office.notifier.round()
    assert sorted(row.user for row in rows(office)) == ["user:ana", "user:bob"]
    assert count_notices(office.store) == {"mail": {"waiting": 1, "delivered": 1}}


async def test_erasing_a_run_empties_what_waits_of_it(office: Office) -> None:
    ops = office.channel("ops")
    ops.failures = [DeliveryFailed("no")]
    office.ask(message="private")
    await office.notifier.round()
    office.store.erase([RUN], datetime.now(UTC), "user:ana")
    assert "private" not in str(rows(office))
    later(office, due=0)
    assert await office.notifier.round() == 0


async def test_what_one_sends_another_does_not_take(office: Office) -> None:
    office.channel("ops")
    office.ask()
    await office.notifier.gather()
    first, second = office.notifier.outbox, office.notifier.outbox
    assert [len(first.take("ops", 8)), len(second.take("ops", 8))] == [1, 0]
    later(office, due=0)
    assert len(second.take("ops", 8)) == 1


async def test_many_questions_of_one_reader_are_one_message(office: Office) -> None:
    mail = office.channel("mail", is_personal=True, for_people=True)
    for number in range(30):
        office.ask(f"q{number}", assignees=["user:ana"])
    office.ask("last", assignees=["user:bob"])
    assert await office.notifier.round() == 31
    assert ([len(digest) for digest in mail.digests], mail.users) == ([30], ["user:bob"])


async def test_a_digest_that_fails_is_tried_again_as_a_whole(office: Office) -> None:
    mail = office.channel("mail", is_personal=True, for_people=True)
    mail.failures = [DeliveryFailed("no mail server")]
    for number in range(6):
        office.ask(f"q{number}", assignees=["user:ana"])
    assert await office.notifier.round() == 0
    later(office, due=0)
    assert await office.notifier.round() == 6


async def test_programs_get_each_question_by_itself(office: Office) -> None:
    ops = office.channel("ops")
    for number in range(12):
        office.ask(f"q{number}")
    assert (await office.notifier.round(), len(ops.got), ops.digests) == (12, 12, [])


async def test_questions_of_many_readers_are_a_message_each(office: Office) -> None:
    mail = office.channel("mail", is_personal=True, for_people=True)
    for number in range(12):
        office.ask(f"q{number}", assignees=[f"user:{number}"])
    counts = [await office.notifier.round() for _ in range(2)]
    assert (counts, len(set(mail.users))) == ([12, 0], 12)


async def test_a_database_that_is_away_is_logged_once_and_once_when_it_is_back(
    office: Office, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "PACE_SECONDS", 0.01)
    ops, tries = office.channel("ops"), 0

    def fail(*_: object) -> None:
        nonlocal tries
        tries += 1
        raise OperationalError("SELECT", {}, ConnectionError("no connection"))

    async def tried_often() -> bool:
        return tries > 20

    async def told() -> bool:
        return ops.kinds == ["asked"]

    event.listen(office.store.engine, "before_cursor_execute", fail)
    task = asyncio.create_task(office.notifier.run())
    await until(tried_often, "tries")
    assert caplog.messages == ["planning notices fails, and is tried again: OperationalError: no connection"]
    event.remove(office.store.engine, "before_cursor_execute", fail)
    office.ask()
    await until(told, "the notice")
    task.cancel()
    assert caplog.messages[1:] == ["planning notices works again, after 1 second"]
