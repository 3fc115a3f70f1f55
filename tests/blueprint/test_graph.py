"""A blueprint as a flowchart: well formed whatever its names and texts are, and true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.blueprint.graph import RunOverlay, graph
from holdfast.blueprint.graph.mermaid import LONGEST, SHAPES, label
from holdfast.blueprint.graph.overlay import path_of_stop
from holdfast.blueprint.graph.steps import LARGEST
from holdfast.blueprint.kinds import KINDS, Blueprint
from holdfast.blueprint.load import load, loads
from tests.blueprint.flowchart import SHAPES as READ_SHAPES
from tests.blueprint.flowchart import Flowchart, read_flowchart, unescaped, unreached
from tests.blueprint.golden import AGAIN, EXAMPLES, FOLDER
from tests.blueprint.samples import AGENTS, ASSIGNED, EIGHT, OF_EVERY_KIND, SAMPLES, flow
from tests.blueprint.written import ALL, yaml


def chart(text: str, marks: RunOverlay | None = None) -> Flowchart:
    return read_flowchart(graph(loads(yaml(text), name="test"), marks))


# Examples and kinds


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_drawn_as_it_was_agreed(path: Path) -> None:
    file = FOLDER / f"{path.stem}.mmd"
    assert file.exists(), f"{file.name} is missing; write it: python -m tests.blueprint.golden"
    assert graph(load(path)) == file.read_text(encoding="utf-8"), AGAIN


def test_every_kind_can_be_drawn() -> None:
    assert set(OF_EVERY_KIND) == set(KINDS), "add a sample to tests/blueprint/samples.py"
    assert dict(SHAPES.values()) == READ_SHAPES


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_drawn_with_its_steps_and_all_of_them_are_reached(kind: str) -> None:
    drawn = chart(flow(kind))
    step = loads(flow(kind)).steps[0]
    inner = [one for block in step.blocks().values() for one in block.steps]
    assert {one.name for one in [step, *inner]} <= {text.split("\n")[0] for text in drawn.labels.values()}
    assert unreached(drawn) == set()


@pytest.mark.parametrize("name", ALL)
def test_whatever_loads_is_drawn_and_hangs_together(name: str) -> None:
    assert unreached(read_flowchart(graph(loads(ALL[name])))) == set()


def test_questions_conditions_agents_and_tools_differ_in_shape() -> None:
    drawn = chart(EIGHT)
    shapes = {
        name: drawn.shapes[drawn.id(name)] for name in ("look_up", "needs", "draft", "discount", "outcome", "note")
    }
    assert shapes == {
        "look_up": "[[", "needs": "{{", "draft": "(", "discount": "{{", "outcome": "{", "note": "[",
    }  # fmt: skip


def test_branches_leave_by_their_keys_and_meet_again() -> None:
    drawn = chart(
        """
        steps:
          - name: way
            kind: conditional
            condition_expression: input.tone
            branches: {warm: [{name: a}], "no;w [x]": [{name: b}], cold: []}
            default_branch: [{name: c}]
          - {name: after}
        """
    )
    assert drawn.next("way") == {"a": "warm", "b": "no;w [x]", "after": "cold", "c": "otherwise"}
    assert all(drawn.next(name) == {"after": ""} for name in "abc")
    assert drawn.around[drawn.id("a")] == [drawn.id("warm")]


def test_a_loop_goes_round_in_a_frame_and_leaves_at_its_exit() -> None:
    drawn = chart(
        """
        steps:
          - kind: loop
            name: again
            loop:
              max_loops: 4
              exit_expression: output == 'stop'
              body: [{name: one}, {name: two, kind: hitl, message: More?}]
          - {name: after}
        """
    )
    test = "until the answer is 'stop'"
    assert drawn.labels[drawn.id(test)] == f"{test}\nat most 4 times\nif that is not enough, it fails"
    assert drawn.next(test) == {"one": "again", "after": "done"}
    assert drawn.next("two") == {test: ""}
    assert all(drawn.around[drawn.id(name)] == [drawn.id("again")] for name in ("one", "two", test))


def test_branches_at_the_same_time_begin_at_one_node() -> None:
    drawn = chart(f"steps: [{SAMPLES['parallel']}, {{name: after}}]")
    assert drawn.next("at the same time") == {"law": "legal", "sum": "money"}
    assert drawn.next("law") == drawn.next("sum") == {"after": ""}


def test_an_agent_has_its_tools_beside_it_and_who_must_agree() -> None:
    drawn = chart(
        """
        agents:
          boss: {model: echo, human: [ask], tools: [search, {name: pay, approve: args.n > 3}, "agent:clerk"]}
          clerk: {model: echo, tools: [{name: book, review: true}]}
        steps: [{name: work, agent: boss}]
        """
    )
    assert drawn.beside("work") == {
        "a person": "asks",
        "search": "",
        "pay": "if a person agrees where the call's n is more than 3",
        "the agent clerk": "",
    }
    assert drawn.beside("the agent clerk") == {"book": "shown to a person"}
    assert drawn.next("work") == {"end": ""}


def test_a_fallback_is_reached_where_its_step_fails_and_goes_on() -> None:
    drawn = chart("steps: [{name: a, uses: search, on_error: {fallback: {name: b}}}, {name: c}]")
    assert drawn.beside("a") == {"b": "if it fails"}
    assert drawn.next("b") == drawn.next("a") == {"c": ""}


def test_an_import_is_drawn_inside_a_frame_with_its_own_agents() -> None:
    inner = "{name: inner, agents: {a: {model: echo, tools: [search]}}, steps: [{name: deep, agent: a}]}"
    drawn = chart(f"imports: {{check: {inner}}}\nsteps: [{{name: one, uses: imports.check}}, {{name: two}}]")
    assert drawn.around[drawn.id("deep")] == [drawn.id("one")]
    assert drawn.labels[drawn.id("one")] == "one\nthe blueprint check"
    assert (drawn.beside("deep"), drawn.next("deep")) == ({"search": ""}, {"two": ""})


def test_imports_stay_closed_where_a_graph_would_be_too_large() -> None:
    inner = "{name: inner, steps: [" + ", ".join(f"{{name: s{index}}}" for index in range(90)) + "]}"
    steps = ", ".join(f"{{name: use{index}, uses: imports.many}}" for index in range(9))
    drawn = chart(f"imports: {{many: {inner}}}\nsteps: [{steps}]")
    assert len(drawn.labels) < LARGEST + 110
    assert drawn.shapes[drawn.id("use8")] == "[["


# Plans


def plan(steps: list[dict[str, Any]], marks: RunOverlay | None = None, **keys: Any) -> Flowchart:
    """The chart of a plan file."""
    document = {"goal": "Invite them", "agent": "echo", "steps": steps, **keys}
    return read_flowchart(graph(loads(json.dumps(document), file="plan.json", name="test"), marks))


def test_the_steps_of_a_plan_hang_together_by_what_they_wait_for() -> None:
    drawn = plan(
        [
            {"id": "last", "instruction": "Report", "dependencies": ["2", "3"]},
            {"id": "1", "title": "Guests", "instruction": "List"},
            {"id": "2", "instruction": "Write to RESULT_FROM_1", "tools": ["mail"]},
            {"id": "3", "instruction": "CONFIRM_ACTION: Call RESULT_FROM_1?", "tools": ["phone"]},
            {"id": "4", "instruction": "Sing", "agent": "echo"},
        ],
        max_parallel=2,
    )
    assert drawn.next("test") == {"Invite them": ""}
    assert drawn.labels[drawn.id("Invite them")] == "Invite them\nup to 2 steps at once"
    assert drawn.next("Invite them") == {"step 1 (Guests)": "", "step 4": ""}
    assert drawn.next("step 1 (Guests)") == {"step 2": "", "step 3": ""}
    assert drawn.next("step 2") == drawn.next("step 3") == {"last": ""}
    assert drawn.next("last") == drawn.next("step 4") == {"end": ""}
    assert all(drawn.around[drawn.id(name)] == [drawn.id("plan")] for name in ("step 2", "last", "Invite them"))
    shapes = [drawn.shapes[drawn.id(name)] for name in ("step 1 (Guests)", "step 2", "step 3", "step 4")]
    assert shapes == ["(", "[[", "{{", "("]
    assert drawn.labels[drawn.id("step 3")] == "step 3\nCall [the output of step 1]?\nunless no: phone"
    assert drawn.labels[drawn.id("step 4")] == "step 4\nSing\nan agent (echo: repeats its input)"


def test_a_condition_of_a_plan_stands_in_the_node_of_its_step() -> None:
    drawn = plan(
        [
            {"id": "1", "instruction": "Chercher l'événement"},
            {"id": "2", "instruction": "Prévenir", "condition": "NOT(RESULT_FROM_1 contains annulé)"},
        ]
    )
    assert drawn.labels[drawn.id("step 2")] == "step 2\nif the output of step 1 does not contain 'annulé'\nPrévenir"


BODY = [{"id": "4", "instruction": "Update CURRENT_ITEM"}, {"id": "5", "instruction": "Tell", "dependencies": ["4"]}]


def test_a_loop_of_a_plan_goes_round_in_a_frame_of_its_own_however_it_is_written() -> None:
    first, after = {"id": "1", "instruction": "List"}, {"id": "6", "instruction": "End", "dependencies": ["all"]}
    block = plan([first, *BODY, after], loop_blocks={"all": {"over": "RESULT_FROM_1", "steps": ["4", "5"]}})
    head = plan([first, {"id": "all", "loopover": "RESULT_FROM_1", "start_step": "4"}, *BODY, after])
    for drawn in (block, head):
        each = "for each item of the output of step 1 (at most 1,000)"
        assert drawn.next("step 1") == {each: ""}
        assert drawn.next(each) == {"step 4": "item", "step 6": "done"}
        assert (drawn.next("step 4"), drawn.next("step 5")) == ({"step 5": ""}, {each: "next"})
        assert drawn.around[drawn.id("step 5")] == [drawn.id("plan"), drawn.id("loop all")]
    alone = plan([BODY[0] | {"loopover": ["a", "b"]}])
    assert alone.next("for each item of a list of 2: 'a' and 'b'") == {"step 4": "item", "end": "done"}


def test_a_loop_inside_a_loop_goes_on_behind_what_it_waits_for() -> None:
    steps = [{"id": "3", "instruction": "Shops of CURRENT_ITEM"}, *BODY]
    blocks = {
        "towns": {"over": ["Paris"], "steps": ["3", "shops"]},
        "shops": {"over": "RESULT_FROM_3", "steps": ["4", "5"], "condition": "RESULT_FROM_3 is not empty"},
    }
    drawn = plan(steps, loop_blocks=blocks)
    towns, shops = "for each item of a list of 1: 'Paris'", "for each item of the output of step 3 (at most 1,000)"
    assert (drawn.next(towns), drawn.next("step 3")) == ({"step 3": "item", "end": "done"}, {shops: ""})
    assert drawn.next(shops) == {"step 4": "item", towns: "done"}
    assert drawn.labels[drawn.id("loop shops")] == "loop shops\nif the output of step 3 is not empty"
    assert len(drawn.around[drawn.id("step 4")]) == 3


def test_who_must_agree_to_a_plan_stands_before_it_and_whom_its_driver_may_ask_beside_it() -> None:
    drawn = chart(
        """
        agents: {boss: {model: echo}}
        steps:
          - {name: make, agent: boss}
          - name: work
            kind: plan
            when: input.x
            plan: {from: "{{ steps.make.output }}", confirm: true, driver: agent, agent: boss}
            on_error: {fallback: {name: sorry}}
        """
    )
    assert drawn.next("make") == {"May this plan be run?": ""}
    assert drawn.next("May this plan be run?") == {"the plan in the output of make": ""}
    assert drawn.beside("May this plan be run?") == {"sorry": "if it fails"}
    assert drawn.labels[drawn.id("the plan in the output of make")].endswith("\ndriven by the agent boss")
    assert drawn.beside("the plan in the output of make") == {"a person": "asks"}
    assert drawn.labels[drawn.id("work")] == "work\nif the input's x is true or not empty"


def test_whom_a_step_asks_stands_in_its_node_and_in_place_of_a_person_beside_it() -> None:
    drawn = chart(ASSIGNED)
    assert drawn.labels[drawn.id("talk")].endswith("\nasks ana")
    assert drawn.labels[drawn.id("pay")].endswith("\nasks bob")
    assert drawn.labels[drawn.id("sure")].endswith("\nasks those whom owners from the context names")
    assert drawn.beside("direct") == {"a member of leads": "asks"}


# Texts


ODD = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from('"#<>&%[](){}|`*_~$\\;:-\n\r\t1.@'),
        st.sampled_from("°¶ﬂß\u202e\u2028"),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(ODD)
def test_a_label_holds_any_text_and_shows_it(text: str) -> None:
    shown = unescaped(label(text)[1:-1])
    kept = " ".join(text.split())[: LONGEST - 1]
    if all(char.isprintable() for char in kept):
        assert shown.startswith(kept)


@pytest.mark.slow
@settings(deadline=None)
@given(ODD, ODD, ODD, ODD)
def test_whatever_an_author_writes_the_graph_is_well_formed(message: str, key: str, tool: str, when: str) -> None:
    blueprint = Blueprint.model_validate(
        {
            "name": "end",
            "agents": {"x": {"model": message, "tools": [{"name": tool or "t", "approve": when}], "human": ["ask"]}},
            "steps": [
                {"kind": "hitl", "name": "style", "message": message, "when": when},
                {"kind": "step", "name": "end", "uses": tool},
                {"kind": "step", "name": "subgraph", "input": {key: message}},
                {"kind": "step", "name": "1", "agent": "x"},
                {
                    "kind": "conditional",
                    "name": "class",
                    "condition_expression": when,
                    "branches": {key: [{"kind": "step", "name": "in"}], f"{key}-": []},
                },
                {
                    "kind": "parallel",
                    "name": "graph",
                    "branches": {key: [{"kind": "step", "name": "in"}], f"{key}-": []},
                },
                {
                    "kind": "plan",
                    "name": "plan",
                    "plan": {
                        "goal": message,
                        "steps": [
                            {"id": "end", "instruction": message, "title": key, "tools": [tool]},
                            {"id": key, "instruction": message, "pause_for_response": True, "condition": when},
                            {"id": "class", "instruction": message, "loopover": [message]},
                        ],
                        "loop_blocks": {tool: {"over": message, "steps": ["end", key]}},
                    },
                },
                {
                    "kind": "loop",
                    "name": "-",
                    "loop": {"exit_expression": when, "body": [{"kind": "step", "name": "_"}]},
                },
            ],
        }
    )
    assert unreached(read_flowchart(graph(blueprint))) == set()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("style x:#a;", '"style x#58;#35;a;"'),
        ("1. first", '"1#46; first"'),
        ("- item", '"#45; item"'),
        ("snake_case _stress_", '"snake_case #95;stress#95;"'),
        ("fa:fa-car", '"fa#58;fa-car"'),
        ("%%{init: {}}%%", '"#37;#37;#123;init: #123;#125;#125;#37;#37;"'),
        ("", '" "'),
    ],
)
def test_nothing_in_a_label_means_more_than_itself(text: str, written: str) -> None:
    assert label(text) == written


# Where a run stands

FLOW = yaml(
    """
    steps:
      - {name: first}
      - {name: left_out, when: input.x}
      - kind: loop
        name: again
        loop:
          max_loops: 9
          body:
            - kind: conditional
              name: way
              condition_expression: input.tone
              branches: {warm: [{name: w}]}
              default_branch: [{name: other, agent: clerk}]
            - {name: ask, kind: hitl, message: More?}
      - {name: last}
    agents: {clerk: {model: echo, tools: [pay]}}
    """
)


def test_a_run_colours_what_it_has_done_where_it_is_and_where_it_waits() -> None:
    states: dict[Any, Any] = {
        (): "running",
        ("first",): "done",
        ("left_out",): "skipped",
        ("again",): "running",
        ("again", "way"): "done",
        ("again", "way", "anything else"): "done",
        ("again", "way", "anything else", "other"): "done",
        ("again", "way", "anything else", "other", "pay"): "failed",
        ("again", "ask"): "running",
    }
    drawn = chart(FLOW, RunOverlay(states, {("again",): 3}, frozenset({("again", "ask")})))
    assert {drawn.labels[id_].split("\n")[0]: state for id_, state in drawn.classes.items()} == {
        "test": "done",
        "first": "done",
        "left_out": "skipped",
        "again": "running",
        "way": "done",
        "otherwise": "done",
        "other": "done",
        "pay": "failed",
        "ask": "waiting",
    }
    assert drawn.labels[drawn.id("again")] == "again\niteration 3"


def test_a_question_without_a_node_of_its_own_waits_at_the_nearest() -> None:
    waiting = frozenset({("again", "way", "else", "other", "pay", "price")})
    drawn = chart(FLOW, RunOverlay({(): "running"}, {}, waiting))
    assert drawn.state("pay") == "waiting"


def test_the_end_tells_how_a_run_has_ended() -> None:
    assert chart(FLOW, RunOverlay({(): "done"})).state("end") == "done"
    assert chart(FLOW, RunOverlay({(): "failed"})).state("end") == "failed"
    assert chart(FLOW, RunOverlay({(): "running"})).state("end") is None


STOPS = yaml(
    """
    steps:
      - {name: a, interrupt_before: true}
      - {name: b, interrupt_before: true, interrupt_after: true}
      - kind: loop
        name: again
        loop:
          max_loops: 2
          body:
            - {name: c}
            - {name: d, interrupt_before: true, interrupt_after: true}
            - {name: e, interrupt_before: true, interrupt_after: true}
    """
)


@pytest.mark.parametrize(
    ("step", "position", "waits"),
    [
        (("a",), "before", "stop before a"),
        (("b",), "before", "stop before b"),
        (("again",), "before", "stop after b"),
        (("again", "d"), "before", "stop before d"),
        (("again", "e"), "before", "stop before e"),
        (("again", "e"), "after", "stop after e"),
        (("again", "c"), "before", "again"),
    ],
)
def test_a_run_that_has_stopped_waits_at_its_stop(step: tuple[str, ...], position: str, waits: str) -> None:
    drawn = chart(STOPS, RunOverlay({(): "running"}, {}, frozenset({path_of_stop(step, position)})))
    assert [drawn.labels[id_].split("\n")[0] for id_, state in drawn.classes.items() if state == "waiting"] == [waits]


def test_a_run_colours_the_steps_of_a_plan_and_tells_the_item_of_a_loop() -> None:
    steps = [{"id": "1", "instruction": "CONFIRM_ACTION: Go?", "tools": ["mail"]}, *BODY]
    steps += [{"id": "6", "instruction": "End", "loopover": "RESULT_FROM_1"}]
    states: dict[Any, Any] = {
        (): "running",
        ("plan",): "running",
        ("plan", "1"): "done",
        ("plan", "all"): "running",
        ("plan", "all", "4"): "done",
        ("plan", "all", "5"): "failed",
        ("plan", "loop_6"): "skipped",
    }
    waiting = frozenset({("plan", "1")})
    blocks = {"all": {"over": "RESULT_FROM_1", "steps": ["4", "5"]}}
    drawn = plan(steps, RunOverlay(states, {("plan", "all"): 2}, waiting), loop_blocks=blocks)
    names = ("plan", "step 1", "loop all", "step 4", "step 5", "loop_6", "step 6")
    assert [drawn.state(name) for name in names] == [
        *("running", "waiting", "running", "done", "failed", "skipped", None),
    ]
    assert drawn.labels[drawn.id("loop all")] == "loop all\nitem 2"


@pytest.mark.parametrize(
    ("asked", "waits"),
    [
        (("work", "confirm"), "May this plan be run?"),
        (("work", "request_user_info"), "a person"),
        (("work", "a"), "a"),
        (("work", "nobody", "knows"), "work"),
    ],
)
def test_a_question_of_a_plan_waits_where_it_is_asked(asked: Any, waits: str) -> None:
    text = yaml(
        """
        steps:
          - kind: plan
            name: work
            plan: {goal: g, driver: agent, confirm: true, steps: [{id: a, instruction: "ASK_INFO: Which?"}]}
        """
    )
    assert chart(text, RunOverlay({(): "running"}, {}, frozenset({asked}))).state(waits) == "waiting"


def test_without_a_run_there_are_no_colours() -> None:
    assert "class" not in graph(loads(f"{AGENTS}\nsteps: [{SAMPLES['loop']}]"))
