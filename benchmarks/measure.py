"""Measures of how the source reads, room by room: `make measure`. Figures to look at; a test holds only some of them.

Columns: files, lines, median and 90th percentile and maximum of function bodies in lines, docstrings that open with
What/Whether/Where/How (percent), local names that say nothing (per 1,000 bindings), comment lines (percent), `Any`
(per 1,000 lines). Below the table: class names that are defined in two files.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import tokenize
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HOME = Path(__file__).parent.parent
ROOMS = ("blueprint", "protocol", "workflows", "activities", "runtime", "client", "server", "cli", "testkit")
OPENINGS = {"what", "whether", "where", "how", "who"}
VAGUE = {"told", "given", "said", "found", "one", "here", "known", "gone", "left", "meant", "written", "shown"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the tree of a source file; the lints of a test run read it, too, and do not change it."""
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return the nodes of a source file's tree."""
    return tuple(ast.walk(tree_of(path)))


@dataclass
class Figures:
    """The counts over some files."""

    files: int = 0
    lines: int = 0
    bodies: list[int] = field(default_factory=list)
    docstrings: int = 0
    openings: int = 0
    bindings: int = 0
    vague: int = 0
    comments: int = 0
    anys: int = 0

    def count(self, path: Path) -> None:
        """Add one file."""
        text = path.read_text()
        self.files += 1
        self.lines += text.count("\n")
        self.comments += sum(
            token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(text).readline)
        )
        self.anys += len(re.findall(r"\bAny\b", text))
        for node in nodes_of(path):
            self._count_node(node)

    def _count_node(self, node: ast.AST) -> None:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Module)) and (docstring := ast.get_docstring(node)):
            self.docstrings += 1
            self.openings += docstring.split()[0].strip("`,.;:").lower() in OPENINGS
        if isinstance(node, FUNCTIONS):
            self.bodies.append(_body_lines(node))
            self._count_names([argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)])
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            self._count_names([node.id])

    def _count_names(self, names: list[str]) -> None:
        self.bindings += len(names)
        self.vague += sum(name in VAGUE for name in names)

    def row(self, name: str) -> str:
        """Return a line of the table."""
        bodies = sorted(self.bodies) or [0]
        p90 = bodies[int(len(bodies) * 0.9)]
        return (
            f"| {name} | {self.files} | {self.lines:,} | {statistics.median(bodies):.0f}/{p90}/{bodies[-1]} "
            f"| {100 * self.openings / max(self.docstrings, 1):.1f} | {1000 * self.vague / max(self.bindings, 1):.0f} "
            f"| {100 * self.comments / max(self.lines, 1):.1f} | {1000 * self.anys / max(self.lines, 1):.0f} |"
        )


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function's body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def figures(paths: list[Path]) -> Figures:
    """Return the counts over these files."""
    total = Figures()
    for path in paths:
        total.count(path)
    return total


def classes_named_twice(paths: list[Path]) -> list[str]:
    """Return the class names that stand in two files, with those files."""
    classes: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                classes[node.name].add(str(path.relative_to(HOME)))
    return [f"{name}: {', '.join(sorted(files))}" for name, files in sorted(classes.items()) if len(files) > 1]


def main() -> None:
    """Print the table."""
    rooms = {room: sorted((HOME / room).rglob("*.py")) for room in ROOMS} | {"worker.py": [HOME / "worker.py"]}
    print("| room | files | lines | function lines | openings % | vague ‰ | comments % | Any ‰ |")
    print("|---|---|---|---|---|---|---|---|")
    for room, paths in rooms.items():
        print(figures(paths).row(room))
    whole = [path for paths in rooms.values() for path in paths]
    print(figures(whole).row("**all**"))
    print("\nClass names in two files: " + ("; ".join(classes_named_twice(whole)) or "none"))


if __name__ == "__main__":
    main()
