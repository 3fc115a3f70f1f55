"""The kinds of questions to people, and the open question as clients see it.

A kind is one class with its traits; it checks and converts the content of an answer, in workflows and in clients alike.
"""

from holdfast.protocol.questions.action import RESPOND, ActionReview, Confirmation, PayloadConfirmation
from holdfast.protocol.questions.awaited import AwaitedEvent
from holdfast.protocol.questions.choices import Choice, Clarification, Decision
from holdfast.protocol.questions.consent import REVISE, SCOPES, Permission, Review, review_schema
from holdfast.protocol.questions.custom import CustomQuestion
from holdfast.protocol.questions.elicitation import Elicitation, OpenLink
from holdfast.protocol.questions.forms import EDIT_FORMS, Fact, Input, Judgement, LostCall, json_type
from holdfast.protocol.questions.kind import (
    QUESTION_KINDS,
    YES,
    AnyAsked,
    Asked,
    Draft,
    InvalidAnswer,
    brief,
)
from holdfast.protocol.questions.pauses import Checkpoint, Hold
from holdfast.protocol.questions.question import Question, QuestionRequest, question_of, shown_of
from holdfast.protocol.questions.secret import ROTATE, Secret, value_problem

__all__ = [
    "EDIT_FORMS",
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
    "Fact",
    "Hold",
    "Input",
    "InvalidAnswer",
    "Judgement",
    "LostCall",
    "OpenLink",
    "PayloadConfirmation",
    "Permission",
    "Question",
    "QuestionRequest",
    "Review",
    "Secret",
    "brief",
    "json_type",
    "question_of",
    "review_schema",
    "shown_of",
    "value_problem",
]
