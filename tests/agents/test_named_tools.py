"""Names of tools in a blueprint that only a run can look up: a misspelt one is told before anything is done."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.turns import call, team_agent, turn
from tests.conftest import Harness

ADMIN = {"permissions": [{"tool": "d_admin_reset", "action": "deny"}]}
MISSPELT: list[tuple[dict[str, Any], str]] = [
    ({"permissions": [{"tool": "d_admin_rest", "action": "deny"}]}, "agents.boss.permissions[0].tool"),
    ({"tools": [{"name": "d_admin_rest", "approve": "always"}]}, "agents.boss.tools[0].name"),
]
LATE = [turn(call("d_plain_add", a=1, b=2)), turn(call("d_admin_reset", reason="x"))]


@pytest.mark.slow
@pytest.mark.parametrize(("more", "place"), MISSPELT)
async def test_a_misspelt_tool_is_told_before_the_first_request(house: Harness, more: Any, place: str) -> None:
    run = await house.start(team_agent(house, ["never said"], "changing", **more), "Go")
    error = (await house.result(run)).error
    assert error is not None
    text = f"{place}: the agent has no tool 'd_admin_rest' (did you mean 'd_admin_reset'?); its tools are: "
    assert (error.type, text in error.message) == ("unknown_agent", True), error.message
    assert "model.replied" not in [event.type for event in await house.runs.watch.events(run)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["d_admin_reset", "tests.team_agents:changing/d_admin_reset"])
async def test_a_rule_for_a_tool_that_is_offered_later_is_kept(house: Harness, name: str) -> None:
    text = team_agent(house, [*LATE, "done"], "changing", permissions=[{"tool": name, "action": "deny"}])
    run = await house.start(text, "Go")
    assert await house.output(run) == "done"
    assert [event.type for event in await house.runs.watch.events(run)].count("tool.denied") == 1


@pytest.mark.slow
async def test_a_tool_of_a_function_of_the_run_may_be_named(house: Harness) -> None:
    script = [turn(call("shown", url="x:y")), "done"]
    run = await house.start(team_agent(house, script, "changing", tools=[{"name": "shown", "approve": "always"}]), "Go")
    assert await house.answered(run, {"granted": True}) == ["May shown be called?"]
    assert await house.output(run) == "done"


async def test_a_pattern_of_names_is_not_looked_up(house: Harness) -> None:
    text = team_agent(house, ["done"], "changing", permissions=[{"tool": "later_*", "action": "deny"}])
    assert await house.output(await house.start(text, "Go")) == "done"
