"""One text of a planner while it is read: the steps so far, what they refer to, and what is wrong, with its place."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.load import parse
from holdfast.blueprint.source import Position, Source

GOAL = "Do what the steps say"
"""Of a plan that comes without one."""
ASKED = re.compile(r"^[ \t]*(?:Task|Question|Goal)[ \t]*:[ \t]*(?P<goal>\S.*)$", re.MULTILINE)
"""What some planners repeat before their plan."""
_QUESTION = re.compile(r"\s*(?P<goal>[^\s#`{\[](?:[^\n]|\n(?![ \t]*\n))*\?)[ \t]*(?=\n)")
"""A paragraph that ends with a question mark: what was asked, without a word that says so."""
_OPTIONS = re.compile(r"^[ \t]*Options[ \t]*:(?P<options>.*)", re.MULTILINE | re.DOTALL)
"""What may be chosen from, between the question and the plan."""
_WORD = re.compile(r"[A-Za-z0-9_]")
_PROPERTY = re.compile(r"\.[A-Za-z_]\w*|\[")


@dataclass
class Reading:
    """Takes steps in the order of the text; `plan` gives what they make."""

    source: Source
    steps: list[dict[str, Any]] = field(default_factory=list)
    begins: list[int | Position] = field(default_factory=list)
    """Where each step stands."""
    problems: list[Problem] = field(default_factory=list)
    goal: str | None = None
    """What the text itself says that it is for."""

    @property
    def text(self) -> str:
        return self.source.text

    def fault(self, at: int | Position, path: str, code: str, message: str, hint: str | None = None) -> None:
        self.problems.append(self._place(at).problem(path, code, message, hint))

    def step(self, at: int | Position, id_: str, *, instruction: str, title: str = "", **lists: list[str]) -> None:
        """Take a step; keys that say nothing are left out."""
        told = {"id": id_, "title": title, "instruction": instruction.strip(), **lists}
        self.steps.append({key: value for key, value in told.items() if value})
        self.begins.append(at)

    def _place(self, at: int | Position) -> Position:
        return self.source.at(at) if isinstance(at, int) else at

    def preamble(self, end: int) -> None:
        """What stands before the first step: nothing, or what was asked for."""
        asked = ASKED.search(self.text, 0, end) or _QUESTION.match(self.text, 0, end)
        if asked is None:
            self.nothing_in(0, end)
            return
        self.goal = " ".join(asked["goal"].split())
        self.nothing_in(0, asked.start())
        options = _OPTIONS.search(self.text, asked.end(), end)
        if options is not None:
            told = [line.strip(" \t-*") for line in options["options"].splitlines()]
            self.goal += f" Options: {'; '.join(line for line in told if line)}"
        self.nothing_in(asked.end(), end if options is None else options.start())

    def nothing_in(self, begin: int, end: int) -> None:
        """Say that a part of the text is not understood, if there is anything in it."""
        left = self.text[begin:end]
        if line := left.strip().partition("\n")[0].strip():
            at = begin + len(left) - len(left.lstrip())
            self.fault(at, "", "bad_value", f"{line[:60]!r} is no part of such a plan", "take it out")

    def referring(
        self,
        part: tuple[int, int] | str,
        pattern: re.Pattern[str],
        own: str,
        ids: Sequence[str],
        at: Position | None = None,
    ) -> tuple[str, list[str]]:
        """A part of the text (or a text that stands `at` a place) with our references in the place of the planner's,
        and the ids that these name. The pattern's only group that matches is the id; `own` is that of the step.
        """
        text = part if isinstance(part, str) else self.text[slice(*part)]
        begin = 0 if isinstance(part, str) else part[0]
        found: list[str] = []

        def ours(match: re.Match[str]) -> str:
            id_ = next(group for group in match.groups() if group is not None)
            if wrong := _wrong(match, id_, own, ids):
                self.fault(at or self.source.at(begin + match.start()), "", *wrong)
            found.append(id_)
            return f"RESULT_FROM_{id_}"

        filled = pattern.sub(ours, text)
        return filled.strip(), list(dict.fromkeys(found))

    def plan(self, goal: str | None) -> dict[str, Any]:
        """The whole plan. Raises `BlueprintError` if it is none that can be run."""
        plan = {"goal": goal or self.goal or GOAL, "steps": self.steps}
        if not self.problems:
            found = parse(json.dumps(plan), file=self.source.file).problems
            self.problems += [self._placed(problem) for problem in found]
        if self.problems:
            raise BlueprintError(self.problems)
        return plan

    def _placed(self, problem: Problem) -> Problem:
        """A problem of the finished plan, at the step that it tells of."""
        step = re.match(r"steps\[(\d+)\]", problem.path)
        place = self._place(self.begins[int(step[1])] if step else 0)
        return replace(problem, line=place.line, column=place.column)


def _wrong(match: re.Match[str], id_: str, own: str, ids: Sequence[str]) -> tuple[str, str, str] | None:
    """Code, message and hint of a reference that cannot be followed."""
    written, text = match.group(), match.string
    before, after = text[: match.start()][-1:], text[match.end() :][:1]
    if id_ == own:
        return "cycle", f"{written} is not there before this step has run", "refer to a step before it"
    if id_ not in ids:
        money = "; write an amount of money without the $" if "$" in written else ""
        return "unknown_name", f"{written} is the result of no step", f"steps: {', '.join(ids)}{money}"
    if _WORD.match(before) or _WORD.match(after):
        told = f"{written} is part of the word {before + written + after!r}"
        return "bad_reference", told, "put a space or a quotation mark between them"
    if inside := _PROPERTY.match(text, match.end()):
        told = f"{written}{inside.group()} looks into a value, which a reference cannot"
        return "bad_reference", told, f"write {written} and say in words what of it is meant"
    return None


def with_arguments(tool: str, arguments: str) -> str:
    """What a step is told that calls a tool."""
    return f"Call {tool} with: {arguments}" if arguments else f"Call {tool}."
