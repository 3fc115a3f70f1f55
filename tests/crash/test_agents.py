"""Kill -9 while an agent works: no request repeated that had a reply, no finished tool run again."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import yaml

from tests.activities.provider import Provider
from tests.conftest import Harness, until
from tests.crash.machines import Machines, asked, ended, more
from tests.tools import calls

pytestmark = pytest.mark.slow


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[Provider]:
    async with Provider() as provider:
        yield provider


async def begun(machines: Machines, provider: Provider, *tools: object) -> tuple[Harness, str]:
    house = await machines.house()
    machines.imports = "tests.tools,tests.interrupting"
    machines.start_worker()
    agent = {"model": f"openai-compatible:m@{provider.url}", "tools": list(tools), "human": ["ask"]}
    run = await house.start(
        yaml.safe_dump({"agents": {"boss": agent}, "steps": [{"name": "boss", "agent": "boss"}]}), "Go"
    )
    return house, run


async def test_a_worker_killed_while_an_agents_question_waits_and_after_the_answer(
    machines: Machines, provider: Provider
) -> None:
    folder = str(machines.folder)
    provider.calls(("look_up", {"folder": folder, "word": "a"}))
    provider.calls(("request_user_info", {"question": "Red?"}))
    provider.calls(("book", {"folder": folder, "flight": "F"}))
    provider.text("all done")
    house, run = await begun(machines, provider, "look_up", "book")
    await asked(house, run, "Red?")
    machines.restart_worker()
    await asked(house, run, "Red?")
    before = await ended(house, run)
    await house.answer(run, "yes")
    await more(house, run, than=before, by=2)
    machines.restart_worker()
    await asked(house, run, "Which seat on F?")
    machines.restart_worker()
    await asked(house, run, "Which seat on F?")
    await house.answer(run, "1A")
    assert await house.output(run) == "all done"
    assert len(provider.requests) == 4
    assert (calls(machines.folder, "look_up-a"), calls(machines.folder, "book")) == (1, 2)
    said = [message["content"] for message in provider.requests[-1].messages if message["role"] == "tool"]
    assert said == ["a 1", "yes", "F 1A 40"]
    await house.replay()


JUDGED = {
    "done": ({"outcome": "done", "result": "by hand"}, 1),
    "retry": ({"outcome": "retry"}, 2),
}
"""What a person says of a call that was lost, and how often the tool is called."""


async def test_tools_of_an_agent_lost_in_mid_call_are_for_a_person_to_judge(
    machines: Machines, provider: Provider
) -> None:
    (machines.folder / "hang").touch()
    folder = str(machines.folder)
    hanging = [("hangs_once", {"folder": folder, "name": name}) for name in JUDGED]
    provider.calls(("look_up", {"folder": folder, "word": "a"}), *hanging)
    provider.text("all done")
    house, run = await begun(machines, provider, "look_up", "hangs_once")

    async def are_called() -> bool:
        return all(calls(machines.folder, name) == 1 for name in JUDGED) and "tool.returned" in await house.types(run)

    await until(are_called, "two calls to hang and the other tool to be done")
    machines.kill("worker")
    (machines.folder / "hang").unlink()
    machines.start_worker()
    for _ in JUDGED:
        question = await asked(house, run, "The result of hangs_once was lost")
        assert question.address == "pipeline:test;agent:boss;tool:hangs_once:" + question.address.rpartition(":")[2]
        await house.answer(run, JUDGED[question.info["input"]["name"]][0], question)
    assert await house.output(run) == "all done"
    assert {name: calls(machines.folder, name) for name in JUDGED} == {name: JUDGED[name][1] for name in JUDGED}
    assert len(provider.requests) == 2
    said = [message["content"] for message in provider.requests[-1].messages if message["role"] == "tool"]
    assert said[1:] == ["by hand", "done"]
    await house.replay()


async def test_a_request_lost_with_its_worker_is_made_again_and_those_before_it_are_not(
    machines: Machines, provider: Provider
) -> None:
    provider.calls(("look_up", {"folder": str(machines.folder), "word": "a"}))
    provider.hang()
    provider.text("all done")
    house, run = await begun(machines, provider, "look_up")
    await provider.asked(2)
    machines.restart_worker()
    assert await house.output(run) == "all done"
    assert (len(provider.requests), calls(machines.folder, "look_up-a")) == (3, 1)
    await house.replay()


async def test_an_agent_of_the_team_pays_nothing_twice_when_its_worker_is_killed(
    machines: Machines, provider: Provider
) -> None:
    machines.imports = "tests.tools,tests.team_agents"
    advice = {"advice": "Block it.", "block_card": True}
    provider.calls(("balance", {"pending": True}))
    provider.calls(("refund", {"amount": 5}), ("appraise", {"item": "ring"}))
    provider.calls(("final_result", advice))
    house = await machines.house()
    machines.start_worker()
    agent = {"from": "tests.team_agents:support", "deps": "tests.team_agents:bank"}
    agent |= {"model": f"openai-compatible:m@{provider.url}"}
    document = {"agents": {"boss": agent}, "steps": [{"name": "boss", "agent": "boss"}]}
    run = await house.start(yaml.safe_dump(document), f"{machines.folder} Ana")
    for message, content in (("appraise is done elsewhere", 900), ("May refund be called?", {"granted": True})):
        await asked(house, run, message)
        machines.restart_worker()
        question = await asked(house, run, message)
        before = await ended(house, run)
        await house.answer(run, content, question)
    await more(house, run, than=before, by=1)
    machines.restart_worker()
    assert await house.output(run) == advice
    made = {name: calls(machines.folder, name) for name in ("balance", "appraise", "greet")}
    assert (len(provider.requests), made) == (3, {"balance": 1, "appraise": 1, "greet": 1})
    await house.replay()
