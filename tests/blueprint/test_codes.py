"""The codes of problems are stable names: the code uses those in the table, and the docs tell of each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.measure import nodes_of
from holdfast.blueprint.codes import CODES, ERRORS
from holdfast.protocol import lookup
from tests.repository import ROOT

PAGE = (ROOT / "docs" / "validate.md").read_text()
CODE = re.compile(r"[a-z]+(_[a-z]+)*")
WHERE = {
    "Problem": [4],
    "problem": [1],
    "add": [1, 2],
    "add_at": [2],
    "add_key": [1],
    "_add": [1],
    "_report": [1],
    "_make_failure": [2],
    "add_fault": [1],
    "add_problem": [1],
    "_problem": [1],
    "report": [0],
    "warn": [0, 1],
    "warn_key": [1],
}
"""Functions that make problems, and which of their arguments may be the code."""
TOLD = re.compile(r"unused_\{kind\}")
"""A code that is put together."""


def used() -> Iterator[str]:
    for room in ("blueprint", "runtime", "client", "server", "cli", "testkit"):
        for path in (ROOT / room).rglob("*.py"):
            yield from used_in(path)


def used_in(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args) if name in WHERE:
                found = [args[index] for index in WHERE[name] if index < len(args)]
            case ast.Call(func=ast.Name(id="_make_warning"), args=[_, code, *_]):
                found = [code]
            case ast.Return(value=ast.Tuple(elts=[code, *_])) | ast.Assign(targets=[ast.Name(id="code")], value=code):
                found = [code.body, code.orelse] if isinstance(code, ast.IfExp) else [code]
            case ast.JoinedStr() if TOLD.search(ast.unparse(node)):
                yield from ("unused_agent", "unused_import")
                continue
            case _:
                continue
        yield from (str(one.value) for one in found if isinstance(one, ast.Constant) and is_code(one.value))


def is_code(value: object) -> bool:
    return isinstance(value, str) and ("_" in value or value in CODES) and bool(CODE.fullmatch(value))


@pytest.mark.slow
def test_every_code_that_is_used_is_in_the_table_and_the_reverse() -> None:
    assert sorted({*used(), *lookup.CODES}) == sorted(CODES)


def test_every_code_is_in_the_docs_and_the_reverse() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (error|warning) \|", PAGE, re.M)
    assert rows == [(code, "error" if code in ERRORS else "warning") for code in CODES]


def test_the_docs_say_of_each_code_what_the_table_says() -> None:
    told = dict(re.findall(r"^\| `(\w+)` \| \w+ \| (.*?) \|$", PAGE, re.M))
    assert told == CODES
