"""Render runs, questions and events as text for people. Commands print it."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds import Option, kind_named
from holdfast.blueprint.words.text import counted
from holdfast.client.forms import example_of
from holdfast.client.reading import name_of, words_of
from holdfast.client.states import Done
from holdfast.client.trace import Span
from holdfast.protocol.address import parts
from holdfast.protocol.agents import Usage
from holdfast.protocol.display import clean, one_line
from holdfast.protocol.events import (
    AgentTold,
    BranchStarted,
    CacheWasHit,
    Event,
    LoopCompleted,
    LoopIteration,
    ModelReplied,
    Names,
    PlanCompleted,
    PlanRevised,
    QuestionAccepted,
    QuestionAnswered,
    QuestionClosed,
    QuestionEscalated,
    QuestionEvent,
    QuestionReminded,
    RunResumed,
    StepCompleted,
    StepFailed,
    StepRetrying,
    StepSkipped,
    ToolDenied,
    ToolFailed,
    ToolReturned,
)
from holdfast.protocol.people import who_may
from holdfast.protocol.questions import Question, brief
from holdfast.protocol.runs import Failure

QUOTES = "'\""
LEAST_OF_LAST = 30
"""The least width, in characters, of a table's last column; with less room it gets a line of its own."""
MOST_ITERATIONS = 10
"""The most iterations of a loop in a tree."""
MOST_DONE = 10
"""The most completed steps listed for a failed run."""
MARKS = {"completed": "✓", "failed": "✗", "skipped": "·", "running": "▸", "cancelled": "✗"}
MARKS |= {"denied": "✗", "pending": "○", "waiting_input": "?", "completed_with_errors": "✓"}
STYLES = {"waiting": "yellow", "paused": "yellow", "completed": "green", "failed": "red", "cancelled": "red"}
STYLES |= {
    "denied": "yellow",
    "skipped": "dim",
    "pending": "dim",
    "waiting_input": "yellow",
    "completed_with_errors": "yellow",
}


def console(stream: TextIO | None = None) -> Console:
    """Return a console for a stream (default: standard error): no wrapping, and styles on a colour terminal only."""
    stream = stream or sys.stderr
    plain = bool(os.environ.get("NO_COLOR")) or not stream.isatty()
    system: Any = None if plain else "auto"
    return _Console(file=stream, color_system=system, soft_wrap=True, highlight=False, markup=False, emoji=False)


class _Console(Console):
    """A console that removes control sequences from everything it prints: much of it was written by others."""

    def print(self, *objects: object, **options: Any) -> None:
        super().print(*map(_cleaned, objects), **options)


def _cleaned(value: object) -> object:
    """Return text without control sequences; styles stay in place."""
    if isinstance(value, Text):
        value = value.copy()
        value.plain = clean(value.plain)
        return value
    return clean(value) if isinstance(value, str) else value


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on standard output, as wide as the terminal."""
    out = console(sys.stdout)
    out.print(table(titles, rows, out.width if sys.stdout.isatty() else None), end="")


def shown(value: object) -> str:
    """Return a value as results are printed: text as it is, else indented JSON."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def preview(value: object, limit: int = 100) -> str:
    """Return a value in one line of at most `limit` characters."""
    return one_line(brief(value, limit))


def question_text(question: Question) -> Text:
    """Return a question with its place, details, options, assignees and deadline."""
    text = Text(f"{place(question.address)}\n", "dim")
    text.append(clean(question.message), "bold")
    for info in [*(parent["info"] for parent in question.parents), question.info]:
        if info is not None and info != question.message:
            text.append(f"\n{_info_text(info)}", "dim")
    width = max((len(option.id) for option in question.options), default=0)
    for number, option in enumerate(question.options, 1):
        text.append(f"\n  {number:>2}  {one_line(option.id):{width}}", "cyan").append(_about(option))
    if question.people.restricted:
        waits = [f"waits for {who_may(question.people)}", question.so_far]
        text.append(f"\n{one_line('; '.join(filter(None, waits)))}", "dim")
    if question.reminders:
        text.append(f"\nreminded {question.reminders} time{'s' if question.reminders > 1 else ''}", "dim")
    if question.deadline is not None:
        text.append(f"\nuntil {when(question.deadline)}", "dim")
    return text


def _info_text(info: object) -> str:
    """Return the details of a question: an object with a line for each key."""
    if not isinstance(info, dict):
        return clean(shown(info))
    return "\n".join(f"{one_line(key)}: {preview(value, 300).strip(QUOTES)}" for key, value in info.items())


def _about(option: Option) -> str:
    weights = [f"{name} {value}" for name in ("risk", "cost", "time") if (value := option.model_dump()[name])]
    recommended = ["recommended"] if option.recommended else []
    notes = ", ".join([*recommended, *weights, *option.risks])
    label = option.label if option.label != option.id else ""
    description = ": ".join(part for part in (label, option.description) if part)
    return one_line(f"  {description}" + (f"  ({notes})" if notes else ""))


def waiting_text(questions: Sequence[Question]) -> Text:
    """Return open questions, each with the command that answers it."""
    text = Text()
    held = [question.run for question in questions if question.asked.needs_no_data]
    for question in questions:
        command = answer_command(question, alone=held.count(question.run) == 1)
        text.append(question_text(question)).append(f"\n  {command}\n", "green")
    return text


def answer_command(question: Question, *, alone: bool = True) -> str:
    """Return the command that answers a question. `alone`: no other hold of the run would be released by `resume`."""
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
    words = words_of(question.requestedSchema)
    fields = example_of(question.requestedSchema)
    json_ = f"--content {shlex.quote(fields)}" if fields else "--content JSON"
    value = f"VALUE  # {', '.join(words)}, or a JSON object" if words else json_ if form else "VALUE"
    return f"holdfast answer {shlex.quote(question.run)} {question.id} {value}"


def place(address: str) -> str:
    """Return an address as people read it.

    >>> place("pipeline:brief;loop:clarify:2;hitl:review")
    'brief · clarify 2 · review'
    """
    return " · ".join(id_ if sub is None else f"{id_} {sub}" for _, id_, sub in parts(address))


def progress(event: Event) -> Text | None:
    """Return the progress line for an event; None for events that people need not see."""
    line = _of_question(event) if isinstance(event.data, QuestionEvent) else _of_work(event)
    if line is None:
        return None
    kinds = [kind for kind, _, _ in parts(event.address)]
    inside = sum(kind in ("loop", "map") for kind in kinds) - (kinds[-1] == "loop")
    return Text("  " * inside).append(line)


def _of_work(event: Event) -> Text | None:
    kind, name, _ = parts(event.address)[-1]
    line: Text | None = None
    match event.data:
        case LoopIteration(iteration=number, item=item):
            line = Text(f"{name} {number}", "bold").append("" if item is None else f": {preview(item)}", "dim")
        case StepCompleted(kind=step_kind, output=output) if kind_named(step_kind).shows_output:
            line = Text(f"✓ {name}  ").append(preview(output), "dim")
        case CacheWasHit():
            line = Text(f"✓ {name}  ").append("from the cache", "dim")
        case StepSkipped(reason=reason):
            line = Text(f"· {name} skipped" + (f": {one_line(reason)}" if reason else ""), "dim")
        case ToolReturned() if kind == "tool":
            line = Text(f"  ✓ {name} was called", "dim")
        case ToolDenied(reason=text) | ToolFailed(message=text):
            line = Text(f"  ✗ {name}  {one_line(text)}", "yellow")
        case ModelReplied(finish=finish) if finish != "finished":
            line = Text(f"↻ {name}  the model's reply was {finish.replace('_', ' ')}", "yellow")
        case AgentTold(text=text, by=by):
            line = Text(f"→ {name}  ", "cyan").append(preview(text)).append(_by(by), "dim")
        case StepFailed(message=message):
            line = Text(f"✗ {name}  {one_line(message)}", "red")
        case StepRetrying():
            line = Text(f"↻ {name} is tried again", "yellow")
        case BranchStarted():
            line = Text(f"→ {name}", "dim")
        case LoopCompleted(iterations=iterations, reason=reason):
            line = Text(f"{name}: {counted(iterations, 'iteration')}, {reason}", "dim")
        case PlanRevised(revision=number, by=by, reason=reason):
            line = Text(f"↻ {name} is at revision {number}", "yellow").append(_by(by), "dim")
            line.append(f"  {one_line(reason or '')}", "dim")
        case PlanCompleted(status="completed_with_errors" as status):
            line = Text(f"{name}: {status}", "yellow")
        case PlanCompleted(note=str() as note):
            line = Text(f"{name}: {one_line(note)}", "yellow")
        case RunResumed():
            line = Text("resumed", "yellow")
    return line


def _of_question(event: Event) -> Text | None:
    _, name, _ = parts(event.address)[-1]
    line: Text | None = None
    match event.data:
        case QuestionAnswered(content=content, by=by):
            line = Text(f"← {name}  ").append(preview(content), "cyan").append(_by(by), "dim")
        case QuestionAccepted(content=content, by=by, so_far=so_far, quorum=quorum):
            line = Text(f"← {name}  ").append(preview(content), "cyan").append(_by(by), "dim")
            line.append(f"  {so_far} of {quorum}", "dim")
        case QuestionReminded(n=n, assignees=assignees):
            line = Text(f"↻ {name}  reminder {n}", "yellow").append(_for(assignees), "dim")
        case QuestionEscalated(assignees=assignees):
            line = Text(f"↑ {name}", "yellow").append(_for(assignees), "dim")
        case QuestionClosed(type=type_, by=by):
            line = Text(f"← {name}  {type_.removeprefix('question.')}", "yellow").append(_by(by), "dim")
    return line


def _by(person: str | None) -> str:
    return f"  {one_line(person)}" if person else ""


def _for(assignees: Names | None) -> str:
    if not assignees:
        return ""
    return f"  for {one_line(assignees if isinstance(assignees, str) else ', '.join(assignees))}"


def event_line(event: Event) -> Text:
    """Return an event of any type in one line."""
    text = Text(f"{event.offset:>6}  {event.time.astimezone():%H:%M:%S}  ", "dim")
    text.append(f"{event.type:18} ").append(place(event.address), "cyan")
    if data := event.data.to_json():
        text.append(f"  {preview(data, 160)}", "dim")
    return text


def failure_text(run: str, status: str, error: Failure | None) -> str:
    """Return the message for a run that did not complete."""
    if error is None or status == "cancelled":
        return f"run {run}: {status}"
    where = f"\n  at {error.address}" if error.address else ""
    why = f" ({error.reason})" if error.reason else ""
    return f"run {run} {status}: {clean(error.message)}{why}{where}{_plan_summary(error.output)}"


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


def when(moment: datetime) -> str:
    """Return a moment in local time, with its distance from now.

    >>> when(datetime(2020, 1, 1, tzinfo=UTC)).endswith("ago)")
    True
    """
    seconds = (moment - datetime.now(UTC)).total_seconds()
    length = _length(abs(seconds))
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S} ({f'in {length}' if seconds > 0 else f'{length} ago'})"


def _length(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size * 2:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def ago(moment: datetime) -> str:
    """Return the distance of a moment from now, in a few characters.

    >>> from datetime import timedelta
    >>> ago(datetime.now(UTC) - timedelta(minutes=3, seconds=5)), ago(datetime.now(UTC))
    ('3 min ago', 'just now')
    """
    seconds = (moment - datetime.now(UTC)).total_seconds()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= size:
            length = f"{int(abs(seconds) // size)} {unit}"
            return f"in {length}" if seconds > 0 else f"{length} ago"
    return "just now"


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], room: int | None = None) -> Text:
    """Return a table without a frame.

    Args:
        titles: The titles of the columns.
        rows: The cells of each row.
        room: The width in characters; None is no limit. In a narrow one a row takes several lines, each cut at its
            end, and the last column, which people look for, gets a line of its own before it is cut short.
    """
    cells = [[one_line(cell) for cell in row] for row in [titles, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    lines = _lines_of_columns(widths, room)
    text = Text()
    for row in cells:
        for number, columns in enumerate(lines):
            line = Text("  " if number else "")
            for column in columns:
                style = "dim" if row is cells[0] else STYLES.get(row[column], "")
                width = 0 if column == columns[-1] else widths[column]
                line.append(f"{row[column]:{width}}  ", style)
            line.rstrip()
            if room is not None:
                line.truncate(room, overflow="ellipsis")
            if line.plain or number == 0:
                text.append(line).append("\n")
    return text


def _lines_of_columns(widths: Sequence[int], room: int | None) -> list[list[int]]:
    """Return the columns of each line of a row."""
    lines: list[list[int]] = [[]]
    used = 0
    for column, width in enumerate(widths):
        needed = min(width, LEAST_OF_LAST) if column == len(widths) - 1 else width
        if room is not None and lines[-1] and used + needed > room:
            lines.append([])
            used = 2
        lines[-1].append(column)
        used += width + 2
    return lines


def tree_text(trace: Span, last: int | None = MOST_ITERATIONS) -> Text:
    """Return a trace as an indented tree; of each loop the `last` iterations, or all for None."""
    text = Text()
    for step in trace.steps:
        _add_step(text, step, 1, last)
    return text


def _add_step(text: Text, span: Span, depth: int, last: int | None) -> None:
    _add_line(text, span, depth)
    for step in span.steps:
        _add_step(text, step, depth + 1, last)
    for name, steps in span.branches.items():
        text.append(f"{'  ' * (depth + 1)}{name}\n", "dim")
        for step in steps:
            _add_step(text, step, depth + 2, last)
    repetitions = span.iterations or span.items
    kept = repetitions if last is None else repetitions[-last:]
    if hidden := span.iterations_left_out + span.items_left_out + len(repetitions) - len(kept):
        text.append(f"{'  ' * (depth + 1)}… {hidden} earlier ones: --all\n", "dim")
    for repetition in kept:
        item = "" if repetition.item is None else f": {preview(repetition.item)}"
        text.append(f"{'  ' * (depth + 1)}{repetition.n}{item}\n", "dim")
        for step in repetition.steps:
            _add_step(text, step, depth + 2, last)


def _add_line(text: Text, span: Span, depth: int) -> None:
    """Add the line of a span itself: its mark, name and kind, and how it ended."""
    status = span.outcome or span.status
    text.append(f"{'  ' * depth}{MARKS.get(status, '?')} {span.name}", STYLES.get(status, ""))
    if span.title:
        text.append(f" {one_line(span.title)}")
    if kind_named(span.kind).skips_known_results and span.status == "completed" and not span.steps:
        text.append(" (from the cache)", "dim")
    elif kind_named(span.kind).shows_kind:
        text.append(f" ({span.kind}{' → ' + span.branch if span.branch is not None else ''})", "dim")
    if span.error is not None:
        text.append(f"  {one_line(span.error.message)}", "red")
    elif span.status in ("skipped", "denied") and span.reason:
        text.append(f"  {one_line(span.reason)}", "dim")
    elif span.outcome is not None:
        text.append(f"  {status}", "dim")
    elif span.status == "completed":
        text.append(f"  {preview(span.output)}", "dim")
    for revision in span.revisions[-1:]:
        text.append(f"  revision {revision.revision}{_by(revision.by)}", "dim")
    text.append("\n")


def context_text(context: JSONObject) -> Text:
    """Return the context, with a line for each key."""
    text = Text("context\n", "dim")
    for key, value in context.items():
        text.append(f"  {one_line(key)}  ").append(f"{preview(value, 160)}\n", "dim")
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
    return f"{counted(usage.requests, 'model request')}, {counted(tokens, 'token')}{cost}"


def asker(question: Question) -> str:
    """Return the name of the step that asks, with its iteration."""
    return name_of(question) if question.iteration is None else f"{name_of(question)} ({question.iteration})"
