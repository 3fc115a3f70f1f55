"""What Temporal's own tools show of a workflow: current details, and whom it waits for. Used by `BaseWorkflow`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.display import code, markdown, one_line
from holdfast.protocol.people import awaited, who_may
from holdfast.protocol.questions import REVISE, Question
from holdfast.protocol.runs import WAITING_ATTRIBUTE, RefusedSignal, WorkflowView

WAITING_KEY = SearchAttributeKey.for_keyword_list(WAITING_ATTRIBUTE)
MOST_SHOWN = 10
_NEEDS = {"edited": " with the `payload`", REVISE: " with a `reason`"}


class Display:
    """The current details and the search attribute of one workflow."""

    def __init__(
        self,
        key: Callable[[], tuple[Any, ...]],
        view: Callable[[], WorkflowView],
        questions: Callable[[], list[Question]],
    ) -> None:
        """`key` gives what the details are made of, to compare; `questions` the open ones."""
        self._key, self._view, self._questions = key, view, questions
        self._shown: tuple[object, ...] = ()
        self._awaited = tuple(workflow.info().typed_search_attributes.get(WAITING_KEY) or ())

    async def keep_true(self) -> None:
        """Show the workflow whenever what it shows has changed."""
        while True:
            await workflow.wait_condition(lambda: self._key() != self._shown)
            self.show()

    def show(self) -> None:
        """Write the details, and the search attribute only if it changed: each upsert is an event."""
        self._shown = self._key()
        view, questions = self._view(), self._questions()
        over = view.status in ("completed", "failed", "cancelled")
        names = () if over else tuple(awaited(question.people for question in questions))
        if names != self._awaited:
            self._awaited = names
            workflow.upsert_search_attributes([WAITING_KEY.value_set(list(names))])
        workflow.set_current_details(details_of(view, questions))


def details_of(view: WorkflowView, questions: Sequence[Question]) -> str:
    """Return Markdown with the blueprint, the address, and each open question with the commands that answer it."""
    lines = [_status_line(view), code(view.address)]
    for question in questions[:MOST_SHOWN]:
        lines += ["", *_question(question)]
    if len(questions) > MOST_SHOWN:
        command = f"holdfast questions {shlex.quote(view.run)}"
        lines += ["", f"… and {len(questions) - MOST_SHOWN} more: {code(command)}"]
    if view.children:
        lines += ["", *_children(view)]
    lines += [_refused(signal) for signal in view.refused[-3:]]
    return "\n".join(lines)


def _status_line(view: WorkflowView) -> str:
    """Return the blueprint and its status; none while children work, as only they know whether the run waits."""
    status = "" if view.children and view.status in ("running", "waiting") else f" · {view.status}"
    iteration = "" if view.iteration is None else f"{',' if status else ' ·'} iteration {view.iteration}"
    return f"**{_line(view.blueprint)}**{status}{iteration}"


def _children(view: WorkflowView) -> list[str]:
    """Return the children at work, and the command that lists their questions."""
    more = len(view.children) - MOST_SHOWN
    return [
        f"Children are at work; list their questions with {code(f'holdfast questions {shlex.quote(view.run)}')}",
        "",
        *(f"- {code(child)}" for child in view.children[:MOST_SHOWN]),
        *([f"- … and {more} more"] if more > 0 else []),
    ]


def _question(question: Question) -> list[str]:
    run = shlex.quote(one_line(question.run))
    lines = [
        f"### Waiting for an answer: {question.kind}",
        *(f"> {line}" for line in markdown(question.message[:2000]).splitlines()),
    ]
    if question.options:
        lines += ["", *(f"- {code(option.id)} {_line(option.label)}" for option in question.options[:20])]
    if verdicts := question.asked.verdicts:
        lines += ["", "Verdicts: " + ", ".join(f"{code(verdict)}{_NEEDS.get(verdict, '')}" for verdict in verdicts)]
    if question.deadline:
        lines += ["", f"By {question.deadline:%Y-%m-%d %H:%M} UTC."]
    if question.people.restricted:
        lines += ["", _line(f"Waits for {who_may(question.people)}. {question.so_far}".strip())]
    if question.asked.hidden:
        warning = "It asks for a secret: send no value from here, not by signal and not by update."
        return [*lines, "", warning, "", "```", f"holdfast attach {run}", "```"]
    return [
        *lines,
        "",
        "```",
        f"holdfast answer {run} {question.id} {_value(question)}",
        _temporal(question),
        "```",
    ]


def _temporal(question: Question) -> str:
    """Return a `temporal` command: a signal, or an update where the sender must be known."""
    answers: JSONObject = {"answers": [{"question": question.id, "content": question.asked.example}]}
    command = "signal"
    if question.people.restricted:
        command, answers["by"] = "update execute", "user:YOU"
    example = json.dumps(answers, ensure_ascii=False)
    owner = shlex.quote(one_line(question.owner))
    return f"temporal workflow {command} --workflow-id {owner} --name answer --input {shlex.quote(example)}"


def _value(question: Question) -> str:
    example = question.asked.example
    return "VALUE" if example == "…" else f"--content {shlex.quote(json.dumps(example))}"


def _refused(signal: RefusedSignal) -> str:
    return f"\nNot taken ({signal.at:%H:%M:%S} UTC): {_line(signal.message)}"


def _line(text: str) -> str:
    """Return Markdown that shows a text literally, in one line."""
    return markdown(one_line(text))
