"""What MCP servers ask people: of the protocol of 2026 between two calls, of that of 2025 in the middle of one."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from holdfast.activities import mcp_asking
from holdfast.client.answering import Answering
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer
from holdfast.protocol.guard import DEPLOYMENT, Key
from holdfast.protocol.runs import HistoryLimits
from tests.agents.asking_house import LAST, House, house_with
from tests.agents.turns import agent, call, turn
from tests.conftest import Replays, until


@pytest_asyncio.fixture(params=["stdio", pytest.param("http", marks=pytest.mark.slow)])
async def new(temporal: Client, replays: Replays, tmp_path: Path, request: Any) -> AsyncIterator[House]:
    """A server that ends the call with what it needs."""
    async with house_with(request.param, temporal, replays, tmp_path, request.node.nodeid) as house:
        yield house


@pytest_asyncio.fixture
async def old(temporal: Client, replays: Replays, tmp_path: Path, request: Any) -> AsyncIterator[House]:
    """A server that asks in the middle of the call."""
    async with house_with(
        getattr(request, "param", "stdio-old"), temporal, replays, tmp_path, request.node.nodeid
    ) as house:
        yield house


EITHER = pytest.mark.parametrize("old", ["stdio-old", pytest.param("http-old", marks=pytest.mark.slow)], indirect=True)


@pytest_asyncio.fixture
async def stdio(temporal: Client, replays: Replays, tmp_path: Path, request: Any) -> AsyncIterator[House]:
    async with house_with("stdio", temporal, replays, tmp_path, request.node.nodeid) as house:
        yield house


@pytest.mark.slow
async def test_a_server_asks_by_a_question_and_hears_the_answer(new: House) -> None:
    run = await new.orders()
    question = await new.one(run)
    assert (question.kind, question.message) == ("input", "asking asks: Which size?")
    assert question.info == {"server": "asking", "tool": "mcp:asking/order"}
    assert question.address.endswith("tool:asking_order:1;elicitation:__main__%3Aask_size")
    refusal = await new.refused(run, {"size": 12}, question)
    assert (refusal.code, "size" in refusal.message) == ("invalid_answer", True)
    await new.answer(run, {"size": 4}, question)
    assert await new.output(run) == "shirt: {'action': 'accept', 'data': {'size': 4, 'note': ''}}"
    assert new.ordered() == ["shirt"]


@pytest.mark.parametrize("how", ["stdio", pytest.param("stdio-old", marks=pytest.mark.slow)])
async def test_a_server_asks_those_whom_the_step_names(
    how: str, temporal: Client, replays: Replays, tmp_path: Path, request: Any
) -> None:
    async with house_with(how, temporal, replays, tmp_path, request.node.nodeid) as house:
        turns = [turn(call("asking_order", item="shirt", folder=str(house.folder))), LAST]
        text = agent(house, turns, tools=["mcp:asking"])
        run = await house.start(text.replace("  name: boss\n", "  name: boss\n  assignees: [user:ana]\n"), "Go")
        question = await house.one(run)
        assert question.assignees == ["user:ana"]
        await house.answer(run, {"size": 4}, question, by="user:ana")
        await house.output(run)


@pytest.mark.slow
@pytest.mark.parametrize("action", ["decline", pytest.param("cancel", marks=pytest.mark.slow)])
async def test_declining_and_cancelling_reach_the_server(new: House, action: Any) -> None:
    run = await new.orders()
    question = await new.one(run)
    await new.runs.answer(run, [Answer(question=question.id, action=action)])
    assert await new.output(run) == f"shirt: {{'action': '{action}'}}"


@pytest.mark.slow
async def test_a_server_gets_all_that_it_needs_at_once(stdio: House) -> None:
    run = await stdio.calls("paint")
    colour, size = await stdio.asked(run, 2)
    await stdio.answer(run, {"colour": "red"}, colour)
    await stdio.answer(run, {"size": 3}, size)
    assert await stdio.output(run) == "red in 3"
    assert (await stdio.types(run)).count("tool.called") == 2


@pytest.mark.slow
async def test_one_need_after_the_other_under_the_same_key(stdio: House) -> None:
    run = await stdio.calls("twice")
    assert await stdio.answered(run, {"name": "Ada"}, {"name": "Byron"}) == [
        "asking asks: Your first name?",
        "asking asks: Your last name?",
    ]
    assert await stdio.output(run) == "Ada Byron"


@pytest.mark.slow
async def test_a_server_that_only_wants_to_be_called_again_is(stdio: House) -> None:
    assert await stdio.output(await stdio.calls("later")) == "3"


@pytest.mark.slow
async def test_an_answer_counts_although_the_server_has_forgotten_its_state(stdio: House) -> None:
    run = await stdio.calls("paint")
    colour, size = await stdio.asked(run, 2)
    os.kill(int(await stdio.servers.call("asking", "process", {})), signal.SIGKILL)
    await stdio.answer(run, {"colour": "red"}, colour)
    await stdio.answer(run, {"size": 3}, size)
    assert await stdio.output(run) == "red in 3"


@pytest.mark.slow
async def test_a_question_outlives_the_worker_and_histories(stdio: House) -> None:
    turns = [turn(call("asking_later")), turn(call("asking_later")), turn(call("asking_paint")), LAST]
    text = agent(stdio, turns, tools=["mcp:asking"])
    run = await stdio.start(text, "Go", history_limits=HistoryLimits(rounds=1))
    colour, size = await stdio.asked(run, 2)
    await stdio.answer(run, {"colour": "red"}, colour)
    assert len(await stdio.histories(run)) > 2
    await stdio.working.aclose()
    await stdio.start_worker()
    await stdio.answer(run, {"size": 3}, size)
    assert await stdio.output(run) == "red in 3"


@pytest.mark.slow
async def test_a_page_is_shown_as_a_link_that_a_person_has_opened(stdio: House) -> None:
    run = await stdio.calls("pay", url="https://pay.example/?a=1")
    question = await stdio.one(run)
    assert (question.kind, question.asked.link, question.info["host"]) == (
        "decision",
        "https://pay.example/?a=1",
        "pay.example",
    )
    await stdio.answer(run, "yes", question)
    assert await stdio.output(run) == "accept None"


@pytest.mark.slow
async def test_a_page_that_nobody_opens_is_declined(stdio: House) -> None:
    run = await stdio.calls("pay", url="https://pay.example/")
    await stdio.answer(run, "no")
    assert await stdio.output(run) == "decline None"


@pytest.mark.slow
async def test_what_people_cannot_be_given_fails_the_call_with_its_place(stdio: House) -> None:
    schema = {"type": "object", "properties": {"password": {"type": "string"}}}
    said = await stdio.output(await stdio.calls("form", schema=schema))
    assert "elicitation 'form': requestedSchema.properties.password: it asks for a secret in a form" in said


@pytest.mark.slow
@EITHER
async def test_an_older_server_hears_the_answer_in_the_middle_of_its_call(
    old: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Key("ops", "a key of the deployment")
    monkeypatch.setattr(DEPLOYMENT, "keys", [key])
    old.runs = Runs(old.client, old.runs.task_queue, Answering(keys=[key]))
    run = await old.orders()
    question = await old.one(run)
    assert (question.message, question.deadline is None) == ("asking asks: Which size?", False)
    assert question.address.endswith("tool:asking_order:1;elicitation:1")
    await old.answer(run, {"size": 4, "note": "é"}, question)
    assert await old.output(run) == "shirt: {'action': 'accept', 'data': {'size': 4, 'note': 'é'}}"
    assert (await old.types(run)).count("tool.called") == 1


@pytest.mark.slow
@EITHER
async def test_an_older_server_asks_for_each_of_several_calls(old: House) -> None:
    folder = str(old.folder)
    calls = [call("asking_order", item=item, folder=folder) for item in ("shirt", "hat")]
    said = "{{ messages[-2].content }} {{ messages[-1].content }}"
    run = await old.start(agent(old, [turn(*calls), said], tools=["mcp:asking"]), "Go")
    shirt, hat = await old.asked(run, 2)
    await old.answer(run, {"size": 1}, shirt)
    await old.runs.answer(run, [Answer(question=hat.id, action="decline")])
    assert "'size': 1" in (said := await old.output(run)) and "hat: {'action': 'decline'}" in said


@pytest.mark.slow
async def test_an_older_server_is_told_after_a_while_that_nobody_answers(
    old: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_asking, "ELICITATION_SECONDS", 1.0)
    run = await old.orders()
    assert await old.output(run) == "shirt: {'action': 'cancel'}"
    assert "question.expired" in await old.types(run)


@pytest.mark.slow
async def test_a_run_that_is_cancelled_while_an_older_server_asks_ends(old: House) -> None:
    run = await old.orders()
    await old.one(run)
    await old.runs.control.cancel(run)
    assert (await old.result(run)).status == "cancelled"
    assert old.ordered() == []


@pytest.mark.slow
async def test_an_older_server_that_needs_a_page_first_is_called_again(old: House) -> None:
    run = await old.calls("connect", folder=str(old.folder))
    question = await old.one(run)
    assert question.asked.link == "https://sign.example/in"
    (old.folder / "connected").touch()
    await old.answer(run, "yes", question)
    assert await old.output(run) == "connected"


@pytest.mark.slow
@EITHER
async def test_a_worker_lost_while_an_older_server_asks_leaves_the_outcome_to_a_person(old: House) -> None:
    run = await old.orders()
    question = await old.one(run)
    await old.servers.close()  # its process ends, as with the worker
    lost = await until(lambda: old.question_other_than(run, question))
    assert "was lost" in lost.message
    await old.answer(run, "fail", lost)
    assert (await old.result(run)).error.type == "outcome_unknown"


@pytest.mark.slow
async def test_a_server_that_cannot_ask_by_its_protocol_gets_another_once_a_person_says_so(stdio: House) -> None:
    run = await stdio.calls("book", folder=str(stdio.folder))
    lost = await stdio.one(run)
    assert 'protocol = "2025-11-25" in [mcp.asking]' in lost.message
    assert stdio.ordered() == ["begun"]  # nothing is called again before a person has looked
    await stdio.answer(run, "retry", lost)

    async def asked() -> bool:
        return [one.message for one in await stdio.runs.questions(run)] == ["asking asks: Which seat?"]

    await until(asked, "the server's question")
    await stdio.answer(run, {"size": 3}, (await stdio.runs.questions(run))[0])
    assert await stdio.output(run) == "accept 3"
    assert stdio.ordered() == ["begun", "begun", "booked"]


@pytest.mark.slow
async def test_a_call_that_may_run_twice_goes_on_in_the_other_protocol_by_itself(stdio: House) -> None:
    run = await stdio.calls("reserve", {"idempotent": True})

    async def asked() -> bool:
        return [one.message for one in await stdio.runs.questions(run)] == ["asking asks: Which seat?"]

    await until(asked, "the server's question")
    await stdio.answer(run, {"size": 3}, (await stdio.runs.questions(run))[0])
    assert await stdio.output(run) == "accept"


@pytest.mark.slow
async def test_a_server_can_ask_by_the_protocol_that_its_configuration_names(
    temporal: Client, replays: Replays, tmp_path: Path, request: Any
) -> None:
    node = request.node.nodeid
    async with house_with("stdio", temporal, replays, tmp_path, node, "2025-11-25") as house:
        run = await house.calls("book", folder=str(house.folder))

        async def asked() -> bool:
            return [one.message for one in await house.runs.questions(run)] == ["asking asks: Which seat?"]

        await until(asked, "the server's question")
        await house.answer(run, {"size": 3}, (await house.runs.questions(run))[0])
        assert await house.output(run) == "accept 3"
        assert house.ordered() == ["begun", "booked"]


@pytest.mark.slow
async def test_a_version_that_nobody_knows_is_told_with_those_that_are(
    temporal: Client, replays: Replays, tmp_path: Path, request: Any
) -> None:
    async with house_with("stdio", temporal, replays, tmp_path, request.node.nodeid, "2019-01-01") as house:
        with pytest.raises(ApplicationError, match="'2019-01-01' is not a version.*2025-11-25"):
            await house.servers.tools("asking")
