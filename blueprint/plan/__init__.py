"""JSON plans: their texts, questions and conditions, compiled so that they can run."""

from holdfast.blueprint.plan.answers import (
    asks,
    confirms,
    informs,
    list_options,
    question_text,
    read_plan_answer,
    wants_a_yes,
)
from holdfast.blueprint.plan.compile import compile_plan
from holdfast.blueprint.plan.conditions import Condition
from holdfast.blueprint.plan.layout import Fault, Layout, LoopUnit, StepUnit, Unit, known_id
from holdfast.blueprint.plan.questions import compile_question
from holdfast.blueprint.plan.references import Reference
from holdfast.blueprint.plan.work import compile_work

__all__ = [
    "Condition",
    "Fault",
    "Layout",
    "LoopUnit",
    "Reference",
    "StepUnit",
    "Unit",
    "read_plan_answer",
    "asks",
    "confirms",
    "informs",
    "compile_plan",
    "compile_question",
    "compile_work",
    "list_options",
    "question_text",
    "known_id",
    "wants_a_yes",
]
