"""Rules of names: a step's name is unique in its scope, and every name that is read is known there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from holdfast.blueprint.dependencies import list_tools, reach_of_tools
from holdfast.blueprint.expressions.error import ExpressionError, did_you_mean
from holdfast.blueprint.expressions.evaluation import check_expression, check_template, names_in, names_in_expression
from holdfast.blueprint.expressions.fields import ERROR_FIELDS, STEP_FIELDS
from holdfast.blueprint.findings import Findings, iterate_texts
from holdfast.blueprint.kinds import Agent, AnyStep, Block, Blueprint, Fallback
from holdfast.blueprint.kinds.needs import check_needs, find_needs, has_needs
from holdfast.blueprint.recover import UNNAMED
from holdfast.blueprint.source import Position

_ROOTS = frozenset({"input", "context", "steps", "previous_step", "output", "resume_input"})
_ONLY = {
    "iteration": "it is known only inside a loop",
    "history": "it is known only inside a loop",
    "error": "it is known only in the fallback of `on_error`, and in the `finally` of a block",
    "item": "it is known only inside a map",
    "index": "it is known only inside a map",
    "report": "it is known only in the `finalize` of a map",
}
_LISTED = 12


@dataclass(frozen=True)
class _VisibleNames:
    """The names that can be read in one place."""

    roots: frozenset[str]
    seen: frozenset[str]
    """Steps whose output can be read."""
    around: frozenset[str]
    """Every step of this list and of those around it, later ones too."""
    unneeded: frozenset[str] = frozenset()
    """Steps of a list with dependencies that the one at this place does not need."""


def check_names(blueprint: Blueprint, findings: Findings) -> None:
    _Names(blueprint, findings).check()


class _Names:
    def __init__(self, blueprint: Blueprint, findings: Findings) -> None:
        self.blueprint = blueprint
        self.findings = findings
        self.paths = dict(_step_paths(blueprint.steps, "steps"))
        self.read_at: set[tuple[str, str]] = set()

    def check(self) -> None:
        for name, agent in self.blueprint.agents.items():
            self._parses(agent.instructions, f"agents.{name}.instructions")
        last = self._steps(self.blueprint.steps, "steps", _VisibleNames(_ROOTS, frozenset(), frozenset()), loops=False)
        self._template(self.blueprint.output, "output", last)
        self._template(self.blueprint.deadline, "deadline", _VisibleNames(_ROOTS, frozenset(), frozenset()))

    def _steps(self, steps: Sequence[AnyStep], path: str, outer: _VisibleNames, *, loops: bool) -> _VisibleNames:
        """Check a list of steps; return the scope after it."""
        own = [name for step in steps for name in _names(step)]
        self._unique(steps, path, outer)
        check_needs(steps, path, self.findings)
        scope = replace(outer, around=outer.around | set(own))
        if has_needs(steps):
            return self._steps_with_needs(steps, path, scope)
        if loops:
            scope = replace(scope, seen=outer.seen | set(own))
        for index, step in enumerate(steps):
            self._step(step, f"{path}[{index}]", scope)
            scope = replace(scope, seen=scope.seen | set(_names(step)))
        return scope

    def _steps_with_needs(self, steps: Sequence[AnyStep], path: str, scope: _VisibleNames) -> _VisibleNames:
        """Check a list of steps of which each sees those that it needs."""
        names = {step.name: frozenset(_names(step)) for step in steps}
        own = frozenset[str]().union(*names.values())
        needs = find_needs(steps)
        for index, step in enumerate(steps):
            seen = frozenset[str]().union(*(names[name] for name in needs[step.name]))
            unneeded = scope.unneeded | own - seen - names[step.name]
            self._step(step, f"{path}[{index}]", replace(scope, seen=scope.seen | seen, unneeded=unneeded))
        return replace(scope, seen=scope.seen | own)

    def _unique(self, steps: Sequence[AnyStep], path: str, outer: _VisibleNames) -> None:
        first: dict[str, str] = {}
        for index, step in enumerate(steps):
            for place, name in _placed_names(step, f"{path}[{index}]"):
                if name in outer.around or name in first:
                    other = first.get(name) or self.paths.get(name, "")
                    message = f"the name {name!r} is taken by {other}"
                    hint = "step names are unique in their list and the lists around it"
                    self.findings.add(f"{place}.name", "duplicate_name", message, hint)
                first.setdefault(name, place)

    def _step(self, step: AnyStep, path: str, scope: _VisibleNames) -> None:
        for key, template in step.reads().items():
            self._template(template, f"{path}.{key}", scope)
        for key, condition in step.conditions().items():
            self._condition(condition, f"{path}.{key}", scope)
        for name, agent in self._list_agents(step).items():
            self._template(agent.instructions, f"agents.{name}.instructions", scope)
        for key, block in step.blocks().items():
            self._block(block, path, key, scope)
        if isinstance(step.on_error, Fallback):
            inside = replace(scope, roots=scope.roots | {"error"}, seen=scope.seen | {step.name})
            check_needs([step.on_error.fallback], f"{path}.on_error", self.findings)
            self._step(step.on_error.fallback, f"{path}.on_error.fallback", inside)

    def _list_agents(self, step: AnyStep) -> dict[str, Agent]:
        """Return the named agents that the step itself uses: their instructions are rendered in its scope."""
        if not step.renders_agents:
            return {}
        agents = self.blueprint.agents
        named = {used.agent for used in step.agents() if isinstance(used.agent, str)}
        own = {name: agent for name, agent in agents.items() if name in named}
        return own | reach_of_tools(list_tools(step, self.blueprint), self.blueprint).agents

    def _block(self, block: Block, path: str, key: str, scope: _VisibleNames) -> None:
        before = replace(scope, roots=scope.roots | block.names)
        inside = self._steps(block.steps, f"{path}.{key}", before, loops=block.loops)
        for key_path, template in block.reads.items():
            first = key_path.startswith("loop.init")  # runs before any step of the body
            self._template(template, f"{path}.{key_path}", replace(inside, seen=before.seen) if first else inside)
        for key_path, condition in block.conditions.items():
            self._condition(condition, f"{path}.{key_path}", inside)

    def _template(self, template: object, path: str, scope: _VisibleNames) -> None:
        for text_path, text in iterate_texts(template, path):
            if self._parses(text, text_path):
                self._chains(names_in(text), text_path, scope, r"\{[{%](?:(?!\}\}|%\})[\s\S])*?")

    def _condition(self, expression: str, path: str, scope: _VisibleNames) -> None:
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

    def _chains(self, chains: Iterable[tuple[str, ...]], path: str, scope: _VisibleNames, before: str) -> None:
        for chain in sorted(chains):
            root, step, field = (*chain, "", "")[:3]
            word = rf"{before}(?<![\w.])({re.escape(root)})\b"
            problem: tuple[str, str | None] | None = None
            if root not in scope.roots:
                problem = f"unknown name {root!r}", self._root_hint(root, scope)
            elif root == "steps" and step and step not in scope.seen:
                word = rf"{before}\bsteps\s*(?:\.\s*|\[\s*\\?['\"])({re.escape(step)})"
                problem = self._unknown_step(step, path, scope)
            elif root == "steps" and field and field not in STEP_FIELDS:
                word = _after(step, field, before)
                hint = did_you_mean(field, STEP_FIELDS) or f"a step has {', '.join(STEP_FIELDS)}"
                problem = f"unknown name {field!r} of step {step!r}", hint
            elif (unknown := _unknown_of_error(chain)) is not None:
                word = _after("error", unknown, before)
                hint = did_you_mean(unknown, ERROR_FIELDS) or f"an error has {', '.join(ERROR_FIELDS)}"
                problem = f"unknown name {unknown!r} of an error", hint
            if problem and (problem[0], path) not in self.read_at:
                self.read_at.add((problem[0], path))
                self.findings.add(path, "unknown_name", *problem, at=word)

    def _root_hint(self, name: str, scope: _VisibleNames) -> str:
        if name in _ONLY:
            return _ONLY[name]
        if name in scope.seen:
            return f"did you mean 'steps.{name}.output'?"
        if hint := did_you_mean(name, sorted(scope.roots)):
            return hint
        if hint := did_you_mean(name, sorted(scope.seen)):
            return re.sub(r"'(.*)'", r"'steps.\1.output'", hint)
        return f"known here: {', '.join(sorted(scope.roots))}"

    def _unknown_step(self, name: str, path: str, scope: _VisibleNames) -> tuple[str, str | None] | None:
        own_path = self.paths.get(name)
        if own_path is not None and path.startswith(f"{own_path}."):
            return f"the step {name!r} reads its own output", "its input is `previous_step`"
        if name in scope.unneeded:
            return f"the step {name!r} is not needed here, so that it may run later", "add it to the needs of this step"
        if name in scope.around:
            return f"the step {name!r} has not run here yet", f"it runs later, as {own_path}"
        if own_path is not None:
            hint = "write what is needed to the context, or let it be that list's output"
            return f"the step {name!r} is not visible here: it is inside {_cut_index(own_path)}", hint
        candidates = sorted(name for name in scope.seen if not name.startswith(UNNAMED))
        if len(candidates) < len(scope.seen) and did_you_mean(name, candidates) is None:
            return None  # it may be the name that could not be read
        listed = f"steps known here: {', '.join(candidates[:_LISTED])}" if candidates else "no step has run here yet"
        return f"unknown name {name!r}", did_you_mean(name, candidates) or listed


def _after(name: str, field: str, before: str) -> str:
    """Return the pattern of a field that is read of a name, by a dot or in brackets; the field is its group."""
    return rf"{before}{re.escape(name)}\\?['\"]?\s*\]?\s*(?:\.\s*|\[\s*\\?['\"])({re.escape(field)})"


def _unknown_of_error(chain: tuple[str, ...]) -> str | None:
    """Return the field that a chain of names reads of an error, if errors have none of that name."""
    read = chain[1:] if chain[0] == "error" else chain[3:] if chain[0] == "steps" and chain[2:3] == ("error",) else ()
    return read[0] if read and read[0] not in ERROR_FIELDS else None


def _line(place: Position, line: int) -> Position:
    """Return the position of the n-th line of a block text; other texts may be folded: their own position."""
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


def _step_paths(steps: Sequence[AnyStep], path: str) -> Iterator[tuple[str, str]]:
    """Yield each step's name and path, outer steps last, so that they win."""
    for index, step in enumerate(steps):
        yield from _inner_step_paths(step, f"{path}[{index}]")
    for index, step in enumerate(steps):
        for place, name in _placed_names(step, f"{path}[{index}]"):
            yield name, place


def _inner_step_paths(step: AnyStep, path: str) -> Iterator[tuple[str, str]]:
    for key, block in step.blocks().items():
        yield from _step_paths(block.steps, f"{path}.{key}")
    if isinstance(step.on_error, Fallback):
        yield from _inner_step_paths(step.on_error.fallback, f"{path}.on_error.fallback")


def _cut_index(path: str) -> str:
    return re.sub(r"(\[\d+\]|\.on_error\.fallback)$", "", path)
