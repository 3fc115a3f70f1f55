"""`explain` and `graph`."""

import json
from pathlib import Path

import pytest

from tests.blueprint.flowchart import read_flowchart
from tests.client.command import LOOP, TONE, Holdfast


def test_explain_tells_people_and_programs(holdfast: Holdfast) -> None:
    file = holdfast.write("tone.yaml", TONE)
    people = holdfast("explain", file)
    assert (people.code, people.err) == (0, "")
    assert people.out.startswith("brief: Agree on a tone and a title.\n")
    programs = holdfast("explain", file, "--json").json
    assert list(programs) == ["blueprint", "text", "asks", "model_requests_at_most", "output"]
    assert (programs["blueprint"], programs["text"], programs["model_requests_at_most"]) == ("brief", people.out, 0)
    assert [(one["step"], one["kind"], one["choices"]) for one in programs["asks"]] == [
        ("tone", "decision", ["warm", "formal"]),
        ("title", "input", []),
    ]


def test_what_is_no_blueprint_is_told_with_its_places(holdfast: Holdfast) -> None:
    file = holdfast.write("none.yaml", "steps: [{name: a, wen: x}]")
    for command in ("explain", "graph"):
        told = holdfast(command, file)
        assert (told.code, told.out) == (2, "")
        assert "none.yaml:1:19 steps[0].wen: unknown key 'wen'" in told.err
    told = holdfast("explain", file, "--json").json["error"]
    assert (told["type"], told["problems"][0]["path"]) == ("blueprint_invalid", "steps[0].wen")


@pytest.mark.slow
def test_graph_draws_a_file_and_where_a_run_of_it_stands(holdfast: Holdfast) -> None:
    file = holdfast.write("loop.yaml", LOOP)
    plain = holdfast("graph", file)
    assert (plain.code, plain.err, read_flowchart(plain.out).classes) == (0, "", {})
    assert holdfast("run", file, "--id", "graph-waits", typed="one\n").code == 3
    holdfast.listed("graph-waits")
    chart = read_flowchart(holdfast("graph", file, "--run", "graph-w").out)
    assert (chart.state("more"), chart.labels[chart.id("clarify")]) == ("waiting", "clarify\niteration 2")
    other = holdfast("graph", holdfast.write("tone.yaml", TONE), "--run", "graph-waits")
    assert other.code == 0 and "is of blueprint talk, not brief" in other.err
    assert holdfast("graph", file, "--run", "graph-nobody").code == 2
    assert read_flowchart(holdfast("graph", "--run", "graph-w").out) == chart
    assert holdfast("graph").code == 2


PLAN = {
    "goal": "Préparer la réunion",
    "agent": "echo",
    "steps": [
        {"id": "1", "instruction": "Chercher une salle"},
        {"id": "2", "instruction": "CONFIRM_ACTION: Réserver RESULT_FROM_1 ?", "options": ["Oui", "Non"]},
    ],
}


@pytest.mark.slow
def test_a_plan_file_is_explained_and_drawn_like_a_blueprint(holdfast: Holdfast) -> None:
    file = holdfast.write("meeting.json", json.dumps(PLAN))
    told = holdfast("explain", file)
    assert (told.code, told.err) == (0, "")
    assert '1. plan: runs a plan: "Préparer la réunion".' in told.out
    [asked] = holdfast("explain", file, "--json").json["asks"]
    assert (asked["step"], asked["at"], asked["choices"]) == ("2", "1.2", ["Oui", "Non"])
    assert holdfast("run", file, "--id", "plan-waits").code == 3
    chart = read_flowchart(holdfast("graph", file, "--run", "plan-waits").out)
    assert [chart.state(name) for name in ("plan", "step 1", "step 2")] == ["running", "done", "waiting"]


TOOLS = """
from holdfast.activities import tool


@tool(approve="args.amount > 100", risk="high")
def refund(amount: int) -> str:
    \"\"\"Refunds an order.\"\"\"
    return "done"
"""
CLERK = """
agents: {clerk: {model: echo, tools: [refund]}}
steps: [{name: decide, uses: agents.clerk}, {name: pay, uses: refund, input: {amount: 5}}]
"""


@pytest.mark.slow
def test_the_approval_that_a_tools_owner_demands_is_named(tmp_path: Path) -> None:
    command = Holdfast(tmp_path)
    command.write("owned_refunds.py", TOOLS)
    file = command.write("clerk.yaml", CLERK)
    unknown = " ".join(command("explain", file).out.split())
    assert "their owners may demand approvals; only a worker shows which" in unknown
    command.write("holdfast.toml", '[worker]\nimports = ["owned_refunds"]\n')
    known = " ".join(command("explain", file).out.split())
    demand = "refund (if a person agrees where the call's amount is more than 100; risk: high)"
    assert f"It may call {demand}" in known
    assert f"Approvals that the owners of tools demand, wherever they are called: - {demand}." in known
    assert "only their code shows which" in known
    assert "if a person agrees" in command("graph", file).out


LOCAL = """
from holdfast import tool

@tool(idempotent=True, local=True)
def tidy(text: str) -> str:
    return " ".join(text.split())
"""


STOCK = """
from typing import Literal

from holdfast import tool
from pydantic import BaseModel

class Stock(BaseModel):
    count: int
    state: Literal["full", "low", "empty"]

@tool(reads_only=True)
def look_up(article: str) -> Stock:
    return Stock(count=3, state="low")
"""


@pytest.mark.slow
def test_what_a_tool_gives_is_told_where_it_can_be_asked(tmp_path: Path) -> None:
    command = Holdfast(tmp_path)
    command.write("owned_stock.py", STOCK)
    text = "steps: [{name: look, uses: look_up, input: nails}, {name: buy, when: output.state == 'low', input: more}]"
    file = command.write("stock.yaml", text)
    assert "It gives" not in command("explain", file).out
    command.write("holdfast.toml", '[worker]\nimports = ["owned_stock"]\n')
    told = " ".join(command("explain", file).out.split())
    assert "It gives an object with count (a whole number) and state ('full', 'low' or 'empty')." in told
    assert "State from the output of look is 'full', 'low' or 'empty'." in told


@pytest.mark.slow
def test_a_tool_that_is_called_in_the_workflows_task_is_named(tmp_path: Path) -> None:
    command = Holdfast(tmp_path)
    command.write("owned_words.py", LOCAL)
    command.write("holdfast.toml", '[worker]\nimports = ["owned_words"]\n')
    file = command.write("tidy.yaml", "steps: [{name: t, uses: tidy, input: {text: x}}]")
    told = " ".join(command("explain", file).out.split())
    assert "Called in the workflow's own task, and again if its worker is lost: tidy." in told
    once = command.write("once.yaml", "steps: [{name: t, uses: tidy, input: {text: x}, idempotent: false}]")
    assert "Called in the workflow's own task" not in command("explain", once).out
