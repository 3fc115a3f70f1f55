"""What is told at load of assignees, quorum, reminders and ladders that cannot work."""

from __future__ import annotations

import pytest

from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.load import loads

ASK = "steps: [{kind: hitl, name: ask, message: Go?, %s}]"
RUNG = "escalate: [{after: 1d, assignees: [user:bob]}]"
GOOD = [
    "assignees: [user:ana, 'group:the editors'], not_by: [requester, group:legal, user:x@y.org]",
    "assignees: '{{ input }}', not_by: '{{ input }}', quorum: 3",
    "assignees: ['user:{{ input }}'], quorum: 2",
    "assignees: [user:ana, user:bob], quorum: 2, remind_every: 15m",
    "quorum: 100",
    "notify: [ops, on-call]",
    "notify: false",
    "proof: person, assignees: [user:ana], quorum: 1",
    "ask: permission, timeout: 1d, default: {granted: false, reason: nobody came}",
    "ask: review, timeout: 1d, default: {verdict: rejected}",
    f"on_timeout: escalate, {RUNG}",
    f"on_timeout: escalate, timeout: 1d, {RUNG}",
    f"on_timeout: escalate, timeout: 2d, default: no, {RUNG}",
    f"ask: permission, assignees: [user:ana], on_timeout: escalate, quorum: 2, {RUNG}",
    "on_timeout: escalate, escalate: [{after: 1d, assignees: ['{{ input }}']}, {after: 36h, assignees: [group:a]}]",
]
BAD = [
    ("assignees: ana", "assignees", "bad_value", "assignees must be a list, not 'ana'"),
    ("assignees: [ana]", "assignees[0]", "bad_value", "'ana' is neither a user nor a group"),
    ("assignees: [requester]", "assignees[0]", "bad_value", "'requester' is neither a user nor a group"),
    ("assignees: ['user: ']", "assignees[0]", "bad_value", "is neither a user nor a group"),
    ("not_by: [user:ana, bob]", "not_by[1]", "bad_value", "'bob' is neither a user nor a group"),
    ("assignees: ['{{ inptu }}']", "assignees[0]", "unknown_name", "'inptu'"),
    ("assignees: [user:ana], quorum: 2", "quorum", "bad_value", "a quorum of 2 cannot be reached: user:ana may answer"),
    ("assignees: [user:ana, user:ana], quorum: 2", "quorum", "bad_value", "cannot be reached: user:ana"),
    ("assignees: [user:ana, user:b], not_by: [user:b], quorum: 2", "quorum", "bad_value", "cannot be reached"),
    ("assignees: [user:ana], not_by: [user:ana]", "not_by", "bad_value", "nobody may answer"),
    ("ask: permission, timeout: 1d, default: {granted: true}", "default", "bad_value", "it may not approve"),
    ("ask: review, timeout: 1d, default: {verdict: unchanged}", "default", "bad_value", "it may not approve"),
    ("notify: ops", "notify", "bad_value", "list"),
    ("notify: ['the ops']", "notify[0]", "bad_value", "the ops"),
    ("proof: link", "proof", "bad_value", "person"),
    ("ask: hold, proof: person", "proof", "conflict", "a hold asks no one"),
    ("risk: high", "risk", "conflict", "'risk' belongs to ask: permission"),
    ("ask: review, details: [a]", "details", "conflict", "'details' belongs to ask: permission"),
    ("ask: permission, risk: dire", "risk", "bad_value", "dire"),
    ("ask: permission, action: 'Pay {{ inptu }}'", "action", "unknown_name", "'inptu'"),
    ("quorum: 0", "quorum", "bad_value", "1"),
    ("assignees: []", "assignees", "bad_value", "assignees is an empty list, which names nobody"),
    ("not_by: []", "not_by", "bad_value", "not_by is an empty list, which names nobody"),
    ("remind_every: 14m", "remind_every", "bad_value", "reminders must be at least 15m apart, not 840s"),
    ("on_timeout: escalate", "on_timeout", "missing_key", "needs 'escalate'"),
    ("on_timeout: escalate, escalate: []", "on_timeout", "missing_key", "needs 'escalate'"),
    ("on_timeout: escalate, escalate: [{after: soon, assignees: [user:a]}]", "escalate[0].after", "bad_value", "soon"),
    (RUNG, "escalate", "conflict", "'escalate' needs on_timeout: escalate"),
    (f"timeout: 2d, default: no, {RUNG}", "escalate", "conflict", "needs on_timeout: escalate"),
    (f"on_timeout: escalate, timeout: 2h, {RUNG}", "timeout", "conflict", "it must be later than its last step"),
    (f"on_timeout: escalate, timeout: 1d, default: no, {RUNG}", "default", "conflict", "a default needs a timeout"),
    (f"on_timeout: escalate, default: no, {RUNG}", "default", "conflict", "a default needs a deadline"),
    (
        "on_timeout: escalate, escalate: [{after: 1d, assignees: [group:a]}, {after: 24h, assignees: [group:b]}]",
        "escalate[1].after",
        "bad_value",
        "each step of the escalation must come after the one before",
    ),
    ("on_timeout: escalate, escalate: [{after: 1d, assignees: [a]}]", "escalate[0].assignees[0]", "bad_value", "'a'"),
    (
        "on_timeout: escalate, escalate: [{after: 1d, assignees: []}]",
        "escalate[0].assignees",
        "bad_value",
        "names nobody",
    ),
]


def problems(text: str) -> list[Problem]:
    with pytest.raises(BlueprintError) as caught:
        loads(text, file="test.yaml", name="test")
    return caught.value.problems


@pytest.mark.parametrize("keys", GOOD)
def test_people_that_can_be_asked_are_taken(keys: str) -> None:
    assert loads(ASK % keys, name="test").steps


@pytest.mark.parametrize(("keys", "where", "code", "told"), BAD)
def test_people_that_cannot_be_asked_are_told_at_their_place(keys: str, where: str, code: str, told: str) -> None:
    [problem] = problems(ASK % keys)
    assert (problem.path, problem.code) == (f"steps[0].{where}", code)
    assert told in problem.message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("assignees", "[user:ana]"),
        ("not_by", "[requester]"),
        ("quorum", "2"),
        ("remind_every", "1h"),
        ("on_decline", "continue"),
    ],
)
def test_a_hold_asks_nobody(key: str, value: str) -> None:
    [problem] = problems(ASK % f"ask: hold, {key}: {value}")
    assert (problem.path, problem.code) == (f"steps[0].{key}", "conflict")
    assert "a hold asks no one" in problem.message


def test_a_hold_climbs_no_ladder() -> None:
    found = problems(ASK % f"ask: hold, on_timeout: escalate, {RUNG}")
    assert {problem.path for problem in found} == {"steps[0].escalate", "steps[0].on_timeout"}


def test_a_bare_name_is_told_what_it_could_mean() -> None:
    [problem] = problems(ASK % "assignees: [ana]")
    assert problem.hint == "did you mean 'user:ana' or 'group:ana'?"
