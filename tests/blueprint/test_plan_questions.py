"""A question of a plan as the ordinary step that asks it, and what its answers give."""

from __future__ import annotations

from typing import Any

from holdfast.blueprint.expressions.evaluation import render
from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.parts import Option
from holdfast.blueprint.plan import StepUnit, compile_plan, compile_question
from holdfast.blueprint.plan.questions import OutcomeQuestion, PlanQuestion


def compiled(instruction: str, *more_steps: dict[str, Any], note: str = "", **more: Any) -> PlanQuestion:
    asking = {"id": "1", "instruction": instruction, **more}
    plan = PlanBody.model_validate({"goal": "A {{ goal }}", "steps": [asking, *more_steps]})
    layout, faults = compile_plan(plan)
    unit = layout.units_by_id["1"]
    assert isinstance(unit, StepUnit) and not faults
    return compile_question(unit, plan, layout, note=note, suggestions=["Soon"])


def made(step: PlanQuestion, **names: Any) -> OutcomeQuestion:
    """The question as the interpreter makes it of the step."""
    assert not isinstance(step.options, str)
    options = [Option(id=option.id, label=render(option.label, names) or "") for option in step.options]
    details = {"details": render(step.details, names)}
    question = step.make_question(str(render(step.message, names)), render(step.default, names), options, None, details)
    assert isinstance(question, OutcomeQuestion)
    return question


def test_what_a_plan_says_is_no_template_and_a_value_is_not_searched_again() -> None:
    step = compiled("CONFIRM_ACTION: Send {{ 1 + 1 }}, RESULT_FROM_2?", {"id": "2", "instruction": "Find it"})
    asked = made(step, steps={"2": {"output": "{{ 3 }} RESULT_FROM_1"}})
    assert asked.message == "Send {{ 1 + 1 }}, {{ 3 }} RESULT_FROM_1?"
    assert asked.info == {"goal": "A {{ goal }}"}


def test_options_that_are_blank_or_appear_twice_are_left_out() -> None:
    options = ["RESULT_FROM_2", "RESULT_FROM_3", "Later"]
    others = [{"id": id_, "instruction": "Find it"} for id_ in "23"]
    step = compiled("ASK_INFO: When?", *others, options=[{"text": text} for text in options])
    assert [option.id for option in made(step, steps={"2": {"output": "later"}, "3": {"output": None}}).choices] == [
        "later"
    ]


def test_words_that_are_neither_a_yes_nor_a_no_are_asked_about_once_and_then_are_a_no() -> None:
    asked = made(compiled("CONFIRM_ACTION: Send?"))
    again = asked.ask_again("yes, but")
    assert again is not None and again.message.startswith("Send?\n\n“yes, but”")
    assert again.ask_again("yes, but") is None
    assert again.read_output("yes, but")["outcome"] == "cancelled"
    assert (asked.ask_again("yes"), asked.read_output("yes")["outcome"]) == (None, "confirmed")


def test_a_model_suggests_answers_only_where_no_yes_is_needed() -> None:
    asked = made(compiled("ASK_INFO: When?", note="It is urgent."))
    assert (asked.message, [option.id for option in asked.choices]) == ("When?\n\nIt is urgent.", ["Soon"])
    confirming = made(compiled("CONFIRM_ACTION: Send?", note="It is urgent."))
    assert (confirming.message, confirming.info["agent_says"]) == ("Send?", "It is urgent.")
    assert [option.id for option in confirming.choices] == ["accept", "refuse"]


def test_people_and_clients_see_an_ordinary_question() -> None:
    kinds = [made(compiled(text)).for_clients().shown_kind for text in ("CONFIRM_ACTION: Send?", "ASK_INFO: When?")]
    assert kinds == ["decision", "input"]
