"""Lint warnings for a blueprint that has no errors: it runs, but hardly as intended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from jinja2 import nodes

from holdfast.blueprint.check.findings import Findings
from holdfast.blueprint.dependencies import reach_of
from holdfast.blueprint.errors import Problem
from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.expressions.parse import parsed_expression
from holdfast.blueprint.kinds import AnyStep, Blueprint, Clarify, Conditional, Hitl, Loop, Map, Plan
from holdfast.blueprint.kinds.loop import MOST_IDLE_ROUNDS
from holdfast.blueprint.kinds.walk import placed_steps
from holdfast.blueprint.positions import Parts
from holdfast.blueprint.reducers import Path, reducers_of
from holdfast.blueprint.source import PlacedDict

_TRUTH = frozenset({"true", "false"})
MOST_ROUNDS_KEPT = 50
"""Rounds of a conversation whose turns are few enough to keep them all."""


def advise(blueprint: Blueprint, tree: PlacedDict, prefix: Parts = ()) -> list[Problem]:
    """Return warnings about one document, its imports left out; `tree` is its core form with positions."""
    findings = Findings(tree, prefix, frozenset())
    _unused(blueprint, findings)
    for path, step in placed_steps(blueprint.steps, "steps"):
        match step:
            case Conditional(condition_expression=str(expression)):
                _branches(step, path, expression, findings)
            case Map():
                _shared_writes(step, path, blueprint, findings)
            case Plan():
                _unused_revisions(step, path, findings)
            case Clarify():
                _few_questions(step, path, findings)
            case Loop():
                _limit(step, path, blueprint, findings)
                _growing(step, path, findings)
    return [replace(problem, severity="warning") for problem in findings.problems]


def _unused(blueprint: Blueprint, findings: Findings) -> None:
    dependencies = reach_of(blueprint.steps, blueprint)
    for kind, defined, used in (
        ("agent", blueprint.agents, dependencies.agents),
        ("import", blueprint.imports, dependencies.imports),
    ):
        for name in defined:
            if name not in used:
                message = f"nothing uses the {kind} {name!r}"
                findings.add_key(f"{kind}s.{name}", f"unused_{kind}", message, "remove it, or use it in a step")


def _branches(step: Conditional, path: str, expression: str, findings: Findings) -> None:
    values = _values(parsed_expression(expression))
    if values is None:
        return
    possible = " or ".join(sorted(values, reverse=True))
    for key in step.branches:
        if key not in values:
            message = f"the branch {key!r} is never chosen: the condition is {possible}"
            findings.add_key(
                f"{path}.branches.{key}", "unreachable_branch", message, f"name it {possible}, or remove it"
            )
    if step.default_branch is not None and values <= step.branches.keys():
        message = f"the default branch is never chosen: the condition is {possible}"
        findings.add_key(f"{path}.default_branch", "unreachable_branch", message, "remove it")
    missing = sorted(values - step.branches.keys())
    if missing and step.default_branch is None and values & step.branches.keys():
        message = f"the step fails where the condition is {' or '.join(missing)}: there is no such branch"
        findings.add_key(f"{path}.branches", "missing_branch", message, "add it, or a default_branch")


def _values(node: nodes.Node) -> frozenset[str] | None:
    """Return every value that an expression can have, as text; None if that is unknown."""
    match node:
        case nodes.Compare() | nodes.Not() | nodes.Test():
            return _TRUTH
        case nodes.Const(value=value):
            return frozenset({text_of(value)})
        case nodes.And(left=first, right=second) | nodes.Or(left=first, right=second):
            return _either(_values(first), _values(second))
        case nodes.CondExpr(expr1=first, expr2=nodes.Node() as second):
            return _either(_values(first), _values(second))
    return None


def _either(first: frozenset[str] | None, second: frozenset[str] | None) -> frozenset[str] | None:
    return None if first is None or second is None else first | second


def _limit(step: Loop, path: str, blueprint: Blueprint, findings: Findings) -> None:
    """Warn of a loop that only the default ceiling ends if its exit never holds."""
    if step.loop.max_loops is None and blueprint.limits is None and not _asks(step.loop.body):
        then = {"fail": "fails", "finish": "finishes", "ask": "asks"}[step.loop.at_the_limit]
        message = f"if its exit never holds, this loop {then} after {MOST_IDLE_ROUNDS} rounds in which nobody was asked"
        findings.add_key(f"{path}.loop", "unlimited_loop", message, "add max_loops, or limits to the blueprint")


def _growing(step: Loop, path: str, findings: Findings) -> None:
    """Warn of a conversation that keeps all its turns, over many rounds."""
    block = step.loop
    rounds = block.max_loops
    if block.conversation and block.history_management is None and (rounds is None or rounds > MOST_ROUNDS_KEPT):
        message = "the list of turns grows with every round, and all of it goes to the model"
        hint = f"add history_management, or a max_loops of at most {MOST_ROUNDS_KEPT}"
        findings.add_key(f"{path}.loop.conversation", "unlimited_history", message, hint)


def _shared_writes(step: Map, path: str, blueprint: Blueprint, findings: Findings) -> None:
    """Warn of parallel items that write one path: forks of the context that differ cannot be joined."""
    if step.map.max_concurrency == 1:
        return
    reducers = reducers_of(blueprint.context_schema)
    for step_path, inner in placed_steps(step.map.body, f"{path}.map.body"):
        if _is_reduced(inner, reducers):
            continue
        key, subject = (
            ("sink_to", inner.sink_to) if inner.sink_to is not None else ("updates_context", "the keys of its output")
        )
        if inner.sink_to is not None or inner.updates_context:
            message = f"items that run at once all write {subject}: the map fails if two of them write different values"
            hint = "collect the items' outputs, which are the map's output, or write max_concurrency: 1"
            findings.add(f"{step_path}.{key}", "shared_write", message, hint)


def _is_reduced(step: AnyStep, reducers: Mapping[Path, str]) -> bool:
    """Return whether a reducer joins what the step writes; with unknown output keys, any reducer counts."""
    if step.sink_to is None:
        return bool(reducers)
    keys = tuple(step.sink_to.removeprefix("context.").split("."))
    return any(keys[: len(path)] == path for path in reducers)


def _few_questions(step: Clarify, path: str, findings: Findings) -> None:
    """Warn of fewer questions than facts: without an agent each fact is a question of its own."""
    facts = len(step.wanted())
    if step.agent is None and step.known is None and step.most_questions < facts:
        message = f"{step.most_questions} questions for {facts} facts, which are asked one by one"
        findings.add(f"{path}.max_questions", "few_questions", message, f"write {facts} or more, or remove it")


def _unused_revisions(step: Plan, path: str, findings: Findings) -> None:
    """Only a person who is asked whether a plan may run sends it back."""
    if "max_revisions" in step.plan.model_fields_set and not step.plan.confirm:
        told = "nobody is asked whether the plan may run, so that it is never sent back"
        findings.add_key(f"{path}.plan.max_revisions", "unused_revisions", told, "add confirm: true, or remove it")


def _asks(steps: Iterable[AnyStep]) -> bool:
    """Return whether a step surely stops for a person, unless its `when` is false."""
    inner = [step for _, step in placed_steps(steps, "")]
    return any(isinstance(step, Hitl | Clarify) or step.interrupt_before or step.interrupt_after for step in inner)
