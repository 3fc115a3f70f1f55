"""JSON plans: what they say, laid out so that it can be run."""

from holdfast.blueprint.plan.answers import answer_of, asks, confirms, informs, options_of, question_text, wants_a_yes
from holdfast.blueprint.plan.conditions import Condition
from holdfast.blueprint.plan.layout import Fault, Layout, LoopUnit, StepUnit, Unit, laid_out, spelled_id
from holdfast.blueprint.plan.references import Reference, filled

__all__ = [
    "Condition",
    "Fault",
    "Layout",
    "LoopUnit",
    "Reference",
    "StepUnit",
    "Unit",
    "answer_of",
    "asks",
    "confirms",
    "filled",
    "informs",
    "laid_out",
    "options_of",
    "question_text",
    "spelled_id",
    "wants_a_yes",
]
