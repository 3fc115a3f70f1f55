"""How a channel is emptied: some deliveries at a time, in order for each question, with rests when nothing is taken."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import pytest
from sqlalchemy.exc import OperationalError

from holdfast.runtime.config import NOTICE_KINDS
from holdfast.server.notices.channels import Channel
from holdfast.server.notices.notice import Delivery
from holdfast.server.notices.notifier import Notifier
from holdfast.server.notices.sender import FAILURES, Health
from holdfast.server.notices.transports import DeliveryFailed
from tests.conftest import until
from tests.notices.office import Office, Told, later, rows

REFUSED = DeliveryFailed("HTTP 500")
GONE = DeliveryFailed("HTTP 410", is_gone=True)


@dataclass
class Slow(Told):
    """A way that keeps each delivery back until its question is let through."""

    began: list[str] = field(default_factory=list)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)

    async def send(self, delivery: Delivery) -> None:
        question = str(delivery.notice.question_id)
        self.began.append(question)
        await self.gates.setdefault(question, asyncio.Event()).wait()
        await super().send(delivery)

    def let(self, question: str) -> None:
        self.gates.setdefault(question, asyncio.Event()).set()

    async def until_began(self, *questions: str) -> None:
        async def began() -> bool:
            return set(questions) <= set(self.began)

        await until(began, f"deliveries of {questions}")


def slow(office: Office, *questions: str, max_concurrency: int = 2) -> Slow:
    way = Slow()
    office.add(Channel("ops", way, NOTICE_KINDS, max_concurrency=max_concurrency))
    for question in questions:
        office.ask(question)
    return way


async def test_a_slow_delivery_holds_up_no_other(office: Office) -> None:
    ops = slow(office, "q1", "q2", "q3", "q4")
    round_ = asyncio.create_task(office.notifier.round())
    for question in ("q2", "q3", "q4"):
        ops.let(question)
    await ops.until_began("q1", "q4")
    ops.let("q1")
    assert await round_ == 4


@pytest.mark.slow
async def test_what_comes_while_a_slow_delivery_goes_on_is_sent_beside_it(office: Office) -> None:
    ops = slow(office, "q1")
    notifier = office.notifier
    round_ = asyncio.create_task(notifier.round())
    await ops.until_began("q1")
    office.ask("q2")
    await notifier.gather()
    await ops.until_began("q2")
    for question in ("q1", "q2"):
        ops.let(question)
    assert await round_ == 2


async def test_no_more_than_the_channel_allows_are_sent_at_once(office: Office) -> None:
    ops = slow(office, "q1", "q2", "q3")
    round_ = asyncio.create_task(office.notifier.round())
    await ops.until_began("q1", "q2")
    assert ops.began == ["q1", "q2"]
    for question in ("q1", "q2", "q3"):
        ops.let(question)
    assert await round_ == 3


async def test_the_notices_of_a_question_are_sent_one_after_the_other(office: Office) -> None:
    ops = slow(office, "q1")
    office.answer("q1")
    round_ = asyncio.create_task(office.notifier.round())
    await ops.until_began("q1")
    assert ops.began == ["q1"]
    ops.let("q1")
    assert (await round_, ops.kinds) == (2, ["asked", "answered"])


async def test_what_is_refused_holds_back_its_question_and_no_other(office: Office) -> None:
    ops = office.channel("ops")
    ops.failures = [REFUSED]
    office.ask("q1")
    await office.notifier.round()
    office.answer("q1")
    office.ask("q2")
    await office.notifier.round()
    assert [delivery.notice.question_id for delivery in ops.got] == ["q2"]
    later(office, due=0)
    await office.notifier.round()
    assert ops.kinds == ["asked", "asked", "answered"]


async def test_what_is_refused_for_an_hour_holds_back_its_question_no_longer(office: Office) -> None:
    ops = office.channel("ops")
    ops.failures = [REFUSED]
    office.ask("q1")
    await office.notifier.round()
    later(office, made=rows(office)[0].made - 3601)
    office.answer("q1")
    await office.notifier.round()
    assert ops.kinds == ["answered"]


@pytest.mark.slow
async def test_a_channel_that_takes_nothing_rests_and_the_rest_is_not_tried(office: Office) -> None:
    ops, other = office.channel("ops"), office.channel("other")
    ops.failures = [REFUSED] * 100
    for number in range(40):
        office.ask(f"q{number}")
    notifier = office.notifier
    assert (await notifier.round(), len(other.got)) == (40, 40)
    assert FAILURES <= 100 - len(ops.failures) < FAILURES + 2 * 8
    assert await notifier.round() == 0


async def test_a_channel_that_is_back_gets_all_that_waits_at_once(office: Office) -> None:
    ops = office.channel("ops")
    ops.failures = [REFUSED] * 20
    for number in range(40):
        office.ask(f"q{number}")
    notifier = office.notifier
    await notifier.round()
    ops.failures = []
    notifier.senders["ops"].health.rests_until = 0.0  # as time would
    assert (await notifier.round(), len(ops.got)) == (40, 40)


@pytest.mark.slow
async def test_a_channel_that_fails_is_tried_before_the_pauses_of_its_notices_are_over(office: Office) -> None:
    ops = office.channel("ops")
    office.ask("q1")
    notifier = office.notifier
    await fail_until_its_rest_is_over(office, notifier, ops)
    later(office, due=time.time() + 3600)
    assert (await notifier.round(), len(ops.got)) == (1, 1)


@pytest.mark.slow
async def test_a_channel_that_fails_is_tried_with_what_was_tried_least(office: Office) -> None:
    ops = office.channel("ops")
    office.ask("bad")
    notifier = office.notifier
    await fail_until_its_rest_is_over(office, notifier, ops)
    office.ask("good")
    ops.failures = []
    await notifier.round()
    assert ops.got[0].notice.question_id == "good"


async def fail_until_its_rest_is_over(office: Office, notifier: Notifier, way: Told) -> None:
    """Have the channel `ops` refuse the only notice there is until it rests, and end the rest."""
    way.failures = [REFUSED] * FAILURES
    while way.failures:
        await notifier.round()
        later(office, due=0)
    notifier.senders["ops"].health.rests_until = 0.0  # as time would


async def test_a_process_that_takes_over_tries_at_once_what_was_refused(office: Office) -> None:
    ops = office.channel("ops")
    ops.failures = [REFUSED]
    office.ask("q1")
    await office.notifier.round()
    later(office, due=time.time() + 3600)
    running = asyncio.create_task(office.notifier.run())
    try:
        await until(lambda: has_delivered(ops), "the delivery")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def has_delivered(way: Told) -> bool:
    return bool(way.got)


async def test_what_was_sent_while_the_record_was_away_is_marked_and_not_sent_again(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    ops = slow(office, "q1")
    notifier = office.notifier
    round_ = asyncio.create_task(notifier.round())
    await ops.until_began("q1")
    with monkeypatch.context() as away:
        away.setattr(notifier.outbox, "mark", raise_away)
        away.setattr(notifier.outbox, "take", raise_away)
        ops.let("q1")
        with pytest.raises(OperationalError):
            await round_
    later(office, due=0)
    assert (await notifier.round(), len(ops.got), rows(office)[0].state) == (0, 1, "delivered")


def raise_away(*_: object, **__: object) -> None:
    raise OperationalError("", {}, Exception("the server is away"))


async def test_an_error_that_nobody_has_foreseen_is_a_failed_try_and_is_logged(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    ops = office.channel("ops")
    ops.failures = [ZeroDivisionError("seven")]  # type: ignore[list-item]
    office.ask("q1")
    await office.notifier.round()
    assert (rows(office)[0].reason, "seven" in caplog.text) == ("an error: ZeroDivisionError", True)


def test_a_receiver_that_asks_for_a_pause_gets_it_and_then_one_notice() -> None:
    health = Health(8)
    health.note_failure(DeliveryFailed("HTTP 429", retry_after=30))
    assert health.free(0) == 0
    health.rests_until = 0.0  # as time would
    assert (health.free(0), health.free(1)) == (1, 0)
    health.note_success()
    assert (health.free(0), health.has_recovered) == (8, True)


async def test_a_receiver_that_is_gone_gets_nothing_more_from_this_process(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    ops, team = slow(office, "q1", "q2", "q3"), office.channel("team")
    ops.failures = [GONE, GONE]
    for question in ("q1", "q2", "q3"):
        ops.let(question)
    notifier = office.notifier
    assert await notifier.round() == 3  # of the other channel
    office.ask("q4")
    ops.let("q4")
    later(office, due=0)
    assert await notifier.round() == 1
    assert (len(ops.began), len(team.got), [row.state for row in rows(office) if row.channel == "ops"]) == (
        2,
        4,
        ["waiting"] * 4,
    )
    assert len(caplog.messages) == 1 and "until serve is started again" in caplog.text
    assert await office.notifier.round() == 4  # a new process, perhaps with another address


def test_rests_grow_up_to_the_longest() -> None:
    health, rests = Health(1), []
    for _ in range(FAILURES + 8):
        before = health.rests_until = 0.0
        health.note_failure(REFUSED)
        rests.append(health.rests_until > before)
    assert rests == [False] * (FAILURES - 1) + [True] * 9


async def test_a_receiver_that_is_away_is_logged_once_and_once_when_it_is_back(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    ops = office.channel("ops")
    office.ask("q1")
    notifier = office.notifier
    ops.failures = [REFUSED] * (FAILURES + 10)
    while ops.failures:
        notifier.senders["ops"].health.rests_until = 0.0  # as time would
        later(office, due=0)
        await notifier.round()
    assert len(caplog.messages) == FAILURES
    assert caplog.messages[-1] == "sending notices by ops fails, and is tried again: HTTP 500"
    notifier.senders["ops"].health.rests_until = 0.0
    await notifier.round()
    assert ops.kinds == ["asked"]
    assert caplog.messages[FAILURES:] == ["sending notices by ops works again, after 1 second"]
