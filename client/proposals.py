"""A plan that a question asks about, in plain words. Terminals, the inbox and assistants show it in place of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.questions import Question

if TYPE_CHECKING:
    from holdfast.blueprint.explain.proposals import Proposal

_TOLD = ("goal", "tools", "changes")
"""Details of the review that the description holds: the goal stands in the message."""


def describe_proposal(question: Question) -> str | None:
    """Return the plan that a person is to review, in the words of its language; None for any other question."""
    proposal = read_proposal(question)
    return None if proposal is None else proposal.to_text()


def question_json(question: Question) -> JSONObject:
    """Return a question as programs get it: of a plan that is to be reviewed with the plan in words, `proposal`."""
    proposal = describe_proposal(question)
    return {**question.model_dump(mode="json"), **({} if proposal is None else {"proposal": proposal})}


def read_proposal(question: Question) -> Proposal | None:
    """Return the plan that a person is to review, line by line; None for a question about anything else."""
    info = question.info
    if not question.asked.verdicts or not isinstance(info, dict) or not _looks_like_plan(info.get("payload")):
        return None
    # Only where there is a plan: every command that prints questions would start later.
    from holdfast.blueprint.explain.proposals import describe_plan  # noqa: PLC0415

    about = info.get("about")
    return describe_plan(info["payload"], about if isinstance(about, dict) else {})


def details_beside(question: Question) -> JSON:
    """Return what a review of a plan says beside the plan, such as what has changed in it; None for nothing."""
    about = question.info.get("about") if isinstance(question.info, dict) else None
    if not isinstance(about, dict):
        return about
    return {key: value for key, value in about.items() if key not in _TOLD} or None


def _looks_like_plan(value: object) -> bool:
    return isinstance(value, dict) and "goal" in value and isinstance(value.get("steps"), list)
