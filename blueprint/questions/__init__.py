"""The kinds of questions to people.

A kind is one class with its traits; it checks and converts the content of an answer, in workflows and in clients alike.
"""

from holdfast.blueprint.questions.action import RESPOND, ActionReview, Confirmation, PayloadConfirmation
from holdfast.blueprint.questions.awaited import EVENT_REMARKS, AwaitedEvent
from holdfast.blueprint.questions.choices import Choice, Clarification, Decision, Extension
from holdfast.blueprint.questions.consent import REVISE, SCOPES, Permission, Review, review_schema
from holdfast.blueprint.questions.custom import CustomQuestion, KindDefinition, define_kind
from holdfast.blueprint.questions.elicitation import Elicitation, OpenLink
from holdfast.blueprint.questions.forms import Fact, Input, Judgement, LostCall
from holdfast.blueprint.questions.kind import (
    QUESTION_KINDS,
    YES,
    AnyAsked,
    Asked,
    Draft,
    InvalidAnswer,
    QuestionKind,
    asks_people,
    brief,
    find_asked,
    list_kinds_for_steps,
    question_kind,
)
from holdfast.blueprint.questions.pauses import Checkpoint, Hold
from holdfast.blueprint.questions.secret import ROTATE, Secret, value_problem

__all__ = [
    "EVENT_REMARKS",
    "QUESTION_KINDS",
    "RESPOND",
    "REVISE",
    "ROTATE",
    "SCOPES",
    "YES",
    "ActionReview",
    "AnyAsked",
    "Asked",
    "AwaitedEvent",
    "Checkpoint",
    "Choice",
    "Clarification",
    "Confirmation",
    "CustomQuestion",
    "Decision",
    "Draft",
    "Elicitation",
    "Extension",
    "Fact",
    "Hold",
    "Input",
    "InvalidAnswer",
    "Judgement",
    "KindDefinition",
    "LostCall",
    "OpenLink",
    "PayloadConfirmation",
    "Permission",
    "QuestionKind",
    "Review",
    "Secret",
    "asks_people",
    "brief",
    "define_kind",
    "find_asked",
    "list_kinds_for_steps",
    "question_kind",
    "review_schema",
    "value_problem",
]
