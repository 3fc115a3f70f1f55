"""What runs, and is hardly what was meant: warnings about a blueprint that has no errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from jinja2 import nodes

from blueprint.check.findings import Findings
from blueprint.errors import Problem
from blueprint.expressions import text_of
from blueprint.expressions.parse import parsed_expression
from blueprint.grammar import AnyStep, Blueprint, Clarify, Conditional, Fallback, Hitl, Loop, Map
from blueprint.places import Parts
from blueprint.reach import reach_of
from blueprint.source import PlacedDict

_TRUTH = frozenset({"true", "false"})


def advise(blueprint: Blueprint, tree: PlacedDict, prefix: Parts = ()) -> list[Problem]:
    """Warnings about one document, its imports left out; `tree` is its core form with places."""
    findings = Findings(tree, prefix, frozenset())
    _unused(blueprint, findings)
    for path, step in _placed(blueprint.steps, "steps"):
        match step:
            case Conditional(condition_expression=str(expression)):
                _branches(step, path, expression, findings)
            case Map():
                _shared_writes(step, path, findings)
            case Clarify():
                _few_questions(step, path, findings)
            case Loop():
                _limit(step, path, blueprint, findings)
    return [replace(problem, severity="warning") for problem in findings.problems]


def _unused(blueprint: Blueprint, findings: Findings) -> None:
    reach = reach_of(blueprint.steps, blueprint)
    for what, named, used in (("agent", blueprint.agents, reach.agents), ("import", blueprint.imports, reach.imports)):
        for name in named:
            if name not in used:
                told = f"nothing uses the {what} {name!r}"
                findings.add_key(f"{what}s.{name}", f"unused_{what}", told, "remove it, or use it in a step")


def _branches(step: Conditional, path: str, expression: str, findings: Findings) -> None:
    values = _values(parsed_expression(expression))
    if values is None:
        return
    given = " or ".join(sorted(values, reverse=True))
    for key in step.branches:
        if key not in values:
            told = f"the branch {key!r} is never chosen: the condition is {given}"
            findings.add_key(f"{path}.branches.{key}", "unreachable_branch", told, f"name it {given}, or remove it")
    if step.default_branch is not None and values <= step.branches.keys():
        told = f"the default branch is never chosen: the condition is {given}"
        findings.add_key(f"{path}.default_branch", "unreachable_branch", told, "remove it")
    missing = sorted(values - step.branches.keys())
    if missing and step.default_branch is None and values & step.branches.keys():
        told = f"the step fails where the condition is {' or '.join(missing)}: there is no such branch"
        findings.add_key(f"{path}.branches", "missing_branch", told, "add it, or a default_branch")


def _values(node: nodes.Node) -> frozenset[str] | None:
    """Every value that an expression can have, as text; None if they cannot be told."""
    match node:
        case nodes.Compare() | nodes.Not() | nodes.Test():
            return _TRUTH
        case nodes.Const(value=value):
            return frozenset({text_of(value)})
        case nodes.And(left=one, right=other) | nodes.Or(left=one, right=other):
            return _either(_values(one), _values(other))
        case nodes.CondExpr(expr1=one, expr2=nodes.Node() as other):
            return _either(_values(one), _values(other))
    return None


def _either(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


def _limit(step: Loop, path: str, blueprint: Blueprint, findings: Findings) -> None:
    """A person who is asked notices that it goes on and on; nobody else does."""
    if step.loop.max_loops is None and blueprint.limits is None and not _asks(step.loop.body):
        told = "nothing ends this loop if its exit never holds"
        findings.add_key(f"{path}.loop", "unlimited_loop", told, "add max_loops, or limits to the blueprint")


def _shared_writes(step: Map, path: str, findings: Findings) -> None:
    """Items that run at once each write in a fork of the context, and forks that differ cannot be joined."""
    if step.map.max_concurrency == 1:
        return
    for where, one in _placed(step.map.body, f"{path}.map.body"):
        key, what = (
            ("sink_to", one.sink_to) if one.sink_to is not None else ("updates_context", "the keys of its output")
        )
        if one.sink_to is not None or one.updates_context:
            told = f"items that run at once all write {what}: the map fails if two of them write different values"
            hint = "collect the items' outputs, which are the map's output, or write max_concurrency: 1"
            findings.add(f"{where}.{key}", "shared_write", told, hint)


def _few_questions(step: Clarify, path: str, findings: Findings) -> None:
    """Without an agent each fact is a question of its own, unless a person tells several at once."""
    facts = len(step.wanted())
    if step.agent is None and step.known is None and step.most_questions < facts:
        told = f"{step.most_questions} questions for {facts} facts, which are asked one by one"
        findings.add(f"{path}.max_questions", "few_questions", told, f"write {facts} or more, or remove it")


def _asks(steps: Iterable[AnyStep]) -> bool:
    """Whether one of the steps surely stops for a person, unless its `when` says no."""
    found = [step for _, step in _placed(steps, "")]
    return any(isinstance(one, Hitl | Clarify) or one.interrupt_before or one.interrupt_after for one in found)


def _placed(steps: Iterable[AnyStep], path: str) -> Iterator[tuple[str, AnyStep]]:
    """The steps, and those inside them, with their paths."""
    for index, step in enumerate(steps):
        yield from _within(step, f"{path}[{index}]")


def _within(step: AnyStep, path: str) -> Iterator[tuple[str, AnyStep]]:
    yield path, step
    for key, block in step.blocks().items():
        yield from _placed(block.steps, f"{path}.{key}")
    if isinstance(step.on_error, Fallback):
        yield from _within(step.on_error.fallback, f"{path}.on_error.fallback")
