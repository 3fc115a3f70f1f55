"""`holdfast schedule`: create, list, pause, resume, trigger, delete."""

import asyncio

import pytest

from holdfast.blueprint.json_values import JSONObject
from tests.client.command import TONE, Holdfast
from tests.conftest import until


@pytest.fixture
def daily(holdfast: Holdfast) -> str:
    file = holdfast.write("tone.yaml", TONE)
    made = holdfast("schedule", "create", "daily", file, "--cron", "0 9 * * 1-5", "--paused", "--json")
    assert (made.code, made.json) == (0, {"schedule": "daily"})
    return "daily"


def test_a_schedule_is_listed_until_it_is_deleted(holdfast: Holdfast, daily: str) -> None:
    async def listed() -> list[JSONObject]:
        rows = (await asyncio.to_thread(holdfast, "schedule", "list", "--json")).json
        return [row for row in rows if row["schedule"] == daily]

    [row] = asyncio.run(until(listed, "the schedule in visibility"))
    assert (row["blueprint"], row["last_run"]) == ("brief", None)
    assert holdfast("schedule", "resume", daily).err == "schedule daily is resumed\n"
    assert holdfast("schedule", "trigger", daily, "--json").json == {"schedule": daily, "status": "triggered"}
    assert holdfast("schedule", "pause", daily).code == 0
    assert holdfast("schedule", "delete", daily).code == 0
    assert holdfast("schedule", "delete", daily).code == 2


async def test_a_run_under_way_that_keeps_another_from_starting_is_named(holdfast: Holdfast, daily: str) -> None:
    async def refuse() -> str:
        again = await asyncio.to_thread(holdfast, "schedule", "trigger", daily)
        return again.err if again.code == 2 else ""

    assert (await asyncio.to_thread(holdfast, "schedule", "trigger", daily)).code == 0
    assert "starts nothing while its run daily-" in await until(refuse, "the run")
    assert (await asyncio.to_thread(holdfast, "schedule", "delete", daily)).code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "a schedule needs a time"),
        (["--every", "often"], "--every often"),
        (["--every", "1h", "--overlap", "both"], "--overlap both: unknown rule; known: skip"),
    ],
)
def test_a_mistake_is_told_with_its_option(holdfast: Holdfast, options: list[str], message: str) -> None:
    refused = holdfast("schedule", "create", "wrong", holdfast.write("tone.yaml", TONE), *options)
    assert refused.code == 2 and message in refused.err


def test_what_a_schedule_would_start_is_looked_up_first(holdfast: Holdfast) -> None:
    file = holdfast.write("missing.yaml", "steps: [{name: a, uses: no_such_tool}]")
    refused = holdfast("schedule", "create", "missing", file, "--every", "1h")
    assert refused.code == 2 and "no tool named 'no_such_tool'" in refused.err
