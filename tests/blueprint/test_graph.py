"""A blueprint as a flowchart: well formed whatever its names and texts are, and true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blueprint import Blueprint, load, loads
from blueprint.grammar import KINDS
from blueprint.graph import Marks, graph
from blueprint.graph.kinds import DRAWN, LARGEST
from blueprint.graph.mermaid import LONGEST, SHAPES, label
from tests.blueprint.flowchart import SHAPES as READ_SHAPES
from tests.blueprint.flowchart import Flowchart, read_flowchart, unescaped, unreached
from tests.blueprint.golden import AGAIN, EXAMPLES, FOLDER
from tests.blueprint.samples import AGENTS, EIGHT, SAMPLES, flow
from tests.blueprint.written import ALL, yaml


def chart(text: str, marks: Marks | None = None) -> Flowchart:
    return read_flowchart(graph(loads(yaml(text), name="test"), marks))


# Examples and kinds


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_drawn_as_it_was_agreed(path: Path) -> None:
    file = FOLDER / f"{path.stem}.mmd"
    assert file.exists(), f"{file.name} is missing; write it: python -m tests.blueprint.golden"
    assert graph(load(path)) == file.read_text(encoding="utf-8"), AGAIN


def test_every_kind_can_be_drawn() -> None:
    assert set(DRAWN) == set(KINDS.values()) == {KINDS[kind] for kind in SAMPLES}
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


# Texts


ODD = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from('"#<>&%[](){}|`*_~$\\;:-\n\r\t1.@'),
        st.sampled_from("°¶ﬂß\u202e\u2028"),
    ),
    max_size=40,
)


@given(ODD)
def test_a_label_holds_any_text_and_shows_it(text: str) -> None:
    shown = unescaped(label(text)[1:-1])
    kept = " ".join(text.split())[: LONGEST - 1]
    if all(char.isprintable() for char in kept):
        assert shown.startswith(kept)


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
    drawn = chart(FLOW, Marks(states, {("again",): 3}, frozenset({("again", "ask")})))
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
    assert drawn.labels[drawn.id("again")] == "again\nround 3"


def test_a_question_without_a_node_of_its_own_waits_at_the_nearest() -> None:
    waiting = frozenset({("again", "way", "else", "other", "pay", "price")})
    drawn = chart(FLOW, Marks({(): "running"}, {}, waiting))
    assert drawn.state("pay") == "waiting"


def test_the_end_tells_how_a_run_has_ended() -> None:
    assert chart(FLOW, Marks({(): "done"})).state("end") == "done"
    assert chart(FLOW, Marks({(): "failed"})).state("end") == "failed"
    assert chart(FLOW, Marks({(): "running"})).state("end") is None


STOPS = yaml(
    """
    steps:
      - {name: a, interrupt_before: true}
      - {name: b, interrupt_before: true, interrupt_after: true}
      - kind: loop
        name: again
        loop: {max_loops: 2, body: [{name: c}, {name: d, interrupt_before: true}]}
    """
)


@pytest.mark.parametrize(
    ("states", "stopped", "waits"),
    [
        ({}, (), "stop before a"),
        ({("a",): "done"}, (), "stop before b"),
        ({("a",): "done", ("b",): "done"}, (), "stop after b"),
        ({("a",): "done", ("b",): "done", ("again",): "running", ("again", "c"): "done"}, ("again",), "stop before d"),
        ({("a",): "done", ("b",): "done", ("again",): "running"}, ("again",), "again"),
    ],
)
def test_a_run_that_has_stopped_waits_at_its_stop(states: Any, stopped: Any, waits: str) -> None:
    drawn = chart(STOPS, Marks({(): "running", **states}, {}, frozenset(), frozenset({stopped})))
    assert [drawn.labels[id_].split("\n")[0] for id_, state in drawn.classes.items() if state == "waiting"] == [waits]


def test_without_a_run_there_are_no_colours() -> None:
    assert "class" not in graph(loads(f"{AGENTS}\nsteps: [{SAMPLES['loop']}]"))
