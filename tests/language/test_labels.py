"""The label of a map's items, wherever people read of them."""

from __future__ import annotations

import pytest

from holdfast.blueprint.errors import BlueprintError
from holdfast.cli.render import question_text, tree_text
from holdfast.client.event_texts import _is_counted, progress
from holdfast.client.views.questions import QuestionView
from holdfast.protocol.runs import HistoryLimits
from holdfast.workflows.details import write_details
from tests.conftest import Harness

ASK = """
steps:
  - kind: map
    name: each
    map:
      iterable_input: input
      label: "{{ item.number }}"
      body: [%s]
"""
DIRECT = "{kind: hitl, name: ask, message: Pay?}"
LOOP = "{kind: loop, name: l, loop: {max_loops: 1, body: [" + DIRECT + "]}}"
INNER = "{kind: map, name: inner, map: {iterable_input: \"['a', 'b']\", label: '{{ item }}', body: [" + DIRECT + "]}}"
BILLS = [{"number": "INV-7"}, {"number": "INV-8"}, {"number": "INV-9"}]


@pytest.mark.slow
@pytest.mark.parametrize(("body", "label"), [(DIRECT, "INV-7"), (LOOP, "INV-7"), (INNER, "INV-7 · a")])
async def test_a_question_has_the_label_of_its_item(house: Harness, body: str, label: str) -> None:
    run = await house.start(ASK % body, BILLS)
    question = await house.one(run)
    assert question.label == label
    assert f"({label})" in question_text(question).plain.splitlines()[0]
    assert QuestionView(question).asker.endswith(f"{label})")
    await house.runs.control.cancel(run)


@pytest.mark.slow
async def test_a_label_reaches_the_items_of_a_page(house: Harness) -> None:
    run = await house.start(ASK % DIRECT, BILLS, history_limits=HistoryLimits(items=2))
    assert (await house.one(run)).label == "INV-7"
    await house.answered(run, "yes", "yes", "yes")
    started = [event.data for event in await house.runs.watch.events(run) if event.type == "item.started"]
    assert [(data.index, data.label, data.total) for data in started] == [
        (0, "INV-7", 3),
        (1, "INV-8", 3),
        (2, "INV-9", 3),
    ]


async def test_an_agent_asks_with_the_label_of_its_item(house: Harness) -> None:
    house.script("boss: [{tool_calls: [{name: request_user_info, args: {question: Which?}}]}, done]")
    agent = 'agents: {boss: {model: "scripted:replies.yaml", human: [ask]}}'
    run = await house.start(agent + ASK % "{name: boss, agent: boss}", BILLS[:1])
    assert (await house.one(run)).label == "INV-7"
    await house.answer(run, "this")
    assert await house.output(run) == ["done"]


@pytest.mark.slow
async def test_show_progress_and_temporal_name_the_item_and_count(house: Harness) -> None:
    run = await house.start(ASK % DIRECT, BILLS)
    await house.answered(run, "yes")
    question = await house.one(run)
    state = await house.runs.state(run)
    text = tree_text((await house.runs.watch.trace(state)).steps).plain
    assert "each (map)  1 of 3 done" in text
    assert "1 INV-8" in text
    lines = [line.plain.strip() for event in await house.runs.watch.events(run) if (line := progress(event))]
    assert "each 2 of 3  INV-8" in lines
    assert "### Waiting for an answer: input · INV-8" in write_details(state.views[0], [question])
    await house.runs.control.cancel(run)


def test_of_a_long_list_each_tenth_is_a_line_of_progress() -> None:
    assert [index for index in range(100) if _is_counted(index, 100)] == list(range(0, 100, 10))
    assert sum(_is_counted(index, 12_345) for index in range(12_345)) == 10


async def test_a_long_label_is_cut_and_a_blank_one_is_the_index(house: Harness) -> None:
    run = await house.start(ASK % DIRECT, [{"number": "x" * 100}, {"number": " "}])
    assert (await house.one(run)).label == "x" * 80
    await house.answered(run, "yes")
    assert (await house.one(run)).label == "1"
    await house.answered(run, "yes")


def test_a_label_sees_the_item_and_no_unknown_name(house: Harness) -> None:
    with pytest.raises(BlueprintError, match=r"map.label: unknown name 'itme'"):
        house.load(ASK.replace("item.number", "itme.number") % DIRECT)
