"""Where an author's code raises inside a plan is told as it is of an ordinary step."""

from typing import Any

import pytest

from holdfast.cli.plan_text import plan_text
from holdfast.cli.render import failure_text
from tests.plans import plan_tools
from tests.plans.conftest import DRIVERS, Plans, finish, loop, step


def failing_step(plans: Plans) -> dict[str, Any]:
    return step("1", tools=["plan_send_safely"], arguments={"log": str(plans.log), "to": "cook", "words": "closed"})


@pytest.mark.first_row
@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_tool_that_raises_names_its_line_in_run_plan_and_show(plans: Plans, driver: str) -> None:
    turns = [plans.runs("1", "plan_send_safely", to="cook", words="closed"), finish("1")]
    run = await plans.start({"steps": [failing_step(plans)], "driver": driver}, {"plan": turns})
    outcome, place = await plans.harness.result(run), f"{plan_tools.__file__}:"
    view = await plans.harness.runs.plans.read(run)
    [shown] = [one for one in view.step.below() if one.name == "1"]
    assert shown.error and shown.error.to_json()["raised_at"].startswith(place)
    assert outcome.error and (outcome.error.raised_at or "").startswith(place)
    assert view.to_json()["steps"]["1"]["error"]["raised_at"] == outcome.error.raised_at
    assert "  tests/plans/plan_tools.py:" in plan_text(view).plain
    assert "raised at tests/plans/plan_tools.py:" in failure_text("r", "failed", outcome.error)


@pytest.mark.slow
async def test_a_tool_that_raises_in_a_loop_names_its_line(plans: Plans) -> None:
    plan = {"steps": [failing_step(plans)], "loop_blocks": {"all": loop(["a"], "1")}}
    run = await plans.start(plan, {})
    outcome = await plans.harness.result(run)
    assert outcome.error and (outcome.error.raised_at or "").startswith(plan_tools.__file__)
    view = await plans.harness.runs.plans.read(run)
    assert "  tests/plans/plan_tools.py:" in plan_text(view).plain
