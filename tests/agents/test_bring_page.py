"""The page "Bring your agent", run as it is printed, and what is refused before a run starts."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client

from holdfast.activities import all_activities
from holdfast.activities.agent_objects.found import iterate_unsupported
from holdfast.blueprint.changes import with_model
from holdfast.blueprint.load import loads
from holdfast.worker import create_worker
from tests.conftest import Harness, Replays
from tests.repository import ROOT
from tests.team_agents import hooked

PAGE = (ROOT / "docs" / "bring-your-agent.md").read_text()
CODE = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", PAGE, re.S))
BLUEPRINTS = dict(re.findall(r"```yaml\nname: (\w+)\n(.*?)```", PAGE, re.S))
MODULES = ["helpers", "seers"]
REPLIES = """
- tool_calls: [{name: count_words, args: {text: a b c}}, {name: delete, args: {name: old.txt}}]
- {expect: old.txt is gone, tool_calls: [{name: final_result, args: {response: 3}}]}
"""


@pytest_asyncio.fixture
async def page(
    temporal: Client, replays: Replays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Harness]:
    """A worker that lists the page's modules."""
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(CODE[name])
    monkeypatch.syspath_prepend(tmp_path)
    harness = Harness(temporal, f"page-{tmp_path.name}", tmp_path)
    async with create_worker(temporal, task_queue=harness.runs.task_queue, activities=all_activities(MODULES, {})):
        yield harness
        replays.add(request.node.nodeid, await harness.recorded())
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.mark.slow
async def test_the_page_runs_as_it_is_printed(page: Harness) -> None:
    page.script(REPLIES)
    blueprint = with_model(page.load(BLUEPRINTS["bring"]), f"scripted:{page.folder}/replies.yaml")
    run = await page.runs.start(blueprint, "How long is it?")
    page.started.append(run)
    assert (await page.one(run)).message == "May delete be called?"
    await page.answer(run, {"granted": True})
    assert await page.output(run) == 3
    importlib.import_module("seers")
    run = await page.start(BLUEPRINTS["ask"], "Is it so?")
    assert await page.output(run) == "Is it so? Yes."


MISTAKES = {
    "from: 'tests.team_agents:suport', deps: 'tests.team_agents:bank'": ("unknown_agent", "did you mean 'support'?"),
    "from: 'tests.team_agents:support'": ("agent_unsupported", "name a function that gives them: deps"),
    "from: 'tests.team_agents:no_model'": ("agent_unsupported", "model: it has none"),
    "from: 'tests.team_agents:plain_add'": ("unknown_agent", "register it with @agent"),
    "from: 'tests.team_agents:not_an_agent'": (
        "unknown_agent",
        "is of type Foreign of tests; write a function with @agent that runs it",
    ),
    "from: 'tests.graphs:asking'": ("unknown_agent", "a graph of LangGraph; let a step use it as a tool: uses"),
    "from: 'pydantic_ai:Agent'": ("not_allowed", "the worker does not list this package"),
    "from: orakle": ("unknown_agent", "no agent 'orakle'"),
    "from: 'tests.team_agents:hooked'": ("agent_unsupported", "max_concurrency"),
    "from: 'tests.team_agents:bare', tools: [walk]": ("unknown_agent", "the agent has no tool 'walk'"),
    "from: 'tests.team_agents:plain', tools: [t_show]": ("unknown_agent", "did you mean 't_shown'?"),
    "from: 'tests.team_agents:plain', permissions: [{tool: shown, action: deny}]": ("unknown_agent", "'t_shown'?"),
    "from: prophet, instructions: Be short.": ("agent_unsupported", "'instructions': of no effect"),
    "from: 'tests.team_agents:bare', deps: 'tests.team_agents:bnk'": ("unknown_tool", "did you mean 'bank'?"),
}


@pytest.mark.first_row
@pytest.mark.parametrize("agent", MISTAKES)
async def test_what_the_worker_does_not_have_is_told_before_a_start(house: Harness, agent: str) -> None:
    blueprint = loads(f"agents: {{boss: {{{agent}}}}}\nsteps: [{{name: a, agent: boss}}]", name="x")
    [problem] = (await house.runs.look_up(blueprint)).problems
    code, text = MISTAKES[agent]
    assert (problem.code, text in problem.message) == (code, True), problem.message


def test_everything_that_cannot_be_carried_is_named_at_once() -> None:
    names = [text.partition(":")[0] for text in iterate_unsupported(hooked)]
    assert names == ["capabilities", "capabilities", "max_concurrency"]
