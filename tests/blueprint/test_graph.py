"""A blueprint as a flowchart: well formed whatever its names and texts are, and true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
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
from tests.blueprint.samples import AGENTS, ASSIGNED, OF_EVERY_KIND, SAMPLES, flow
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


@given(ODD)
def test_a_label_holds_any_text_and_shows_it(text: str) -> None:
    shown = unescaped(label(text)[1:-1])
    kept = " ".join(text.split())[: LONGEST - 1]
    if all(char.isprintable() for char in kept):
        assert shown.startswith(kept)


@pytest.mark.slow
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
