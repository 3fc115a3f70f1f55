"""Agents, stops and steering from the command line: `tell`, `edit`, `resume`, `--interrupt-before`, `--model`."""

from collections.abc import Callable

import pytest

from tests.client.command import Holdfast, Screen

Terminal = Callable[..., Screen]

CLERK = """
name: clerk
agents:
  clerk: {model: "scripted:clerk-replies.yaml", tools: [{name: agent:payer, approve: always}], human: [ask]}
  payer: {model: echo, description: Pays.}
steps: [{name: clerk, agent: clerk}]
"""
REPLIES = """
- {tool_calls: [{name: payer, args: {input: "120 EUR"}}]}
- {tool_calls: [{name: request_user_info, args: {question: "Anything else?"}}]}
- "{{ messages[2].content }}, {{ messages[-1].content }}"
"""
STEPS = """
name: steps
context: {n: 1}
steps:
  - {name: first, input: one}
  - {name: second, input: "{{ context.n }}"}
"""


def park(holdfast: Holdfast) -> dict:
    holdfast.write("clerk-replies.yaml", REPLIES)
    return holdfast.park(CLERK)


@pytest.mark.slow
def test_an_approval_is_printed_with_the_command_that_gives_it(holdfast: Holdfast) -> None:
    parked = park(holdfast)
    run, question = parked["run"], parked["questions"][0]["id"]
    assert f"holdfast answer {run} {question} yes" in holdfast("questions", run).out
    assert holdfast("answer", run, "yes but").code == 4
    assert holdfast("resume", run).code == 0  # never an approval
    assert holdfast("questions", run, "--json").json[0]["id"] == question
    said = holdfast("answer", run, "--content", '{"granted": true, "scope": "always"}')
    assert said.code == 0
    assert "permissions: [{tool: payer, action: allow}]" in said.err
    holdfast.rest(run)
    told = holdfast("tell", run, "Be quick.", "--json")
    assert told.json == {"run": run, "agent": "pipeline:clerk;agent:clerk"}
    assert holdfast("answer", run, "No").code == 0
    assert holdfast.rest(run)["output"] == "120 EUR, Be quick."
    tools = holdfast("show", run, "--json").json["trace"]["steps"][0]["steps"]
    assert [(span["name"], span["kind"], span["status"]) for span in tools] == [
        ("payer", "tool", "completed"),
        ("request_user_info", "tool", "completed"),
    ]
    assert holdfast("tell", run, "too late").code == 4


@pytest.mark.slow
def test_the_calls_of_an_agent_are_shown_with_what_became_of_them(holdfast: Holdfast) -> None:
    calls = ", ".join(f"{{name: {name}, args: {{input: x}}}}" for name in ("payer", "broken", "clown"))
    holdfast.write("clerk-replies.yaml", f"- {{tool_calls: [{calls}]}}\n- {{tool_calls: [{calls}]}}\n- done\n")
    broken = 'broken: {model: "scripted:nowhere.yaml"}'
    clerk = CLERK.replace("}], human", "}, agent:broken], human").replace("steps:", f"  {broken}\nsteps:")
    run = holdfast.park(clerk, "--no-check")["run"]  # else the script that is missing would be found before the start
    assert holdfast("answer", run, "yes").code == 0
    holdfast.rest(run)
    assert holdfast("answer", run, "--no", "once will do").code == 0
    assert holdfast.rest(run)["output"] == "done"
    tools = holdfast("show", run, "--json").json["trace"]["steps"][0]["steps"]
    told = {(span["name"], span["status"]): span for span in tools}
    assert told["payer", "completed"]["output"] == "x"
    assert told["payer", "denied"]["reason"] == "not approved: once will do"
    assert told["broken", "failed"]["error"]["message"].endswith("nowhere.yaml: No such file or directory")
    assert told["clown", "failed"]["error"]["type"] == "bad_call"
    seen = holdfast("show", run).out
    assert "✓ payer (tool)  'x'" in seen
    assert "✗ payer (tool)  not approved: once will do" in seen
    assert "✗ clown (tool)  there is no tool 'clown'" in seen


def test_a_run_stops_where_it_is_asked_to_and_goes_on_edited(holdfast: Holdfast) -> None:
    parked = holdfast.park(STEPS, "--interrupt-before", "second")
    assert (parked["questions"][0]["kind"], parked["questions"][0]["info"]) == ("checkpoint", {"n": 1})
    assert holdfast("edit", parked["run"], "--set", "n").code == 2
    python = holdfast("edit", parked["run"], "--set", "n=False")
    assert (python.code, "in JSON it is false" in python.err) == (2, True)
    unknown = holdfast("edit", parked["run"], "--set", "n=5", "--set", "m.b=text")
    assert (unknown.code, "m.b cannot be set to 'text'" in unknown.err, "it has n" in unknown.err) == (2, True, True)
    assert holdfast("edit", parked["run"], "--set", "n=5").code == 0
    assert holdfast.rest(parked["run"])["output"] == 5
    assert holdfast("edit", parked["run"], "--set", "n=6").code == 4


def test_resuming_goes_on_from_a_stop(holdfast: Holdfast) -> None:
    parked = holdfast.park(STEPS, "--interrupt-after", "first")
    assert "goes on: steps" in holdfast("resume", parked["run"]).err
    assert holdfast.rest(parked["run"])["output"] == 1
    assert "did you mean 'second'" in holdfast("run", "parked.yaml", "--interrupt-before", "secnd").err


@pytest.mark.slow
def test_of_two_stops_at_once_each_is_named_and_goes_on_by_itself(holdfast: Holdfast) -> None:
    branches = "branches: {a: [{name: one, input: x}], b: [{name: two, input: y}]}"
    text = f"context: {{n: 1}}\nsteps: [{{kind: parallel, name: both, {branches}}}]"
    parked = holdfast.park(text, "--interrupt-before", "one", "--interrupt-before", "two")
    run, stops = parked["run"], {question["id"]: question for question in parked["questions"]}
    assert sorted(stop["message"] for stop in stops.values()) == ["Stopped before one.", "Stopped before two."]
    refused = holdfast("edit", run, "--set", "n=2")
    asked = holdfast("questions", run).out
    assert refused.code == 2
    for id_, stop in stops.items():
        assert f"holdfast answer {run} {id_} --content null" in asked
        assert f"{id_} at {stop['address']}: {stop['message']}" in refused.err
    first, second = stops
    assert holdfast("answer", run, first, "--content", "null").code == 0
    assert [one["id"] for one in holdfast("questions", run, "--json").json] == [second]
    assert f"holdfast resume {run}" in holdfast("questions", run).out
    assert holdfast("resume", run).code == 0
    assert holdfast.rest(run)["status"] == "completed"


def test_another_model_may_be_asked(holdfast: Holdfast) -> None:
    holdfast.write("clerk-replies.yaml", REPLIES)
    ran = holdfast("run", holdfast.write("clerk.yaml", CLERK), "--input", "hello", "--model", "echo", "--json")
    assert (ran.code, ran.json["output"]) == (0, "hello")


@pytest.mark.slow
def test_a_person_at_a_terminal_approves_and_lets_a_stop_go_on(holdfast: Holdfast, at_terminal: Terminal) -> None:
    holdfast.write("clerk-replies.yaml", REPLIES)
    file = holdfast.write("clerk.yaml", CLERK)
    screen = at_terminal("run", file, "--id", "approved", "--interrupt-before", "clerk")
    screen.until("Stopped before clerk.")
    screen.until("Enter: go on")
    screen.until(">")
    screen.type("\r")
    screen.until("May payer be called?")
    screen.until("granted (yes | no):")
    screen.type("perhaps\r")
    screen.until("granted (yes | no):")
    screen.type("yes\r")
    screen.until("scope")
    screen.type("\r")
    screen.until("reason")
    screen.type("\r")
    screen.until("payer was called")
    screen.until("Anything else?")
    screen.until(">")
    screen.type("no\r")
    screen.until("120 EUR, no")
    assert screen.leave() == 0
