"""Plans as they are written: three ways to write a loop, references, conditions, and all that can be wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.evaluation import render
from holdfast.blueprint.kinds import Agent, Plan, PlanBody
from holdfast.blueprint.load import loads, parse
from holdfast.blueprint.load.plans import plain_plan, read_plan
from holdfast.blueprint.plan.answers import read_meaning
from holdfast.blueprint.plan.compile import compile_plan
from holdfast.blueprint.plan.conditions import parse_condition
from holdfast.blueprint.plan.layout import Layout, LoopUnit, StepUnit
from holdfast.blueprint.plan.references import BadText, make_template, references_in
from tests.blueprint.plan_texts import evaluate_condition

Json = dict[str, Any]


def step(id_: str, instruction: str = "Do it", **more: Any) -> Json:
    return {"id": id_, "instruction": instruction, **more}


def body_of(text: str) -> PlanBody:
    [only] = loads(text, file="plan.json").steps
    assert isinstance(only, Plan)
    return only.plan


def laid(*steps: Json, **more: Any) -> Layout:
    layout, faults = compile_plan(body_of(json.dumps({"goal": "A test", "steps": list(steps), **more})))
    assert not faults
    return layout


def told(*steps: Json, **more: Any) -> list[str]:
    """What is wrong, as path and message."""
    document = {"goal": "A test", "steps": list(steps), **more}
    return [f"{one.path}: {one.message}" for one in parse(json.dumps(document), file="plan.json").problems]


def loop_of(layout: Layout, id_: str) -> LoopUnit:
    unit = layout.units_by_id[id_]
    assert isinstance(unit, LoopUnit)
    return unit


def ids(units: tuple[Any, ...]) -> list[str]:
    return [unit.id for unit in units]


# Loops


def test_the_three_ways_to_write_a_loop_mean_the_same() -> None:
    body = [step("4", "Update CURRENT_ITEM"), step("5", "Tell RESULT_FROM_4", dependencies=["4"])]
    after = step("6", "Sum up", dependencies=["events"])
    block = laid(step("1"), *body, after, loop_blocks={"events": {"over": "RESULT_FROM_1", "steps": ["4", "5"]}})
    head = {"id": "events", "loopover": "RESULT_FROM_1", "start_step": "4", "dependencies": ["1"]}
    pseudo = laid(step("1"), head, *body, after)
    for layout in (block, pseudo):
        assert ids(layout.units) == ["1", "events", "6"]
        assert ids(loop_of(layout, "events").body) == ["4", "5"]
        assert (loop_of(layout, "events").waits, layout.units_by_id["6"].waits) == (("1",), ("events",))
    alone = laid(step("1"), step("4", "Update CURRENT_ITEM", loopover="RESULT_FROM_1"), step("6", "See RESULT_FROM_4"))
    assert ids(alone.units) == ["1", "loop_4", "6"]
    assert alone.units_by_id["6"].waits == ("loop_4",)


def test_a_step_may_loop_over_a_list_as_it_stands() -> None:
    assert loop_of(laid(step("1", "See CURRENT_ITEM", loopover=["a", "b"])), "loop_1").block.over == ["a", "b"]


def test_a_condition_of_a_looping_step_is_the_loops_unless_it_speaks_of_the_item() -> None:
    whole = laid(step("1"), step("2", loopover="RESULT_FROM_1", condition="RESULT_FROM_1 is not empty"))
    assert loop_of(whole, "loop_2").condition is not None
    assert whole.units_by_id["2"].condition is None
    each = laid(step("1"), step("2", loopover="RESULT_FROM_1", condition="CURRENT_ITEM contains x"))
    assert loop_of(each, "loop_2").condition is None
    assert each.units_by_id["2"].condition is not None


def test_what_a_loops_step_needs_the_loop_waits_for() -> None:
    layout = laid(
        step("1"),
        step("2"),
        step("4", "With RESULT_FROM_2"),
        loop_blocks={"all": {"over": "RESULT_FROM_1", "steps": ["4"]}},
    )
    assert sorted(loop_of(layout, "all").waits) == ["1", "2"]
    assert loop_of(layout, "all").needs == ("1",)
    assert layout.units_by_id["4"].needs == ("2",)


def test_loops_stand_in_loops_three_deep_and_no_deeper() -> None:
    blocks = {
        "a": {"over": [1], "steps": ["b"]},
        "b": {"over": [1], "steps": ["c"]},
        "c": {"over": [1], "steps": ["1"]},
    }
    assert laid(step("1"), loop_blocks=blocks).list_loops("1") == ("a", "b", "c")
    deeper = {"z": {"over": [1], "steps": ["a"]}, **blocks}
    assert told(step("1"), loop_blocks=deeper) == ["loop_blocks.c: loops are nested 4 deep: c in b in a in z"]


def test_ids_are_found_with_and_without_step_in_front() -> None:
    layout = laid(step("step_1"), step("2", "RESULT_FROM_1", dependencies=["1"]), step("3", dependencies=["step_2"]))
    assert layout.units_by_id["2"].needs == ("step_1",)
    assert layout.units_by_id["3"].needs == ("2",)


def test_numbers_are_ids_and_null_is_nothing() -> None:
    layout = laid(
        {"id": 1, "instruction": "x", "condition": None, "tools": None, "service": ""}, step("2", dependencies=[1])
    )
    assert layout.units_by_id["2"].waits == ("1",)


# Everything that is wrong


def test_everything_that_is_wrong_is_told_at_once() -> None:
    found = told(
        step("1", "RESULT_FROM_3", dependencies=["2"]),
        step("2", dependencies=["1", "nope"]),
        step("2"),
        step("a-b"),
        step("5", "RESULT_FROM5 and CURRENT_ITEM"),
        step("6", "CURRENT_ITEM", condition="RESULT_FROM_1 likes it"),
        loop_blocks={"x": {"over": "participants", "steps": ["9"]}, "y": {"over": [1], "steps": []}},
    )
    assert sorted(found) == [
        "loop_blocks.x.over: 'participants' is neither a reference nor a list",
        "loop_blocks.x.steps[0]: there is no step '9'",
        "loop_blocks.y.steps: 'steps' is empty",
        "steps[0].dependencies: these wait for each other: 1 -> 2 -> 1",
        "steps[0].instruction: there is no step or loop '3'",
        "steps[1].dependencies[1]: there is no step or loop 'nope'",
        "steps[2].id: the id '2' is taken by steps[1]",
        "steps[3].id: 'a-b' is not an id",
        "steps[4].instruction: 'RESULT_FROM5' is not a reference",
        "steps[5].condition: unknown operator 'likes'",
        "steps[5].instruction: CURRENT_ITEM is outside every loop",
    ]


@pytest.mark.parametrize(
    ("steps", "more", "message"),
    [
        ([], {}, "steps: 'steps' is empty"),
        ([step("1", "")], {}, "steps[0].instruction: 'instruction' is empty"),
        ([step("1", dependencies=["1"])], {}, "steps[0].dependencies[0]: '1' depends on itself"),
        ([step("1", "RESULT_FROM_1")], {}, "steps[0].instruction: RESULT_FROM_1 is not available before '1' has run"),
        ([step("1", start_step="1")], {}, "steps[0].loopover: 'start_step' makes the step a loop, and 'loopover'"),
        ([step("1", options=["a"])], {}, "steps[0].options: 'options' belongs to questions"),
        (
            [step("1", "ASK_INFO: x", options=["a", "A "])],
            {},
            "steps[0].options[1]: the option 'A ' appears twice",
        ),
        ([step("1", "CONFIRM_ACTION:")], {}, "steps[0].instruction: the question is empty"),
        ([step("1", "ASK_INFO: x", on_timeout="skip")], {}, "steps[0].timeout: 'on_timeout' needs a 'timeout'"),
        (
            [step("1", "CONFIRM_ACTION: x", timeout="1d", on_timeout="default")],
            {},
            "steps[0].default: on_timeout: default needs a 'default'",
        ),
        (
            [step("1"), step("2", "RESULT_FROM_1.name")],
            {},
            "steps[1].instruction: RESULT_FROM_1.name selects a part of a value, which a reference cannot",
        ),
        (
            [step("1"), step("2")],
            {"loop_blocks": {"a": {"over": [1], "steps": ["1"]}, "b": {"over": [1], "steps": ["1"]}}},
            "loop_blocks.b.steps[0]: '1' is in two loops, 'a' and 'b'",
        ),
        (
            [step("1")],
            {"loop_blocks": {"a": {"over": [1], "steps": ["b"]}, "b": {"over": [1], "steps": ["a"]}}},
            "loop_blocks.a.steps: loops contain each other: a in b in a",
        ),
        (
            [step("1")],
            {"loop_blocks": {"a": {"over": "RESULT_FROM_1", "steps": ["1"]}}},
            "loop_blocks.a.over: the loop 'a' waits for '1', which is inside it",
        ),
        (
            [step("1", "CURRENT_ITEM_b")],
            {"loop_blocks": {"a": {"over": [1], "steps": ["1"]}}},
            "steps[0].instruction: CURRENT_ITEM_b: no loop 'b' is around this step",
        ),
        ([step("1"), step("2", condition="RESULT_FROM_1 contains")], {}, "steps[1].condition: the value after"),
        (
            [step("1"), step("2", condition="RESULT_FROM_1 equals a AND RESULT_FROM_1 equals b")],
            {},
            "steps[1].condition: AND joins two conditions, and a condition is one comparison",
        ),
        ([step("1"), step("2", condition="RESULT_FROM_1 > many")], {}, "steps[1].condition: 'many' after '>'"),
        (
            [step("1"), step("2", condition="RESULT_FROM_1 contains a and contains b")],
            {},
            "steps[1].condition: and joins two conditions",
        ),
        (
            [step("1"), step("2"), step("3", condition="RESULT_FROM_1 equals the RESULT_FROM_2")],
            {},
            "steps[2].condition: 'the RESULT_FROM_2' stands after 'equals'",
        ),
        ([step("1", arguments={"to": "ana"})], {}, "steps[0].arguments: 'arguments' belongs to a step with one tool"),
        (
            [step("1", tools=["t", "u"], arguments={})],
            {},
            "steps[0].arguments: 'arguments' belongs to a step with one tool",
        ),
        ([step("1", tools=["t"], arguments={"to": ["CURRENT_ITEM"]})], {}, "steps[0].arguments: CURRENT_ITEM is"),
        ([step("1", tools=["t"], arguments={"to": "RESULT_FROM_7"})], {}, "steps[0].arguments: there is no step"),
        ([step("1", tools=["t"], args={"to": "ana"})], {}, "steps[0].args: unknown key 'args'"),
        ([step("1", "First, CONFIRM_ACTION: Delete?")], {}, "steps[0].instruction: CONFIRM_ACTION does not make"),
        (
            [step("1", "CONFIRM_ACTION: Delete?", options=["Supprimer", "Garder"], tools=["t"])],
            {},
            "steps[0].options: none of the options means yes, so the tools would never run",
        ),
        (
            [
                step("1", "CONFIRM_ACTION: Envoyer ?", options=["Envoyer", "Plus tard"]),
                step("2", condition="RESULT_FROM_1 contains confirmed"),
            ],
            {},
            "steps[1].condition: no option of '1' means yes, so that it is never confirmed",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place(steps: list[Json], more: Json, message: str) -> None:
    assert any(one.startswith(message) for one in told(*steps, **more))


@pytest.mark.parametrize(
    "steps",
    [
        [step("1"), step("2", condition="RESULT_FROM_1 contains 'a and contains b'")],
        [step("0"), step("1", "CONFIRM_ACTION: Send?", options=["RESULT_FROM_0"], tools=["t"])],
        [step("1", "CONFIRM_ACTION: Send?", options=["Envoyer", {"text": "Maintenant", "type": 1}], tools=["t"])],
        [step("1", "CONFIRM_ACTION: Whom?", options=["all", "nobody"])],
    ],
)
def test_what_only_looks_like_a_mistake_is_none(steps: list[Json]) -> None:
    assert told(*steps) == []


def test_a_plan_file_is_told_by_its_own_paths_and_places() -> None:
    text = '{\n  "goal": "x",\n  "steps": [{"id": "1", "instruction": "y", "dependancies": []}]\n}'
    [problem] = parse(text, file="plan.json").problems
    assert str(problem) == (
        "plan.json:3:45 steps[0].dependancies: unknown key 'dependancies' (did you mean 'dependencies'?)"
    )


def test_a_plan_file_runs_with_the_model_that_it_names_or_the_default() -> None:
    assert body_of('{"goal": "x", "steps": [{"id": "1", "instruction": "y"}]}').agent is None
    named = body_of('{"goal": "x", "agent": "echo", "steps": [{"id": "1", "instruction": "y"}]}').agent
    assert named is not None and not isinstance(named, str) and named.model == "echo"


# References


def test_a_whole_reference_gives_the_value_and_one_in_a_text_its_words() -> None:
    names: dict[str, Json] = {"RESULT_FROM_1": [1, "a"], "RESULT_FROM_10": None}
    assert render(make_template(" RESULT_FROM_1 ", str), names) == [1, "a"]
    assert render(make_template("RESULT_FROM_1, RESULT_FROM_10!", str), names) == '[1,"a"], !'


@pytest.mark.parametrize(
    "text", ["{{ input }}", "{RESULT_FROM_1}", "a\r\nRESULT_FROM_1\n", "{% if x %}RESULT_FROM_1", "{#"]
)
def test_what_stands_around_a_reference_stays_as_it_is(text: str) -> None:
    assert render(make_template(text, str), {"RESULT_FROM_1": "{{ x }}"}) == text.replace("RESULT_FROM_1", "{{ x }}")


def test_a_long_result_is_copied_into_a_text() -> None:
    assert render(make_template("On RESULT_FROM_1", str), {"RESULT_FROM_1": "a" * 300_000}) == f"On {'a' * 300_000}"


def test_a_text_that_is_too_long_for_a_template_is_refused() -> None:
    with pytest.raises(BadText, match="is longer than 64 KiB"):
        references_in("a" * 70_000 + " RESULT_FROM_1")
    assert references_in("a" * 70_000) == []


def test_an_item_is_that_of_the_loop_which_is_named() -> None:
    inner = {"id": "inner", "over": ["a"], "steps": ["1"]}
    outer = {"id": "outer", "over": ["b"], "steps": ["inner"]}
    layout = laid(step("1"), step("2"), loop_blocks={"inner": inner, "outer": outer})
    text = "CURRENT_ITEM CURRENT_ITEM_inner CURRENT_ITEM_outer LOOP_INDEX_outer"
    template = layout.write_template({"a": [text]}, layout.units_by_id["1"])
    items = {"item": "in", "index": 0, "loops": {"outer": {"item": "out", "index": 7}}}
    assert render(template, items) == {"a": ["in in out 7"]}


def test_what_only_looks_like_a_reference_is_text() -> None:
    assert references_in("MY_RESULT_FROM_1, result_from_1, CURRENT_ITEMS, LOOP_INDEXES") == []
    assert make_template("CURRENT_ITEMS", lambda one: "never") == "CURRENT_ITEMS"


# Conditions


def came(response: str, outcome: str) -> Json:
    """What is kept of an answer."""
    return {"response": response, "outcome": outcome, "option_index": 1, "option_type": 1}


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        ("contains confirmed", {"event_status": "Confirmed"}, True),
        ("contains confirmed", {"confirmed": "no"}, False),
        ("contains confirmed", [{"status": "confirmed"}], True),
        ("contains confirmed", None, False),
        ("not contains confirmed", None, True),
        ("not_contains confirmed", "unconfirmed", False),
        ("contains confirmed", came("No, not confirmed", "cancelled"), False),
        ("equals confirmed", came("Oui", "confirmed"), True),
        ("contains CANCELED", came("Non", "cancelled"), True),
        ("contains lyon", came("Lyon, or Paris", "other"), True),
        ("contains 1", came("Oui", "confirmed"), False),
        (
            "contains confirmed",
            [{"response": "No, not confirmed", "data": came("No, not confirmed", "cancelled")}],
            False,
        ),
        ("contains confirmed", {"response": "200", "outcome": "done", "status": "confirmed"}, True),
        ("contains confirmed", '{"confirmed": false}', False),
        ("> 1", '{"events": [1, 2]}', True),
        ("equals 5", 5.0, True),
        ("equals oui", True, True),
        ("equals non", True, False),
        ("equals null", None, True),
        ('equals {"a": [1]}', {"a": [1]}, True),
        ("equals 'a b'", " A B ", True),
        ("not_equals a", "b", True),
        ("is empty", " ", True),
        ("is empty", [], True),
        ("is not empty", 0, True),
        ("> 5", 6, True),
        ("> 5", [1] * 6, True),
        (">= 2", {"count": 2, "events": [1, 2]}, True),
        ("< 2.5", "2", True),
        ("<= 1", 2, False),
        ("contains confirmed", came("Oui", "confirmed"), True),
        ("equals CANCELED", came("Non", "cancelled"), True),
    ],
)
def test_conditions_compare_what_planners_mean(condition: str, value: Any, holds: bool) -> None:
    assert evaluate_condition(f"RESULT_FROM_1 {condition}", value) is holds
    assert evaluate_condition(f"not( RESULT_FROM_1 {condition} )", value) is not holds


def test_what_has_no_size_is_not_compared_by_size() -> None:
    with pytest.raises(ExpressionError, match="neither a number nor a list"):
        evaluate_condition("RESULT_FROM_1 > 5", "many")


def test_an_operator_of_another_language_is_told_in_ours() -> None:
    with pytest.raises(BadText, match="unknown operator '=='") as caught:
        parse_condition("RESULT_FROM_1 == 3")
    assert caught.value.hint == "write equals"


@pytest.mark.parametrize(
    ("text", "type_"),
    [("Yes, send", 1), ("Oui", 1), ("OK", 1), ("Non merci", 0), ("Annuler", 0), ("No, cancel", 0), ("Plus tard", 2)],
)
def test_options_are_told_apart_by_their_words(text: str, type_: int) -> None:
    plan = body_of(json.dumps({"goal": "x", "steps": [step("1", "ASK_INFO: x", options=[text])]}))
    assert read_meaning(plan.steps[0].options[0]) == type_


# Reading


AUTHOR = PlanBody(source="{{ input }}")


def test_a_plan_is_read_from_a_text_with_a_fence_around() -> None:
    text = 'Here it is:\n```json\n{"goal": "x", "steps": [{"id": 1, "instruction": "y"}]}\n```'
    assert [one.id for one in read_plan(text, AUTHOR, {}).steps] == ["1"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no plan", "this is not JSON"),
        ([1], "not a plan: this looks like a list"),
        ({"goal": "x", "steps": [], "confirm": True}, "confirm: 'confirm' belongs in the blueprint"),
        ({"goal": "x", "steps": [], "driver": "agent"}, "driver: the blueprint decides who drives the plan"),
        (
            {"goal": "x", "steps": [step("1", agent={"model": "openai-compatible:x@http://evil"})]},
            "steps[0].agent: a plan that is read may only name agents of the blueprint",
        ),
        ({"goal": "x", "steps": [step("1", agent="nobody")]}, "steps[0].agent: unknown agent 'nobody'"),
        ({"goal": "x", "steps": [step("1", dependencies=["2"])]}, "steps[0].dependencies[0]: there is no step"),
    ],
)
def test_a_value_that_is_no_plan_is_told_by_its_paths(value: Any, message: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        read_plan(value, AUTHOR, {"clerk": Agent(model="echo")})
    assert message in str(caught.value)


def test_a_plan_reads_again_what_it_is_shown_as() -> None:
    plan = read_plan({"goal": "x", "steps": [step("1", "ASK_INFO: y", options=["a"]), step("2")]}, AUTHOR, {})
    assert read_plan(plain_plan(plan), AUTHOR, {}) == plan


def test_units_tell_where_they_stand_in_the_plan() -> None:
    layout = laid(step("1"), step("2", "CURRENT_ITEM"), loop_blocks={"all": {"over": "RESULT_FROM_1", "steps": ["2"]}})
    assert {unit.id: unit.path for unit in layout.units_by_id.values()} == {
        "1": "steps[0]",
        "all": "loop_blocks.all",
        "2": "steps[1]",
    }
    assert all(isinstance(unit, StepUnit | LoopUnit) for unit in layout.units_by_id.values())


def test_a_plan_too_long_to_be_read_in_a_workflow_is_refused() -> None:
    plan = {"goal": "x", "steps": [step("1", "word " * 60_000)]}
    with pytest.raises(BlueprintError, match="more than 262,144"):
        read_plan(plan, AUTHOR, {})


def test_of_many_cycles_some_are_shown() -> None:
    pairs = [(str(number), str(number + 1)) for number in range(0, 60, 2)]
    steps = [step(id_, dependencies=[other]) for pair in pairs for id_, other in (pair, pair[::-1])]
    found = told(*steps)
    assert len(found) == 20
    assert found[1] == "steps[2].dependencies: these wait for each other: 2 -> 3 -> 2"


def test_a_step_may_use_a_tool_of_a_server_that_its_agent_lists() -> None:
    agents = {"clerk": {"model": "echo", "tools": ["mcp:files"]}}

    def problems(tool: str) -> list[str]:
        plan = {"goal": "x", "agent": "clerk", "steps": [step("1", tools=[tool])]}
        blueprint = {"agents": agents, "steps": [{"kind": "plan", "name": "p", "plan": plan}]}
        return [problem.message for problem in parse(json.dumps(blueprint)).problems]

    assert problems("mcp:files/read") == []
    assert problems("mcp:mails/read") == ["the agent has no tool 'mcp:mails/read'"]
