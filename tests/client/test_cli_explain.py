"""`explain` and `graph`."""

import json

import pytest

from tests.blueprint.flowchart import read_flowchart
from tests.client.command import LOOP, TONE, Holdfast


def test_explain_tells_people_and_programs(holdfast: Holdfast) -> None:
    file = holdfast.write("tone.yaml", TONE)
    people = holdfast("explain", file)
    assert (people.code, people.err) == (0, "")
    assert people.out.startswith("brief: Agree on a tone and a title.\n")
    programs = holdfast("explain", file, "--json").json
    assert list(programs) == ["blueprint", "text", "asks", "model_requests_at_most"]
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
