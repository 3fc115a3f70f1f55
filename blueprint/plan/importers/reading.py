"""One text of a planner while it is read: the steps so far, what they refer to, and what is wrong, with its place."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from blueprint.errors import BlueprintError, Problem
from blueprint.load import parse
from blueprint.source import Place, Source

GOAL = "Do what the steps say"
"""Of a plan that comes without one."""
ASKED = re.compile(r"^[ \t]*(?:Task|Question|Goal)[ \t]*:[ \t]*(?P<goal>\S.*)$", re.MULTILINE)
"""What some planners repeat before their plan."""
_FENCED = re.compile(r"\s*```[a-zA-Z]*[ \t]*\n(?P<inside>.*)\n[ \t]*```\s*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z0-9_]")
_PROPERTY = re.compile(r"\.[A-Za-z_]\w*|\[")


def unfenced(text: str) -> str:
    """A text that is one block of Markdown, without its fences; what is left stands where it stood."""
    fenced = _FENCED.fullmatch(text)
    if fenced is None:
        return text
    begin, end = fenced.span("inside")
    return re.sub(r"[^\n]", " ", text[:begin]) + text[begin:end]


@dataclass
class Reading:
    """Takes steps in the order of the text; `plan` gives what they make."""

    source: Source
    steps: list[dict[str, Any]] = field(default_factory=list)
    begins: list[int | Place] = field(default_factory=list)
    """Where each step stands."""
    problems: list[Problem] = field(default_factory=list)
    goal: str | None = None
    """What the text itself says that it is for."""

    @property
    def text(self) -> str:
        return self.source.text

    def fault(self, at: int | Place, path: str, code: str, message: str, hint: str | None = None) -> None:
        self.problems.append(self._place(at).problem(path, code, message, hint))

    def step(self, at: int | Place, id_: str, *, instruction: str, title: str = "", **lists: list[str]) -> None:
        """Take a step; keys that say nothing are left out."""
        told = {"id": id_, "title": title, "instruction": instruction.strip(), **lists}
        self.steps.append({key: value for key, value in told.items() if value})
        self.begins.append(at)

    def _place(self, at: int | Place) -> Place:
        return self.source.at(at) if isinstance(at, int) else at

    def preamble(self, end: int) -> None:
        """What stands before the first step: nothing, or what was asked for."""
        asked = ASKED.search(self.text, 0, end)
        if asked is not None:
            self.goal = asked["goal"].strip()
        begin = end if asked is None else asked.start()
        self.nothing_in(0, begin)
        self.nothing_in(end if asked is None else asked.end(), end)

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
        at: Place | None = None,
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
