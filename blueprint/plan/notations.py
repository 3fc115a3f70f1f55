"""Plans in the notations of other planners, read into the plan that a file would hold. `load.plans` checks it.

Two notations are texts, in which comments stand between calls: a row of `_TEXTS` says how both are written. The third
is a list in JSON. The values of the plan keep their places in the text, so that every problem is shown where it stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.plan.document import unfenced
from holdfast.blueprint.plan.references import INSIDE
from holdfast.blueprint.source import PlacedDict, PlacedList, Position, Source
from holdfast.blueprint.source import read as read_source

DEFAULT_GOAL = "Do what the steps say"
_GOAL = re.compile(r"^[ \t]*(?:Task|Question|Goal)[ \t]*:[ \t]*(?P<goal>\S.*)$", re.MULTILINE)
"""A line before the plan, as some planners repeat it."""
_QUESTION = re.compile(r"\s*(?P<goal>[^\s#`{\[](?:[^\n]|\n(?![ \t]*\n))*\?)[ \t]*(?=\n)")
"""A first paragraph that ends with a question mark: the question, without a word that says so."""
_OPTIONS = re.compile(r"^[ \t]*Options[ \t]*:(?P<options>.*)", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"[A-Za-z0-9_]")


def recognised(text: str) -> str | None:
    """Return the name of a text's notation, if it is in one of `NOTATIONS`.

    >>> recognised("Plan: Look.\\n#E1 = Search[tea]"), recognised('1. search("tea")'), recognised('{"goal": "Tea"}')
    ('ReWOO', 'LLMCompiler', None)
    """
    text = unfenced(text)
    return next((name for name, notation in NOTATIONS.items() if notation.fits(text)), None)


def plan_in(text: str, goal: str | None = None, file: str = "<text>") -> PlacedDict:
    """Return the plan in a text. Raises `BlueprintError` with every problem of the notation, at its place.

    Without a `goal` it has the one that the text names.
    """
    name = recognised(text)
    reader = _TextReader(Source(file, unfenced(text)))
    if name is None:
        reader.add_problem(
            0, "bad_value", f"this is not a plan of {', '.join(NOTATIONS)}", "write JSON with 'steps', or one of these"
        )
    else:
        NOTATIONS[name].read(reader)
    if reader.problems:
        raise BlueprintError(reader.problems)
    return reader.plan(goal)


@dataclass
class _TextReader:
    """The state of reading one text: the steps so far, and the problems."""

    source: Source
    steps: list[PlacedDict] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    goal: str | None = None
    """The goal that the text names."""

    @property
    def text(self) -> str:
        return self.source.text

    def plan(self, goal: str | None) -> PlacedDict:
        plan = PlacedDict(self.source.at(0))
        plan.put("goal", goal or self.goal or DEFAULT_GOAL, plan.place)
        steps = PlacedList(plan.place)
        for step in self.steps:
            steps.add(step, step.place)
        plan.put("steps", steps, plan.place)
        return plan

    def add_problem(self, at: int | Position, code: str, message: str, hint: str | None = None, path: str = "") -> None:
        place = self.source.at(at) if isinstance(at, int) else at
        self.problems.append(place.problem(path, code, message, hint))

    def add_step(self, at: int | Position, id_: str, instruction: str, title: str = "", **lists: Sequence[str]) -> None:
        """Add a step, without the keys that are empty."""
        step = PlacedDict(self.source.at(at) if isinstance(at, int) else at)
        for key, value in {"id": id_, "title": title, "instruction": instruction.strip(), **lists}.items():
            if isinstance(value, str) and value:
                step.put(key, value, step.place)
            elif value:
                listed = PlacedList(step.place)
                for name in dict.fromkeys(value):
                    listed.add(name, step.place)
                step.put(key, listed, step.place)
        self.steps.append(step)

    def read_preamble(self, end: int) -> None:
        """Read what stands before the first step: the goal, perhaps with options to choose from, or nothing."""
        goal = _GOAL.search(self.text, 0, end) or _QUESTION.match(self.text, 0, end)
        if goal is None:
            self.require_empty(0, end)
            return
        self.goal = " ".join(goal["goal"].split())
        self.require_empty(0, goal.start())
        options = _OPTIONS.search(self.text, goal.end(), end)
        if options is not None:
            lines = [line.strip(" \t-*") for line in options["options"].splitlines()]
            self.goal += f" Options: {'; '.join(line for line in lines if line)}"
        self.require_empty(goal.end(), end if options is None else options.start())

    def require_empty(self, begin: int, end: int) -> None:
        """Add a problem if a part of the text holds anything."""
        part = self.text[begin:end]
        if line := part.strip().partition("\n")[0].strip():
            at = begin + len(part) - len(part.lstrip())
            self.add_problem(at, "bad_value", f"{line[:60]!r} does not belong to such a plan", "take it out")

    def with_references(self, text: str, at: int | Position, names: _References) -> tuple[str, list[str]]:
        """Return a text that stands at a place with references as a plan writes them, and the ids that they name."""
        ids: list[str] = []

        def replace(match: re.Match[str]) -> str:
            id_ = next(group for group in match.groups() if group is not None)
            if (problem := _bad_reference(match, id_, names)) is not None:
                self.add_problem(at + match.start() if isinstance(at, int) else at, *problem)
            ids.append(id_)
            return f"RESULT_FROM_{id_}"

        return names.reference.sub(replace, text).strip(), ids


class _References(NamedTuple):
    """The ids that references of one step may name; of the groups of `reference` one matches, the id."""

    reference: re.Pattern[str]
    ids: Sequence[str]
    own: str


def _bad_reference(match: re.Match[str], id_: str, names: _References) -> tuple[str, str, str] | None:
    """Return code, message and hint of a reference that cannot be followed."""
    reference, text = match.group(), match.string
    before, after = text[: match.start()][-1:], text[match.end() :][:1]
    if id_ == names.own:
        return "cycle", f"{reference} is not available before this step has run", "refer to a step before it"
    if id_ not in names.ids:
        money = "; write an amount of money without the $" if "$" in reference else ""
        return "unknown_name", f"{reference} is the result of no step", f"steps: {', '.join(names.ids)}{money}"
    if _WORD.match(before) or _WORD.match(after):
        message = f"{reference} is part of the word {before + reference + after!r}"
        return "bad_reference", message, "put a space or a quotation mark between them"
    if inside := INSIDE.match(text, match.end()):
        message = f"{reference}{inside.group()} selects a part of a value, which a reference cannot"
        return "bad_reference", message, f"write {reference} and say in words which part is meant"
    return None


# Texts: comments and calls


class _Text(NamedTuple):
    """The form of a notation in text, and the step that it makes of a call."""

    head: re.Pattern[str]
    """Matches where a comment (the group `comment`) or a call begins."""
    call: re.Pattern[str]
    """Matches a call up to its opening bracket, with the groups `id` and `tool`."""
    close: str
    reference: re.Pattern[str]
    example: str
    cut: str
    """The problem of a call that is not closed; `{}` is the tool."""
    add_step: Callable[[_TextReader, _Call], None]
    unused: str = ""
    """The problem of a comment without a call; `{}` is the comment."""
    end: str = ""
    """A mark that may end the plan."""


class _Call(NamedTuple):
    """A call on its way to a step; comments and arguments are parts of the text."""

    at: int
    id: str
    tool: str
    arguments: slice
    comments: list[slice]
    names: _References


JOINS = ("join", "finish")
"""LLMCompiler's last call, perhaps without a number, by which an agent answers from every result."""
_JOINING = "Answer from the results of the steps before."
_MODEL = "LLM"
"""ReWOO's tool that is a model without tools."""


def _read_text(notation: _Text, reader: _TextReader) -> None:
    text, end = reader.text, reader.text.find(notation.end) if notation.end else -1
    if end < 0:
        end = len(text)
    reader.require_empty(end + len(notation.end), len(text))
    heads = list(notation.head.finditer(text, 0, end))
    reader.read_preamble(heads[0].start() if heads else end)
    ids = [_id_of(match) for head in heads if (match := notation.call.match(text, head.end())) is not None]
    comments: list[slice] = []
    for head, next_ in zip(heads, [*(head.start() for head in heads[1:]), end], strict=True):
        part = slice(head.end(), next_)
        if head["comment"] is not None:
            comments.append(part)
            continue
        _refuse_unused(notation, reader, comments[:-1])
        if (call := _call_in(notation, reader, part, comments, ids)) is not None:
            notation.add_step(reader, call)
        comments = []
    _refuse_unused(notation, reader, comments)


def _refuse_unused(notation: _Text, reader: _TextReader, comments: list[slice]) -> None:
    for comment in comments if notation.unused else ():
        message = notation.unused.format(repr(reader.text[comment].strip()[:60]))
        reader.add_problem(comment.start, "missing_key", message, f"write {notation.example} below it, or take it out")


def _call_in(notation: _Text, reader: _TextReader, part: slice, comments: list[slice], ids: list[str]) -> _Call | None:
    match = notation.call.match(reader.text, part.start)
    if match is None:
        line = reader.text[part].strip().partition("\n")[0]
        reader.add_problem(part.start, "bad_value", f"{line[:60]!r} calls nothing", f"write {notation.example}")
        return None
    end = reader.text.rfind(notation.close, match.end(), part.stop)
    if end < 0:
        message = notation.cut.format(match["tool"])
        reader.add_problem(match.end() - 1, "bad_value", message, f"close it with {notation.close}")
        return None
    reader.require_empty(end + 1, part.stop)
    id_ = _id_of(match)
    names = _References(notation.reference, ids, id_)
    return _Call(part.start, id_, match["tool"], slice(match.end(), end), comments, names)


def _id_of(match: re.Match[str]) -> str:
    return str(match["id"] or JOINS[0])


def _with_arguments(tool: str, arguments: str) -> str:
    return f"Call {tool} with: {arguments}" if arguments else f"Call {tool}."


def _add_evidence(reader: _TextReader, call: _Call) -> None:
    """Add ReWOO's step: the words of its plan, and the call."""
    words, ids = "", list[str]()
    for plan in call.comments[-1:]:
        words, ids = reader.with_references(reader.text[plan], plan.start, call.names)
    arguments, more = reader.with_references(reader.text[call.arguments], call.arguments.start, call.names)
    is_model = call.tool.upper() == _MODEL
    instruction = f"{words}\n{arguments if is_model else _with_arguments(call.tool, arguments)}"
    reader.add_step(call.at, call.id, instruction, tools=[] if is_model else [call.tool], dependencies=[*ids, *more])


def _add_task(reader: _TextReader, call: _Call) -> None:
    """Add LLMCompiler's step, with the thoughts before it as title; a join, the last, depends on every other."""
    title = " ".join(" ".join(reader.text[thought].split()) for thought in call.comments)
    if call.tool not in JOINS:
        arguments, ids = reader.with_references(reader.text[call.arguments], call.arguments.start, call.names)
        instruction = _with_arguments(call.tool, arguments)
        reader.add_step(call.at, call.id, instruction, title, tools=[call.tool], dependencies=ids)
        return
    if call.id != call.names.ids[-1]:
        reader.add_problem(call.at, "conflict", f"{call.tool}() is not the last step", "put it at the end")
    reader.add_step(call.at, call.id, _JOINING, title, dependencies=[id_ for id_ in call.names.ids if id_ != call.id])


_LEAD = r"^[ \t]*(?:[-*>]+[ \t]*|\d+[.)][ \t]*)?"
_NAME = r"[A-Za-z_][\w.-]*"
_REWOO = _Text(
    head=re.compile(
        rf"{_LEAD}(?P<comment>Plan(?:[ \t]*\d+)?[ \t]*:[ \t]*)|{_LEAD}(?=#E\d+\s*[=:])|(?=#E\d+\s*=\s*{_NAME}\[)",
        re.MULTILINE,
    ),
    call=re.compile(r"#(?P<id>E\d+)\s*[=:]\s*(?P<tool>[A-Za-z_][\w.:/-]*)\s*\["),
    close="]",
    reference=re.compile(r"#(E\d+)"),
    example="#E1 = Tool[input]",
    cut="the input of {} has no end",
    add_step=_add_evidence,
    unused="nothing is done for the plan {}",
)
_LLM_COMPILER = _Text(
    head=re.compile(
        rf"^[ \t]*(?:(?P<comment>Thought(?:[ \t]*\d+)?[ \t]*:)|(?=(?:\d+[.):][ \t]*{_NAME}|{'|'.join(JOINS)})\())",
        re.MULTILINE,
    ),
    call=re.compile(rf"(?:(?P<id>\d+)[.):][ \t]*)?(?P<tool>{_NAME})\("),
    close=")",
    reference=re.compile(r"\$\{(\d+)\}|\$(\d+)"),
    example="1. tool(arguments)",
    cut="the arguments of {} have no end",
    add_step=_add_task,
    end="<END_OF_PLAN>",
)


# HuggingGPT: a list of {"task", "id", "dep", "args"}

_KEYS = ("task", "id", "dep", "args")
_NO_TASK = -1
"""The entry of `dep` for no dependency."""
_LIST = re.compile(r"\s*\[\s*\{.*[\"']task[\"']\s*:", re.DOTALL)
_GENERATED = re.compile(r"<(?:GENERATED|resource)>-(\d+)|<(?:GENERATED|resource)-(\d+)>", re.IGNORECASE)
_UNREAD = re.compile(r"<(?:GENERATED|resource)\b[^>]*>?\S*", re.IGNORECASE)


def _read_list(reader: _TextReader) -> None:
    tasks, _, problems = read_source(reader.text, reader.source.file)
    reader.problems += problems
    if not isinstance(tasks, PlacedList):
        return
    ids = [id_ for task in tasks if isinstance(task, PlacedDict) and (id_ := _task_id(task.get("id"))) is not None]
    for index, (task, place) in enumerate(zip(tasks, tasks.places, strict=True)):
        if isinstance(task, PlacedDict):
            _add_listed(reader, task, f"[{index}]", ids)
        else:
            reader.add_problem(place, "bad_value", "a task is an object", f"with {', '.join(_KEYS)}", f"[{index}]")


def _task_id(value: object) -> str | None:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return text if text.isdecimal() else None


def _add_listed(reader: _TextReader, task: PlacedDict, path: str, ids: list[str]) -> None:
    def add_problem(key: str, message: str, hint: str | None = None) -> None:
        place = task.value_place(key) if key in task else task.place
        reader.add_problem(place, "bad_value" if key in task else "missing_key", message, hint, f"{path}.{key}")

    for key in [key for key in task if key not in _KEYS]:
        hint = did_you_mean(key, _KEYS) or f"known: {', '.join(_KEYS)}"
        reader.add_problem(task.key_place(key), "unknown_key", f"unknown key {key!r}", hint, f"{path}.{key}")
    tool, id_, arguments = task.get("task"), _task_id(task.get("id")), task.get("args")
    if not isinstance(tool, str) or not tool.strip():
        add_problem("task", "'task' is the name of a tool", "such as image-to-text")
    elif id_ is None:
        add_problem("id", "'id' is a whole number, from 0")
    elif arguments is not None and not isinstance(arguments, PlacedDict):
        add_problem("args", "'args' is an object", 'such as {"text": "…"}')
    else:
        lines, needed = _argument_lines(reader, arguments, path, _References(_GENERATED, ids, id_))
        instruction = "\n".join([f"Call {tool} with", *lines]) if lines else f"Call {tool}."
        listed = task.get("dep", [])
        others = [other for other in (listed if isinstance(listed, list) else [listed]) if other != _NO_TASK]
        for other in others:
            if _task_id(other) not in ids or _task_id(other) == id_:
                add_problem("dep", f"{json.dumps(other)} is not another task", f"known: {', '.join(ids)}")
        reader.add_step(task.place, id_, instruction, tools=[tool], dependencies=[*map(str, others), *needed])


def _argument_lines(
    reader: _TextReader, arguments: PlacedDict | None, path: str, names: _References
) -> tuple[list[str], list[str]]:
    """Return a line for each argument, and the ids that they refer to."""
    lines, ids = list[str](), list[str]()
    if arguments is None:
        return lines, ids
    for key, value in arguments.items():
        place = arguments.value_place(key)
        text, more = reader.with_references(
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), place, names
        )
        lines.append(f"{key}: {text}")
        ids += more
        if (unread := _UNREAD.search(text)) is not None:
            message = f"{unread.group()[:60]!r} is not a reference"
            reader.add_problem(place, "bad_reference", message, "write <GENERATED>-0", f"{path}.args.{key}")
    return lines, ids


class _Notation(NamedTuple):
    """A notation: `fits` recognises a text, `read` reads it."""

    fits: Callable[[str], bool]
    read: Callable[[_TextReader], None]


def _text_notation(notation: _Text) -> _Notation:
    return _Notation(
        lambda text: any(head["comment"] is None for head in notation.head.finditer(text)),
        lambda reader: _read_text(notation, reader),
    )


NOTATIONS = {
    "ReWOO": _text_notation(_REWOO),
    "LLMCompiler": _text_notation(_LLM_COMPILER),
    "HuggingGPT": _Notation(lambda text: _LIST.match(text) is not None, _read_list),
}
