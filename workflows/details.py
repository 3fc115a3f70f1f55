"""The texts that Temporal's own tools show of a workflow, and the keys of its search attributes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from temporalio.common import SearchAttributeKey

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.questions import RESPOND, REVISE
from holdfast.protocol.display import code, markdown, one_line
from holdfast.protocol.names import (
    ACCESS_ATTRIBUTE,
    BLUEPRINT_ATTRIBUTE,
    DEADLINE_ATTRIBUTE,
    EVENTS_ATTRIBUTE,
    QUESTIONS_ATTRIBUTE,
    SINCE_ATTRIBUTE,
    WAITING_ATTRIBUTE,
)
from holdfast.protocol.people import SIGN_IN, who_may
from holdfast.protocol.questions import Question
from holdfast.protocol.views import RefusedSignal, WorkflowView

BLUEPRINT_KEY = SearchAttributeKey.for_keyword(BLUEPRINT_ATTRIBUTE)
WAITING_KEY = SearchAttributeKey.for_keyword_list(WAITING_ATTRIBUTE)
EVENTS_KEY = SearchAttributeKey.for_keyword_list(EVENTS_ATTRIBUTE)
QUESTIONS_KEY = SearchAttributeKey.for_keyword_list(QUESTIONS_ATTRIBUTE)
SINCE_KEY = SearchAttributeKey.for_datetime(SINCE_ATTRIBUTE)
DEADLINE_KEY = SearchAttributeKey.for_datetime(DEADLINE_ATTRIBUTE)
ACCESS_KEY = SearchAttributeKey.for_text(ACCESS_ATTRIBUTE)
KEYS: tuple[SearchAttributeKey[Any], ...] = (
    BLUEPRINT_KEY,
    WAITING_KEY,
    QUESTIONS_KEY,
    SINCE_KEY,
    DEADLINE_KEY,
    EVENTS_KEY,
)
MOST_SHOWN = 10
_NEEDS = {"edited": " with the `payload`", REVISE: " with a `reason`", RESPOND: " with a `reason`"}


def write_details(view: WorkflowView, questions: Sequence[Question]) -> str:
    """Return Markdown with the blueprint, the address, and each open question with the commands that answer it."""
    lines = [_show_status(view), code(view.address)]
    for question in questions[:MOST_SHOWN]:
        lines += ["", *_show_question(question)]
    if len(questions) > MOST_SHOWN:
        command = f"holdfast questions {shlex.quote(view.run)}"
        lines += ["", f"… and {len(questions) - MOST_SHOWN} more: {code(command)}"]
    if view.children:
        lines += ["", *_list_children(view)]
    lines += [_show_refused(signal) for signal in view.refused[-3:]]
    return "\n".join(lines)


def _show_status(view: WorkflowView) -> str:
    """Return the blueprint and its status; none while children work, as only they know whether the run waits."""
    status = "" if view.children and view.status in ("running", "waiting") else f" · {view.status}"
    iteration = "" if view.iteration is None else f"{',' if status else ' ·'} iteration {view.iteration}"
    undoing = "" if view.undoing is None else f" · {view.undoing}"
    return f"**{_escape_line(view.blueprint)}**{status}{iteration}{undoing}"


def _list_children(view: WorkflowView) -> list[str]:
    """Return the children at work, and the command that lists their questions."""
    more = len(view.children) - MOST_SHOWN
    return [
        f"Children are at work; list their questions with {code(f'holdfast questions {shlex.quote(view.run)}')}",
        "",
        *(f"- {code(child)}" for child in view.children[:MOST_SHOWN]),
        *([f"- … and {more} more"] if more > 0 else []),
    ]


def _show_question(question: Question) -> list[str]:
    return [*_show_wording(question), *_show_conditions(question), *_show_way_to_answer(question)]


def _show_wording(question: Question) -> list[str]:
    lines = [
        f"### Waiting for an answer: {question.kind}"
        + (f" · {_escape_line(question.label)}" if question.label else ""),
        *(f"> {line}" for line in markdown(question.message[:2000]).splitlines()),
    ]
    if question.options:
        lines += ["", *(f"- {code(option.id)} {_escape_line(option.label)}" for option in question.options[:20])]
    if verdicts := question.asked.verdicts:
        lines += ["", "Verdicts: " + ", ".join(f"{code(verdict)}{_NEEDS.get(verdict, '')}" for verdict in verdicts)]
    return lines


def _show_conditions(question: Question) -> list[str]:
    lines: list[str] = []
    if risk := question.asked.risk:
        lines += ["", f"Risk: **{risk}**."]
    if question.deadline:
        lines += ["", f"By {question.deadline:%Y-%m-%d %H:%M} UTC."]
    if question.people.restricted:
        lines += ["", _escape_line(f"Waits for {who_may(question.people)}. {question.so_far}".strip())]
    if question.claimed_by and question.claimed_until:
        lines += [
            "",
            _escape_line(f"Claimed by {question.claimed_by} until {question.claimed_until:%Y-%m-%d %H:%M} UTC."),
        ]
    return lines


def _show_way_to_answer(question: Question) -> list[str]:
    run = shlex.quote(one_line(question.run))
    if question.proof is not None:
        return ["", _escape_line(f"{SIGN_IN[0].upper()}{SIGN_IN[1:]}.")]
    if question.asked.hidden:
        warning = "It asks for a secret: do not send the value from here, neither by signal nor by update."
        return ["", warning, "", "```", f"holdfast attach {run}", "```"]
    return [
        "",
        "```",
        f"holdfast answer {run} {question.id} {_show_value(question)}",
        _show_temporal_command(question),
        "```",
    ]


def _show_temporal_command(question: Question) -> str:
    """Return a `temporal` command: a signal, or an update where the sender must be known."""
    answers: JSONObject = {"answers": [{"question": question.id, "content": question.asked.example}]}
    command = "signal"
    if question.people.restricted:
        command, answers["by"] = "update execute", "user:YOU"
    example = json.dumps(answers, ensure_ascii=False)
    owner = shlex.quote(one_line(question.owner))
    return f"temporal workflow {command} --workflow-id {owner} --name answer --input {shlex.quote(example)}"


def _show_value(question: Question) -> str:
    example = question.asked.example
    return "VALUE" if example == "…" else f"--content {shlex.quote(json.dumps(example))}"


def _show_refused(signal: RefusedSignal) -> str:
    return f"\nNot taken ({signal.at:%H:%M:%S} UTC): {_escape_line(signal.message)}"


def _escape_line(text: str) -> str:
    """Return Markdown that shows a text literally, in one line."""
    return markdown(one_line(text))
