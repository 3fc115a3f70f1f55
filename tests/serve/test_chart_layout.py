"""The layout of a flowchart on a page, of every example."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from holdfast.blueprint.graph import ChartGroup, RunOverlay, make_chart
from holdfast.blueprint.load import load, loads
from holdfast.server.web.pages.chart_layout import ChartLayout, PlacedGroup, PlacedNode, lay_out

EXAMPLES = sorted(Path("examples").glob("*/*.yaml"))
BLUEPRINTS = [path for path in EXAMPLES if path.stem == path.parent.name]
LOOP = "steps: [{name: l, kind: loop, loop: {max_loops: 3, body: [{name: a}, {name: b}]}}, {name: z}]"
CHOICE = (
    "steps: [{name: c, kind: conditional, condition_expression: input, branches: {x: [{name: a}], y: [{name: b}]}}]"
)


def laid_out(text: str) -> ChartLayout:
    return lay_out(make_chart(loads(text, name="test")))


def node(layout: ChartLayout, name: str) -> PlacedNode:
    return next(placed for placed in layout.nodes if placed.drawn.lines[0] == name)


def apart(one: PlacedNode, other: PlacedNode) -> bool:
    beside = one.x + one.width <= other.x or other.x + other.width <= one.x
    return beside or one.y + one.height <= other.y or other.y + other.height <= one.y


def ids(group: ChartGroup) -> set[str]:
    inner = [ids(element) if isinstance(element, ChartGroup) else {element.id} for element in group.elements]
    return {group.id}.union(*inner)


def holds(frame: PlacedGroup, placed: PlacedNode) -> bool:
    across = frame.x <= placed.x and placed.x + placed.width <= frame.x + frame.width
    return across and frame.y <= placed.y and placed.y + placed.height <= frame.y + frame.height


@pytest.mark.parametrize("path", BLUEPRINTS, ids=lambda path: path.stem)
def test_no_two_nodes_overlap_and_frames_hold_what_is_theirs(path: Path) -> None:
    layout = lay_out(make_chart(load(path)))
    assert [pair for pair in combinations(layout.nodes, 2) if not apart(*pair)] == []
    for frame in layout.groups:
        assert all(holds(frame, placed) for placed in layout.nodes if placed.drawn.id in ids(frame.drawn))
    assert all(placed.x >= 0 and placed.x + placed.width <= layout.width for placed in layout.nodes)


def test_steps_stand_below_each_other_in_their_order() -> None:
    layout = laid_out("steps: [{name: a}, {name: b}]")
    assert node(layout, "test").y < node(layout, "a").y < node(layout, "b").y < node(layout, "end").y


def test_branches_stand_beside_each_other() -> None:
    layout = laid_out(CHOICE)
    assert node(layout, "a").y == node(layout, "b").y and node(layout, "a").x < node(layout, "b").x


def test_an_edge_to_a_branch_does_not_repeat_the_title_of_its_frame() -> None:
    assert [edge.text for edge in laid_out(CHOICE).edges if edge.text] == []


def test_a_loop_leads_back_on_the_left_of_its_steps() -> None:
    layout = laid_out(LOOP)
    [back] = [edge for edge in layout.edges if " V" in edge.path]
    assert back.path.count("Q") == 2 and back.x < node(layout, "a").x + node(layout, "a").width


def test_the_tools_of_an_agent_stand_at_its_right() -> None:
    layout = laid_out("agents: {a: {model: m, tools: [look]}}\nsteps: [{name: s, agent: a}]")
    step, tool = node(layout, "s"), node(layout, "look")
    assert step.x + step.width < tool.x and step.y == tool.y


def test_states_of_a_run_stand_at_their_nodes() -> None:
    overlay = RunOverlay({("a",): "done"}, waiting=frozenset({("b",)}))
    layout = lay_out(make_chart(loads("steps: [{name: a}, {name: b}]", name="test"), overlay))
    assert (node(layout, "a").state, node(layout, "b").state) == ("done", "waiting")


def test_long_and_wide_texts_are_cut_and_kept_whole_in_the_label() -> None:
    name = "とても長い名前" * 20
    layout = laid_out(f"steps: [{{name: a, kind: hitl, message: {name}}}]")
    assert node(layout, "a").lines[-1].endswith("…") and name[:40] in node(layout, "a").label
    assert node(layout, "a").width < 300
