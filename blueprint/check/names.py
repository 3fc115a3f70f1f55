"""Names: each step's is unique where it is seen, and each one read is known where it is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from blueprint.check.findings import Findings, texts_of
from blueprint.expressions import (
    ExpressionError,
    check_expression,
    check_template,
    names_in,
    names_in_expression,
)
from blueprint.expressions.error import did_you_mean
from blueprint.grammar import Agent, AgenticLoop, AnyStep, Block, Blueprint, Clarify, Fallback, Loop, PlainStep
from blueprint.mending import UNNAMED
from blueprint.reach import reach_of_tools, tools_of
from blueprint.source import Place

_ROOTS = frozenset({"input", "context", "steps", "previous_step", "output", "resume_input"})
_FIELDS = ("output", "status", "error")
_ONLY = {
    "iteration": "it is known only inside a loop",
    "history": "it is known only inside a loop",
    "error": "it is known only in the fallback of `on_error`",
    "item": "it is known only inside a map",
    "index": "it is known only inside a map",
}
_LISTED = 12


@dataclass(frozen=True)
class _Scope:
    """What can be read in one place."""

    roots: frozenset[str]
    seen: frozenset[str]
    """Steps whose output can be read."""
    around: frozenset[str]
    """Every step of this list and of those around it, later ones too."""


def check_names(blueprint: Blueprint, findings: Findings) -> None:
    _Names(blueprint, findings).check()


class _Names:
    def __init__(self, blueprint: Blueprint, findings: Findings) -> None:
        self.blueprint = blueprint
        self.findings = findings
        self.homes = dict(_homes(blueprint.steps, "steps"))
        self.read_at: set[tuple[str, str]] = set()

    def check(self) -> None:
        for name, agent in self.blueprint.agents.items():
            self._parses(agent.instructions, f"agents.{name}.instructions")
        last = self._steps(self.blueprint.steps, "steps", _Scope(_ROOTS, frozenset(), frozenset()), loops=False)
        self._template(self.blueprint.output, "output", last)

    def _steps(self, steps: Sequence[AnyStep], path: str, outer: _Scope, *, loops: bool) -> _Scope:
        """Check a list; gives what can be read after it."""
        own = [name for step in steps for name in _names(step)]
        self._unique(steps, path, outer)
        scope = replace(outer, around=outer.around | set(own))
        if loops:
            scope = replace(scope, seen=outer.seen | set(own))
        for index, step in enumerate(steps):
            self._step(step, f"{path}[{index}]", scope)
            scope = replace(scope, seen=scope.seen | set(_names(step)))
        return scope

    def _unique(self, steps: Sequence[AnyStep], path: str, outer: _Scope) -> None:
        first: dict[str, str] = {}
        for index, step in enumerate(steps):
            for place, name in _placed_names(step, f"{path}[{index}]"):
                if name in outer.around or name in first:
                    other = first.get(name) or self.homes.get(name, "")
                    told = f"the name {name!r} is taken by {other}"
                    hint = "step names are unique in their list and the lists around it"
                    self.findings.add(f"{place}.name", "duplicate_name", told, hint)
                first.setdefault(name, place)

    def _step(self, step: AnyStep, path: str, scope: _Scope) -> None:
        for key, template in step.reads().items():
            self._template(template, f"{path}.{key}", scope)
        for key, condition in step.conditions().items():
            self._condition(condition, f"{path}.{key}", scope)
        for name, agent in self._agents_of(step).items():
            self._template(agent.instructions, f"agents.{name}.instructions", scope)
        for key, block in step.blocks().items():
            self._block(block, path, key, scope)
        if isinstance(step.on_error, Fallback):
            inside = replace(scope, roots=scope.roots | {"error"}, seen=scope.seen | {step.name})
            self._step(step.on_error.fallback, f"{path}.on_error.fallback", inside)

    def _agents_of(self, step: AnyStep) -> dict[str, Agent]:
        """The named agents that the step itself uses: their instructions are rendered where it stands."""
        match step:
            case PlainStep(agent=str(name)) | AgenticLoop(planner=str(name)) | Clarify(agent=str(name)) if (
                name in self.blueprint.agents
            ):
                named = {name: self.blueprint.agents[name]}
            case Loop() if (rule := step.loop.history_management) and rule.agent in self.blueprint.agents:
                named = {rule.agent: self.blueprint.agents[rule.agent]}
            case _:
                named = {}
        return named | reach_of_tools(tools_of(step, self.blueprint), self.blueprint).agents

    def _block(self, block: Block, path: str, key: str, scope: _Scope) -> None:
        before = replace(scope, roots=scope.roots | block.names)
        inside = self._steps(block.steps, f"{path}.{key}", before, loops=block.loops)
        for where, template in block.reads.items():
            first = where.startswith("loop.init")  # runs before any step of the body
            self._template(template, f"{path}.{where}", replace(inside, seen=before.seen) if first else inside)
        for where, condition in block.conditions.items():
            self._condition(condition, f"{path}.{where}", inside)

    def _template(self, template: object, path: str, scope: _Scope) -> None:
        for where, text in texts_of(template, path):
            if self._parses(text, where):
                self._chains(names_in(text), where, scope, r"\{[{%](?:(?!\}\}|%\})[\s\S])*?")

    def _condition(self, expression: str, path: str, scope: _Scope) -> None:
        try:
            check_expression(expression)
        except ExpressionError as error:
            self._broken(error, path)
        else:
            self._chains(names_in_expression(expression), path, scope, "")

    def _parses(self, text: str, path: str) -> bool:
        try:
            check_template(text)
        except ExpressionError as error:
            self._broken(error, path)
            return False
        return True

    def _broken(self, error: ExpressionError, path: str) -> None:
        if ("", path) in self.read_at:
            return
        self.read_at.add(("", path))
        code = "unknown_filter" if error.message.startswith("unknown filter") else "bad_expression"
        place = self.findings.place(path)
        if name := re.match(r"(?:unknown \w+|no tag) '(\w+)'", error.message):
            place = place.of(rf"(?<![\w])({name.group(1)})\b")
        elif error.line is not None:
            place = _line(place, error.line)
        self.findings.add_at(place, path, code, error.message, error.hint)

    def _chains(self, chains: Iterable[tuple[str, ...]], path: str, scope: _Scope, before: str) -> None:
        for chain in sorted(chains):
            root, step, field = (*chain, "", "")[:3]
            word = rf"{before}(?<![\w.])({re.escape(root)})\b"
            found: tuple[str, str | None] | None = None
            if root not in scope.roots:
                found = f"unknown name {root!r}", self._root_hint(root, scope)
            elif root == "steps" and step and step not in scope.seen:
                word = rf"{before}\bsteps\s*(?:\.\s*|\[\s*\\?['\"])({re.escape(step)})"
                found = self._unknown_step(step, path, scope)
            elif root == "steps" and field and field not in _FIELDS:
                word = rf"{before}{re.escape(step)}\\?['\"]?\s*\]?\s*(?:\.\s*|\[\s*\\?['\"])({re.escape(field)})"
                hint = did_you_mean(field, _FIELDS) or f"a step has {', '.join(_FIELDS)}"
                found = f"unknown name {field!r} of step {step!r}", hint
            if found and (found[0], path) not in self.read_at:
                self.read_at.add((found[0], path))
                self.findings.add(path, "unknown_name", *found, at=word)

    def _root_hint(self, name: str, scope: _Scope) -> str:
        if name in _ONLY:
            return _ONLY[name]
        if name in scope.seen:
            return f"did you mean 'steps.{name}.output'?"
        if hint := did_you_mean(name, sorted(scope.roots)):
            return hint
        if hint := did_you_mean(name, sorted(scope.seen)):
            return re.sub(r"'(.*)'", r"'steps.\1.output'", hint)
        return f"known here: {', '.join(sorted(scope.roots))}"

    def _unknown_step(self, name: str, path: str, scope: _Scope) -> tuple[str, str | None] | None:
        home = self.homes.get(name)
        if home is not None and path.startswith(f"{home}."):
            return f"the step {name!r} reads its own output", "its input is `previous_step`"
        if name in scope.around:
            return f"the step {name!r} has not run here yet", f"it runs later, as {home}"
        if home is not None:
            hint = "write what is needed to the context, or let it be that list's output"
            return f"the step {name!r} is not seen from here: it stands inside {_list_of(home)}", hint
        known = sorted(name for name in scope.seen if not name.startswith(UNNAMED))
        if len(known) < len(scope.seen) and did_you_mean(name, known) is None:
            return None  # it may be the name that could not be read
        listed = f"steps known here: {', '.join(known[:_LISTED])}" if known else "no step has run here yet"
        return f"unknown name {name!r}", did_you_mean(name, known) or listed


def _line(place: Place, line: int) -> Place:
    """The n-th line of a text: it is known for a block text, whose lines are as they are written."""
    if not place.raw.startswith("|"):
        return place
    start = place.start
    for _ in range(line):
        start = place.source.text.find("\n", start) + 1
    text = place.source.text[start:]
    return place.source.at(start + len(text) - len(text.lstrip(" ")))


def _placed_names(step: AnyStep, path: str) -> Iterator[tuple[str, str]]:
    yield path, step.name
    if isinstance(step.on_error, Fallback):
        yield from _placed_names(step.on_error.fallback, f"{path}.on_error.fallback")


def _names(step: AnyStep) -> list[str]:
    return [name for _, name in _placed_names(step, "")]


def _homes(steps: Sequence[AnyStep], path: str) -> Iterator[tuple[str, str]]:
    """Where each step of the blueprint stands, outer ones last, so that they win."""
    for index, step in enumerate(steps):
        yield from _inner_homes(step, f"{path}[{index}]")
    for index, step in enumerate(steps):
        for place, name in _placed_names(step, f"{path}[{index}]"):
            yield name, place


def _inner_homes(step: AnyStep, path: str) -> Iterator[tuple[str, str]]:
    for key, block in step.blocks().items():
        yield from _homes(block.steps, f"{path}.{key}")
    if isinstance(step.on_error, Fallback):
        yield from _inner_homes(step.on_error.fallback, f"{path}.on_error.fallback")


def _list_of(home: str) -> str:
    return re.sub(r"(\[\d+\]|\.on_error\.fallback)$", "", home)
