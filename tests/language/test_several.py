"""Maps and parallel branches."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from holdfast.protocol.runs import HistoryLimits
from tests.conftest import Harness, until
from tests.tools import calls

BOOM = "{{ 1 / 0 if item in [2, 4] else item * 10 }}"


def mapped(items: Any, body: Any, **more: Any) -> str:
    block = {"iterable_input": "input.items", "body": body, **more}
    steps = [{"kind": "map", "name": "m", "map": block}]
    return yaml.safe_dump({"context": {"seen": []}, "steps": steps})


def items(count: int) -> dict[str, Any]:
    return {"items": list(range(count))}


# Maps


async def test_each_item_is_the_bodys_input_and_the_outputs_keep_their_order(house: Harness) -> None:
    text = mapped(None, {"name": "a", "input": "{{ index }}: {{ item }} {{ previous_step }}"})
    run = await house.start(text, {"items": ["x", "y"]})
    assert await house.output(run) == ["0: x x", "1: y y"]


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_init_and_finalize_happen_once(house: Harness, concurrency: int) -> None:
    text = mapped(
        None,
        {"name": "a", "input": "{{ item }}{{ context.start }}"},
        init=[{"set": "context.start", "value": "!"}, {"append": "context.seen", "value": "begun"}],
        finalize={"output": {"all": "{{ previous_step }}", "begun": "{{ context.seen }}"}},
        max_concurrency=concurrency,
    )
    assert await house.output(await house.start(text, items(3))) == {"all": ["0!", "1!", "2!"], "begun": ["begun"]}


@pytest.mark.parametrize("in_workflow", [9, 2], ids=["inline", "pages"])
@pytest.mark.parametrize("concurrency", [1, 3])
async def test_finalize_is_told_how_each_item_ended(house: Harness, concurrency: int, in_workflow: int) -> None:
    told = "{% for one in report %}{{ one.index }} {{ one.item }} {{ one.status }} {{ one.output }}; {% endfor %}"
    failures = "{{ report | rejectattr('error', 'none') | map(attribute='error') | list }}"
    text = mapped(
        None,
        {"name": "a", "input": BOOM},
        on_item_error="continue",
        finalize={"output": {"told": told, "failures": failures}},
        max_concurrency=concurrency,
    )
    run = await house.start(text, items(5), history_limits=HistoryLimits(items=in_workflow))
    output = await house.output(run)
    assert output["told"] == "0 0 completed 0; 1 1 completed 10; 2 2 failed null; 3 3 completed 30; 4 4 failed null; "
    assert [one["address"] for one in output["failures"]] == [f"pipeline:test;map:m:{n};step:a" for n in (2, 4)]
    assert all(one["type"] == "expression_error" and one["message"] for one in output["failures"])


async def test_what_a_person_gives_for_a_failed_item_is_told_as_that(house: Harness) -> None:
    text = mapped(
        None,
        {"name": "a", "input": BOOM},
        on_item_error="ask",
        finalize={"output": "{{ report | map(attribute='status') | list }}"},
    )
    run = await house.start(text, items(3))
    await house.answer(run, {"action": "skip", "value": "none"})
    assert await house.output(run) == ["completed", "completed", "skipped"]


@pytest.mark.parametrize("count", [3, 4])
async def test_a_list_with_more_items_than_a_map_may_have_fails_before_the_first(house: Harness, count: int) -> None:
    result = await house.result(await house.start(mapped(None, {"name": "a"}, max_items=3), items(count)))
    if count == 3:
        assert result.output == [0, 1, 2]
    else:
        assert (result.error.type, result.error.address) == ("map_too_large", "pipeline:test;map:m")
        assert result.error.message == "m has 4 items, and at most 3 are allowed (max_items)"


@pytest.mark.parametrize(("given", "output"), [([], []), ("[1, 2]", [1, 2]), ("[]", [])])
async def test_an_empty_list_and_json_text_are_lists(house: Harness, given: Any, output: Any) -> None:
    assert await house.output(await house.start(mapped(None, {"name": "a"}), {"items": given})) == output


@pytest.mark.parametrize("given", ["no list", 3, None, {"a": 1}, '{"a": 1}'])
async def test_what_is_no_list_is_an_error(house: Harness, given: Any) -> None:
    run = await house.start(mapped(None, {"name": "a"}), {"items": given})
    error = (await house.result(run)).error
    assert error.type == "input_invalid"
    assert "m needs a list" in error.message


async def test_items_one_at_a_time_share_the_context(house: Harness) -> None:
    body = {"name": "a", "input": "{{ context.seen + [item] }}", "sink_to": "seen"}
    run = await house.start(mapped(None, body), items(4))
    assert (await house.result(run)).context == {"seen": [0, 1, 2, 3]}
    assert (await house.output(run))[-1] == [0, 1, 2, 3]


async def test_items_at_once_have_forks_that_are_joined_in_order(house: Harness) -> None:
    body = {
        "name": "a",
        "uses": "context_set",
        "input": {"path": "by.{{ item }}", "value": "{{ context.seen | length }}"},
    }
    run = await house.start(mapped(None, body, max_concurrency=5), items(12))
    by = (await house.result(run)).context["by"]
    assert list(by) == [str(n) for n in range(12)]
    assert set(by.values()) == {0}


@pytest.mark.slow
async def test_two_items_at_once_that_change_one_path_are_an_error_that_names_both(house: Harness) -> None:
    body = {"name": "a", "input": "{{ item }}", "sink_to": "last.one"}
    for count in (3, 120):
        run = await house.start(mapped(None, body, max_concurrency=3), items(count))
        error = (await house.result(run)).error
        assert error.type == "context_conflict"
        assert error.message.startswith("item 0 and item 1 both change last.one, to different values; concurrent items")


async def test_three_items_ask_three_questions_and_get_three_answers(house: Harness) -> None:
    body = [{"kind": "hitl", "name": "ask", "message": "Item {{ item }}?"}]
    run = await house.start(mapped(None, body), items(3))
    assert await house.answered(run, "a", "b", "c") == ["Item 0?", "Item 1?", "Item 2?"]
    assert await house.output(run) == ["a", "b", "c"]
    run = await house.start(mapped(None, body, max_concurrency=3), items(3))
    asked = await house.asked(run, 3)
    assert [one.address for one in asked] == [f"pipeline:test;map:m:{n};hitl:ask" for n in range(3)]
    for question in reversed(asked):
        await house.answer(run, question.message, question)
    assert await house.output(run) == ["Item 0?", "Item 1?", "Item 2?"]


@pytest.mark.first_row
@pytest.mark.parametrize("count", [6, 130])
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_failed_items_fail_the_map_or_give_null(house: Harness, count: int, concurrency: int) -> None:
    body = {"name": "a", "input": BOOM}
    run = await house.start(mapped(None, body, max_concurrency=concurrency), items(count))
    error = (await house.result(run)).error
    assert (error.type, error.address) == ("expression_error", "pipeline:test;map:m:2;step:a")
    run = await house.start(mapped(None, body, max_concurrency=concurrency, on_item_error="continue"), items(count))
    assert await house.output(run) == [None if n in (2, 4) else n * 10 for n in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize(("count", "done"), [(50, 45), (51, 45), (101, 95)])
async def test_a_map_that_fails_keeps_what_its_completed_items_wrote(house: Harness, count: int, done: int) -> None:
    body = {"name": "a", "input": f"{{{{ 1 / ({done} - index) and index + 1 }}}}", "sink_to": "done"}
    step = yaml.safe_load(mapped(None, body))["steps"][0] | {"on_error": "continue"}
    steps = [step, {"name": "end", "input": "{{ context.done }}"}]
    assert await house.output(await house.start(yaml.safe_dump({"steps": steps}), items(count))) == done


async def test_a_person_says_what_becomes_of_a_failed_item(house: Harness) -> None:
    text = mapped(None, {"name": "a", "input": BOOM}, on_item_error="ask")
    run = await house.start(text, items(5))
    question = await house.one(run)
    assert question.address == "pipeline:test;map:m:2"
    assert question.info["input"] == 2
    await house.answer(run, {"action": "edit", "input": 7}, question)

    async def next_asked() -> bool:
        return [one.address for one in await house.runs.questions(run)] == ["pipeline:test;map:m:4"]

    await until(next_asked)
    await house.answer(run, {"action": "skip", "value": "none"})
    assert await house.output(run) == [0, 10, 70, 30, "none"]


@pytest.mark.slow
async def test_a_thousand_items_go_page_by_page_with_small_histories(house: Harness) -> None:
    body = [
        {"name": "a", "input": "{{ item + 1 }}"},
        {"name": "sum", "input": "{{ context.sum | default(0) + item }}", "sink_to": "sum"},
    ]
    run = await house.start(mapped(None, body), items(1_000))
    assert await house.output(run) == [sum(range(n + 1)) for n in range(1_000)]
    histories = await house.histories(run)
    assert len(histories) == 22
    assert max(len(history.events) for history in histories) < 400


@pytest.mark.slow
async def test_a_question_in_a_large_map_goes_on_in_its_item(house: Harness) -> None:
    ask = {"kind": "hitl", "name": "ask", "message": "{{ item }}?", "when": "item == 77"}
    run = await house.start(mapped(None, [ask, {"name": "a", "input": "{{ steps.ask.output or item }}"}]), items(120))
    question = await house.one(run)
    assert question.address == "pipeline:test;map:m:77;hitl:ask"
    await house.answer(run, "here", question)
    assert await house.output(run) == [*range(77), "here", *range(78, 120)]
    assert (await house.types(run)).count("item.started") == 120


@pytest.mark.parametrize("in_workflow", [4, 2], ids=["pages", "pages of pages"])
async def test_items_that_wait_hold_back_none_in_another_page(house: Harness, in_workflow: int) -> None:
    """As many are asked as may be under way at once, whichever is answered: the first two are never, but at the end."""
    ask = [{"kind": "hitl", "name": "ask", "message": "{{ item }}"}]
    limits = HistoryLimits(items=in_workflow)
    run = await house.start(mapped(None, ask, max_concurrency=3), items(10), history_limits=limits)
    asked = await house.asked(run, 3)
    for n in range(2, 10):
        assert [question.message for question in asked] == ["0", "1", str(n)]
        await house.answer(run, "later", asked[-1])
        asked = await house.asked(run, 3 if n < 9 else 2)
    for question in asked:
        await house.answer(run, "at last", question)
    assert await house.output(run) == ["at last"] * 2 + ["later"] * 8


async def test_a_loop_in_a_map_in_a_loop_keeps_its_places_apart(house: Harness) -> None:
    inner = {
        "kind": "loop",
        "name": "in",
        "loop": {"max_loops": 2, "body": [{"name": "a", "input": "{{ item }}-{{ iteration }}"}]},
    }
    block = {"iterable_input": "[1, 2]", "body": [inner]}
    outer = {"max_loops": 2, "body": [{"kind": "map", "name": "m", "map": block}]}
    run = await house.start(yaml.safe_dump({"steps": [{"kind": "loop", "name": "out", "loop": outer}]}))
    assert await house.output(run) == ["1-2", "2-2"]


# Parallel branches


def branched(branches: dict[str, Any], **more: Any) -> str:
    steps = [{"kind": "parallel", "name": "p", "branches": branches, **more}]
    return yaml.safe_dump({"context": {"n": 1, "deep": {"a": 1}}, "steps": steps}, sort_keys=False)


def gives(value: Any) -> dict[str, Any]:
    return {"name": "v", "input": value}


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("reduce", "values", "output"),
    [
        (None, {"b": 1, "a": 2}, {"b": 1, "a": 2}),
        ("keys", {"b": 1, "a": 2}, ["b", "a"]),
        ("values", {"b": 1, "a": 2}, [1, 2]),
        ("union", {"b": {"x": 1, "y": 1}, "a": {"y": 2}}, {"x": 1, "y": 2}),
        ("concat", {"b": [1, 2], "a": [2]}, [1, 2, 2]),
        ("dedupe", {"b": [1, 2, 1], "a": [2, True, {"k": 1}, {"k": 1}]}, [1, 2, True, {"k": 1}]),
        ("first", {"b": 1, "a": 2}, 1),
        ("last", {"b": 1, "a": 2}, 2),
        ("majority_vote", {"b": "x", "a": "y", "c": "y"}, "y"),
        ("majority_vote", {"b": "x", "a": "y"}, "x"),
    ],
)
async def test_outputs_are_reduced_in_declared_order(house: Harness, reduce: Any, values: Any, output: Any) -> None:
    text = branched({name: gives(value) for name, value in values.items()}, **({"reduce": reduce} if reduce else {}))
    result = await house.output(await house.start(text))
    assert result == output
    assert not isinstance(output, dict) or list(result) == list(output)


async def test_a_reducer_that_does_not_fit_names_the_branch(house: Harness) -> None:
    run = await house.start(branched({"a": gives([1]), "b": gives("{{ input }}")}, reduce="concat"), 2)
    assert "branch 'b' is not a list" in (await house.result(run)).error.message


@pytest.mark.parametrize(
    ("strategy", "context"),
    [
        ("overwrite", {"n": 3, "deep": {"a": 1, "x": 1, "y": 2}}),
        ("keep_first", {"n": 2, "deep": {"a": 1, "x": 1, "y": 2}}),
        ("no_merge", {"n": 1, "deep": {"a": 1}}),
        ("context_update", "branches 'one' and 'two' both change n"),
        ("error_on_conflict", "branches 'one' and 'two' both change n"),
    ],
)
async def test_branches_are_joined_as_the_strategy_says(house: Harness, strategy: str, context: Any) -> None:
    def branch(n: int, key: str) -> list[Any]:
        return [{"name": "n", "input": n, "sink_to": "n"}, {"name": "k", "input": n - 1, "sink_to": f"deep.{key}"}]

    run = await house.start(branched({"one": branch(2, "x"), "two": branch(3, "y")}, merge_strategy=strategy))
    outcome = await house.result(run)
    assert outcome.error.message == context if isinstance(context, str) else outcome.context == context


async def test_the_same_change_twice_is_no_conflict_unless_none_is_allowed(house: Harness) -> None:
    same = {"name": "s", "input": 5, "sink_to": "n"}
    assert (await house.result(await house.start(branched({"a": same, "b": same})))).context["n"] == 5
    strict = branched({"a": same, "b": same}, merge_strategy="error_on_conflict")
    assert (await house.result(await house.start(strict))).error.type == "context_conflict"


async def test_branches_see_and_give_only_what_they_are_meant_to(house: Harness) -> None:
    writes = [
        {"name": "x", "input": "{{ context.deep is defined }}", "sink_to": "x"},
        {"name": "y", "input": 1, "sink_to": "y"},
    ]
    text = branched({"a": writes}, context_include_keys=["n"], field_mapping={"a": ["x"]})
    assert (await house.result(await house.start(text))).context == {"n": 1, "deep": {"a": 1}, "x": False}


async def test_a_failing_branch_cancels_the_others_and_is_raised_as_itself(house: Harness) -> None:
    run = await house.start(
        branched({"ask": {"kind": "hitl", "name": "h", "message": "?"}, "bad": gives("{{ 1 / 0 }}")})
    )
    error = (await house.result(run)).error
    assert (error.type, error.address) == ("expression_error", "pipeline:test;parallel:p;branch:bad;step:v")
    assert "question.cancelled" in await house.types(run)


async def test_a_failing_branch_may_be_ignored_as_long_as_one_is_left(house: Harness) -> None:
    bad = gives("{{ 1 / 0 }}")
    run = await house.start(branched({"a": bad, "b": gives(2)}, on_branch_failure="ignore"))
    assert await house.output(run) == {"a": None, "b": 2}
    run = await house.start(branched({"a": bad, "b": gives(2)}, on_branch_failure="ignore", reduce="values"))
    assert await house.output(run) == [2]
    run = await house.start(branched({"a": bad, "b": bad}, on_branch_failure="ignore"))
    assert (await house.result(run)).error.address.endswith("branch:a;step:v")


async def test_a_question_in_one_branch_does_not_run_the_other_again(house: Harness) -> None:
    count = {"name": "c", "uses": "counted", "input": {"folder": str(house.folder), "name": "c"}}
    ask = {"kind": "hitl", "name": "h", "message": "Go?"}
    run = await house.start(branched({"work": [count], "ask": [ask]}))
    await house.answer(run, "yes")
    assert await house.output(run) == {"work": "c 1", "ask": "yes"}
    assert calls(house.folder, "c") == 1


@pytest.mark.slow
async def test_loops_of_one_name_in_two_branches_do_not_meet(house: Harness) -> None:
    loop = {
        "kind": "loop",
        "name": "l",
        "loop": {"max_loops": 2, "body": [{"kind": "hitl", "name": "h", "message": "{{ iteration }}?"}]},
    }
    run = await house.start(branched({"a": [loop], "b": [loop]}))
    for _ in range(2):
        for question in await house.asked(run, 2):
            await house.answer(run, question.address[-12:-7], question)
    assert set(await house.output(run)) == {"a", "b"}


@pytest.mark.slow
async def test_the_trace_shows_branches_and_items(house: Harness) -> None:
    run = await house.start(branched({"a": gives(1), "b": gives(2)}))
    await house.output(run)
    [span] = (await house.runs.watch.trace(await house.runs.state(run))).to_json()["steps"]
    assert {name: [step["output"] for step in steps] for name, steps in span["branches"].items()} == {
        "a": [1],
        "b": [2],
    }
    run = await house.start(mapped(None, {"name": "a"}), items(2))
    await house.output(run)
    [span] = (await house.runs.watch.trace(await house.runs.state(run))).to_json()["steps"]
    assert [(one["n"], one["steps"][0]["output"]) for one in span["items"]] == [(0, 0), (1, 1)]
