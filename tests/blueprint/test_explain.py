"""What a person is instructed: of a blueprint: in plain words, complete, and true."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.blueprint.explain import cost, explain
from holdfast.blueprint.kinds import KINDS, Blueprint
from holdfast.blueprint.kinds.clarify import READINGS
from holdfast.blueprint.load import load, loads
from holdfast.blueprint.questions import Input
from holdfast.blueprint.words.text import RUN, Vocabulary, condition, say_template, value
from holdfast.workflows.agents import MOST_MISFITS
from holdfast.workflows.clarify import MOST_READINGS
from tests.blueprint.golden import AGAIN, EXAMPLES, FOLDER
from tests.blueprint.samples import AGENTS, ASSIGNED, EIGHT, OF_EVERY_KIND, flow
from tests.blueprint.written import ALL, yaml
from tests.repository import ROOT


def text_of(written: str) -> str:
    """The explanation in one line."""
    return " ".join(explain(loads(yaml(written), name="test"), demands={}).text.split())


def most(written: str) -> int | None:
    return explain(loads(yaml(written), name="test")).model_requests_at_most


# Examples


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_explained_as_it_was_agreed(path: Path) -> None:
    file = FOLDER / f"{path.stem}.txt"
    assert file.exists(), f"{file.name} is missing; write it: python -m tests.blueprint.golden"
    assert explain(load(path), demands={}).text == file.read_text(encoding="utf-8"), AGAIN


def test_no_golden_file_is_left_of_an_example_that_is_gone() -> None:
    names = {path.stem for path in EXAMPLES}
    assert {file.stem for file in FOLDER.iterdir() if file.suffix in (".txt", ".mmd")} <= names


def test_the_page_about_it_shows_what_it_says() -> None:
    page = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    assert (FOLDER / "approve_payment.txt").read_text(encoding="utf-8") in page, "put the new text into docs/explain.md"
    assert (FOLDER / "approve_payment.mmd").read_text(encoding="utf-8") in page, (
        "put the new graph into docs/explain.md"
    )


def test_what_the_page_shows_of_a_plan_is_what_is_said() -> None:
    page = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    shown = page.partition("$ holdfast explain examples/plans/condition.fr.json\n")[2].partition("```")[0]
    said = (FOLDER / "condition.fr.txt").read_text(encoding="utf-8").splitlines()
    assert set(shown.splitlines()) - set(said) == {"   steps, one step at a time. …", "…"}


def test_a_flow_of_eight_steps_fits_a_screen() -> None:
    lines = explain(loads(EIGHT)).text.splitlines()
    assert len(lines) <= 48
    assert max(map(len, lines)) <= 96


# Kinds


@pytest.mark.parametrize("width", [60, 80])
def test_in_a_narrow_terminal_the_lines_are_shorter_and_say_the_same(width: int) -> None:
    blueprint = loads(EIGHT)
    narrow, usual = explain(blueprint, width).text, explain(blueprint).text
    assert max(map(len, narrow.splitlines())) <= width
    assert narrow.split() == usual.split()


def test_every_kind_has_a_sample() -> None:
    assert set(OF_EVERY_KIND) == set(KINDS), "add a sample to tests/blueprint/samples.py"


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_told_by_its_steps_and_theirs(kind: str) -> None:
    blueprint = loads(flow(kind), name="test")
    said = explain(blueprint).text
    inner = [one for block in blueprint.steps[0].blocks().values() for one in block.steps]
    assert all(f"{one.name}: " in said for one in [*blueprint.steps, *inner])


@pytest.mark.parametrize("name", ALL)
def test_whatever_loads_is_explained(name: str) -> None:
    assert explain(loads(ALL[name])).text


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array", "minItems": 2, "items": {"type": "string"}}, "a list of at least 2 items, each item text"),
        ({"type": "array", "maxItems": 1}, "a list of at most 1 item"),
        ({"type": "array", "minItems": 3, "maxItems": 3}, "a list of 3 items"),
        ({"type": "array", "uniqueItems": True}, "a list, all different"),
        ({"type": "string", "minLength": 1}, "text, not empty"),
        ({"type": "string", "minLength": 2, "maxLength": 9}, "text, at least 2 characters, at most 9 characters"),
        ({"type": "string", "pattern": "^[0-9]{5}$"}, "text, 5 digits"),
        ({"type": "string", "pattern": "^(a|b)$"}, "text, of the form ^(a|b)$"),
        ({"properties": {"n": {"type": "number", "default": 3}}}, "an object with n (a number; optional, default 3)"),
    ],
)
def test_an_input_is_told_with_its_bounds_and_defaults(schema: dict[str, Any], said: str) -> None:
    text = text_of(json.dumps({"inputs": schema, "steps": [{"name": "a"}]}))
    assert f"The input is {said}." in text


# People


def test_steps_in_which_something_asks_say_whom() -> None:
    said = text_of(ASSIGNED)
    assert 'asks ana about "Tea"' in said
    assert "What it asks goes to a member of leads." in said
    assert "What it asks goes to those whom owners from the context names." in said
    assert "sure: asks those whom owners from the context names to choose" in said
    assert 'pay: calls book for "Pay". What it asks goes to bob.' in said


def test_the_questions_as_data_name_who_is_asked() -> None:
    asks = explain(loads(yaml(ASSIGNED), name="test")).asks
    asked = {
        name: {who for each in asks if each.step == name for who in each.who} for name in ("talk", "direct", "pay")
    }
    assert asked == {"talk": {"user:ana"}, "direct": {"group:leads"}, "pay": {"user:bob"}}


def test_programs_get_every_question_with_its_place_and_deadline() -> None:
    told = explain(loads(EIGHT)).to_json()
    assert [(one["at"], one["step"], one["kind"]) for one in told["asks"]] == [
        ("2", "needs", "input"),
        ("4.1", "review", "input"),
        ("5", "discount", "decision"),
        ("6", "release", "permission"),
    ]
    discount = told["asks"][2]
    assert (discount["by"], discount["on_timeout"], discount["choices"]) == (86400, "default", ("none", "5 %"))
    assert told["asks"][3]["who"] == ("group:sales",)
    assert list(told) == ["blueprint", "text", "asks", "model_requests_at_most", "output"]


def test_what_an_agent_asks_is_among_the_questions_also_through_other_agents() -> None:
    told = explain(
        loads(
            yaml(
                """
                agents:
                  boss: {model: echo, tools: ["agent:clerk"]}
                  clerk: {model: echo, human: [ask], tools: [{name: pay, approve: always}, {name: book, review: true}]}
                steps: [{name: work, agent: boss, on_error: ask, interrupt_after: true}]
                """
            )
        )
    )
    kinds = ["clarification", "permission", "review", "checkpoint", "input"]
    assert [(one.at, one.kind) for one in told.asks] == [("1", kind) for kind in kinds]


# Plans


def plan(steps: list[dict[str, Any]], **keys: Any) -> Any:
    """The explanation of a plan file."""
    document = {"goal": "Invite them", "agent": "echo", "steps": steps, **keys}
    return explain(loads(json.dumps(document), file="plan.json", name="test"))


def parts(steps: list[dict[str, Any]], **keys: Any) -> list[str]:
    """What is said of each step and loop, without its number."""
    text = plan(steps, **keys).text.partition(" 1.1 ")[2].partition("\nThe run returns ")[0]
    lines = " ".join(text.split())
    return [part.strip() for part in re.split(r"\b1(?:\.\d+)+ ", lines)]


def whole(steps: list[dict[str, Any]], **keys: Any) -> str:
    """What is said of the plan itself."""
    return " ".join(plan(steps, **keys).text.split()).partition("1. plan: ")[2].partition(" 1.1 ")[0]


def test_a_step_behind_a_confirmation_says_that_it_needs_a_yes() -> None:
    steps = [
        {"id": "1", "instruction": "List"},
        {"id": "2", "instruction": "CONFIRM_ACTION: Send RESULT_FROM_1?"},
        {"id": "3", "instruction": "Send", "dependencies": ["1", "2"]},
        {"id": "4", "instruction": "Tell", "dependencies": ["2"], "condition": "RESULT_FROM_2 equals refused"},
        {"id": "5", "instruction": "Each", "dependencies": ["2"], "loopover": [1, 2]},
    ]
    _, _, send, tell, each, *_ = parts(steps)
    assert send.startswith("step 3: after step 1 and a yes to step 2, works on")
    assert tell.startswith("step 4: after step 2, if the answer to step 2 is 'refused', works on")
    assert "after a yes to step 2, runs" in each


RETURNS = " It returns the list of results."
BODY = [{"id": "4", "instruction": "Update CURRENT_ITEM"}, {"id": "5", "instruction": "Tell RESULT_FROM_4"}]
TOLD_BODY = [
    'step 4: works on "Update [the item]".',
    'step 5: after step 4, works on "Tell [the output of step 4]".',
]


def test_the_three_ways_to_write_a_loop_are_told_the_same() -> None:
    first = {"id": "1", "instruction": "List"}
    after_4 = BODY[1] | {"dependencies": ["4"]}
    block = parts([first, *BODY], loop_blocks={"all": {"over": "RESULT_FROM_1", "steps": ["4", "5"]}})
    head = parts([first, {"id": "all", "loopover": "RESULT_FROM_1", "start_step": "4"}, BODY[0], after_4])
    told = "after step 1, runs these steps for each item of the output of step 1 (at most 1,000), one after the other;"
    told += " if one fails, the next one starts; if all fail, so does the loop." + RETURNS
    assert block == head == ['step 1: works on "List".', f"loop all: {told}", *TOLD_BODY]
    alone = parts([first, BODY[0] | {"loopover": "RESULT_FROM_1"}])
    assert alone[1:] == [f"loop_4: {told.replace('these steps', 'this step')}", TOLD_BODY[0]]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("RESULT_FROM_1 contains 'yes'", "the output of step 1 contains 'yes'"),
        ("RESULT_FROM_1 NOT CONTAINS annulé", "the output of step 1 does not contain 'annulé'"),
        ("NOT(RESULT_FROM_1 contains yes)", "the output of step 1 does not contain 'yes'"),
        ("NOT(NOT(RESULT_FROM_1 equals 5))", "the output of step 1 is '5'"),
        ("RESULT_FROM_2 not_equals confirmed", "the answer to step 2 is not 'confirmed'"),
        ("RESULT_FROM_1 is empty", "the output of step 1 is empty"),
        ("NOT(RESULT_FROM_1 is empty)", "the output of step 1 is not empty"),
        ("RESULT_FROM_1 > 5", "the output of step 1, or its length, is more than 5"),
        ("NOT(RESULT_FROM_1 >= 5)", "the output of step 1, or its length, is less than 5"),
        ("RESULT_FROM_loop_3 is not empty", "the output of loop_3 is not empty"),
        ("RESULT_FROM_3 contains x", "the output of step 3 for each item of loop_3 contains 'x'"),
    ],
)
def test_a_condition_of_a_plan_is_said_in_words(written: str, words: str) -> None:
    steps = [
        {"id": "1", "instruction": "One"},
        {"id": "2", "instruction": "ASK_INFO: Two?"},
        {"id": "3", "instruction": "Three", "loopover": [1]},
        {"id": "4", "instruction": "Four", "condition": written},
    ]
    assert f", if {words}, works on" in parts(steps)[-1]


def test_arguments_in_a_plan_are_told_and_cost_no_request() -> None:
    arguments = {"to": "CURRENT_ITEM", "text": "For RESULT_FROM_1", "copies": 2}
    steps = [{"id": "1", "instruction": "Write"}, {"id": "2", "tools": ["mail"], "arguments": arguments}]
    blocks = {"all": {"over": ["Ana", "Ben"], "steps": ["2"]}}
    said = plan(steps, loop_blocks=blocks)
    assert parts(steps, loop_blocks=blocks)[-1] == (
        'step 2: calls mail with to (the item), text ("For [the output of step 1]") and copies (2).'
    )
    assert said.model_requests_at_most == 1


def test_programs_get_the_questions_of_a_plan_by_the_ids_of_its_steps() -> None:
    steps = [
        {"id": "1", "instruction": "CONFIRM_ACTION: Send?", "tools": ["mail"], "timeout": "1d", "on_timeout": "skip"},
        {"id": "2", "instruction": "ASK_INFO: To whom?", "options": ["Ann", "CURRENT_ITEM"]},
    ]
    told = plan(steps, loop_blocks={"all": {"over": ["x"], "steps": ["2"], "on_item_error": "ask"}}).asks
    assert [(one.at, one.step, one.kind, one.message) for one in told] == [
        ("1.1", "1", "decision", "Send?"),
        ("1.1", "1", "decision", "mail is not authorized. Give it access, then say so."),
        ("1.2", "all", "input", "An item has failed. What now?"),
        ("1.2.1", "2", "input", "To whom?"),
    ]
    assert (told[0].by, told[0].on_timeout, told[0].choices) == (86400, "skip", ("accept", "refuse"))
    assert told[3].choices == ("Ann", "the item")


def test_it_is_said_how_many_questions_a_plan_asks() -> None:
    ask = {"id": "1", "instruction": "ASK_INFO: Which?"}
    blocks = {"all": {"over": "RESULT_FROM_1", "steps": ["2", "3"]}}
    looped = [{"id": id_, "instruction": "CONFIRM_ACTION: This, too?"} for id_ in ("2", "3")]
    assert "Questions of its steps to people: at most 1." in whole([ask])
    assert "to people: at most 1 plus 2 for each item of all." in whole([ask, *looped], loop_blocks=blocks)
    assert "Questions" not in whole(BODY[1:] + [{"id": "4", "instruction": "Four"}])


def test_an_agent_that_drives_a_plan_is_told_with_its_turns() -> None:
    steps = "steps: [{id: 1, instruction: Go, tools: [pay]}, {id: 2, instruction: Tell}]"
    written = f"plan: {{goal: Pay, driver: agent, agent: boss, {steps}}}"
    agents = "agents: {boss: {model: echo, human: [approve], max_turns: 30}}"
    told = explain(loads(f"{agents}\nsteps: [{{kind: plan, name: work, {written}}}]", name="test"))
    said = " ".join(told.text.split())
    assert 'runs a plan: "Pay". The agent boss drives it: it picks the next step, words the questions' in said
    assert "- boss (echo: repeats its input). It drives a plan in at most 30 turns. A person must agree to" in said
    assert [(one.at, one.kind) for one in told.asks] == [
        ("1", "clarification"),
        ("1.1", "decision"),
        ("1.1", "permission"),
    ]


def test_a_plan_that_a_planner_gives_is_known_only_when_it_runs() -> None:
    told = explain(
        loads(
            yaml(
                """
                agents: {planner: {model: echo}, clerk: {model: echo}}
                steps:
                  - {name: plan, agent: planner}
                  - {kind: plan, name: work, plan: {from: "{{ steps.plan.output }}", confirm: true, agent: clerk}}
                """
            ),
            name="test",
        )
    )
    said = " ".join(told.text.split())
    assert (
        "2. work: runs the plan in the output of plan, which is known only when it runs, as are its questions. A"
        " person sees it first, and may change or reject it; a rejected plan fails the step."
    ) in said
    assert (
        "The agent clerk works on the steps, given the goal and the output of plan, unless the plan names another"
        in said
    )
    assert "no upper bound: work is known only when it runs." in said
    assert told.asks[0].kind == "review" and told.asks[1].message is None


def test_each_agent_of_a_plan_is_told_and_who_must_agree_to_its_tools() -> None:
    told = explain(
        loads(
            yaml(
                """
                agents:
                  boss: {model: echo, human: [ask, approve]}
                  clerk: {model: echo, tools: [look, pay], permissions: [{tool: look, action: ask}]}
                steps:
                  - kind: plan
                    name: work
                    input: "{{ input.task }}"
                    plan:
                      goal: Pay
                      agent: boss
                      steps:
                        - {id: a, instruction: Look, tools: [look], agent: clerk}
                        - {id: b, instruction: Send, tools: [send]}
                        - {id: c, instruction: Think, agent: {model: echo, instructions: Think hard.}}
                """
            ),
            name="test",
        )
    )
    said = " ".join(told.text.split())
    assert "The agent boss works on the steps, given the goal and the input's task." in said
    assert '1.1 a: the agent clerk calls look for "Look". 1.2 b: calls send for "Send".' in said
    assert '1.3 c: an agent (echo: repeats its input) works on "Think".' in said
    assert "- work's c's agent (echo: repeats its input) is instructed: \"Think hard.\"" in said
    assert "A person must agree to each call of a tool. It may ask a person whenever" in said
    assert [(one.at, one.kind, one.message) for one in told.asks if one.kind != "decision"] == [
        ("1.1", "permission", "May look be called?"),
        ("1.2", "clarification", None),
        ("1.2", "permission", "May send be called?"),
    ]


# Imports


def test_an_import_is_explained_once_below_with_numbers_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(yaml("steps: [{name: ask, kind: hitl, message: 'Fine? {{ input }}'}]"))
    (tmp_path / "outer.yaml").write_text(
        yaml(
            """
            imports: {check: ./inner.yaml, again: ./inner.yaml}
            steps:
              - {name: one, uses: imports.check, config: {input: "{{ input.a }}", outputs: {verdict: checked}}}
              - {name: two, uses: imports.again}
            """
        )
    )
    told = explain(load(tmp_path / "outer.yaml"))
    said = " ".join(told.text.split())
    assert (
        "runs the blueprint check (below) with the input's a. It saves its verdict as checked in the context." in said
    )
    assert said.count("Fine?") == 1
    assert 'The blueprint check 1. ask: asks a person for text: "Fine? [the input]".' in said
    assert [(one.at, one.step) for one in told.asks] == [("check 1", "ask")]


def test_fields_of_forms_are_told_where_their_schema_refers_to_another() -> None:
    text = """
        steps:
          - kind: hitl
            name: order
            message: What?
            input_schema:
              type: object
              required: [lines]
              properties:
                lines: {type: array, items: {$ref: "#/$defs/Line"}}
                next: {$ref: "#/$defs/Node"}
              $defs:
                Line: {type: object, required: [amount], properties: {amount: {$ref: "#/$defs/Amount"}}}
                Amount: {type: integer, minimum: 1}
                Node: {type: object, properties: {node: {$ref: "#/$defs/Node"}}}
        """
    said = " ".join(explain(loads(yaml(text))).text.split())
    assert "lines (a list, each item an object with amount (a whole number, at least 1))" in said
    assert "next (an object with node (optional); optional)" in said


# Cost


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("[{name: a, agent: single}]", 1),
        ("[{name: a, agent: shaped}]", 3),
        ("[{name: a, agent: turns}]", 5),
        ("[{name: a, agent: boss}]", 2 + 2 * 10 * 5),
        ("[{name: a, agent: counted}]", 4 + 3 * 5),
        ("[{name: a, agent: short}]", 8),
        ("[{name: a, agent: limited}]", 7),
        ("[{name: a, agent: single, on_error: {fallback: {name: b, agent: turns}}}]", 6),
        (
            "[{name: l, kind: loop, loop: {max_loops: 4, body: [{name: a, agent: single}, {name: b, agent: turns}]}}]",
            24,
        ),
        ("[{name: p, kind: parallel, branches: {x: [{name: a, agent: single}], y: [{name: b, agent: turns}]}}]", 6),
        (
            "[{name: c, kind: conditional, condition_expression: input, branches: {x: [{name: a, agent: single}],"
            " y: [{name: b, agent: turns}]}}]",
            5,
        ),
        ("[{name: m, kind: map, map: {iterable_input: [1, 2, 3], body: [{name: a, agent: single}]}}]", 3),
        ("[{name: m, kind: map, map: {iterable_input: range(7), body: [{name: a, agent: single}]}}]", 7),
        ("[{name: m, kind: map, map: {iterable_input: input.x, max_items: 9, body: [{name: a, agent: single}]}}]", 9),
        ("[{name: m, kind: map, map: {iterable_input: [1, 2], max_items: 9, body: [{name: a, agent: single}]}}]", 2),
        ("[{name: k, kind: cache, wrapped_step: {name: a, agent: turns}}]", 5),
        ("[{name: p, kind: agentic_loop, planner: single, registry: ['agent:turns'], max_loops: 2}]", 2 + 2 * 10 * 5),
        ("[{name: q, kind: clarify, goal: g, schema: {properties: {a: {}}}, agent: single, max_questions: 2}]", 9),
        ("[{name: q, kind: clarify, goal: g, schema: {properties: {a: {}}}, on_max_questions: ask}]", 0),
        ("[{name: l, kind: loop, loop: {exit_expression: output, body: [{name: a}]}}]", 0),
        ("[{name: l, kind: loop, loop: {exit_expression: output, body: [{name: a, agent: single}]}}]", None),
        (
            "[{name: l, kind: loop, loop: {max_loops: 2, on_max_loops: ask, body: [{name: a, agent: single}]}}]",
            None,
        ),
        ("[{name: m, kind: map, map: {iterable_input: input.x, body: [{name: a, agent: single}]}}]", None),
        ("[{name: a, agent: single, on_error: ask}]", None),
    ],
)
def test_the_requests_to_models_are_counted(steps: str, expected: int | None) -> None:
    agents = yaml(
        """
        agents:
          single: {model: echo}
          shaped: {model: echo, output_schema: {type: object}}
          turns: {model: echo, tools: [search], max_turns: 5}
          boss: {model: echo, tools: ["agent:turns", "agent:single"], max_turns: 2}
          counted: {model: echo, tools: ["agent:turns"], max_turns: 4, max_tool_calls: 3}
          short: {model: echo, tools: [search], max_turns: 4, history_management: {strategy: summarize, max_turns: 3}}
          limited: {model: echo, tools: ["agent:turns"], max_turns: 4, limits: {model_calls: 7}}
        """
    )
    assert most(f"{agents}\nsteps: {steps}") == expected


@pytest.mark.parametrize(
    ("written", "expected", "said"),
    [
        ("steps: [{id: 1, instruction: A}]", 1, "at most 1."),
        ("steps: [{id: 1, instruction: 'ASK_INFO: A?'}]", 0, "none."),
        ("steps: [{id: 1, instruction: A, tools: [x]}, {id: 2, instruction: 'ASK_INFO: A?', tools: [x, y]}]", 7, ""),
        ("agent: turns, steps: [{id: 1, instruction: A}, {id: 2, instruction: B, agent: shaped}]", 5 + 3, ""),
        ("steps: [{id: 1, instruction: A, loopover: [a, b, c]}]", 3, "at most 3."),
        (
            "steps: [{id: 1, instruction: A}, {id: 2, instruction: B, loopover: RESULT_FROM_1}]",
            1001,
            "at most 1 plus 1 for each item of loop_2.",
        ),
        (
            "steps: [{id: 1, instruction: A}, {id: 2, instruction: B}, {id: 3, instruction: C, tools: [x]}],"
            " loop_blocks: {o: {over: RESULT_FROM_1, steps: [2, i], max_items: 10},"
            " i: {over: RESULT_FROM_2, steps: [3], max_items: 5}}",
            1 + 10 * (1 + 5 * 3),
            "at most 1 plus 1 for each item of o plus 3 for each item of i in each item of o.",
        ),
        (
            "steps: [{id: 1, instruction: A}, {id: 2, instruction: B, tools: [x]}], loop_blocks:"
            " {l: {over: RESULT_FROM_1, steps: [2], on_item_error: ask}}",
            None,
            "no upper bound: an item of l may run again as often as a person wants.",
        ),
        (
            "agent: asker, steps: [{id: 1, instruction: A, tools: [x]}]",
            None,
            "no upper bound: the agent of step 1 may ask a person as often as it wants.",
        ),
        ("confirm: true, steps: [{id: 1, instruction: A}]", None, "a person may change p before it runs."),
        ("driver: agent, steps: [{id: 1, instruction: A}]", 10_000, "at most 10,000."),
        ("driver: agent, agent: turns, steps: [{id: 1, instruction: A, loopover: [1]}]", 5, "at most 5."),
        ("driver: agent, agent: short, steps: [{id: 1, instruction: A}]", 8, "at most 8."),
    ],
)
def test_the_requests_of_a_plan_are_counted_and_those_of_a_loop_for_each_item(
    written: str, expected: int | None, said: str
) -> None:
    agents = yaml(
        """
        agents:
          turns: {model: echo, tools: [search], max_turns: 5}
          shaped: {model: echo, output_schema: {type: object}}
          asker: {model: echo, human: [ask]}
          short: {model: echo, tools: [search], max_turns: 4, history_management: {strategy: summarize, max_turns: 3}}
        """
    )
    told = explain(loads(f"{agents}\nsteps: [{{kind: plan, name: p, plan: {{goal: g, {written}}}}}]"))
    assert told.model_requests_at_most == expected
    assert said in " ".join(told.text.split())


def test_limits_bound_the_requests_of_a_plan_too() -> None:
    steps = "steps: [{id: 1, instruction: A, tools: [x]}, {id: 2, instruction: B, loopover: RESULT_FROM_1}]"
    written = f"steps: [{{kind: plan, name: p, plan: {{goal: g, {steps}}}}}]"
    assert most(f"limits: {{model_calls: 40}}\n{written}") == 40
    assert most(f"limits: {{model_calls: 4000}}\n{written}") == 3 + 1000


def test_limits_bound_what_nothing_else_bounds_unless_a_person_may_grant_more() -> None:
    steps = "steps: [{name: l, kind: loop, loop: {exit_expression: output, body: [{name: a, agent: editor}]}}]"
    assert most(f"{AGENTS}\nlimits: {{model_calls: 40}}\n{steps}") == 40
    assert most(f"{AGENTS}\nlimits: {{model_calls: 40, on_limit: ask}}\n{steps}") is None
    said = text_of(f"{AGENTS}\nlimits: {{cost_usd: 5, seconds: 86400, on_limit: ask}}\n{steps}")
    assert "no upper bound: l goes on until its exit is met." in said
    assert "The run may take at most 5 dollars and 1 day of work; then a person is asked for more." in said


def test_a_bound_that_says_nothing_is_none() -> None:
    inner = "{name: a, agent: editor}"
    for depth in range(4):
        inner = f"{{name: l{depth}, kind: loop, loop: {{max_loops: 1000, body: [{inner}]}}}}"
    assert most(f"{AGENTS}\nsteps: [{inner}]") is None
    assert most(f"{AGENTS}\nlimits: {{model_calls: 9}}\nsteps: [{inner}]") == 9


def test_the_bounds_are_those_of_the_workflows() -> None:
    assert (cost.MISFITS, READINGS) == (MOST_MISFITS, MOST_READINGS)


# Words


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("output == 'stop'", "the input is 'stop'"),
        ("not output", "the input is false or empty"),
        ("context.done", "done from the context is true or not empty"),
        ("input.n >= 3 and input.n < 9", "the input's n is at least 3 and the input's n is less than 9"),
        ("not (input.a or input.b > 3)", "the input's a is false or empty and the input's b is at most 3"),
        (
            "input.a and (input.b or input.c)",
            "the input's a is true or not empty and (either the input's b is true or not empty, or the input's c is"
            " true or not empty)",
        ),
        ("input.x in ['a', 'b']", "the input's x is one of 'a' or 'b'"),
        ("'a' not in steps.ask.output", "the answer to ask does not contain 'a'"),
        ("input.x is not defined", "the input's x is not given"),
        ("input.x == null", "the input's x is null"),
        ("input.name.startswith('A')", "the input's name begins with 'A'"),
        ("len(context.notes) > 2", "the length of notes from the context is more than 2"),
        ("context.notes | length == iteration", "the length of notes from the context is the number of the iteration"),
        ("context.scratchpad.last_agent_command.action == 'finish'", "the agent's last command is 'finish'"),
        ("true", "always"),
        ("input.n + 2 > 3", "the input's n plus 2 is more than 3"),
        ("input.n * 2 > 3", "the input's n times 2 is more than 3"),
        ("input.n % 2 > 3", "`input.n % 2 > 3` holds"),
        ("not input.xs | select('none') | list", "the elements of the input's xs that are null is false or empty"),
        ("(a - b) * 2 > 3", "`(a - b) * 2 > 3` holds"),
        ("1 < input.n < 5", "`1 < input.n < 5` holds"),
        ("input.a - (input.b - 1) > 0", "`input.a - (input.b - 1) > 0` holds"),
    ],
)
def test_a_condition_is_said_in_words_where_that_is_simple(written: str, words: str) -> None:
    assert condition(written, Vocabulary(RUN.roots, {"ask": Input(message="?")}, RUN.keys)) == words


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("{{ steps.ask.output.city }}", "city from the answer to ask"),
        ("{{ steps['ask'].error.message }}", "message from the error of ask"),
        ("{{ input.items[0].name | trim }}", "name from the first of the input's items"),
        ("{{ input.name | upper }}", "the input's name in capitals"),
        ("{{ input.get('a', 1) }}", "the input's a (or 1, if there is none)"),
        ("{{ context.all + ['x: ' ~ item.y] }}", 'all from the context with "x: [the item\'s y]" added'),
        (
            "{{ report | selectattr('status', 'equalto', 'failed') | list | length }}",
            "the number of elements of the report on the items whose status is 'failed'",
        ),
        ("{{ input.xs | reject('in', ['a', 'b']) }}", "the elements of the input's xs that are none of 'a' or 'b'"),
        (
            "{{ input.xs | rejectattr('ok') | first }}",
            "the first of the elements of the input's xs whose ok is false or empty",
        ),
        ("{{ input.xs | map(attribute='n') | join(', ') }}", "the n of each of the input's xs, separated by commas"),
        ("{{ input.xs[-2:] }}", "the last 2 of the input's xs"),
        ("{{ min(input.a, 3) }}", "the least of the input's a and 3"),
        ("{{ history | join('\n') }}", "the conversation, line by line"),
        ("{{ 'a' if input.x else 'b' }}", "'a' if the input's x is true or not empty, else 'b'"),
        ("{{ context.all + [item.x] }}", "all from the context with the item's x added"),
        ("{{ context.total + 1 }}", "total from the context plus 1"),
        ("{{ input | batch(3) }}", "`input | batch(3)`"),
        ("{# a comment #}Hi {{ input }}", '"Hi [the input]"'),
        ("{% for x in input %}{{ x }}{% endfor %}", '"{% for x in input %}{{ x }}{% endfor %}"'),
        ("two\n\n  lines", '"two lines"'),
        ([1, "{{ input }}"], "the list of 1 and the input"),
        (None, "null"),
    ],
)
def test_a_template_is_said_as_what_it_means(written: Any, words: str) -> None:
    assert say_template(written, Vocabulary(RUN.roots, {"ask": Input(message="?")}, RUN.keys)) == words


@pytest.mark.slow
@given(st.text(max_size=60))
def test_whatever_stands_in_an_expression_or_a_template_there_are_words(text: str) -> None:
    for words in (
        condition(text, RUN),
        value(text, RUN),
        say_template(text, RUN),
        say_template(f"{{{{ {text} }}}}", RUN),
    ):
        assert isinstance(words, str)


_EXPRESSIONS = st.recursive(
    st.sampled_from(["input", "input.a", "context.b", "steps.x.output", "'t'", "3", "true", "null", "[1, 'a']"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["==", "!=", "<", "in", "not in", "and", "or", "+", "-", "~"]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        ),
        inner.map(lambda one: f"not {one}"),
        inner.map(lambda one: f"({one}) | default('x')"),
        inner.map(lambda one: f"({one}) is defined"),
    ),
    max_leaves=8,
)


@given(_EXPRESSIONS)
def test_an_expression_of_any_depth_has_words(expression: str) -> None:
    assert condition(expression, RUN)


@pytest.mark.slow
@given(st.text(max_size=80), st.text(min_size=1, max_size=20), st.text(max_size=20))
def test_an_explanation_never_steers_a_terminal(message: str, option: str, key: str) -> None:
    blueprint = Blueprint.model_validate(
        {
            "name": "odd",
            "description": message,
            "context": {key: message},
            "steps": [
                {"kind": "hitl", "name": "ask", "message": message, "options": [{"id": option, "label": message}]},
                {"kind": "step", "name": "use", "uses": option, "input": {key: message}},
                {"kind": "conditional", "name": "way", "condition_expression": message, "branches": {key: []}},
                {
                    "kind": "plan",
                    "name": "plan",
                    "plan": {
                        "goal": message,
                        "steps": [
                            {"id": "1", "instruction": message, "title": key, "tools": [option], "service": key},
                            {"id": key, "instruction": message, "pause_for_response": True, "condition": message},
                            {"id": "2", "instruction": message, "options": [{"text": option}], "loopover": message},
                        ],
                    },
                },
            ],
        }
    )
    text = explain(blueprint).text
    assert {char for char in text if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")} <= {"\n"}
    assert not set(text) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")


JUDGED = """
agents:
  judge:
    model: echo
    output_schema:
      type: object
      required: [score, verdict]
      properties: {score: {type: integer, minimum: 0, maximum: 10}, verdict: {enum: [good, weak, bad]}}
steps:
  - {kind: hitl, name: tone, message: Which tone?, ask: decision, options: [warm, dry], sink_to: tone}
  - kind: loop
    name: revise
    loop:
      max_loops: 5
      exit_expression: output.score >= 8 and steps.grade.output.verdict != 'bad'
      body: [{name: write, input: "{{ context.tone }}"}, {name: grade, agent: judge, sink_to: last}]
"""
VERDICTS = "{good: [{name: g}], weak: [{name: w}], bad: [{name: b}]}"
WAY = "{kind: conditional, name: way"


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("", ["Score from the output of grade is a whole number, at least 0, at most 10."]),
        ("", ["Verdict from the output of grade is 'good', 'weak' or 'bad'."]),
        ("- {name: a, when: context.tone == 'dry'}", ["In the context, tone is the answer to tone: 'warm' or 'dry'."]),
        (
            "- {name: a, when: context.last.verdict == 'bad'}",
            ["In the context, last.verdict is 'good', 'weak' or 'bad'."],
        ),
        ("- {name: a, when: steps.tone.output == 'dry'}", []),
        (
            f"- {WAY}, condition_expression: steps.revise.output.verdict, branches: {VERDICTS}}}",
            ["way: branches on verdict from the output of revise. If it is 'good':"],
        ),
        (
            f"- {WAY}, condition_expression: context.tone, branches: {{warm: [{{name: g}}], dry: [{{name: d}}]}}}}",
            ["way: branches on tone from the context. In the context, tone is the answer to tone. If it"],
        ),
        (
            f"- {WAY}, condition_expression: context.other, branches: {{good: [{{name: g}}]}}}}",
            ["Any other value fails the step."],
        ),
    ],
)
def test_what_conditions_compare_is_told_as_far_as_it_is_known(steps: str, said: list[str]) -> None:
    """Each fact once, and not where the page says it already: at a question, or by the branches."""
    text = " ".join(explain(loads(JUDGED + f"  {steps}")).text.split())
    assert all(text.count(sentence) == 1 for sentence in said), text
    assert " is 'warm' or 'dry'." not in text


def test_the_items_of_a_list_are_told_and_what_a_run_returns() -> None:
    inputs = (
        "{type: object, properties: {bills: {type: array, items: {type: object, properties: {euros: {type: number}}}}}}"
    )
    steps = (
        "[{kind: map, name: each, map: {iterable_input: input.bills, body: [{name: one, input: '{{ item.euros }}'}]}}]"
    )
    told = explain(loads(f"inputs: {inputs}\nsteps: {steps}"))
    text = " ".join(told.text.split())
    assert "Each item is an object with euros (a number; optional)." in text
    assert "The run returns the output of each. That is a list, each item a number." in text
    assert told.output == {"type": "array", "items": {"type": "number"}}
