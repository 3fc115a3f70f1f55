"""`holdfast plan`: what it shows of a plan under way and of one that is over, and changing what is left."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.client.command import TONE, Holdfast, Ran

PLAN = {
    "goal": "Tell the guests",
    "agent": "echo",
    "steps": [
        {"id": "1", "instruction": "List", "title": "List the guests"},
        {"id": "4", "instruction": "Write to CURRENT_ITEM"},
        {"id": "5", "instruction": "CONFIRM_ACTION: Send RESULT_FROM_4?"},
        {"id": "6", "instruction": "Thank RESULT_FROM_1", "dependencies": ["guests"]},
        {"id": "7", "instruction": "Complain", "condition": "RESULT_FROM_6 contains nobody"},
    ],
    "loop_blocks": {"guests": {"over": ["ana", {"name": "bob"}], "steps": ["4", "5"], "dependencies": ["1"]}},
}
FAILING = {
    "goal": "Fail",
    "agent": "echo",
    "steps": [
        {"id": "1", "instruction": "List"},
        {"id": "2", "instruction": "Do it", "condition": "RESULT_FROM_1 > 5"},
        {"id": "3", "instruction": "RESULT_FROM_2"},
    ],
}
TWO = """
name: two
agents: {clerk: {model: echo}}
steps:
  - {kind: plan, name: one, plan: {goal: First, agent: clerk, steps: [{id: "1", instruction: Say it}]}}
  - {kind: plan, name: other, plan: {goal: Second, agent: clerk, steps: [{id: "1", instruction: "ASK_INFO: Who?"}]}}
"""
AGREED = """
name: agreed
agents: {clerk: {model: echo}}
steps:
  - {kind: plan, name: mine, plan: {goal: Tea, confirm: true, agent: clerk, steps: [{id: "1", instruction: Boil}]}}
"""
DRIVEN = """
name: driven
steps:
  - kind: plan
    name: go
    plan:
      driver: agent
      agent: {model: "scripted:driven-replies.yaml"}
      goal: Tell
      steps:
        - {id: "4", instruction: "CONFIRM_ACTION: Send CURRENT_ITEM?"}
        - {id: "6", instruction: Say it, dependencies: [guests]}
      loop_blocks: {guests: {over: [ana], steps: ["4"]}}
"""
DRIVING = """
- {tool_calls: [{name: start_loop, args: {loop_id: guests}}]}
- {tool_calls: [{name: request_user_info, args: {question: "Send to ana?"}}]}
- {tool_calls: [{name: finish_step, args: {step_id: "4", result_summary: sent}}]}
- {tool_calls: [{name: advance_loop, args: {loop_id: guests}}]}
- {tool_calls: [{name: finish_step, args: {step_id: "6", result_summary: said}}]}
"""


@pytest.fixture(scope="module")
def waiting(holdfast: Holdfast) -> str:
    """A run whose plan asks about its first guest."""
    return park(holdfast)


def park(holdfast: Holdfast) -> str:
    return str(holdfast.park(json.dumps(PLAN))["run"])


def changed(holdfast: Holdfast, run: str, **texts: str) -> dict[str, Any]:
    """The plan as it is now, with other instructions."""
    plan = dict(holdfast("plan", run, "--json").json["plan"])
    ids = {f"step_{step['id']}": step for step in plan["steps"]}
    for id_, text in texts.items():
        ids[id_]["instruction"] = text
    return plan


def send(holdfast: Holdfast, run: str, plan: Any, *words: str) -> Ran:
    return holdfast("plan", run, "--file", holdfast.write("new-plan.json", json.dumps(plan)), *words)


def editing(holdfast: Holdfast, script: str) -> Holdfast:
    """The command with an editor that does this to the file, and nothing else."""
    file = holdfast.folder / "editor.py"
    file.write_text(f"import sys, pathlib\nfile = pathlib.Path(sys.argv[1])\ntext = file.read_text()\n{script}")
    return holdfast.having(VISUAL="", EDITOR=f"python3 {shlex.quote(str(file))}")


def kept_file(ran: Ran) -> Path:
    return Path(ran.err.partition("your text is in ")[2].partition(";")[0])


@pytest.mark.slow
def test_a_plan_under_way_is_shown_with_the_items_of_its_loops(holdfast: Holdfast, waiting: str) -> None:
    lines = holdfast("plan", waiting).out.splitlines()
    assert lines == [
        f"{waiting}  pipeline:parked;plan:plan  running  revision 1",
        "Tell the guests",
        "  ✓ 1  List the guests  'List'",
        '  ▸ guests  for each of ["ana",{"name":"bob"}]',
        "    1: 'ana'",
        "      ✓ 4  'Write to ana'",
        "      ? 5  waits for a person",
        "  ○ 6  Thank RESULT_FROM_1",
        "  ○ 7  Complain",
    ]


def test_the_same_as_json(holdfast: Holdfast, waiting: str) -> None:
    told = holdfast("plan", waiting, "--json").json
    assert (told["run"], told["address"], told["revision"], told["status"]) == (
        waiting,
        "pipeline:parked;plan:plan",
        1,
        "running",
    )
    assert set(told["plan"]) == {"goal", "steps", "loop_blocks"}
    assert {id_: one["status"] for id_, one in told["steps"].items()} == {
        "1": "completed",
        "4": "running",
        "5": "running",
        "6": "pending",
        "7": "pending",
    }
    [item] = told["loops"]["guests"]["iteration_results"]
    assert (item["index"], item["item"], item["status"]) == (0, "ana", "running")
    assert item["steps"] == {
        "4": {"status": "completed", "output": "Write to ana"},
        "5": {"status": "waiting_input"},
    }


@pytest.mark.slow
def test_what_is_left_is_changed_and_the_run_goes_on_with_it(holdfast: Holdfast) -> None:
    run = park(holdfast)
    done = send(holdfast, run, changed(holdfast, run, step_7="Nothing"), "--reason", "too harsh", "--by", "bob")
    assert (done.code, done.err) == (0, f"the plan of {run} is at revision 2\n"), done
    ended = holdfast("attach", run, typed="accept\nrefuse\n")
    assert ended.code == 0, ended
    lines = holdfast("plan", run).out.splitlines()
    assert lines[0].endswith("completed  revision 2")
    assert "      ✓ 5  'refuse' (cancelled)" in lines
    assert lines[-2:] == ["  · 7  Nothing  skipped: condition_false", "revision 2  user:bob  too harsh"]
    late = send(holdfast, run, PLAN, "--json")
    assert (late.code, late.json["error"]["type"]) == (4, "run_closed")


def test_a_refused_change_tells_every_problem_and_keeps_what_was_written(holdfast: Holdfast, waiting: str) -> None:
    wrong = {"goal": "x", "steps": [{"id": "1", "instruction": "RESULT_FROM_9"}, {"id": "1"}]}
    refused = holdfast("plan", waiting, "--file", "-", typed=json.dumps(wrong))
    assert refused.code == 4
    assert "steps[0].instruction: there is no step or loop '9'" in refused.err
    assert "steps[1].id: the id '1' is taken" in refused.err
    file = kept_file(refused)
    assert json.loads(file.read_text()) == wrong
    file.unlink()


@pytest.mark.slow
def test_what_has_begun_stays(holdfast: Holdfast, waiting: str) -> None:
    refused = send(holdfast, waiting, changed(holdfast, waiting, step_1="Other", step_4="Other"))
    assert refused.code == 4
    assert "steps[0]: '1' has begun or ended" in refused.err
    assert "steps[1]: '4' has begun or ended" in refused.err
    assert kept_file(refused) == Path("new-plan.json")


@pytest.mark.slow
def test_the_printed_state_of_a_plan_is_no_plan_and_the_way_out_is_told(holdfast: Holdfast, waiting: str) -> None:
    refused = send(holdfast, waiting, holdfast("plan", waiting, "--json").json)
    assert (refused.code, "send the value of its key `plan`" in refused.err) == (4, True)


def test_what_is_no_json_is_refused_too(holdfast: Holdfast, waiting: str) -> None:
    refused = holdfast("plan", waiting, "--file", holdfast.write("broken.json", "{'a"), "--json")
    assert (refused.code, refused.json["error"]["type"]) == (4, "invalid_answer")
    assert "this is not JSON" in refused.json["error"]["message"]


@pytest.mark.slow
def test_a_plan_is_changed_in_an_editor(holdfast: Holdfast) -> None:
    run = park(holdfast)
    edited = editing(holdfast, "file.write_text(text.replace('Complain', 'Sing'))")
    done = edited("plan", run, "--edit", "--reason", "nicer", "--json")
    assert (done.code, done.json) == (0, {"run": run, "address": "pipeline:parked;plan:plan", "revision": 2}), done
    assert "○ 7  Sing" in holdfast("plan", run).out
    file = Path(done.err.partition("editing ")[2].partition(";")[0])
    assert not file.exists()


@pytest.mark.slow
def test_what_was_edited_in_vain_is_kept(holdfast: Holdfast, waiting: str) -> None:
    edited = editing(holdfast, "file.write_text(text.replace('List', 'Count'))")
    refused = edited("plan", waiting, "--edit")
    assert (refused.code, "'1' has begun or ended" in refused.err) == (4, True), refused
    file = kept_file(refused)
    assert '"Count"' in file.read_text()
    file.unlink()


@pytest.mark.slow
def test_a_change_made_meanwhile_is_not_undone(holdfast: Holdfast) -> None:
    run = park(holdfast)
    other = holdfast.write("meanwhile.json", json.dumps(changed(holdfast, run, step_7="Sing")))
    words = [*holdfast.command(("plan", run, "--file", other))]
    script = f"import subprocess\nsubprocess.run({words!r}, check=True)\nfile.write_text(text.replace('Thank', 'Hug'))"
    refused = editing(holdfast, script)("plan", run, "--edit")
    assert (refused.code, "at revision 2 by now, not 1" in refused.err) == (4, True), refused
    kept_file(refused).unlink()


@pytest.mark.slow
def test_an_editor_that_changes_nothing_changes_nothing(holdfast: Holdfast, waiting: str) -> None:
    same = editing(holdfast, "")("plan", waiting, "--edit")
    assert (same.code, "No changes." in same.err) == (0, True)
    given_up = editing(holdfast, "sys.exit(1)")("plan", waiting, "--edit")
    assert (given_up.code, "ended with code 1" in given_up.err) == (2, True)


def test_without_an_editor_the_way_out_is_told(holdfast: Holdfast, waiting: str) -> None:
    ran = holdfast.having(VISUAL="", EDITOR="")("plan", waiting, "--edit")
    assert (ran.code, "--file NEW.json" in ran.err) == (2, True)


@pytest.mark.slow
def test_a_run_with_several_plans_says_their_addresses(holdfast: Holdfast) -> None:
    run = holdfast.park(TWO)["run"]
    several = holdfast("plan", run)
    assert (several.code, several.out) == (2, "")
    assert "name one with --plan: pipeline:two;plan:one, pipeline:two;plan:other" in several.err
    assert "? 1  Who?  waits for a person" in holdfast("plan", run, "--plan", "other").out
    over = send(holdfast, run, {"goal": "x", "steps": [{"id": "1", "instruction": "x"}]}, "--plan", "one")
    assert (over.code, "the plan has ended (completed)" in over.err) == (4, True)
    assert "it has " in holdfast("plan", run, "--plan", "third").err


@pytest.mark.slow
def test_a_plan_that_is_not_agreed_on_is_changed_by_the_answer(holdfast: Holdfast) -> None:
    run = holdfast.park(AGREED)["run"]
    assert "waits for approval: holdfast attach" in holdfast("plan", run).out
    early = send(holdfast, run, {"goal": "x", "steps": [{"id": "1", "instruction": "x"}]})
    assert (early.code, "not approved yet" in early.err) == (4, True)


@pytest.mark.slow
def test_a_loop_that_an_agent_works_on_takes_the_change(holdfast: Holdfast) -> None:
    holdfast.write("driven-replies.yaml", DRIVING)
    run = holdfast.park(DRIVEN)["run"]
    assert holdfast("plan", run, "--json").json["workflow"] == f"{run}/plan:go;loop:guests"
    done = send(holdfast, run, changed(holdfast, run, step_6="Say it loud"))
    assert done.code == 0, done
    assert holdfast("attach", run, typed="accept\n").code == 0
    lines = holdfast("plan", run).out.splitlines()
    assert lines[2:] == [
        '  ✓ guests  for each of ["ana"]',
        "    1: 'ana'",
        "      ✓ 4  'accept' (confirmed)",
        "  ✓ 6  Say it loud  'said'",
        "revision 2  user:ana",
    ]


@pytest.mark.slow
def test_a_change_that_was_taken_is_shown_after_the_run_was_cancelled_in_a_loop(holdfast: Holdfast) -> None:
    holdfast.write("driven-replies.yaml", DRIVING)
    run = holdfast.park(DRIVEN)["run"]
    assert send(holdfast, run, changed(holdfast, run, step_6="Say it loud")).code == 0
    assert holdfast("cancel", run).code == 0
    holdfast("result", run, "--wait")
    lines = holdfast("plan", run).out.splitlines()
    assert "Say it loud" in lines[-2]
    assert lines[-1] == "revision 2  user:ana"


def test_a_run_without_a_plan_and_an_unknown_run_are_told(holdfast: Holdfast) -> None:
    run = holdfast.park(TONE)["run"]
    assert "has no plan" in (ran := holdfast("plan", run)).err
    assert (ran.code, holdfast("plan", "nobody").code) == (2, 2)


@pytest.mark.parametrize("words", [["--reason", "x"], ["--by", "bob"], ["--edit", "--file", "x.json"]])
def test_options_that_do_not_go_together_are_told(holdfast: Holdfast, words: list[str]) -> None:
    assert holdfast("plan", "any", *words).code == 2


@pytest.mark.slow
def test_a_failed_plan_gives_what_its_steps_gave(holdfast: Holdfast) -> None:
    ran = holdfast("run", holdfast.write("failing.json", json.dumps(FAILING)), "--id", "failing-plan")
    assert ran.code == 1
    assert "  completed: 1\n  failed: 2\n  skipped: 3 (dependency_failed)\n" in ran.err, ran.err
    result = holdfast("result", "failing-plan", "--json").json
    assert result["output"]["steps"]["1"]["response"] == "List"
    assert result["error"]["type"] == "plan_failed"
    assert "✗ 2  Do it  RESULT_FROM_1 > 5: " in holdfast("plan", "failing-plan").out
    shown = holdfast("show", "failing-plan").out
    assert "    · 3 RESULT_FROM_2  dependency_failed" in shown
    assert holdfast("show", "failing-plan", "--json").json["children"] == [
        {"workflow": "failing-plan/plan:plan", "status": "failed"}
    ]


def test_show_has_the_plan_with_its_steps_items_and_titles(holdfast: Holdfast, waiting: str) -> None:
    lines = holdfast("show", waiting).out.splitlines()
    assert lines[2:8] == [
        "  ? plan (plan)",
        "    ✓ 1 List the guests  'List'",
        '    ? guests for each of ["ana",{"name":"bob"}] (loop)',
        "      1: 'ana'",
        "        ✓ 4 Write to CURRENT_ITEM  'Write to ana'",
        "        ? 5 Send RESULT_FROM_4?",
    ]
