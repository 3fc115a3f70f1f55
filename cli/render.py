"""Render runs, questions and events as text for people. Commands print it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.parts import Option
from holdfast.cli.tables import STYLES, when
from holdfast.client.forms import list_fields, make_example
from holdfast.client.proposals import details_beside, read_proposal
from holdfast.client.reading import list_words
from holdfast.client.states import Done
from holdfast.client.texts import name_by, place, preview, result_text, shown_raise
from holdfast.client.views import GroupView, StepView
from holdfast.client.views.questions import QuestionView
from holdfast.protocol.display import clean, escaped_in_json, one_line
from holdfast.protocol.guard import UNPROVED
from holdfast.protocol.questions import Question
from holdfast.protocol.usage import Usage

if TYPE_CHECKING:
    from holdfast.protocol.children import Failure
    from holdfast.protocol.events import Event, QuestionReplied

QUOTES = "'\""
DATA_INDENT = "        "
"""Stands before the data of an event on a narrow terminal: its time and type are further left."""
LONGEST_DETAIL = 300
"""The most characters of a detail of a question."""
UNWRAPPED = 1_000_000
"""A width at which no line is wrapped."""
MOST_ITERATIONS = 10
"""The most iterations of a loop in a tree."""
MOST_DONE = 10
"""The most completed steps listed for a failed run."""
MARKS = {"completed": "✓", "failed": "✗", "skipped": "·", "running": "▸", "waiting": "?", "cancelled": "✗"}
MARKS |= {
    "undone": "↶",
    "superseded": "·",
    "denied": "✗",
    "pending": "○",
    "waiting_input": "?",
    "completed_with_errors": "✓",
}
RISK_STYLES = {"low": "dim", "medium": "yellow", "high": "bold red", "critical": "bold white on red"}


def question_text(question: Question, limit: int | None = LONGEST_DETAIL) -> Text:
    """Return a question with its place, details (of at most `limit` characters), options, assignees and deadline."""
    item = "" if question.label is None else f" ({one_line(question.label)})"
    text = Text(f"{place(question.address)}{item}\n", "dim")
    text.append(clean(question.message), "bold")
    if risk := question.asked.risk:
        text.append(f"\nrisk: {risk}", RISK_STYLES[risk])
    if question.asked.link is not None:  # in full, as it is to be opened
        text.append(f"\n{clean(question.asked.link)}", "underline")
    if (plan := read_proposal(question)) is not None:  # unwrapped, as the width of the terminal is known later
        text.append(f"\n{clean(plan.to_text(UNWRAPPED)).rstrip()}")
    further = _further_info(question) if plan is None else details_beside(question)
    details = [*(parent["info"] for parent in question.parents), None if question.repeats_message else further]
    for info in details:
        if info is not None and info != question.message:
            text.append(f"\n{_info_text(info, limit)}", "dim")
    for attachment in question.attachments:
        about = f"{one_line(attachment.name)} ({attachment.type}, {attachment.bytes:,} bytes)"
        text.append(f"\nattachment {attachment.n}: {about}", "dim")
    width = max((len(option.id) for option in question.options), default=0)
    for number, option in enumerate(question.options, 1):
        text.append(f"\n  {number:>2}  {one_line(option.id):{width}}", "cyan").append(_about(option))
    seen = QuestionView(question)
    if question.people.restricted:
        waits = [f"waits for {seen.who}", question.so_far]
        text.append(f"\n{one_line('; '.join(filter(None, waits)))}", "dim")
    if seen.claimant:
        text.append(
            f"\nclaimed by {one_line(seen.claimant)} until {when(question.claimed_until or question.asked_at)}", "dim"
        )
    if question.reminders:
        text.append(f"\nreminded {question.reminders} time{'s' if question.reminders > 1 else ''}", "dim")
    if question.deadline is not None:
        text.append(f"\nuntil {when(question.deadline)}", "yellow" if seen.is_near else "dim")
    return text


def wrap(text: Text, out: Console) -> Text:
    """Return text that is wrapped between words for a terminal, with lists and options set in.

    A word that is longer than a line stays whole: it may be an address to be opened. So does a line with an object or a
    list, for a line break would get into its texts when it is copied; the terminal goes on in its next line by itself.
    """
    if not out.is_terminal:
        return text
    lines = [wrapped_ for line in text.split("\n", allow_blank=True) for wrapped_ in _wrapped_line(line, out)]
    return Text("\n").join(lines)


def _wrapped_line(line: Text, out: Console) -> list[Text]:
    if _STRUCTURE.match(line.plain):
        return [line]
    margin = _SET_IN.match(line.plain)
    indent = min(len(margin[0]) if margin else 0, out.width // 3)
    rest = line[indent:]
    first, *further = rest.divide(_breaks(rest.plain, out.width - indent))
    for part in (first, *further):
        part.rstrip()
    return [line[:indent].append(first), *(Text(" " * indent).append(part) for part in further)]


def _breaks(text: str, width: int) -> list[int]:
    """Return the places between words at which a text is broken into lines."""
    places, used = [], 0
    for word in re.finditer(r"\S+\s*", text):
        if used and used + cell_len(word[0].rstrip()) > width:
            places.append(word.start())
            used = 0
        used += cell_len(word[0])
    return places


_SET_IN = re.compile(r"\s*(?:\d+\s\s\S+\s+|[-*•]\s+|(?:[~+]\s)?\d+[.)]\s+)?")
"""The beginning of a line below which its further lines begin: of an option its number and id, of a list its mark."""

_STRUCTURE = re.compile(r"(?:[^:]+: )?[\[{].*[\]}]$")
"""A line with an object or a list, perhaps behind the name of it."""


def _further_info(question: Question) -> JSON:
    """Return the details of a question; the risk and a link stand in lines of their own."""
    info, apart = question.info, {"risk": question.asked.risk, "url": question.asked.link}
    if not isinstance(info, dict):
        return info
    return {key: value for key, value in info.items() if apart.get(key) is None}


def _info_text(info: object, limit: int | None) -> str:
    """Return the details of a question: an object with a line for each key."""
    if not isinstance(info, dict):
        return clean(result_text(info))
    return "\n".join(f"{one_line(key)}: {preview(value, limit).strip(QUOTES)}" for key, value in info.items())


def _about(option: Option) -> str:
    weights = [f"{name} {value}" for name in ("risk", "cost", "time") if (value := option.model_dump()[name])]
    recommended = ["recommended"] if option.recommended else []
    notes = ", ".join([*recommended, *weights, *option.risks])
    label = option.label if option.label != option.id else ""
    description = ": ".join(part for part in (label, option.description) if part)
    return one_line(f"  {description}" + (f"  ({notes})" if notes else ""))


def events_text(events: Sequence[Question]) -> Text:
    """Return the events that a run waits for, each with the command that sends it."""
    text = Text()
    for event in events:
        name, key = event.asked.awaits or ("", "")
        until = "" if event.deadline is None else f", until {when(event.deadline)}"
        text.append(f"◷ {place(event.address)}  {one_line(event.message)}{until}\n", "cyan")
        command = f"holdfast send {shlex.quote(event.run)} {shlex.quote(name)} {shlex.quote(one_line(key))} PAYLOAD"
        text.append(f"    {command}\n", "dim")
    return text


def waiting_text(questions: Sequence[Question], limit: int | None = LONGEST_DETAIL) -> Text:
    """Return open questions, each with the command that answers it, and details of at most `limit` characters."""
    text = Text()
    held = [question.run for question in questions if not question.asked.needs_data]
    for question in questions:
        command = answer_command(question, alone=held.count(question.run) == 1)
        text.append(question_text(question, limit))
        for field in list_fields(question) if _is_plain_form(question) else ():
            text.append(f"\n  {one_line(field.summary)}", "cyan")
        text.append(f"\n  {command}\n", "green")
    return text


def _is_plain_form(question: Question) -> bool:
    """Return whether an answer is an object of the author's fields, and no word stands for one."""
    asked = question.asked
    shortest = asked.yes_or_no or asked.hidden or asked.example != "…" or list_words(question.requestedSchema)
    return not shortest and question.requestedSchema.get("type") == "object"


def answer_command(question: Question, *, alone: bool = True) -> str:
    """Return the command that answers a question. `alone`: no other hold of the run would be released by `resume`."""
    if question.proof is not None:
        return "holdfast serve  # only people who have signed in may answer it"
    if question.asked.is_pause:
        run = shlex.quote(question.run)
        return f"holdfast resume {run}" if alone else f"holdfast answer {run} {question.id} --content null"
    if question.asked.hidden:
        return f"holdfast attach {shlex.quote(question.run)}"
    if question.asked.yes_or_no:
        return f"holdfast answer {shlex.quote(question.run)} {question.id} yes  # or 'no, WHY'"
    if (example := question.asked.example) != "…":
        content = shlex.quote(json.dumps(example))
        return f"holdfast answer {shlex.quote(question.run)} {question.id} --content {content}"
    form = not question.options and question.requestedSchema.get("type") in ("object", "array")
    words = list_words(question.requestedSchema)
    fields = make_example(question.requestedSchema)
    json_ = f"--content {shlex.quote(fields)}" if fields else "--content JSON"
    value = f"VALUE  # {', '.join(words)}, or a JSON object" if words else json_ if form else "VALUE"
    return f"holdfast answer {shlex.quote(question.run)} {question.id} {value}"


def _who(reply: QuestionReplied, people: Sequence[str]) -> str:
    """Return who answered, and what proves that, if anything does; nothing where nobody is named."""
    is_proved = reply.proved_by not in (None, "", UNPROVED)
    proof = f" (proved by: {one_line(reply.proved_by or '')})" if is_proved else ""
    return f"{name_by(', '.join(people))}{proof}" if people else ""


def event_text(event: Event, columns: int | None) -> Text:
    """Return an event of any type with all its data: in one line, or on a narrower terminal with a line for each key.

    Line breaks are only put between the parts of a value, so that what is copied is still JSON.
    """
    text = Text(f"{event.offset:>6}  {event.time.astimezone():%H:%M:%S}  ", "dim")
    text.append(f"{event.type:18} ").append(place(event.address), "cyan")
    data = event.data.to_json()
    if not data:
        return text
    whole = f"  {_json(data)}"
    if columns is None or text.cell_len + cell_len(whole) <= columns:
        return text.append(whole, "dim")
    for key, value in data.items():
        text.append(f"\n{_json_below(one_line(key), value, columns)}", "dim")
    return text


def _json_below(key: str, value: JSON, columns: int) -> str:
    """Return a value behind its key, set in; in several lines if it has parts and one line is too short for them."""
    line = f"{DATA_INDENT}{key}: {_json(value)}"
    if cell_len(line) <= columns or not isinstance(value, dict | list):
        return line
    text = escaped_in_json(json.dumps(value, indent=2, ensure_ascii=False))
    return f"{DATA_INDENT}{key}: {text}".replace("\n", f"\n{DATA_INDENT}")


def _json(value: JSON) -> str:
    return escaped_in_json(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


_OF_BLUEPRINT = frozenset(
    {
        *(
            "expression_error",
            "input_invalid",
            "context_invalid",
            "context_conflict",
            "empty_message",
        ),
        *("no_branch", "unknown_branch", "no_transition", "limit_reached", "max_loops", "max_visits", "no_progress"),
        *("bad_assignees", "bad_default", "bad_options", "bad_reduce", "bad_time", "bad_write"),
        *("bad_escalation", "bad_quorum", "bad_reminder", "bad_risk", "bad_timeout"),
    }
)
"""Failures on what a run already had: a retry of the same blueprint is refused."""


def failure_text(run: str, status: str, error: Failure | None) -> str:
    """Return the message for a run that did not complete."""
    if error is None or status == "cancelled":
        return f"run {run}: {status}"
    where = f"\n  {error.type} at {error.address}" if error.address else f"\n  {error.type}"
    why = f" ({error.reason})" if error.reason else ""
    raised = f"\n  raised at {clean(shown_raise(error.raised_at))}" if error.raised_at else ""
    # Who runs a workflow of an author's own goes on with that: only runs of blueprints are retried.
    mended = " --blueprint FILE" if error.type in _OF_BLUEPRINT else ""
    if error.type == "output_invalid":  # the reply of a model may be another one, what a template gives is the same
        mended = " [--blueprint FILE]"
    way_on = f"\n  once the cause is mended, go on with: holdfast retry {shlex.quote(run)}{mended}"
    further = way_on if error.address.startswith("pipeline:") else ""
    return f"run {run} {status}: {clean(error.message)}{why}{where}{raised}{_plan_summary(error.output)}{further}"


def _plan_summary(output: object) -> str:
    """Return the steps of a failed plan, a line for each status."""
    match output:
        case {"steps": dict() as steps, "loops": dict() as loops}:
            by_status: dict[str, list[str]] = {}
            for id_, step in {**steps, **loops}.items():
                name = f"{id_} ({step['reason']})" if step.get("reason") else id_
                by_status.setdefault(step["status"], []).append(name)
            return "".join(f"\n  {status}: {one_line(', '.join(ids))}" for status, ids in by_status.items())
    return ""


@dataclass(frozen=True)
class Extract:
    """The part of a trace that is shown."""

    last: int | None = MOST_ITERATIONS
    """The last iterations of each loop; None: all."""
    limit: int | None = 100
    """The most characters of a value; None: all."""


SHORT = Extract()


def tree_text(steps: Sequence[StepView], extract: Extract = SHORT) -> Text:
    """Return the steps of a run as an indented tree."""
    text = Text()
    for step in steps:
        _add_step(text, step, 1, extract)
    return text


def _add_step(text: Text, step: StepView, depth: int, extract: Extract) -> None:
    _add_line(text, step, depth, extract.limit)
    for group in step.groups:
        if not group.repeats:
            title = f"plan {group.n}, which failed" if group.kind == "failed_plan" else group.branch
            _add_group(text, group, title, depth, extract)
    repeated = step.repetitions
    kept = repeated if extract.last is None else repeated[-extract.last :]
    if hidden := step.earlier + len(repeated) - len(kept):
        text.append(f"{'  ' * (depth + 1)}… {hidden} earlier ones: --all\n", "dim")
    for group in kept:
        item = "" if group.item is None else f": {preview(group.item, extract.limit)}"
        label = "" if group.label is None else f" {one_line(group.label)}"
        _add_group(text, group, f"{group.n}{label}{item}", depth, extract)


def _add_group(text: Text, group: GroupView, title: str, depth: int, extract: Extract) -> None:
    if title:
        text.append(f"{'  ' * (depth + 1)}{title}\n", "dim")
    for step in group.steps:
        _add_step(text, step, depth + (2 if title else 1), extract)


def _add_line(text: Text, step: StepView, depth: int, limit: int | None) -> None:
    """Add the line of a step itself: its mark, name and kind, and how it ended."""
    status = step.outcome or step.mark
    text.append(f"{'  ' * depth}{MARKS.get(status, '?')} {step.name}", STYLES.get(status, ""))
    if step.title:
        text.append(f" {one_line(step.title)}")
    if step.is_cached:
        text.append(" (from the cache)", "dim")
    elif step.shown_kind is not None:
        text.append(f" ({step.kind}{' → ' + step.branch if step.branch is not None else ''})", "dim")
    if step.is_verified is False:
        text.append("  not verified", "yellow")
    if step.turns_left_out:
        text.append(f"  {say_count(step.turns_left_out, 'turn')} left out of its conversation", "yellow")
    if step.items is not None and step.items.begun and step.mark in ("running", "waiting"):
        text.append(f"  {step.items.done} of {step.items.count_known} done", "dim")
    if step.waits_until is not None:
        text.append(f"  until {when(step.waits_until)}", "dim")
    if step.error is not None:
        text.append(f"  {one_line(step.error.message)}", "red")
        if step.error.raised_at:
            text.append(f"  {one_line(shown_raise(step.error.raised_at))}", "dim")
    elif step.mark in ("skipped", "denied") and step.reason:
        text.append(f"  {one_line(step.reason)}", "dim")
    elif step.outcome is not None or step.mark == "superseded":
        text.append(f"  {status}", "dim")
    elif step.mark == "completed":
        text.append(f"  {preview(step.output, limit)}", "dim")
    for answer in step.answers[-1:]:
        text.append(_who(answer.reply, step.last_people), "dim")
    for revision in step.revisions[-1:]:
        text.append(f"  revision {revision.revision}{name_by(revision.by)}", "dim")
    text.append("\n")


def context_text(context: JSONObject, limit: int | None = 160) -> Text:
    """Return the context, with a line for each key, and of its value at most `limit` characters."""
    text = Text("context\n", "dim")
    for key, value in context.items():
        text.append(f"  {one_line(key)}  ").append(f"{preview(value, limit)}\n", "dim")
    return text


def done_text(done: Sequence[Done]) -> Text:
    """Return the last steps that a run completed before it ended, with a line for each."""
    text = Text("completed before that\n", "dim")
    if len(done) > MOST_DONE:
        text.append(f"  … {len(done) - MOST_DONE} earlier ones: holdfast show\n", "dim")
    for step in done[-MOST_DONE:]:
        text.append(f"  ✓ {clean(place(step.address))}  ").append(f"{preview(step.output)}\n", "dim")
    return text


def usage_text(usage: Usage) -> str:
    """Return the usage of models in words."""
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    tokens = usage.input_tokens + usage.output_tokens
    return f"{say_count(usage.requests, 'model request')}, {say_count(tokens, 'token')}{cost}"
