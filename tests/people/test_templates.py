"""Quorum, risk, deadline, reminders and escalation from templates; what makes no sense fails the step at once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.protocol.questions import Question
from tests.conftest import Harness, until

ASK = """
inputs: {type: object}
steps:
  - kind: hitl
    name: ask
    message: Go?
    on_error: continue
    %s
  - {name: end, input: {output: "{{ steps.ask.output }}", error: "{{ steps.ask.error }}"}}
"""
QUORUM = 'ask: permission\n    quorum: "{{ 2 if input.amount > 1000 else 1 }}"'
LADDER = """timeout: "{{ input.days }}d"
    remind_every: "{{ input.days }}h"
    on_timeout: escalate
    assignees: [user:ana]
    escalate: [{after: "{{ input.hours }}", assignees: "{{ input.heads }}"}]
"""
NONSENSE = {
    "quorum: '{{ input.n }}'": ("bad_quorum", "quorum of ask, {{ input.n }}: 0 is not a quorum"),
    "assignees: ['user:ana']\n    quorum: '{{ input.two }}'": (
        "bad_quorum",
        "cannot be reached: user:ana may",
    ),
    "timeout: '{{ input.word }}'": ("bad_timeout", "timeout of ask, {{ input.word }}: 'soon' is not a duration"),
    "timeout: '{{ input.missing }}'": ("expression_error", "missing"),
    "timeout: '{{ input.nothing }}'": ("bad_timeout", "timeout of ask, {{ input.nothing }}: it is null"),
    "remind_every: '{{ input.two }}m'": ("bad_reminder", "at least 15m apart, not 120s"),
    "ask: permission\n    risk: '{{ input.word }}'": ("bad_risk", "'soon' is not a risk; write one of low"),
}


async def _list_events(house: Harness, run: str) -> list[Question]:
    return list((await house.runs.state(run)).events)


@pytest.mark.parametrize(("amount", "quorum"), [(1001, 2), (10, 1)])
async def test_a_quorum_depends_on_an_amount(house: Harness, amount: int, quorum: int) -> None:
    run = await house.start(ASK % QUORUM, {"amount": amount})
    assert (await house.one(run)).quorum == quorum
    for by in ["user:ana", "user:bob"][:quorum]:
        await house.answer(run, "yes", by=by)
    assert (await house.output(run))["output"] is True


async def test_times_and_people_of_an_escalation_come_from_templates(house: Harness) -> None:
    run = await house.start(ASK % LADDER, {"days": 2, "hours": "3h", "heads": ["group:heads", "user:bob"]})
    question = await house.one(run)
    assert question.deadline == question.asked_at + timedelta(days=2)
    assert question.escalates_at == question.asked_at + timedelta(hours=3)
    assert question.assignees == ["user:ana"]


@pytest.mark.slow
async def test_an_escalation_of_a_template_comes_in_time(later: Harness) -> None:
    run = await later.start(ASK % LADDER, {"days": 2, "hours": "3h", "heads": ["group:heads"]})
    assert (await later.output(run))["error"]["type"] == "question_expired"
    events = await later.runs.watch.events(run)
    start = next(event.time for event in events if event.type == "question.asked")
    hours = {event.type: round((event.time - start) / timedelta(hours=1)) for event in reversed(events)}
    assert (hours["question.reminded"], hours["question.escalated"], hours["question.expired"]) == (2, 3, 48)


async def test_a_risk_comes_from_a_template(house: Harness) -> None:
    text = ASK % "ask: permission\n    risk: \"{{ 'high' if input.amount > 1000 else 'low' }}\""
    run = await house.start(text, {"amount": 5000})
    assert (await house.one(run)).info["risk"] == "high"


async def test_a_wait_takes_a_deadline_from_a_template(house: Harness) -> None:
    text = "steps: [{kind: wait, name: paid, for: paid, key: k, timeout: '{{ input }}d', default: none}]"
    run = await house.start(text, 3)
    (event,) = await until(lambda: _list_events(house, run))
    assert event.deadline == event.asked_at + timedelta(days=3)


@pytest.mark.parametrize(("keys", "told"), NONSENSE.items())
async def test_a_value_that_makes_no_sense_fails_the_step(house: Harness, keys: str, told: tuple[str, str]) -> None:
    run = await house.start(ASK % keys, {"n": 0, "two": 2, "word": "soon", "nothing": None})
    error = (await house.output(run))["error"]
    assert error["type"] == told[0]
    assert told[1] in error["message"]


@pytest.mark.parametrize(
    ("input", "told"),
    [
        ({"days": 2, "hours": "3d", "heads": ["user:bob"]}, ("bad_timeout", "later than its last step")),
        ({"days": 2, "hours": "later", "heads": ["user:bob"]}, ("bad_escalation", "escalate[0].after of ask")),
        ({"days": 2, "hours": "3h", "heads": []}, ("bad_assignees", "escalate[0].assignees of ask are an empty list")),
    ],
)
async def test_an_escalation_that_makes_no_sense_fails_the_step(
    house: Harness, input: dict[str, object], told: tuple[str, str]
) -> None:
    run = await house.start(ASK % LADDER, input)
    error = (await house.output(run))["error"]
    assert error["type"] == told[0]
    assert told[1] in error["message"]
