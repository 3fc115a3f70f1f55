"""What Temporal's UI shows of a waiting workflow, without our tools: where it stands, and how to answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from protocol.people import who_may
from protocol.questions import Question
from protocol.runs import RefusedSignal, WorkflowView

MOST_SHOWN = 10


def details_of(view: WorkflowView, questions: Sequence[Question]) -> str:
    """Markdown: the blueprint, the place, each open question with the commands that answer it."""
    where = "" if view.iteration is None else f", iteration {view.iteration}"
    lines = [f"**{view.blueprint}** · {view.status}{where}", f"`{view.address}`"]
    for question in questions[:MOST_SHOWN]:
        lines += ["", *_question(question)]
    if len(questions) > MOST_SHOWN:
        lines += ["", f"… and {len(questions) - MOST_SHOWN} more: `holdfast questions {view.run}`"]
    if view.children:
        lines += ["", "Running inside it:", *(f"- `{child}`" for child in view.children[:MOST_SHOWN])]
    lines += [_refused(one) for one in view.refused[-3:]]
    return "\n".join(lines)


def _question(question: Question) -> list[str]:
    lines = [
        f"### Waiting for an answer: {question.kind}",
        *(f"> {line}" for line in question.message[:2000].splitlines()),
    ]
    if question.options:
        lines += ["", *(f"- `{option.id}` {option.label}" for option in question.options[:20])]
    if question.deadline:
        lines += ["", f"By {question.deadline:%Y-%m-%d %H:%M} UTC."]
    if question.people.restricted:
        lines += ["", f"Waits for {who_may(question.people)}. {question.so_far}".strip()]
    if question.kind == "secret":
        told = "It asks for a secret: send no value from here, not by signal and not by update."
        return [*lines, "", told, "", "```", f"holdfast attach {question.run}", "```"]
    return [
        *lines,
        "",
        "```",
        f"holdfast answer {question.run} {question.id} {_value(question)}",
        _temporal(question),
        "```",
    ]


def _temporal(question: Question) -> str:
    """A signal; or, where it must be known who answers, an update."""
    answers: dict[str, Any] = {"answers": [{"question": question.id, "content": question.example}]}
    how = "signal"
    if question.people.restricted:
        how, answers["by"] = "update execute", "user:YOU"
    example = json.dumps(answers, ensure_ascii=False)
    return f"temporal workflow {how} --workflow-id '{question.owner}' --name answer --input '{example}'"


def _value(question: Question) -> str:
    example = question.example
    return "VALUE" if example == "…" else f"--content '{json.dumps(example)}'"


def _refused(one: RefusedSignal) -> str:
    return f"\nNot taken ({one.at:%H:%M:%S} UTC): {one.message}"
