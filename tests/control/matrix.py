"""Every form of process control in a loop of three rounds that continues as new after each, and asks in each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from holdfast.protocol.answers import Answer
from holdfast.protocol.questions import Question
from tests.conftest import Harness, until
from tests.control.undoable import BOOM, block
from tests.flows import repeat, written
from tests.tools import read_done

ROUNDS = 3
ASK = {"kind": "hitl", "name": "ask", "message": "Round {{ context.round }}?", "ask": "permission"}
WAIT = {"kind": "wait", "name": "never", "for": "nothing", "key": "1"}
_RACE = {"kind": "parallel", "name": "race", "branches": {"asks": [ASK], "waits": [WAIT], "gives": [{"name": "x"}]}}
_DEMANDS = {
    "quorum": "{{ 1 + 1 }}",
    "risk": "{{ 'high' if context.round else 'low' }}",
    "timeout": "{{ 1 + context.round }}d",
    "remind_every": "{{ context.round }}h",
    "assignees": ["user:ana", "{{ 'user:bob' }}"],
}


class Control(NamedTuple):
    """A form of process control around the question of a round, and what is done with it."""

    step: dict[str, Any]
    round: list[str] = []
    """What a round has done, in order."""
    cancelled: list[str] = []
    """What has been done in the end where it is cancelled while it asks."""
    blueprint: dict[str, Any] = {}


def list_controls(folder: Path) -> dict[str, Control]:
    """Return them by name; their steps write down in this folder what they do."""

    def call(what: str) -> dict[str, Any]:
        return {"uses": "does", "arguments": {"folder": str(folder), "what": f"{what}{{{{ context.round }}}}"}}

    def does(what: str, **more: Any) -> dict[str, Any]:
        return {"name": what, **call(what), **more}

    def undoes(what: str) -> dict[str, Any]:
        return does(what, undo=call(f"un{what}"))

    end: dict[str, Any] = {"finally": [does("end")]}
    states = {"one": {"steps": [ASK], "next": "two"}, "two": {"steps": [does("two")], "next": "stop"}}
    inner = repeat(ASK, name="inner", most=1)
    return {
        "first": Control({**_RACE, "until": "output.asks is defined"}),
        "two": Control({**_RACE, "until": 2}),
        "choose": Control({**_RACE, "choose": "{{ ['asks', 'gives'] }}"}),
        "undo": Control(block(undoes("a"), ASK, undoes("b")), ["a", "b"], ["a", "una"]),
        "finally": Control(block(ASK, does("a"), **end), ["a", "end"], ["end"]),
        "on_error": Control(
            block(undoes("a"), ASK, BOOM, **end, on_error="continue"), ["a", "una", "end"], ["a", "una", "end"]
        ),
        "deadline": Control(block(ASK, deadline="{{ context.round }}d")),
        "loop": Control({**inner, "loop": {**inner["loop"], "deadline": "2d"}}),
        "run": Control(inner, blueprint={"deadline": "{{ 1 + 1 }}d"}),
        "states": Control({"kind": "states", "name": "m", "start": "one", "ends": ["stop"], "states": states}, ["two"]),
        "demands": Control({**ASK, **_DEMANDS}),
    }


CONTROLS = list(list_controls(Path()))


class Rounds:
    """A run of one of them."""

    def __init__(self, house: Harness, name: str, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.house, self.folder, self.control = house, folder, list_controls(folder)[name]
        self.run = ""

    async def start(self) -> None:
        note = {"name": "note", "input": "{{ iteration }}", "sink_to": "round"}
        rounds = repeat(note, self.control.step, name="rounds", most=ROUNDS)
        self.run = await self.house.start(written(rounds, {"name": "last", "input": "all"}, **self.control.blueprint))

    async def find_question(self, number: int) -> Question:
        """Return the question of a round, once it is open."""

        async def is_open() -> Question | None:
            questions = await self.house.runs.questions(self.run)
            return next((one for one in questions if one.message == f"Round {number}?"), None)

        question: Question = await until(is_open, f"the question of round {number}")
        return question

    async def answer(self, number: int) -> None:
        await self.send(await self.find_question(number))

    async def send(self, question: Question) -> None:
        """Answer as many people do as the question wants."""
        for by in ["user:ana", "user:bob"][: question.quorum]:
            await self.house.runs.answer(self.run, [Answer(question=question.id, content=True)], by=by)

    def expect(self, rounds: int, cancelled: bool = False) -> None:
        """See that all was done that belongs to so many rounds, and no more.

        A call that was lost with its worker may have been made twice.
        """
        done = [f"{what}{number}" for number in range(1, rounds + 1) for what in self.control.round]
        done += [f"{what}{rounds + 1}" for what in self.control.cancelled if cancelled]
        assert list(dict.fromkeys(read_done(self.folder))) == done
