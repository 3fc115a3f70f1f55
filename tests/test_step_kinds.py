"""A lint: what depends on the kind of a step is asked of its class, never decided by its name or class elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from benchmarks.measure import tree_of
from holdfast.blueprint.kinds import KINDS
from holdfast.blueprint.step_traits import TRAITS, StepTraits
from tests.repository import ROOT

ROOMS = ("activities", "blueprint", "cli", "client", "protocol", "runtime", "server", "testkit", "workflows")
NAMES = set(KINDS)
CLASSES = {kind.__name__ for kind in KINDS.values()}
ALLOWED = {"blueprint/kinds", "workflows/steps"}
TRAITS_FILE = "blueprint/step_traits.py"
"""The only table by kind: its rows are asked where no class is loaded."""
RUNNERS = {"workflows/loop.py", "workflows/map.py", "workflows/clarify.py", "workflows/plan/definitions.py"}
"""Workflows that run one kind, and find its step in the blueprint they are given."""
FILES = sorted(
    path
    for room in ROOMS
    for path in (ROOT / room).rglob("*.py")
    if not {str(parent.relative_to(ROOT)) for parent in path.parents if parent.is_relative_to(ROOT)} & ALLOWED
    and str(path.relative_to(ROOT)) not in {*RUNNERS, TRAITS_FILE}
)


def kinds_in(*nodes: ast.AST) -> set[str]:
    """Return the kinds that expressions or patterns name, by their classes or in text."""
    inside = [node for outer in nodes for node in ast.walk(outer)]
    texts = {node.value for node in inside if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return texts & NAMES | classes_in(*nodes)


def classes_in(*nodes: ast.AST) -> set[str]:
    return {node.id for outer in nodes for node in ast.walk(outer) if isinstance(node, ast.Name)} & CLASSES


def holds_a_kind(node: ast.AST) -> bool:
    """Return whether an expression reads `.kind`, `["kind"]` or `type(…)`."""
    return any(
        (isinstance(one, ast.Attribute) and one.attr == "kind")
        or (isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Constant) and one.slice.value == "kind")
        or (isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "type")
        for one in ast.walk(node)
    )


def branches(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the names of each branch on the kind of a step, and of each table by kind."""
    asserted = {one for node in ast.walk(tree) if isinstance(node, ast.Assert) for one in ast.walk(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Compare() if holds_a_kind(node):
                yield from ((node.lineno, name) for name in kinds_in(node))
            case ast.Match(subject=subject, cases=cases) if holds_a_kind(subject):
                yield from ((node.lineno, name) for case in cases for name in kinds_in(case.pattern))
            case ast.MatchClass(cls=cls, kwd_attrs=attributes, kwd_patterns=patterns):
                held = [one for key, one in zip(attributes, patterns, strict=True) if key == "kind"]
                yield from ((node.lineno, name) for name in classes_in(cls) | kinds_in(*held))
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]) if node not in asserted:
                yield from ((node.lineno, name) for name in classes_in(classes))
            case ast.Subscript(value=ast.Name(id="KINDS"), slice=ast.Constant()):
                yield from ((node.lineno, name) for name in kinds_in(node.slice))
            case ast.Dict(keys=[_, _, *_] as keys):
                named = [key for key in keys if key is not None and kinds_in(key)]
                yield from ((node.lineno, name) for key in named for name in kinds_in(key) if len(named) == len(keys))


def test_no_file_branches_on_the_kind_of_a_step() -> None:
    found = [(path.relative_to(ROOT), *branch) for path in FILES for branch in branches(tree_of(path))]
    assert found == []


def test_the_traits_are_of_kinds_that_are_not_as_most_are() -> None:
    assert set(TRAITS) <= NAMES
    assert StepTraits() not in TRAITS.values()


@pytest.mark.parametrize(
    "source",
    [
        "step.kind == 'loop'",
        "span['kind'] in ('loop', 'plan')",
        "type(step) is Loop",
        "match step.kind:\n  case 'map' | 'parallel': pass",
        "match step:\n  case PlainStep(agent=str(name)) | Clarify(agent=str(name)): pass",
        "match event:\n  case StepCompleted(kind='step'): pass",
        "isinstance(step, Hitl | Clarify)",
        "DRAWN = {Loop: loop, Map: map}",
        "LABELS = {'loop': 'again', 'map': 'each'}",
        "KINDS['loop'].model_fields",
    ],
)
def test_the_lint_finds_a_branch(source: str) -> None:
    assert list(branches(ast.parse(source)))
