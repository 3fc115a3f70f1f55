"""Every workflow inside a run continues as new by the same rule, before its history gets long, and loses nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from holdfast.protocol.events import MapStarted
from tests.agents.turns import agent, call, turn
from tests.conftest import Harness
from tests.plans.conftest import Plans, finish, loop, plans, says, step  # noqa: F401
from tests.progress import limits

BOUNDED = [{"rounds": 2}, {"events": 20}, {"bytes": 3_000}, {"commands": 2}]
"""The first history is that of the run, which the agent is all of; the others are those of the agent's workflow."""


async def chain(house: Harness, run: str, below: str) -> int:
    """Return the number of histories of one workflow of a run."""
    histories = await house.histories(run)
    return sum(history.workflow_id == f"{run}/{below}" for history in histories)


def asking(house: Harness) -> str:
    turns: list[Any] = [turn(call("request_user_info", question=f"{n}?")) for n in range(4)]
    said = "{% for m in messages if m.role == 'tool' %}{{ m.content }} {% endfor %}"
    return agent(house, [*turns, said], human=["ask"])


def looping() -> str:
    body = [{"kind": "hitl", "name": "ask", "message": "{{ iteration }}?", "sink_to": "context.said"}]
    block = {"max_loops": 4, "on_max_loops": "finish", "checkpoint_every": 1_000, "body": body}
    return yaml.safe_dump({"steps": [{"kind": "loop", "name": "l", "loop": block}], "output": "{{ context.said }}"})


@pytest.mark.first_row
@pytest.mark.parametrize("bounded", BOUNDED, ids=lambda one: next(iter(one)))
async def test_an_agent_continues_by_whatever_limit_is_reached_first(house: Harness, bounded: dict[str, int]) -> None:
    run = await house.start(asking(house), "Go", history_limits=limits(**bounded))
    assert await house.answered(run, "a", "b", "c", "d") == ["0?", "1?", "2?", "3?"]
    assert await house.output(run) == "a b c d "
    assert await chain(house, run, "agent:boss") > 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "bounded", [{"events": 12}, {"bytes": 2_000}, {"commands": 2}], ids=lambda one: next(iter(one))
)
async def test_a_loop_continues_by_whatever_limit_is_reached_first(house: Harness, bounded: dict[str, int]) -> None:
    run = await house.start(looping(), history_limits=limits(**bounded))
    said = [word * 500 for word in "abcd"]
    assert await house.answered(run, *said) == ["1?", "2?", "3?", "4?"]
    assert await house.output(run) == "d" * 500
    assert await chain(house, run, "loop:l") > 1


@pytest.mark.slow
async def test_a_workflow_whose_state_alone_is_over_a_limit_still_gets_on(house: Harness) -> None:
    run = await house.start(asking(house), "Go", history_limits=limits(bytes=1))
    await house.answered(run, "a", "b", "c", "d")
    assert await house.output(run) == "a b c d "
    assert len(await house.histories(run)) == 5


@pytest.mark.slow
@pytest.mark.parametrize("bounded", [{"events": 20}, {"bytes": 3_000}], ids=lambda one: next(iter(one)))
async def test_a_plan_continues_between_its_steps(plans: Plans, bounded: dict[str, int]) -> None:  # noqa: F811
    ids = ["a", "b", "c", "d"]
    plan = {"steps": [step(id_, f"Say {id_}") for id_ in ids]}
    run = await plans.start(plan, says(*ids), history_limits=limits(**bounded))
    output = await plans.harness.output(run)
    assert [output["steps"][id_]["response"] for id_ in ids] == ["Say a", "Say b", "Say c", "Say d"]
    assert await chain(plans.harness, run, "plan:plan") > 1


async def test_a_loop_of_a_plan_continues_between_its_items(plans: Plans) -> None:  # noqa: F811
    plan = {"steps": [step("1", "CURRENT_ITEM")], "loop_blocks": {"all": loop(["x", "y", "z"], "1")}}
    run = await plans.start(plan, says("1"), history_limits=limits(rounds=1))
    output = await plans.harness.output(run)
    said = [one["steps"]["1"]["response"] for one in output["loops"]["all"]["iteration_results"]]
    assert said == ["x", "y", "z"]
    assert await chain(plans.harness, run, "plan:plan;loop:all") == 3


async def test_a_plan_that_an_agent_drives_continues_between_its_turns(plans: Plans) -> None:  # noqa: F811
    ids = ["a", "b", "c"]
    plan = {"driver": "agent", "steps": [step(id_) for id_ in ids]}
    run = await plans.start(plan, {"plan": [finish(id_, id_) for id_ in ids]}, history_limits=limits(rounds=1))
    output = await plans.harness.output(run)
    assert [output["steps"][id_]["response"] for id_ in ids] == ids
    assert await chain(plans.harness, run, "plan:plan") == 3


@pytest.mark.slow
async def test_a_map_runs_in_pages_of_the_items_that_one_history_holds(house: Harness) -> None:
    block = {"iterable_input": "input", "body": [{"name": "say", "input": "{{ item }}"}]}
    document = json.dumps({"steps": [{"kind": "map", "name": "m", "map": block}]})
    run = await house.start(document, list(range(7)), history_limits=limits(items=2))
    assert await house.output(run) == list(range(7))
    pages = [one.data.workflow for one in await house.runs.watch.events(run) if isinstance(one.data, MapStarted)]
    assert [page.partition("/map:m")[2] for page in pages] == [
        "",
        ";page:0-3",
        ";page:0-1",
        ";page:2-3",
        ";page:4-6",
        ";page:4-5",
        ";page:6-6",
    ]
