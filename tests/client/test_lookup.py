"""The look-up before a start: what a blueprint names is looked for on a worker, and nobody is asked before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

import tests.tools  # noqa: F401 importing them registers them
from holdfast.activities import AgentActivities, LookUpActivities, McpServers, ModelActivities, ToolActivities, tool
from holdfast.activities.mcp_servers import McpServer
from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.load import loads, parse_file
from holdfast.blueprint.parts import Requirement
from holdfast.blueprint.requirements import list_requirements
from holdfast.cli import lookup
from holdfast.client import worker_lookup
from holdfast.client.lookup import Checked, find_problems, make_request
from holdfast.client.runs import Runs
from holdfast.protocol.agents import ToolSpec
from holdfast.protocol.guard import DEPLOYMENT
from holdfast.protocol.lookup import LOOK_UP_WORKFLOW
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.embedded.server import find_temporal_binary
from tests.client.command import Holdfast
from tests.conftest import Harness, until, worker_for
from tests.repository import ROOT

NAMES = """
agents:
  good: {model: echo, tools: [counted]}
  nobody: {model: "no-such-alias"}
  keyless: {model: "openai:gpt-5.2", tools: ["mcp:files/read"]}
  unused: {model: "not-looked-at"}
steps:
  - {kind: hitl, name: ask, message: Go on?, assignees: [group:heads]}
  - {name: one, uses: look_upp}
  - {name: two, uses: "subprocess:getoutput"}
  - {name: three, agent: good}
  - {name: four, agent: nobody}
  - {name: five, agent: keyless}
  - kind: loop
    name: again
    loop:
      exit_condition: tests.language.functions:no_such
      max_loops: 2
      body: [{name: in, uses: stringify, on_error: {fallback: {name: plain, uses: no_fallback}}}]
"""


@pytest.fixture(autouse=True)
def waits_for_its_worker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is there may need more than a second on a busy machine."""
    if "house" in request.fixturenames:
        monkeypatch.setattr(worker_lookup, "START_SECONDS", 60.0)


async def test_everything_that_is_missing_is_told_at_its_place(house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found = await house.runs.look_up(house.load(NAMES))
    assert found.unchecked is None
    assert [(one.path, one.code) for one in found.problems] == [
        ("agents.nobody.model", "unknown_model"),
        ("agents.keyless.model", "model_auth"),
        ("agents.keyless.tools[0].name", "unknown_tool"),
        ("steps[0].assignees[0]", "unknown_group"),
        ("steps[1].uses", "unknown_tool"),
        ("steps[2].uses", "not_allowed"),
        ("steps[6].loop.exit_condition", "unknown_tool"),
        ("steps[6].loop.body[0].on_error.fallback.uses", "unknown_tool"),
    ]
    assert "did you mean 'look_up'?" in found.problems[4].message


async def test_a_group_that_a_sign_in_proves_need_not_be_in_the_file(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DEPLOYMENT, "sign_in_has_groups", True)
    found = await house.runs.look_up(house.load("steps: [{kind: hitl, name: ask, assignees: [group:payers]}]"))
    assert found.problems == []


async def test_nothing_starts_where_something_is_missing(house: Harness) -> None:
    blueprint = house.load("steps: [{kind: hitl, name: ask, message: Go on?}, {name: one, uses: look_upp}]")
    with pytest.raises(BlueprintError, match=r"steps\[1\].uses"):
        await house.runs.start(blueprint, run="never-begun", check=True)
    with pytest.raises(LookupError):
        await house.runs.state("never-begun")


async def test_what_is_there_is_no_problem(house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DEPLOYMENT, "groups", {"heads": ["user:max"]})
    house.script("one: hello")
    text = """
    agents: {a: {model: "scripted:replies.yaml", tools: [counted, "tests.tools:count", "agent:b"]}, b: {model: echo}}
    steps:
      - {kind: hitl, name: ask, message: Go on?, assignees: [group:heads], not_by: [requester, "group:heads"]}
      - {name: one, agent: a, input: "{{ steps.ask.output }}"}
    """
    found = await house.runs.look_up(house.load(text))
    assert (found.problems, found.unchecked) == ([], None)


async def test_imports_and_plans_are_looked_through(house: Harness, tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text("steps:\n  - {name: deep, uses: not_there}\n")
    (tmp_path / "plan.yaml").write_text(
        "goal: g\nsteps: [{id: a, instruction: Do it, tools: [zzz_qqq]}]\nagent: {model: echo}\n"
    )
    outer = "imports: {inner: ./inner.yaml, plan: ./plan.yaml}\n"
    outer += "steps: [{name: a, uses: imports.inner}, {name: b, uses: imports.plan}]\n"
    (tmp_path / "outer.yaml").write_text(outer)
    parsed = parse_file(tmp_path / "outer.yaml")
    assert parsed.blueprint is not None
    found = await house.runs.look_up(parsed.blueprint, parsed.problem)
    assert [(Path(one.file).name, one.line, one.path) for one in found.problems] == [
        ("inner.yaml", 2, "imports.inner.steps[0].uses"),
        ("plan.yaml", 2, "imports.plan.steps[0].plan.steps[0].tools[0]"),
    ]


async def test_a_plans_tool_that_the_worker_can_replace_is_no_problem(house: Harness) -> None:
    planned = "{id: a, instruction: Do it, tools: [look_upp], agent: {model: echo}}"
    plan = f"steps: [{{kind: plan, name: p, plan: {{goal: g, steps: [{planned}]}}}}]"
    assert (await house.runs.look_up(house.load(plan))).problems == []


@tool
def charge_card(amount: Annotated[int, Field(gt=0)], currency: Literal["EUR", "CHF"] = "EUR") -> None:
    """Charge an amount."""


@tool
def settle(day: date) -> None:
    """Settle what is open."""


@tool
def book_amounts(account: str, **amounts: int) -> None:
    """Book amounts on accounts."""


FIXED = """
steps:
  - {name: f, uses: book_amounts, arguments: {account: cash, rent: 700, food: much}}
  - {name: a, uses: charge_card, arguments: {amount: -5, currency: "{{ input }}"}}
  - {name: b, uses: charge_card, arguments: {amount: "7", currency: CHF}}
  - {name: c, uses: settle, input: tomorrow}
  - kind: block
    name: d
    steps: [{name: e, uses: settle, undo: {uses: charge_card, arguments: {amount: 1, currency: USD}}}]
  - kind: plan
    name: p
    plan:
      goal: g
      steps:
        - {id: x, tools: [charge_card], arguments: {amount: RESULT_FROM_y}}
        - {id: y, tools: [charge_card], arguments: {amount: 0}}
"""


class CountedServers(McpServers):
    """A server with one tool, which counts how often its tools are listed."""

    listed = 0

    async def tools(self, server: str) -> list[ToolSpec]:
        self.listed += 1
        parameters = {"type": "object", "properties": {"a": {"type": "integer"}}}
        return [ToolSpec(name="add", description="Add.", parameters=parameters, reference=f"mcp:{server}/add")]


async def test_the_tools_of_a_server_are_listed_once_for_all_that_is_fixed() -> None:
    servers = CountedServers({"sums": McpServer(url="http://127.0.0.1:1/mcp")})
    steps = [{"name": f"s{n}", "uses": "mcp:sums/add", "arguments": {"a": n}} for n in range(3)]
    worker = LookUpActivities(ToolActivities([], servers, {}), ModelActivities({}), servers, AgentActivities([], {}))
    needs = list_requirements(loads(json.dumps({"steps": steps})))
    found = await worker.find_missing(make_request(needs, connect=True))
    assert (found.missing, list(found.forms), servers.listed) == ([], ["mcp:sums/add"], 1)


async def test_what_a_tool_gets_in_any_case_is_judged_by_its_own_types() -> None:
    servers, blueprint = McpServers({}), loads(FIXED, name="fixed")
    worker = LookUpActivities(ToolActivities([], servers, {}), ModelActivities({}), servers, AgentActivities([], {}))
    needs = list_requirements(blueprint)
    found = await worker.find_missing(make_request(needs, connect=False))
    problems = find_problems(found, needs, worker_lookup.place_by_path(blueprint))
    assert [(one.path, one.code) for one in problems] == [
        ("steps[0].arguments.food", "tool_input"),
        ("steps[1].arguments.amount", "tool_input"),
        ("steps[3].input", "tool_input"),
        ("steps[4].steps[0].undo.arguments.currency", "tool_input"),
        ("steps[5].plan.steps[1].arguments.amount", "tool_input"),
    ]
    assert problems[1].message == "charge_card does not take this: amount: Input should be greater than 0"


@pytest.mark.slow
async def test_without_a_worker_the_run_starts_unchecked(temporal: Client) -> None:
    runs = Runs(temporal, f"nobody-{uuid.uuid4()}")
    blueprint = loads("steps: [{name: one, uses: look_upp}]", name="unchecked")
    found = await runs.look_up(blueprint)
    assert (found.problems, "no worker" in (found.unchecked or "")) == ([], True)
    run = await runs.start(blueprint, check=True)
    await temporal.get_workflow_handle(run).terminate()


async def test_a_blueprint_that_names_nothing_asks_nobody(temporal: Client) -> None:
    found = await Runs(temporal, "nobody-at-all").look_up(loads("steps: [{name: a, uses: stringify}]", name="n"))
    assert (found.problems, found.unchecked) == ([], None)


@pytest.mark.slow
async def test_a_server_without_standalone_activities_is_asked_by_a_short_workflow(tmp_path: Path) -> None:
    blueprint = loads("steps: [{name: one, uses: look_upp}]", name="old")
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=find_temporal_binary(),
        data_converter=DATA_CONVERTER,
        dev_server_extra_args=["--dynamic-config-value", "activity.enableStandalone=false"],
    ) as old:
        runs = Runs(old.client, "old")
        assert "no worker" in ((await runs.look_up(blueprint)).unchecked or "")
        async with worker_for(old.client, "old"):
            found = await runs.look_up(blueprint)
            assert [one.code for one in found.problems] == ["unknown_tool"]

            async def listed() -> list[str]:
                return [one.workflow_type async for one in old.client.list_workflows()]

            assert await until(listed, "the workflow in the list") == [LOOK_UP_WORKFLOW]


MISSPELT = "steps:\n  - {kind: hitl, name: ask, message: Go on?}\n  - {name: pay, uses: pay_invoce}\n"
TOOLS = """
from holdfast.activities import tool
print("imported")
@tool
def pay_invoice(text: str) -> str:
    return text
"""


@pytest.fixture
def project(tmp_path: Path) -> Holdfast:
    """A folder of its own, in which no server runs."""
    holdfast = Holdfast(tmp_path)
    holdfast.write("invoices.py", TOOLS)
    holdfast.write("holdfast.toml", '[worker]\nimports = ["invoices"]\n')
    return holdfast


@pytest.mark.parametrize("command", ["run", "start"])
def test_the_command_line_refuses_before_anybody_is_asked(holdfast: Holdfast, command: str) -> None:
    ran = holdfast(command, holdfast.write("pay.yaml", MISSPELT), "--json", "--id", f"refused-{command}")
    [problem] = ran.json["error"]["problems"]
    assert (ran.code, problem["line"], problem["code"]) == (2, 3, "unknown_tool")
    assert holdfast("show", f"refused-{command}").code == 2


def test_without_the_check_it_starts(holdfast: Holdfast) -> None:
    ran = holdfast("run", holdfast.write("pay.yaml", MISSPELT), "--json", "--no-check")
    assert (ran.code, ran.json["questions"][0]["message"]) == (3, "Go on?")


def test_warnings_are_printed_at_the_start(holdfast: Holdfast) -> None:
    text = "agents: {old: {model: echo}}\nsteps: [{name: a, uses: stringify}]\n"
    ran = holdfast("run", holdfast.write("old.yaml", text))
    assert (ran.code, "unused_agent" in ran.err) == (0, True)


@pytest.mark.slow
def test_validate_imports_the_packages_in_a_process_of_their_own(project: Holdfast) -> None:
    ran = project("validate", project.write("pay.yaml", MISSPELT), "--json")
    assert (ran.code, [one["code"] for one in ran.json["problems"]]) == (2, ["unknown_tool"])


@pytest.mark.slow
def test_validate_says_what_it_could_not_look_up(project: Holdfast) -> None:
    project.write("invoices.py", "import not_installed_here\n")
    ran = project("validate", project.write("pay.yaml", MISSPELT), "--json")
    assert (ran.code, "not_installed_here" in ran.json["not_checked"]) == (0, True)


@pytest.mark.slow
def test_a_key_that_is_not_set_on_this_machine_does_not_make_a_blueprint_wrong(project: Holdfast) -> None:
    project.environment.pop("OPENAI_API_KEY", None)
    ran = project("validate", project.write("m.yaml", 'steps: [{name: a, agent: {model: "openai:gpt-5.2"}}]'), "--json")
    assert (ran.code, "OPENAI_API_KEY" in ran.json["not_checked"]) == (0, True)


@pytest.mark.slow
def test_servers_are_reached_by_connect_only(project: Holdfast) -> None:
    config = '[worker]\nimports = ["invoices"]\n[mcp.files]\ncommand = ["false"]\n'
    project.write("holdfast.toml", config)
    text = 'steps: [{name: a, agent: {model: echo, tools: ["mcp:files/read"]}}]'
    assert project("validate", project.write("m.yaml", text)).code == 0
    assert project("validate", "m.yaml", "--connect").code == 2


@pytest.mark.slow
def test_the_packages_are_imported_once_for_all_files(project: Holdfast) -> None:
    project.write("invoices.py", f"{TOOLS}\nopen('imported', 'a').write('once ')\n")
    project.write("good.yaml", MISSPELT.replace("invoce", "invoice"))
    validated = project("validate", project.write("bad.yaml", MISSPELT), "good.yaml", "--json")
    assert [(problem["file"], problem["code"]) for problem in validated.json["problems"]] == [
        ("bad.yaml", "unknown_tool")
    ]
    assert (project.folder / "imported").read_text() == "once "


async def test_explain_looks_up_tools_alone_and_only_where_they_can_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []

    async def look_up(packages: object, names: Sequence[Requirement], placed: object) -> Checked:
        asked.extend(f"{name.kind} {name.name}" for name in names)
        return Checked()

    monkeypatch.setattr(lookup, "look_up_here", look_up)
    (tmp_path / "pay.yaml").write_text("agents: {a: {model: m, tools: [pay]}}\nsteps: [{name: s, agent: a}]")
    parsed = parse_file(tmp_path / "pay.yaml")
    assert await lookup.read_tool_facts(tmp_path / "pay.yaml", parsed) is None
    assert asked == []
    (tmp_path / "holdfast.toml").write_text('[worker]\nimports = ["tools"]\n')
    await lookup.read_tool_facts(tmp_path / "pay.yaml", parsed)
    assert asked == ["tool pay"]


NAMED = "from holdfast.{} import is_server_named as named; print(named())"


@pytest.mark.slow
@pytest.mark.parametrize("module", ["cli.lookup", "runtime.connection"])
def test_a_server_is_named_by_the_profiles_that_temporal_reads(module: str, tmp_path: Path) -> None:
    places = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    clean = {key: value for key, value in os.environ.items() if not key.startswith("TEMPORAL_")}

    def is_named() -> bool:
        command = [sys.executable, "-c", NAMED.format(module)]
        return subprocess.check_output(command, env=clean | places, text=True, cwd=ROOT) == "True\n"

    assert not is_named()
    (tmp_path / "config" / "temporalio").mkdir(parents=True)
    (tmp_path / "config" / "temporalio" / "temporal.toml").write_text('[profile.default]\naddress = "127.0.0.1:9"\n')
    assert is_named()


TYPED = """
imports:
  inner: {steps: [{name: far, uses: look_up, arguments: {folder: x, wrod: y}}]}
steps:
  - {name: word, uses: look_up, arguments: {folder: x, word: y}}
  - {name: paid, uses: pay_out, arguments: {folder: x, payee: y}}
  - {name: sum, input: "{{ steps.word.output * 2 }}"}
  - {name: text, input: "{{ steps.word.output.upper() }}"}
  - {name: any, input: "{{ steps.paid.output.anything }}"}
  - {name: in, uses: imports.inner}
"""


async def test_what_tools_take_and_give_is_checked_as_the_worker_knows_it(house: Harness) -> None:
    found = await house.runs.look_up(house.load(TYPED))
    assert sorted((one.path, one.code) for one in found.problems) == [
        ("imports.inner.steps[0].arguments", "bad_shape"),
        ("imports.inner.steps[0].arguments.wrod", "unknown_field"),
        ("steps[1].arguments", "bad_shape"),
        ("steps[2].input", "bad_shape"),
    ]
