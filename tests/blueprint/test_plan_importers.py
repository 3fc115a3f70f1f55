"""Texts of other planners become plans of ours, and say where they cannot."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.blueprint import BlueprintError, loads
from holdfast.blueprint.kinds import Plan
from holdfast.blueprint.load.plans import imported
from holdfast.blueprint.plan.notations import recognised

REWOO = """\
Task: Where was the winner born?
Plan: Search for the winner.
#E1 = Google[2024 Australian Open winner]

Plan: Name the winner, given #E1. #E12 = LLM[Who is it,
given #E1?]
Plan: Compare both.
#E3 = Calculator[items[0] of #E12 and #E1]
"""
LLM_COMPILER = """\
Thought: Both numbers are needed.
1. search("Ronaldo's number of kids (all)")
2. search("Messi")
12. math(
  "$1 * 2 + ${2}", context=["$2", "$1"])
Thought: I can answer now.
13. join()<END_OF_PLAN>
"""
HUGGING_GPT = """\
```json
[{"task": "image-to-text", "id": 0, "dep": [-1], "args": {"image": "/a.jpg"}},
 {"task": "text-to-speech", "id": 1, "dep": [0], "args": {"text": "<GENERATED>-0 or <resource-0>", "n": 3}},
 {"task": "summarise", "id": 10, "dep": [0, 1], "args": {"all": ["<resource>-1", "<GENERATED>-0"]}}]
```
"""
TEXTS = {"ReWOO": REWOO, "LLMCompiler": LLM_COMPILER, "HuggingGPT": HUGGING_GPT}


def steps_of(text: str) -> dict[str, dict[str, Any]]:
    return {step["id"]: step for step in imported(text)["steps"]}


def problems_of(text: str) -> list[str]:
    with pytest.raises(BlueprintError) as told:
        imported(text, file="p.txt")
    return [str(problem) for problem in told.value.problems]


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_recognised_and_becomes_a_plan_that_loads(name: str) -> None:
    assert recognised(TEXTS[name]) == name
    plan = imported(TEXTS[name], goal="A goal")
    [step] = loads(json.dumps(plan)).steps
    assert isinstance(step, Plan)
    assert (step.plan.goal, len(step.plan.steps)) == ("A goal", len(plan["steps"]))


@pytest.mark.parametrize(
    "text", ["", "[]", "Plan a trip", '{"goal": "x", "steps": []}', "1. Search (the web)", "[1, 2]"]
)
def test_what_is_no_such_text_is_not_recognised(text: str) -> None:
    assert recognised(text) is None
    assert problems_of(text)[0].startswith("p.txt:1:1: this is not a plan of ReWOO, LLMCompiler, HuggingGPT")


def test_rewoo_keeps_the_words_of_the_plan_and_the_input_up_to_its_last_bracket() -> None:
    steps = steps_of(REWOO)
    assert steps["E1"] == {
        "id": "E1",
        "instruction": "Search for the winner.\nCall Google with: 2024 Australian Open winner",
        "tools": ["Google"],
    }
    assert steps["E3"]["instruction"].endswith("Call Calculator with: items[0] of RESULT_FROM_E12 and RESULT_FROM_E1")
    assert steps["E3"]["dependencies"] == ["E12", "E1"]


def test_rewoos_model_is_a_step_without_tools() -> None:
    named = steps_of(REWOO)["E12"]
    assert named == {
        "id": "E12",
        "instruction": "Name the winner, given RESULT_FROM_E1.\nWho is it,\ngiven RESULT_FROM_E1?",
        "dependencies": ["E1"],
    }


def test_rewoo_may_write_several_calls_in_a_line() -> None:
    steps = steps_of("#E1 = Search[tea] #E2 = LLM[Sum up #E1]")
    assert (steps["E1"]["tools"], steps["E2"]["dependencies"]) == (["Search"], ["E1"])


def test_the_goal_is_the_callers_else_what_was_asked_else_a_default() -> None:
    assert imported(REWOO)["goal"] == "Where was the winner born?"
    assert imported(REWOO, goal="Mine")["goal"] == "Mine"
    assert imported(HUGGING_GPT)["goal"] == "Do what the steps say"


def test_llmcompiler_tells_1_from_12_and_joins_everything() -> None:
    steps = steps_of(LLM_COMPILER)
    assert steps["12"] == {
        "id": "12",
        "instruction": 'Call math with: "RESULT_FROM_1 * 2 + RESULT_FROM_2", '
        'context=["RESULT_FROM_2", "RESULT_FROM_1"]',
        "tools": ["math"],
        "dependencies": ["1", "2"],
    }
    assert steps["1"]["title"] == "Both numbers are needed."
    assert steps["1"]["instruction"] == 'Call search with: "Ronaldo\'s number of kids (all)"'
    assert steps["13"] == {
        "id": "13",
        "title": "I can answer now.",
        "instruction": "Answer from the results of the steps before.",
        "dependencies": ["1", "2", "12"],
    }
    assert list(steps_of("1. a()\njoin()")) == ["1", "join"]


def test_hugginggpt_refers_in_texts_and_in_lists() -> None:
    steps = steps_of(HUGGING_GPT)
    assert "dependencies" not in steps["0"]
    assert steps["1"]["instruction"] == "Call text-to-speech with\ntext: RESULT_FROM_0 or RESULT_FROM_0\nn: 3"
    assert steps["10"]["instruction"] == 'Call summarise with\nall: ["RESULT_FROM_1", "RESULT_FROM_0"]'
    assert steps["10"]["dependencies"] == ["0", "1"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Plan: a\nPlan: b\n#E1 = T[]", "1:7: nothing is done for the plan 'a' (write #E1 = Tool[input] below it"),
        ("#E1 = Google[x", "1:13: the input of Google has no end (close it with ])"),
        ("#E1 = T[x]\n#E2 = x", "2:1: '#E2 = x' calls nothing (write #E1 = Tool[input])"),
        ("#E1 = T[x]\nfoo", "2:1: 'foo' does not belong to such a plan (take it out)"),
        ("#E1 = T[#E7]", "1:9: #E7 is the result of no step (steps: E1)"),
        ("#E1 = T[#E1]", "1:9: #E1 is not available before this step has run"),
        ("#E1 = T[a]\n#E2 = T[#E1.name]", "2:9: #E1.name selects a part of a value"),
        ("1. a($100)\n2. b()", "1:6: $100 is the result of no step (steps: 1, 2; write an amount of money without"),
        ("1. a()\n2. b(x$1)", "2:7: $1 is part of the word 'x$1' (put a space"),
        ("1. a()\n2. b(${1}px)", "2:6: ${1} is part of the word '${1}p'"),
        ("1. a()\n2. join(", "2:8: the arguments of join have no end"),
        ("1. join()\n2. a()", "1:1: join() is not the last step (put it at the end)"),
        ("Sure!\n1. a()", "1:1: 'Sure!' does not belong to such a plan"),
        ("1. a()\njoin()<END_OF_PLAN>\nmore", "3:1: 'more' does not belong to such a plan"),
        ("1. a($2)\n2. b($1)", "1:1 steps[0].dependencies: these wait for each other: 1 -> 2 -> 1"),
        ("1. a()\n1. b()", "2:1 steps[1].id: the id '1' is taken"),
        ("1. a(CURRENT_ITEM)", "1:1 steps[0].instruction: CURRENT_ITEM is outside every loop"),
        ('[{"task": "a", "id": 0, "deps": [1]}]', "1:25 [0].deps: unknown key 'deps' (did you mean 'dep'?)"),
        ('[{"task": "a", "id": "x"}]', "1:22 [0].id: 'id' is a whole number, from 0"),
        ('[{"task": "", "id": 0}]', "1:11 [0].task: 'task' is the name of a tool"),
        ('[{"task": "a", "id": 0}, 3]', "1:26 [1]: a task is an object"),
        ('[{"task": "a", "id": 0, "dep": [4]}]', "1:32 [0].dep: 4 is not another task (known: 0)"),
        ('[{"task": "a", "id": 0, "args": []}]', "1:33 [0].args: 'args' is an object"),
        ('[{"task": "a", "id": 0, "args": {"t": "<GENERATED>-5"}}]', "1:39: <GENERATED>-5 is the result of no step"),
        ('[{"task": "a", "id": 0, "args": {"t": "<GENERATED>-x"}}]', "[0].args.t: '<GENERATED>-x' is not a reference"),
        ('[{"task": "a", "id": 0}', "1:24: invalid JSON"),
    ],
)
def test_what_cannot_be_read_is_told_with_place_value_and_way_out(text: str, told: str) -> None:
    assert any(told in problem for problem in problems_of(text)), problems_of(text)


def test_every_problem_is_told_at_once() -> None:
    assert len(problems_of("Sure!\n1. a($5)\n2. b($2)\n3. c(")) == 4
