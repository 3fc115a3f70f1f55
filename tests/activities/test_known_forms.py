"""Interrupts of other libraries whose shape is known: they are questions, and the answers take the library's shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.protocol.answers import Answer
from holdfast.protocol.questions import Question
from tests import langchain_agents
from tests.conftest import Harness


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(langchain_agents, "FOLDER", tmp_path)
    return tmp_path


def done(folder: Path) -> list[str]:
    file = folder / "done"
    return sorted(file.read_text().splitlines()) if file.exists() else []


async def asked(house: Harness, mode: str) -> tuple[str, dict[str, Question]]:
    said = "messages: [{role: user, content: Go}]"
    run = await house.start(f'steps: [{{name: it, uses: "tests.langchain_agents:{mode}", input: {{{said}}}}}]')
    return run, {question.message: question for question in await house.asked(run, 2)}


EMAIL, DELETE = "May send_email be called?", "May delete_file be called?"


async def last(house: Harness, run: str) -> str:
    output: Any = await house.output(run)
    return str(output["messages"][-1]["content"])


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_each_action_of_langchains_middleware_is_a_question(house: Harness, folder: Path, mode: str) -> None:
    run, questions = await asked(house, mode)
    email, delete = questions[EMAIL], questions[DELETE]
    assert (email.kind, delete.kind) == ("review", "permission")
    assert email.info["payload"] == {"to": "bob", "text": "hi"}
    assert list(email.asked.verdicts) == ["unchanged", "edited", "rejected", "respond"]
    edited = {"verdict": "edited", "payload": {"to": "ana", "text": "hi"}}
    no = {"granted": False, "reason": "keep it"}
    await house.runs.answer(run, [Answer(question=email.id, content=edited)])
    await house.runs.answer(run, [Answer(question=delete.id, content=no)])
    told = await last(house, run)
    assert "sent hi to ana" in told and "with reason: keep it" in told
    assert done(folder) == ["sent hi to ana"]
    usage = (await house.runs.state(run)).usage
    assert (usage.requests, usage.tokens) == (2, 42)  # of the graph's own model


async def test_a_person_may_answer_in_the_place_of_an_action(house: Harness, folder: Path) -> None:
    run, questions = await asked(house, "batched")
    respond = {"verdict": "respond", "reason": "Bob knows already"}
    answers = [Answer(question=questions[EMAIL].id, content=respond)]
    await house.runs.answer(run, [*answers, Answer(question=questions[DELETE].id, content={"granted": True})])
    assert await last(house, run) == "Bob knows already | deleted report"
    assert done(folder) == ["deleted report"]


async def log(house: Harness, run: str) -> list[str]:
    output: Any = await house.output(run)
    return list(output["log"])


def graph_step(house: Harness, graph: str) -> str:
    return f'steps: [{{name: it, uses: "tests.graphs:{graph}", input: {{folder: "{house.folder}", log: []}}}}]'


@pytest.mark.slow
async def test_the_requests_of_the_agent_inbox_are_questions_in_its_order(house: Harness) -> None:
    run = await house.start(graph_step(house, "inbox"))
    write, plan, ask = sorted(await house.asked(run, 3), key=lambda one: one.address.rpartition(":")[2])
    assert [one.address.rpartition("level:")[2] for one in (write, plan, ask)] == ["write:1", "plan:2", "ask:3"]
    assert [list(one.asked.verdicts) for one in (write, plan)] == [
        ["unchanged", "edited", "rejected"],
        ["unchanged", "rejected", "respond"],
    ]
    assert (write.message, ask.kind) == ("Look at write", "input")
    no = {"verdict": "rejected", "reason": "shorter"}
    await house.runs.answer(
        run, [Answer(question=one.id, content=no) for one in (write, plan)] + [Answer(question=ask.id, content="now")]
    )
    [again] = await house.asked(run, 1)  # the author lets nobody refuse to write
    assert (again.address, again.round) == (write.address, 2)
    assert "reject: write allows only approve, edit" in again.message
    await house.answer(run, {"verdict": "edited", "payload": {"n": 2}}, again)
    assert await log(house, run) == [
        "{'type': 'edit', 'args': {'action': 'write', 'args': {'n': 2}}}",
        "{'type': 'response', 'args': 'shorter'}",
        "{'type': 'response', 'args': 'now'}",
    ]


@pytest.mark.parametrize(
    ("action", "content", "told"),
    [
        ("accept", {"size": 3}, "{'action': 'accept', 'content': {'size': 3}}"),
        ("decline", None, "{'action': 'decline'}"),
    ],
)
async def test_an_elicitation_in_a_graph_is_its_form(house: Harness, action: Any, content: Any, told: str) -> None:
    run = await house.start(graph_step(house, "eliciting"))
    question = await house.one(run)
    assert (question.kind, question.message) == ("input", "Which size?")
    assert (await house.refused(run, {"size": "big"}, question)).code == "invalid_answer"
    await house.runs.answer(run, [Answer(question=question.id, action=action, content=content)])
    assert await log(house, run) == [told]
