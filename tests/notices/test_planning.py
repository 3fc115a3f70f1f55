"""Who is told of what, by which channel."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from holdfast.runtime.config import PersonSection
from holdfast.server.notices.channels import AddressBook, KnownUser
from holdfast.server.notices.notice import make_cloud_event
from holdfast.server.record.entries import STUCK
from tests.notices.office import Office

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
AWAY = date.today() + timedelta(days=3)


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("to", "assignees", "hears"),
    [
        (None, [], True),
        (None, ["user:eve"], True),
        (["user:ana"], ["user:ana"], True),
        (["group:editors"], ["group:editors"], True),
        (["group:editors"], ["user:ana"], True),
        (["user:ana"], ["group:editors"], True),
        (["group:legal"], ["group:legal"], True),
        (["user:ana"], ["user:eve"], False),
        (["user:ana"], [], False),
        (["anyone"], [], True),
        (["anyone"], ["user:ana"], False),
    ],
)
async def test_a_channel_hears_of_the_questions_of_those_it_names(
    office: Office, to: list[str] | None, assignees: list[str], hears: bool
) -> None:
    way = office.channel("ops", to=to, events=["asked"])
    office.ask(assignees=assignees)
    await office.notifier.round()
    assert way.kinds == (["asked"] if hears else [])


async def test_a_personal_channel_tells_each_who_may_answer_once(office: Office) -> None:
    way = office.channel("mail", is_personal=True)
    office.ask(assignees=["group:editors", "user:ana", "user:eve"], not_by=["user:bob"])
    await office.notifier.round()
    assert way.users == ["user:ana", "user:eve"]


async def test_a_question_for_anyone_is_told_only_to_those_who_want_such(office: Office) -> None:
    all_ = office.channel("all", is_personal=True)
    some = office.channel("some", is_personal=True, to=["anyone", "user:eve"])
    office.ask()
    await office.notifier.round()
    assert (all_.users, some.users) == ([], ["user:eve"])


async def test_who_has_accepted_is_not_reminded(office: Office) -> None:
    way = office.channel("mail", is_personal=True, events=["reminded"])
    office.ask(assignees=["group:editors"])
    office.note("question.accepted", {"id": "q1", "by": "user:ana", "so_far": 1, "quorum": 2})
    office.note("question.reminded", {"id": "q1", "n": 1, "assignees": ["group:editors"]})
    await office.notifier.round()
    assert way.users == ["user:bob"]


async def test_an_escalation_is_told_to_the_new_assignees(office: Office) -> None:
    way = office.channel("mail", is_personal=True)
    office.ask(assignees=["user:ana"])
    office.note("question.escalated", {"id": "q1", "assignees": ["user:eve"]})
    office.note("question.reminded", {"id": "q1", "n": 1})
    await office.notifier.round()
    told = sorted((one.notice.kind, one.contact and one.contact.user) for one in way.got)
    assert told == [("asked", "user:ana"), ("escalated", "user:eve"), ("reminded", "user:eve")]


async def test_who_gets_a_question_from_another_is_told_and_the_others_are_not(office: Office) -> None:
    way = office.channel("mail", is_personal=True, events=["asked"])
    office.ask(assignees=["user:ana", "user:bob"])
    await office.notifier.round()
    data = {"id": "q1", "by": "user:ana", "to": "user:eve", "assignees": ["user:eve", "user:bob"]}
    office.note("question.delegated", data)
    await office.notifier.round()
    assert way.users == ["user:ana", "user:bob", "user:eve"]
    assert way.got[-1].notice.delegated_by == "user:ana"


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ({"notify": ["ops"]}, ["ops"]),
        ({"notify": False}, []),
        ({"notify": ["far"], "assignees": ["user:ana"]}, ["far"]),
    ],
)
async def test_a_step_narrows_and_widens_who_is_told(office: Office, question: dict[str, Any], told: list[str]) -> None:
    ways = {name: office.channel(name, to=to) for name, to in (("ops", None), ("far", ["user:eve"]), ("x", None))}
    office.ask(**question)
    await office.notifier.round()
    assert [name for name, way in ways.items() if way.got] == told


# Deputies


def book(**people: Any) -> AddressBook:
    return AddressBook({name: PersonSection(**person) for name, person in people.items()}, {"legal": ["user:cid"]})


ABSENT = {"away_until": date(2026, 11, 25)}


@pytest.mark.parametrize(
    ("until", "is_away"),
    [
        (date(2026, 11, 21), False),
        (date(2026, 11, 22), True),
        (datetime(2026, 11, 22, 12, 30, tzinfo=UTC), True),
        (datetime(2026, 11, 22, 11, 30, tzinfo=UTC), False),
    ],
)
def test_a_person_is_away_through_the_last_day(until: date, is_away: bool) -> None:
    assert book(ana={"away_until": until}).is_away("user:ana", NOW) is is_away


@pytest.mark.parametrize(
    ("people", "barred", "told"),
    [
        ({"ana": {"deputy": "user:bob"}}, [], ("user:ana", None)),
        ({"ana": {**ABSENT, "deputy": "user:bob"}}, [], ("user:bob", "user:ana")),
        ({"ana": {**ABSENT, "deputy": "user:bob"}}, ["user:bob"], ("user:ana", None)),
        ({"ana": {**ABSENT, "deputy": "user:cid"}}, ["group:legal"], ("user:ana", None)),
        ({"ana": ABSENT}, [], ("user:ana", None)),
        (
            {"ana": {**ABSENT, "deputy": "user:bob"}, "bob": {**ABSENT, "deputy": "user:cid"}},
            [],
            ("user:cid", "user:ana"),
        ),
        (
            {"ana": {**ABSENT, "deputy": "user:bob"}, "bob": {**ABSENT, "deputy": "user:ana"}},
            [],
            ("user:ana", None),
        ),
    ],
)
def test_a_deputy_is_told_who_may_answer(
    people: dict[str, Any], barred: list[str], told: tuple[str, str | None]
) -> None:
    contact = book(**people).find_contact("user:ana", barred, NOW)
    assert contact is not None and (contact.user, contact.instead_of) == told


def test_who_may_not_answer_is_not_told_and_no_deputy_of_theirs() -> None:
    assert book(ana={**ABSENT, "deputy": "user:bob"}).find_contact("user:ana", ["user:ana"], NOW) is None


def test_claims_of_a_sign_in_give_address_and_groups() -> None:
    signed_in = [KnownUser("user:eve", "eve@example.com", "de", ("group:legal",))]
    known = AddressBook({"eve": PersonSection(locale="fr")}, {}, signed_in)
    assert known.list_users(["group:legal"]) == ["user:eve"]
    contact = known.contact("user:eve")
    assert (contact.email, contact.locale) == ("eve@example.com", "fr")
    configured = AddressBook({"eve": PersonSection(email="eve@home.example")}, {}, signed_in)
    assert configured.contact("user:eve").email == "eve@home.example"


# People whom nothing reaches


async def test_the_fallback_hears_of_an_assignee_without_an_address(office: Office) -> None:
    office.people = {"ana": PersonSection(email="ana@example.com")}
    office.channel("mail", is_personal=True, needs_email=True, events=["asked"])
    ops = office.channel("ops", to=["group:legal"], events=["run_failed"])
    office.fallback = "ops"
    office.ask(assignees=["user:ana", "user:eve", "group:nobody"])
    await office.notifier.round()
    [delivery] = ops.got
    assert (delivery.notice.kind, delivery.notice.unreachable) == ("unreachable", ["user:eve", "group:nobody"])


async def test_nobody_is_unreachable_where_a_channel_hears_of_all(office: Office) -> None:
    ops = office.channel("ops")
    office.fallback = "ops"
    office.ask(assignees=["user:eve"])
    await office.notifier.round()
    assert ops.kinds == ["asked"]


async def test_somebody_away_without_a_deputy_is_told_and_counts_as_unreachable(office: Office) -> None:
    office.people = {"ana": PersonSection(email="ana@example.com", away_until=AWAY)}
    mail = office.channel("mail", is_personal=True, needs_email=True, events=["asked"])
    ops = office.channel("ops", events=["unreachable"])
    office.ask(assignees=["user:ana"])
    await office.notifier.round()
    assert (mail.users, ops.kinds) == (["user:ana"], ["unreachable"])


async def test_a_channel_that_a_step_names_and_nobody_configured_is_told_to_the_fallback(office: Office) -> None:
    ops = office.channel("ops", events=["asked"])
    office.fallback = "ops"
    office.ask(notify=["opps"])
    await office.notifier.round()
    [delivery] = ops.got
    assert (delivery.notice.kind, delivery.notice.missing) == ("unreachable", ["opps"])


async def test_nobody_is_unreachable_where_nobody_is_to_be_told(office: Office) -> None:
    ops = office.channel("ops", events=["unreachable"])
    office.ask(assignees=["user:eve"], notify=False)
    await office.notifier.round()
    assert ops.got == []


# Runs


async def test_a_failed_run_is_told_and_one_that_is_done_is_not(office: Office) -> None:
    ops = office.channel("ops", to=["group:legal"])
    office.end("completed")
    office.end("failed", error={"type": "tool_failed", "message": "No paper.", "address": "pipeline:brief"})
    await office.notifier.round()
    [delivery] = ops.got
    assert delivery.notice.failure is not None
    assert (delivery.notice.kind, delivery.notice.failure.message) == ("run_failed", "No paper.")


async def test_each_call_that_keeps_a_run_from_going_on_is_told(office: Office) -> None:
    ops = office.channel("ops", events=["run_stuck"])
    for call in ("pay", "mail"):
        office.note(STUCK, {"type": "workers_lost", "message": f"the call {call} has lost its worker 5 times"})
    await office.notifier.round()
    told = [delivery.notice.failure.message for delivery in ops.got if delivery.notice.failure]
    assert told == [f"the call {call} has lost its worker 5 times" for call in ("pay", "mail")]
    assert {make_cloud_event(delivery)["type"] for delivery in ops.got} == {"holdfast.run.stuck"}
