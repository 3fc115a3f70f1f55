"""Who may put a question to people in the middle of a call: in a guarded deployment its workers only."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.activities.signing import sign_command
from holdfast.protocol import guard
from holdfast.protocol.elicitations import ELICIT
from holdfast.protocol.guard import Key, SignedCommand
from tests.people.activations import SIGNAL, FedRun

PUT: dict[str, Any] = {
    "call": "pipeline:test;step:look",
    "path": "elicitation:1",
    "asked": {"kind": "input", "message": "Who?"},
    "seconds": 60.0,
    "key": "1:1:1",
}
FORGED = {**PUT, "asked": {"kind": "input", "message": "Forged"}}


def test_only_a_worker_of_a_guarded_deployment_puts_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard.DEPLOYMENT, "keys", [Key("ops", "a key of the deployment")])
    run = FedRun("steps: [{name: look, uses: look}]")
    put, other = (
        sign_command(SignedCommand("fed", "fed", ELICIT, payload), "service")
        for payload in (PUT, {**FORGED, "key": "2"})
    )
    run.feed(run.message(ELICIT, PUT, by=SIGNAL))
    for forged in (PUT, {**PUT, "token": None}, {**FORGED, "token": put["token"]}):
        run.feed(run.message(ELICIT, forged))
        assert run.updates == ["rejected"]
    assert run.questions == []
    for message in (put, other, put):  # what was seen before, sent once more, replaces nothing
        run.feed(run.message(ELICIT, message))
        assert run.updates == ["completed"]
    assert [question.message for question in run.questions] == ["Forged"]
    run.feed(run.answer("me", by=SIGNAL))
    assert run.questions == []
    run.replay()
