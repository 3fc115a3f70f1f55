"""A lint: what depends on the kind of a question is read from its class, never decided by its name or class."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from benchmarks.measure import tree_of
from holdfast.blueprint.questions import QUESTION_KINDS, Asked
from tests.repository import ROOT

ROOMS = ("activities", "blueprint", "cli", "client", "protocol", "runtime", "server", "testkit", "workflows")
NAMES = {name for name, kind in QUESTION_KINDS.items() if issubclass(kind, Asked)}
CLASSES = {kind.__name__ for kind in QUESTION_KINDS.values()}
OWN_NAMES = {"permission", "clarification", "decision", "checkpoint", "judgement"}
"""Names that mean nothing but a kind of question: no comparison may hold them."""
HOLDERS = {"kind", "ask"}
"""Attributes and keys that hold the name of a kind: of a question, and of a `hitl` step."""
FILES = sorted(
    path for room in ROOMS for path in (ROOT / room).rglob("*.py") if path.parent != ROOT / "blueprint" / "questions"
)


def names_in(node: ast.AST, constants: dict[str, ast.expr]) -> set[str]:
    """Return the kinds of questions that an expression or a pattern names, itself or by a constant of its module."""
    nodes = list(ast.walk(node))
    nodes += [one for name in nodes if isinstance(name, ast.Name) for one in ast.walk(constants.get(name.id, name))]
    texts = {one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    classes = {one.id for one in nodes if isinstance(one, ast.Name)}
    return texts & NAMES | classes & CLASSES


def holds_a_kind(node: ast.AST) -> bool:
    return any(
        (isinstance(one, ast.Attribute) and one.attr in HOLDERS)
        or (isinstance(one, ast.Constant) and one.value in HOLDERS)
        for one in ast.walk(node)
    )


def constants_of(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the values of the names that a module assigns at its top."""
    plain = [(one.targets[0], one.value) for one in tree.body if isinstance(one, ast.Assign)]
    typed = [(one.target, one.value) for one in tree.body if isinstance(one, ast.AnnAssign)]
    return {name.id: value for name, value in [*plain, *typed] if isinstance(name, ast.Name) and value is not None}


def branches(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the names of each branch on a kind of question, and of each table by kind."""
    constants = constants_of(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                names = names_in(node, constants)
                yield from ((node.lineno, name) for name in names if name in OWN_NAMES or holds_a_kind(node))
            case ast.Match(subject=subject, cases=cases) if holds_a_kind(subject):
                yield from ((node.lineno, name) for case in cases for name in names_in(case.pattern, constants))
            case ast.MatchClass(cls=cls, kwd_attrs=attributes):
                names = names_in(node, constants) if HOLDERS & set(attributes) else names_in(cls, {})
                yield from ((node.lineno, name) for name in names)
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
                yield from ((node.lineno, name) for name in names_in(classes, constants) & CLASSES)
            case ast.Subscript(value=ast.Name(id="QUESTION_KINDS"), slice=ast.Constant(value=str(name))):
                yield node.lineno, name
            case ast.Dict(keys=[_, _, *_] as keys):
                kinds = [key.value for key in keys if isinstance(key, ast.Constant) and key.value in NAMES]
                yield from ((node.lineno, name) for name in kinds if len(kinds) == len(keys))


def test_no_file_branches_on_the_kind_of_a_question() -> None:
    found = [(path.relative_to(ROOT), *branch) for path in FILES for branch in branches(tree_of(path))]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "question.kind == 'secret'",
        "question.asked.kind not in ('hold', 'checkpoint')",
        "match step.ask:\n  case 'permission' | 'review': pass",
        "match step.ask, step.default:\n  case 'review', _: pass",
        "match question:\n  case Question(kind='permission'): pass",
        "match asked:\n  case Permission(): pass",
        "isinstance(asked, Input | Fact)",
        "value.get('ask') == 'secret'",
        "answers.get(step) == 'permission'",
        "WEIGHTY = ('review', 'secret')\nasked.kind in WEIGHTY",
        "CLASSES = Input | Review\nisinstance(asked, CLASSES)",
        "QUESTION_KINDS['review'].labels",
        "{'permission': 'denied', 'review': 'rejected'}.get(step.ask)",
    ],
)
def test_the_lint_finds_a_branch(source: str) -> None:
    assert list(branches(ast.parse(source)))
