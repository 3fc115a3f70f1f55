"""Expressions and templates that grow at random from all that the language has: operators, filters, calls, tags."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from random import Random
from typing import Any, NamedTuple

from holdfast.blueprint.expressions.filters import FILTERS
from holdfast.blueprint.expressions.functions import FUNCTIONS, METHODS
from holdfast.blueprint.expressions.predicates import TESTS

OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
LITERALS = [
    "0", "1", "-1", "3", "16", "1000", "2.5", "-0.0", "1e308", "9223372036854775807", "true", "false", "none",
    "''", "'a'", "'ab c'", "'\\n'", "', '", "'a.0.b'", f"'{'a.' * 99}a'", "'9e999'", "'nan'", "'[1'",
    "[]", "{{}}", "[1, 'a']", "{{'a': 1}}", "[[1, 2], [3]]", "range(1000)",
]  # fmt: skip
SMALL: dict[str, Any] = {
    "text": "Hello, wörld ßİ. " * 5,
    "strange": "٣ 1e999\u2028ŉ\0{{ x }}",
    "list": list(range(30)),
    "tree": {"a": [{"b": 1}, {"b": "x"}], "items": {"c": None, "d": -0.5}},
    "nothing": None,
    **{"a": "a", "b": [1, "b"], "x": 2, "y": {"a": 1.5}},  # templates set these anew
}
LARGE: dict[str, Any] = {
    "lines": "a b\n" * 20_000,
    "vast": "v" * 300_000,
    "wide": [[number, str(number)] for number in range(20_000)],
    "rows": [{"a": number} for number in range(20_000)],
    "pairs": {f"k{number}": number for number in range(5_000)},
    "deep": reduce(lambda inner, _: [inner], range(98), list[Any]([1])),
    "huge": 10**400,
}
WORLD = {**SMALL, **LARGE}
PATHS = ["tree.a", "tree.a[0].b", "tree.items", "tree.missing.x", "pairs.k7", "loop.index", "unknown"]


class Grown(NamedTuple):
    """A pattern with a hole for each part."""

    pattern: str
    parts: tuple[Grown, ...] = ()

    def __str__(self) -> str:
        return self.pattern.format(*self.parts)

    def smaller(self) -> Iterator[Grown]:
        """What is left with less in it: a part alone, or one part made smaller."""
        yield from self.parts
        for index, part in enumerate(self.parts):
            for less in part.smaller():
                yield Grown(self.pattern, (*self.parts[:index], less, *self.parts[index + 1 :]))


def _called(name: str, called: Callable[..., Any], leading: int) -> list[str]:
    """The ways to call it: by place with all numbers of arguments, and each argument by its name."""
    taken = list(inspect.signature(called).parameters.values())[leading:]
    placed = [one for one in taken if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    several = any(one.kind is one.VAR_POSITIONAL for one in taken)
    least = sum(one.default is one.empty for one in placed)
    counts = range(least, len(placed) + 1 + 2 * several)
    named = [f"{name}({', '.join(['{}'] * least)}{', ' * bool(least)}{one.name}={{}})" for one in taken[least:]
             if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]  # fmt: skip
    return [f"{name}({', '.join(['{}'] * count)})" for count in counts] + named


def _of_each(test: str) -> list[str]:
    """Filters that test each element, or what stands at a path of it."""
    arguments = ", {}" * (len(inspect.signature(TESTS[test]).parameters) - 2)
    by_path = [f"({{}} | {name}({{}}, '{test}'{arguments}))" for name in ("selectattr", "rejectattr")]
    return [f"({{}} | select('{test}'{arguments}))", f"({{}} | reject('{test}'{arguments}))", *by_path]


EXPRESSIONS = [
    [f"({{}} {sign} {{}})" for sign in OPERATORS],
    [f"({{}} | {way})" for name, called in FILTERS.items() for way in _called(name, called, 2)],
    [f"({{}} is {way})" for name, called in TESTS.items() for way in _called(name, called, 2)],
    [f"({{}}).{way}" for name, (_, called) in METHODS.items() for way in _called(name, called, 2)],
    [way for name, called in FUNCTIONS.items() for way in _called(name, called, 1)],
    [f"({{}} | map('{name}'{more}))" for name in FILTERS for more in ("", ", {}")],
    [form for name in TESTS for form in _of_each(name)],
    ["not {}", "(-{})", "[{}, {}]", "({}, {})", "{{'k': {}, 'l': {}}}", "({} < {} < {})", "({} if {} else {})"],
    ["({}).a", "({})[{}]", "({})[{}]", "({})[{}:]", "({})[::{}]", "({})[{}:{}:{}]", "({} if {})", "({}).missing"],
    [f"{{}}{again * 40}" for again in ("[0]", "[-1:]", ".a", " ~ 1", " + [1]", " or none", " | list", " | reverse")],
]
"""Families of forms; their holes are for expressions."""
TEMPLATES = [
    "{} and {}", "{}{}", "{{% raw %}}{}{{% endraw %}}", "{{# {} #}}{}", "{{%- if true -%}} {} {{%- endif %}}{}",
]  # fmt: skip
"""Holes are for templates."""
TAGS = [
    "{{{{ {0} }}}}{1}{2}", "{{% set a = {0} %}}{1}{2}", "{{% set b = (a ~ a) if {0} else a %}}{1}{2}",
    "{{% set a = a + a %}}{1}{2}", "{{% set a = [a, a] %}}{1}{2}", "{{% set x, y = {0} %}}{1}{2}",
    "{{% for x in {0} %}}{1}{{% endfor %}}{2}", "{{% for x in {0} %}}{1}{{% else %}}{2}{{% endfor %}}",
    "{{% for x, y in {0} %}}{1}{{% endfor %}}{2}", "{{% for x in list if {0} %}}{1}{{% endfor %}}{2}",
    "{{% for y in range(1000) %}}{1}{{% endfor %}}{{{{ {0} }}}}{2}",
    "{{% if {0} %}}{1}{{% else %}}{2}{{% endif %}}", "{{% if {0} %}}{1}{{% elif a %}}{2}{{% endif %}}",
]  # fmt: skip
"""The first hole is for an expression, the others are for templates."""
NOISE = [
    *"(){}[]|.,:'\"\\-+*~<=!%_#019 \n\0٣éß", "{{", "}}", "{%", "%}", "{#", "#}", "**", "9e9", "0x", "loop", "self",
    "null", "x", " for ", " in ", " if ", " else ", " endif ", " endfor ", " set ", " raw ", " is ", " not ", " and ",
    " or ", " recursive ", " macro ", " block ", " include ",
]  # fmt: skip


def grown(random: Random, size: int, leaves: Sequence[Grown] = ()) -> Grown:
    """An expression or a template of about that many parts, ending in leaves; one in ten is broken somewhere."""
    grow = expression if random.random() < 0.6 else template
    source = grow(random, size, leaves)
    return broken(random, str(source)) if random.random() < 0.1 else source


def expression(random: Random, size: int, leaves: Sequence[Grown]) -> Grown:
    if size > 1:
        pattern = random.choice(random.choice(EXPRESSIONS))
        sizes = _split(random, size - 1, pattern.replace("{{", "").count("{}"))
        return Grown(pattern, tuple(expression(random, one, leaves) for one in sizes))
    if leaves and random.random() < 0.6:
        return random.choice(leaves)
    kinds: list[list[str]] = [LITERALS, PATHS, [*SMALL], [*LARGE]]
    return Grown(random.choice(random.choices(kinds, (6, 3, 8, 2))[0]))


def template(random: Random, size: int, leaves: Sequence[Grown]) -> Grown:
    if size <= 1:
        return Grown(random.choice(["words ", "{{{{ x }}}}", "{{{{ a }}}},", "{{{{ y ~ b }}}}\n", "ü", ""]))
    if random.random() < 0.2:
        parts = (template(random, one, leaves) for one in _split(random, size - 1, 2))
        return Grown(random.choice(TEMPLATES), tuple(parts))
    first, *others = _split(random, size - 1, 3)
    inner = (template(random, one, leaves) for one in others)
    return Grown(random.choice(TAGS), (expression(random, first, leaves), *inner))


def broken(random: Random, text: str) -> Grown:
    """The text with something put in, taken out or said again."""
    for _ in range(random.randint(1, 4)):
        start, end = sorted((random.randint(0, len(text)), random.randint(0, len(text))))
        middle = random.choice(["", text[start:end] * 2, random.choice(NOISE), random.choice(NOISE) * 5000])
        text = text[:start] + middle + text[end:]
    return Grown(text.replace("{", "{{").replace("}", "}}"))


def _split(random: Random, size: int, holes: int) -> list[int]:
    """The size in as many pieces, each at least 1."""
    most = max(size - holes, 0)
    cuts = sorted(random.randint(0, most) for _ in range(holes - 1))
    return [1 + after - before for before, after in zip([0, *cuts], [*cuts, most], strict=True)] if holes else []
