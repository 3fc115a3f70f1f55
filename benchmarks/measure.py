"""Measures of how the source reads, room by room, by grammar and structure: `make measure`.

They are figures to look at. A test holds only that no class name stands in two files, and the import contracts that no
folder has a circle. Columns: files; lines; lines of a file and of a function's body (median/ninth decile/longest);
imports (percent of the lines of code); functions called `*_of`, and those called by a lone participle (each per 1,000);
files in -ing; levels of inheritance among our own classes; comment lines (percent); `Any` (per 1,000 lines).
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import tokenize
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

HOME = Path(__file__).parent.parent
ROOMS = ("blueprint", "protocol", "workflows", "activities", "runtime", "client", "server", "cli", "testkit")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LISTED = 5
"""The longest files and functions that are printed."""

IRREGULAR = re.compile(
    "begun|bound|brought|built|chosen|done|drawn|driven|fallen|felt|forgotten|found|given|gone|"
    "grown|held|hidden|kept|known|laid|left|lost|made|meant|met|paid|put|said|seen|sent|set|"
    "shown|sought|spent|stood|taken|thrown|told|understood|written"
)
"""Participles that do not end in -ed; some are verbs, too, and those count as well."""

VERBS = {"embed", "exceed", "feed", "need", "proceed", "seed", "speed", "succeed", "bring", "ping", "ring", "string"}
"""Words that end as participles do, and are none."""


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the tree of a source file; the lints of a test run read it, too, and do not change it."""
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return the nodes of a source file's tree."""
    return tuple(ast.walk(tree_of(path)))


def is_participle(name: str) -> bool:
    """Return whether a name is one word, and that a participle: `wanted`, `_seen`, `waiting`; not `read_reply`."""
    word = name.strip("_")
    return "_" not in word and word not in VERBS and bool(IRREGULAR.fullmatch(word) or word.endswith(("ed", "ing")))


@dataclass
class Figures:
    """The counts over some files; `levels` has those of every class, also of other rooms, by its name."""

    paths: list[Path]
    levels: dict[str, int]

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return [node for path in self.paths for node in nodes_of(path)]

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in self.nodes if isinstance(node, FUNCTIONS)]

    def row(self, name: str) -> str:
        """Return a line of the table."""
        text = "".join(path.read_text() for path in self.paths)
        lines, names = text.count("\n"), [function.name for function in self.functions]
        code = sum(count_code(path) for path in self.paths)
        imports = [node for node in self.nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        comments = sum(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(text).readline))
        anys = len(re.findall(r"\bAny\b", text))
        classes = [node.name for node in self.nodes if isinstance(node, ast.ClassDef)]
        cells = [
            *(name, len(self.paths), f"{lines:,}"),
            describe(path.read_text().count("\n") for path in self.paths),
            describe(map(count_body, self.functions)),
            f"{100 * sum(map(count_lines, imports)) / max(code, 1):.1f}",
            f"{1000 * sum(name.endswith('_of') for name in names) / max(len(names), 1):.0f}",
            f"{1000 * sum(map(is_participle, names)) / max(len(names), 1):.0f}",
            sum(path.stem.endswith("ing") for path in self.paths),
            max((self.levels[name] for name in classes), default=0),
            f"{100 * comments / max(lines, 1):.1f}",
            f"{1000 * anys / max(lines, 1):.0f}",
        ]
        return f"| {' | '.join(map(str, cells))} |"


def describe(counts: Iterable[int]) -> str:
    """Return the median, the ninth decile and the highest."""
    counts = sorted(counts) or [0]
    return f"{statistics.median(counts):.0f}/{counts[int(len(counts) * 0.9)]}/{counts[-1]}"


def count_lines(node: ast.stmt) -> int:
    """Return the lines of a statement."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def count_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function's body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def count_code(path: Path) -> int:
    """Return the lines of a file that are neither empty nor a comment nor, as docstrings are, a text alone."""
    lines = path.read_text().splitlines()
    texts: set[int] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            texts |= set(range(node.lineno, node.lineno + count_lines(node)))
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in texts
        for number, line in enumerate(lines, 1)
    )


def count_levels(paths: list[Path]) -> dict[str, int]:
    """Return how many of our classes a class is derived from, one above the other, and itself; by the name."""
    bases: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                bases[node.name] |= {re.split(r"[\[(]", ast.unparse(base))[0].rpartition(".")[2] for base in node.bases}

    @cache
    def count(name: str) -> int:
        return 1 + max((count(base) for base in bases[name] if base in bases and base != name), default=0)

    return {name: count(name) for name in bases}


def classes_named_twice(paths: list[Path], besides: str = "") -> list[str]:
    """Return the class names that stand in two files, with those files; `besides` are characters before a name."""
    classes: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                classes[node.name.lstrip(besides)].add(str(path.relative_to(HOME)))
    return [f"{name}: {', '.join(sorted(files))}" for name, files in sorted(classes.items()) if len(files) > 1]


def list_longest(paths: list[Path]) -> list[str]:
    """Return the longest files, then the longest functions, each with its lines and its place."""
    files = [(path.read_text().count("\n"), str(path.relative_to(HOME))) for path in paths]
    functions = [
        (count_body(node), f"{path.relative_to(HOME)}:{node.lineno} {node.name}")
        for path in paths
        for node in nodes_of(path)
        if isinstance(node, FUNCTIONS)
    ]
    longest = [*sorted(files, reverse=True)[:LISTED], *sorted(functions, reverse=True)[:LISTED]]
    return [f"{lines:>5}  {place}" for lines, place in longest]


def main() -> None:
    """Print the table, the names that stand twice, and what is longest."""
    rooms = {room: sorted((HOME / room).rglob("*.py")) for room in ROOMS} | {"worker.py": [HOME / "worker.py"]}
    whole = [path for paths in rooms.values() for path in paths]
    levels = count_levels(whole)
    print(
        "| room | files | lines | file lines | function lines | imports % | `*_of` ‰ | participles ‰ | -ing files",
        end="",
    )
    print(" | levels | comments % | Any ‰ |\n" + "|---" * 12 + "|")
    for room, paths in [*rooms.items(), ("**all**", whole)]:
        print(Figures(paths, levels).row(room))
    print("\nClass names in two files, an underscore aside:", *classes_named_twice(whole, "_") or ["none"], sep="\n")
    print("\nLongest files and functions:", *list_longest(whole), sep="\n")


if __name__ == "__main__":
    main()
