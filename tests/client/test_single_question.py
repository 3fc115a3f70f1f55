"""`holdfast.ask`: one question from any program, once for a key."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest

from holdfast import AskCancelled, AskDeclined, AskExpired, Refusal, Runs, ask
from holdfast.blueprint.kinds import Blueprint
from holdfast.client.archive import ArchivedEnd
from holdfast.client.single_question import make_blueprint
from holdfast.protocol.questions import Question
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.errors import BadInput
from tests.client.command import Holdfast
from tests.conftest import Harness, until
from tests.own_author import Letter
from tests.own_questions import Trip

ESCALATED: Any = {"timeout": "1d", "assignees": ["user:bob"], "escalate": [("1s", ["user:ana"])]}


@pytest.fixture
def key(house: Harness) -> str:
    """A key whose question is replayed at the end."""
    house.started.append(f"question-{house.unique}")
    return house.unique


@pytest.fixture
def asking(house: Harness, key: str) -> Callable[..., asyncio.Task[Any]]:
    """Ask under the key, and go on."""

    def start(message: str = "Roll out?", **more: Any) -> asyncio.Task[Any]:
        call: Awaitable[Any] = ask(message, runs=house.runs, **{"key": key, **more})
        return asyncio.ensure_future(call)

    return start


async def reply(house: Harness, key: str, content: object, **how: Any) -> str:
    """Answer the question of a key, once it is there; what it asks."""
    run = f"question-{key}"
    await until(lambda: is_there(house, run), "the question's run")
    question = await house.one(run)
    await house.answer(run, content, question, **how)
    return question.message


async def escalated(house: Harness, run: str) -> Question:
    """The question of a run, once it has been escalated."""
    await until(lambda: is_there(house, run), "the question's run")

    async def is_escalated() -> bool:
        return (await house.one(run)).assignees == ["user:ana"]

    await until(is_escalated)
    return await house.one(run)


async def is_there(house: Harness, run: str) -> bool:
    return any([execution async for execution in house.client.list_workflows(f"WorkflowId = '{run}'")])


async def test_a_question_gives_its_answer_and_the_same_again(house: Harness, key: str, asking: Any) -> None:
    call = asking(options=["yes", "no"], assignees=["user:ana"])
    assert await reply(house, key, "yes", by="user:ana") == "Roll out?"
    assert await call == "yes"
    assert await asking(options=["yes", "no"], assignees=["user:ana"]) == "yes"


async def test_two_who_ask_at_once_get_one_answer(house: Harness, key: str, asking: Any) -> None:
    calls = [asking(kind="permission") for _ in range(2)]
    await reply(house, key, "yes")
    assert await asyncio.gather(*calls) == [True, True]


async def test_another_question_under_the_key_is_refused(house: Harness, key: str, asking: Any) -> None:
    call = asking("Roll out {{ 1 }}?")
    assert await reply(house, key, "yes") == "Roll out {{ 1 }}?"
    assert await call == "yes"
    with pytest.raises(Refusal, match="asks another question under this key"):
        await asking("Roll back?")


async def test_an_answer_is_an_instance_and_asked_again_where_it_breaks_a_rule(
    house: Harness, key: str, asking: Any
) -> None:
    """What is asked again has the deadline of the first question, and the assignees that it was escalated to."""
    call = asking("When?", schema=Trip, **ESCALATED)
    first = await escalated(house, f"question-{key}")
    await house.answer(first.run, {"start": 2, "end": 1}, first, by="user:ana")
    await until(lambda: is_there(house, f"question-{key}~2"), "what is asked again")
    second = await house.one(f"question-{key}~2")
    assert (second.assignees, second.escalates_at) == (["user:ana"], None)
    assert (
        first.deadline and second.deadline and abs(second.deadline - first.deadline) < second.asked_at - first.asked_at
    )
    again = await reply(house, f"{key}~2", {"start": 2, "end": 3}, by="user:ana")
    assert again == "The answer was returned: end: the end is before the start\n\nWhen?"
    assert await call == Trip(start=2, end=3)
    assert await asking("When?", schema=Trip, **ESCALATED) == Trip(start=2, end=3)


async def test_a_decline_is_typed(house: Harness, key: str, asking: Any) -> None:
    call = asking()
    await until(lambda: is_there(house, f"question-{key}"), "the question's run")
    await house.decline(f"question-{key}")
    with pytest.raises(AskDeclined):
        await call


@pytest.mark.slow
async def test_a_timeout_is_typed_or_takes_the_default(house: Harness, key: str, asking: Any) -> None:
    with pytest.raises(AskExpired):
        await asking(timeout=timedelta(seconds=1))
    house.started.append(f"question-{key}-d")
    assert await asking(timeout=timedelta(seconds=1), default="later", key=f"{key}-d") == "later"


@pytest.mark.parametrize("force", [False, True])
async def test_a_cancel_of_the_run_is_typed(house: Harness, key: str, asking: Any, force: bool) -> None:
    call = asking()
    await until(lambda: is_there(house, f"question-{key}"), "the question's run")
    await house.runs.control.cancel(f"question-{key}", force=force)
    with pytest.raises(AskCancelled):
        await call


async def test_a_call_without_a_key_that_is_cancelled_withdraws_its_question(house: Harness) -> None:
    call = asyncio.ensure_future(ask("Anybody?", runs=house.runs))

    async def open_run() -> str | None:
        rows, _ = await house.runs.lists.find_waiting()
        return next((row.run for row in rows for one in row.open or () if one.message == "Anybody?"), None)

    run = await until(open_run, "the question")
    house.started.append(run)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await house.result(run)).status == "cancelled"


@pytest.mark.parametrize("time", [timedelta(days=2), 172800, "2d"])
def test_times_are_read_like_those_of_a_blueprint(time: Any) -> None:
    step = make_blueprint("Go?", None, {"timeout": time, "remind_every": time}).steps[0].model_dump()
    assert (step["timeout"], step["remind_every"]) == (172800, 172800)
    step = make_blueprint("Go?", None, {"escalate": [(time, ["user:ana"])]}).steps[0].model_dump()
    assert step["escalate"][0]["after"] == 172800


async def test_options_that_cannot_be_used_are_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")  # where no server is
    with pytest.raises(BadInput, match="assignees"):
        await ask("Go?", assignees=["ana"])
    for wrong, told in (
        ({"timeout": "soon"}, "timeout: 'soon' is not a duration"),
        ({"remind_every": []}, "remind_every"),
        ({"escalate": [(None, ["user:ana"])]}, "escalate: None"),
        ({"escalate": "1d"}, "a list of pairs"),
        ({"kind": "decision"}, "needs 'options'"),
        ({"assignees": []}, "names nobody"),
        ({"schema": int}, "schema: .* a JSON Schema or a pydantic model"),
        ({"schema": {"type": "nope"}}, "schema: type"),
        ({"payload": object()}, "payload: "),
        ({"schema": Letter, "timeout": 9, "default": {"to": "Ana", "text": "PAY"}}, "default: text: .*it shouts"),
        ({"options": ["a", {"id": "A", "label": "other"}]}, "options: the option 'A' appears twice"),
        ({"options": [{"label": "other"}]}, "options: the option .*: id: Field required"),
    ):
        with pytest.raises(BadInput, match=told):
            await ask("Go?", **wrong)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="a question has no asignees"):
        await ask("Go?", asignees=["user:ana"])  # type: ignore[call-overload]


class Remembering:
    """An archive that has one run, which Temporal may have forgotten."""

    def __init__(self, end: ArchivedEnd, blueprint: Blueprint) -> None:
        self._end, self._blueprint = end, blueprint

    async def end(self, run: str) -> ArchivedEnd | None:
        return self._end if run == self._end.run else None

    async def blueprint(self, run: str) -> Blueprint | None:
        return self._blueprint


@pytest.mark.parametrize(("message", "told"), [("Roll out?", None), ("Roll back?", "asks another question")])
async def test_an_answer_is_found_in_the_archive(house: Harness, message: str, told: str | None) -> None:
    run = f"question-{house.unique}"
    view = WorkflowView(workflow=run, run=run, address="pipeline:question", blueprint="question", status="completed")
    end = ArchivedEnd(run, "completed", "question", "yes", {}, None, view)
    archive: Any = Remembering(end, make_blueprint("Roll out?", None, {}))
    runs = Runs(house.client, "nobody-works", archive=archive)
    with nullcontext() if told is None else pytest.raises(Refusal, match=told):
        assert await ask(message, key=house.unique, runs=runs) == "yes"
    assert not await is_there(house, run)


PROGRAM = """
import asyncio, holdfast, os

print(asyncio.run(holdfast.ask("Ship?", options=["yes", "no"], key="ship")), flush=True)
os._exit(0)  # a plain exit may abort in the SDK's threads (sdk-python issue 300)
"""


@pytest.mark.slow
def test_two_processes_that_ask_under_a_key_print_the_same_answer(holdfast: Holdfast) -> None:
    def start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, **holdfast.place())

    first = start()
    holdfast.listed("question-ship")
    [question] = holdfast.rest("question-ship")["questions"]
    second = start()
    assert holdfast("answer", "question-ship", question["id"], "yes").code == 0
    assert {first.communicate()[0], second.communicate()[0], start().communicate()[0]} == {"yes\n"}
