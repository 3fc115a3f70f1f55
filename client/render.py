"""Runs, questions and events as text for people."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from client.reading import name_of, words_of
from protocol.address import parts
from protocol.agents import Usage
from protocol.people import who_may
from protocol.questions import Question, brief
from protocol.runs import Event, Failure

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
QUOTES = "'\""
MOST_ITERATIONS = 10
"""Of a loop, in a tree for people."""
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
    """Writes to a stream (default: standard error) as it is: no wrapping, and styles on a colour terminal only."""
    stream = stream or sys.stderr
    plain = bool(os.environ.get("NO_COLOR")) or not stream.isatty()
    system: Any = None if plain else "auto"
    return Console(file=stream, color_system=system, soft_wrap=True, highlight=False, markup=False, emoji=False)


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output."""
    out = console(sys.stdout)
    out.print(table(titles, rows, out.width if sys.stdout.isatty() else None), end="")


def clean(text: str) -> str:
    r"""Without control characters: what a model or a person wrote must not steer the terminal.

    >>> clean("a\x1b[2Jb\tc\n")
    'a�[2Jb\tc\n'
    """
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def shown(value: Any) -> str:
    """A value as a result is printed: text as itself, else JSON."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def preview(value: Any, limit: int = 100) -> str:
    """A value in one line."""
    return clean(brief(value, limit).replace("\n", " "))


def question_text(question: Question) -> Text:
    """What is asked, where, with which choices, until when."""
    text = Text(f"{place(question.address)}\n", "dim")
    text.append(clean(question.message), "bold")
    for info in [*(parent["info"] for parent in question.parents), question.info]:
        if info is not None and info != question.message:
            text.append(f"\n{_info_text(info)}", "dim")
    width = max((len(option.id) for option in question.options), default=0)
    for number, option in enumerate(question.options, 1):
        text.append(f"\n  {number:>2}  {clean(option.id):{width}}", "cyan").append(_about(option))
    if question.people.restricted:
        waits = [f"waits for {who_may(question.people)}", question.so_far]
        text.append(f"\n{clean('; '.join(filter(None, waits)))}", "dim")
    if question.reminders:
        text.append(f"\nreminded {question.reminders} time{'s' if question.reminders > 1 else ''}", "dim")
    if question.deadline is not None:
        text.append(f"\nuntil {when(question.deadline)}", "dim")
    return text


def _info_text(info: Any) -> str:
    """What is shown beside a question: an object key by key, each in a line."""
    if not isinstance(info, dict):
        return clean(shown(info))
    return "\n".join(f"{clean(key)}: {preview(value, 300).strip(QUOTES)}" for key, value in info.items())


def _about(option: Any) -> str:
    weights = [f"{name} {value}" for name in ("risk", "cost", "time") if (value := option.model_dump()[name])]
    marked = ["recommended"] if option.recommended else []
    notes = ", ".join([*marked, *weights, *option.risks])
    label = option.label if option.label != option.id else ""
    told = ": ".join(part for part in (label, option.description) if part)
    return clean(f"  {told}" + (f"  ({notes})" if notes else ""))


def waiting_text(questions: Sequence[Question]) -> Text:
    """Open questions, each with the command that answers it."""
    text = Text()
    held = [question.run for question in questions if question.needs_no_data]
    for question in questions:
        command = answer_command(question, alone=held.count(question.run) == 1)
        text.append(question_text(question)).append(f"\n  {command}\n", "green")
    return text


def answer_command(question: Question, *, alone: bool = True) -> str:
    """The command that answers the question, and no other: `resume` goes on from all that hold a run."""
    if question.kind in ("hold", "checkpoint"):
        run = shlex.quote(question.run)
        return f"holdfast resume {run}" if alone else f"holdfast answer {run} {question.id} --content null"
    if question.kind == "secret":
        return f"holdfast attach {shlex.quote(question.run)}"
    if question.example != "…":
        return f"holdfast answer {shlex.quote(question.run)} {question.id} --content '{json.dumps(question.example)}'"
    form = not question.options and question.requestedSchema.get("type") in ("object", "array")
    words = words_of(question.requestedSchema)
    value = f"VALUE  # {', '.join(words)}, or a JSON object" if words else "--content JSON" if form else "VALUE"
    return f"holdfast answer {shlex.quote(question.run)} {question.id} {value}"


def place(address: str) -> str:
    """An address for people.

    >>> place("pipeline:brief;loop:clarify:2;hitl:review")
    'brief · clarify 2 · review'
    """
    return " · ".join(id_ if sub is None else f"{id_} {sub}" for _, id_, sub in parts(address))


def progress(event: Event) -> Text | None:
    """A line that tells a person what the run did; None for what is of no interest in passing."""
    line = _of_question(event) if event.type.startswith("question.") else _of_work(event)
    if line is None:
        return None
    kinds = [kind for kind, _, _ in parts(event.address)]
    inside = sum(kind in ("loop", "map") for kind in kinds) - (kinds[-1] == "loop")
    return Text("  " * inside).append(line)


def _of_work(event: Event) -> Text | None:
    data = event.data
    kind, name, _ = parts(event.address)[-1]
    line: Text | None = None
    match event.type:
        case "loop.iteration":
            line = Text(f"{name} {data['iteration']}", "bold")
            line.append(f": {preview(data['item'])}" if "item" in data else "", "dim")
        case "step.completed" if data["kind"] == "step":
            line = Text(f"✓ {name}  ").append(preview(data.get("output")), "dim")
        case "cache.hit":
            line = Text(f"✓ {name}  ").append("from the cache", "dim")
        case "step.skipped":
            line = Text(f"· {name} skipped{_why(data)}", "dim")
        case "tool.returned" if kind == "tool":
            line = Text(f"  ✓ {name} was called", "dim")
        case "tool.denied":
            line = Text(f"  ✗ {name}  {preview_text(data['reason'])}", "yellow")
        case "tool.failed":
            line = Text(f"  ✗ {name}  {preview_text(data['message'])}", "yellow")
        case "agent.told":
            line = Text(f"→ {name}  ", "cyan").append(preview(data["text"])).append(_by(data), "dim")
        case "step.failed":
            line = Text(f"✗ {name}  {preview_text(data['message'])}", "red")
        case "step.retrying":
            line = Text(f"↻ {name} is tried again", "yellow")
        case "branch.started":
            line = Text(f"→ {name}", "dim")
        case "loop.completed":
            line = Text(f"{name}: {data['iterations']} iterations, {data['reason']}", "dim")
        case "plan.revised":
            line = Text(f"↻ {name} is at revision {data['revision']}", "yellow").append(_by(data), "dim")
            line.append(f"  {preview_text(data.get('reason', ''))}", "dim")
        case "plan.completed" if data["status"] == "completed_with_errors":
            line = Text(f"{name}: {data['status']}", "yellow")
        case "run.resumed":
            line = Text("resumed", "yellow")
    return line


def _of_question(event: Event) -> Text | None:
    data = event.data
    _, name, _ = parts(event.address)[-1]
    line: Text | None = None
    match event.type:
        case "question.answered":
            line = Text(f"← {name}  ").append(preview(data.get("content")), "cyan").append(_by(data), "dim")
        case "question.accepted":
            line = Text(f"← {name}  ").append(preview(data.get("content")), "cyan").append(_by(data), "dim")
            line.append(f"  {data['so_far']} of {data['quorum']}", "dim")
        case "question.reminded":
            line = Text(f"↻ {name}  reminder {data['n']}", "yellow").append(_for(data), "dim")
        case "question.escalated":
            line = Text(f"↑ {name}", "yellow").append(_for(data), "dim")
        case "question.declined" | "question.cancelled" | "question.expired":
            line = Text(f"← {name}  {event.type.removeprefix('question.')}", "yellow").append(_by(data), "dim")
    return line


def preview_text(text: str) -> str:
    return clean(text.replace("\n", " "))


def _why(data: dict[str, Any]) -> str:
    return f": {clean(data['reason'])}" if data.get("reason") else ""


def _by(data: dict[str, Any]) -> str:
    return f"  {clean(data['by'])}" if data.get("by") else ""


def _for(data: dict[str, Any]) -> str:
    names = data.get("assignees") or []
    return f"  for {clean(', '.join(names) if isinstance(names, list) else names)}" if names else ""


def event_line(event: Event) -> Text:
    """Any event in one line."""
    text = Text(f"{event.offset:>6}  {event.time.astimezone():%H:%M:%S}  ", "dim")
    text.append(f"{event.type:18} ").append(place(event.address), "cyan")
    if event.data:
        text.append(f"  {preview(event.data, 160)}", "dim")
    return text


def failure_text(run: str, status: str, error: Failure | None) -> str:
    """Why a run did not complete."""
    if error is None or status == "cancelled":
        return f"run {run}: {status}"
    where = f"\n  at {error.address}" if error.address else ""
    why = f" ({error.reason})" if error.reason else ""
    return f"run {run} {status}: {clean(error.message)}{why}{where}{_given_all_the_same(error.output)}"


def _given_all_the_same(output: Any) -> str:
    """How the steps of a failed plan ended, a line for each way of ending."""
    match output:
        case {"steps": dict() as steps, "loops": dict() as loops}:
            by_status: dict[str, list[str]] = {}
            for id_, told in {**steps, **loops}.items():
                by_status.setdefault(told["status"], []).append(
                    f"{id_} ({told['reason']})" if told.get("reason") else id_
                )
            return "".join(f"\n  {status}: {clean(', '.join(ids))}" for status, ids in by_status.items())
    return ""


def when(moment: datetime) -> str:
    """A moment in the person's own time, with how far away it is.

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


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], room: int | None = None) -> Text:
    """Columns without a frame; only the last one is cut, where the room ends."""
    cells = [[clean(cell).replace("\n", " ") for cell in row] for row in [titles, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles) - 1)]
    text = Text()
    for row in cells:
        line = Text()
        for cell, width in zip(row, [*widths, 0], strict=True):
            line.append(f"{cell:{width}}  ", "dim" if row is cells[0] else STYLES.get(cell, ""))
        line.rstrip()
        if room is not None:
            line.truncate(room, overflow="ellipsis")
        text.append(line).append("\n")
    return text


def tree_text(trace: dict[str, Any], last: int | None = MOST_ITERATIONS) -> Text:
    """A trace as an indented tree; of each loop the last iterations."""
    text = Text()
    for step in trace["steps"]:
        _add_step(text, step, 1, last)
    return text


def _add_step(text: Text, span: dict[str, Any], depth: int, last: int | None) -> None:
    status = span.get("outcome", span["status"])
    text.append(f"{'  ' * depth}{MARKS.get(status, '?')} {span['name']}", STYLES.get(status, ""))
    if span.get("title"):
        text.append(f" {preview_text(span['title'])}")
    if span["kind"] == "cache" and span["status"] == "completed" and "steps" not in span:
        text.append(" (from the cache)", "dim")
    elif span["kind"] not in ("step", "hitl"):
        text.append(f" ({span['kind']}{' → ' + span['branch'] if 'branch' in span else ''})", "dim")
    if span.get("error"):
        text.append(f"  {preview_text(span['error']['message'] or '')}", "red")
    elif span["status"] in ("skipped", "denied") and span.get("reason"):
        text.append(f"  {preview_text(span['reason'])}", "dim")
    elif "outcome" in span:
        text.append(f"  {status}", "dim")
    elif span["status"] == "completed":
        text.append(f"  {preview(span['output'])}", "dim")
    for revision in span.get("revisions", [])[-1:]:
        text.append(f"  revision {revision['revision']}{_by(revision)}", "dim")
    text.append("\n")
    for step in span.get("steps", []):
        _add_step(text, step, depth + 1, last)
    for name, steps in span.get("branches", {}).items():
        text.append(f"{'  ' * (depth + 1)}{name}\n", "dim")
        for step in steps:
            _add_step(text, step, depth + 2, last)
    iterations = span.get("iterations") or span.get("items", [])
    kept = iterations if last is None else iterations[-last:]
    if hidden := span.get("iterations_left_out", span.get("items_left_out", 0)) + len(iterations) - len(kept):
        text.append(f"{'  ' * (depth + 1)}… {hidden} earlier ones: --all\n", "dim")
    for iteration in kept:
        item = f": {preview(iteration['item'])}" if "item" in iteration else ""
        text.append(f"{'  ' * (depth + 1)}{iteration['n']}{item}\n", "dim")
        for step in iteration["steps"]:
            _add_step(text, step, depth + 2, last)


def context_text(context: dict[str, Any]) -> Text:
    """The context, a key a line."""
    text = Text("context\n", "dim")
    for key, value in context.items():
        text.append(f"  {clean(key)}  ").append(f"{preview(value, 160)}\n", "dim")
    return text


def usage_text(usage: Usage) -> str:
    """What was spent, in words."""
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    tokens = usage.input_tokens + usage.output_tokens
    return f"{usage.requests} model requests, {tokens} tokens{cost}"


def asker(question: Question) -> str:
    """A question in a list: the step's name, with the iteration."""
    return name_of(question) if question.iteration is None else f"{name_of(question)} ({question.iteration})"
