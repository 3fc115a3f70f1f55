"""A lint in place of the sandbox: workflow code must do on replay what it did before.

Our workflow classes run outside Temporal's sandbox. What they import of ours, and may call of others, is read here.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import pytest

from benchmarks.measure import tree_of
from tests.repository import ROOT

ROOMS = ("workflows", "protocol", "blueprint")
FORBIDDEN = {
    *("time", "random", "secrets", "socket", "threading", "subprocess", "multiprocessing", "tempfile", "shutil", "os"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"),
    *("uuid.uuid1", "uuid.uuid4", "asyncio.to_thread", "asyncio.get_event_loop"),
}
"""Modules, and functions of others: they read a clock, chance, the machine, or start threads."""
BUILTINS = {"open", "input", "print", "exec", "eval", "hash", "id", "__import__"}
LIBRARIES = {"temporalio", "pydantic", "pydantic_core", "jinja2", "markupsafe", "jsonschema_rs", "yaml", "holdfast"}
"""Third parties that workflow code may import; each is deterministic, or passed through by Temporal's own sandbox."""
ALLOWED = {
    "blueprint/load/files.py": {"os"},  # reads files, for the client
    "blueprint/sugar/expansion.py": {"os"},  # names files, for the client
    "blueprint/text_files.py": {"os"},  # reads files, for the client
    "blueprint/shape.py": {"id()"},  # of variants that it holds meanwhile
    "blueprint/expressions/bounds.py": {"id()"},  # of a value that it holds meanwhile
    "protocol/guard.py": {"datetime.datetime.now"},  # in update validators, which replay never runs
    "protocol/sqlite_log.py": {"time"},  # waits for a file, in activities and on the server
}
FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def imported(tree: ast.Module) -> dict[str, str]:
    """Return the full name behind each local name that an import binds."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {(one.asname or one.name): one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {(one.asname or one.name): f"{node.module}.{one.name}" for one in node.names}
    return names


def dotted(node: ast.expr, names: dict[str, str]) -> str:
    """Return what a name or an attribute stands for, as far as imports tell."""
    match node:
        case ast.Name(id=name):
            return names.get(name, name)
        case ast.Attribute(value=value, attr=attr):
            return f"{dotted(value, names)}.{attr}"
    return ""


def is_a_set(node: ast.expr) -> bool:
    """Whether an expression is plainly a set, whose order differs from process to process."""
    return isinstance(node, ast.Set | ast.SetComp) or (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"set", "frozenset"}
    )


def iterated(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.For(iter=over) | ast.comprehension(iter=over):
            yield over
        case ast.Call(func=ast.Name(id="list" | "tuple" | "enumerate" | "zip"), args=arguments):
            yield from arguments
        case ast.Call(func=ast.Attribute(attr="join"), args=[argument]):
            yield argument


def problems(tree: ast.Module) -> list[tuple[int, str]]:
    """Return the line and the name of what in a file would, or might, differ on replay."""
    names = imported(tree)
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found += _imports(node)
        if isinstance(node, ast.Attribute) and dotted(node, names) in FORBIDDEN:
            found.append((node.lineno, dotted(node, names)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BUILTINS - names.keys():
            found.append((node.lineno, f"{node.func.id}()"))
        if isinstance(node, ast.Global):
            found.append((node.lineno, "global"))
        found += [(over.lineno, "iteration over a set") for over in iterated(node) if is_a_set(over)]
    return found


def _imports(node: ast.Import | ast.ImportFrom) -> list[tuple[int, str]]:
    modules = [one.name for one in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    roots = {module.partition(".")[0] for module in modules}
    unknown = roots - LIBRARIES - sys.stdlib_module_names
    return [(node.lineno, root) for root in sorted(unknown | (roots & FORBIDDEN))]


def test_what_workflows_read_is_deterministic() -> None:
    found = []
    for path in FILES:
        name = str(path.relative_to(ROOT))
        allowed = ALLOWED.get(name, set())
        differing = [one for one in problems(tree_of(path)) if not {one[1], one[1].partition(".")[0]} & allowed]
        found += [f"{name}:{line}: {what}" for line, what in differing]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from random import choice",
        "import requests",
        "from datetime import datetime\ndatetime.now()",
        "import uuid as u\nu.uuid4()",
        "open('x')",
        "for a in {1, 2}: pass",
        "[a for a in set(b)]",
        "', '.join({a for a in b})",
        "def f():\n    global x\n    x = 1",
    ],
)
def test_the_lint_finds_what_differs(source: str) -> None:
    assert problems(ast.parse(source))
