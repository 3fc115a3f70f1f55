"""The tests (`is …`) of expressions."""

from collections.abc import Callable
from typing import Any

from holdfast.blueprint.expressions import comparisons
from holdfast.blueprint.expressions.bounds import Bounds
from holdfast.blueprint.expressions.error import ExpressionError, did_you_mean, shorten
from holdfast.blueprint.expressions.operators import COMPARISONS, equal, is_contained, remainder, unequal
from holdfast.blueprint.expressions.values import Undefined, is_integer, is_number, kind, require_defined
from holdfast.blueprint.json_values import JSON


def _even(bounds: Bounds, value: object, /) -> bool:
    return _whole(value) % 2 == 0


def _odd(bounds: Bounds, value: object, /) -> bool:
    return _whole(value) % 2 == 1


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ExpressionError(f"needs a whole number, not {kind(value)}")
    return value


def _divisible(bounds: Bounds, value: object, by: object, /) -> bool:
    return bool(remainder(bounds, value, by) == 0)


def _of(check: Callable[[Any], bool]) -> Callable[..., bool]:
    def test(bounds: Bounds, value: object, /) -> bool:
        return check(value)

    return test


TESTS: dict[str, Callable[..., bool]] = {
    "defined": _of(lambda value: not isinstance(value, Undefined)),
    "undefined": _of(lambda value: isinstance(value, Undefined)),
    "none": _of(lambda value: value is None),
    "true": _of(lambda value: value is True),
    "false": _of(lambda value: value is False),
    "boolean": _of(lambda value: isinstance(value, bool)),
    "number": _of(is_number),
    "integer": _of(is_integer),
    "float": _of(lambda value: isinstance(value, float)),
    "string": _of(lambda value: isinstance(value, str)),
    "mapping": _of(lambda value: isinstance(value, dict)),
    "sequence": _of(lambda value: isinstance(value, (list, str, dict))),  # as in Jinja
    "iterable": _of(lambda value: isinstance(value, (list, str, dict))),
    "even": _even,
    "odd": _odd,
    "divisibleby": _divisible,
    "in": is_contained,
    "eq": equal,
    "equalto": equal,
    "ne": unequal,
    "lt": COMPARISONS["lt"],
    "le": COMPARISONS["lteq"],
    "gt": COMPARISONS["gt"],
    "ge": COMPARISONS["gteq"],
    "alike": comparisons.alike,
    "containing": comparisons.contains,
    "empty": comparisons.empty,
}
_TAKE_UNDEFINED = frozenset({"defined", "undefined", "eq", "equalto", "ne"})


def apply_test(bounds: Bounds, name: object, value: object, args: list[JSON]) -> bool:
    if not isinstance(name, str) or name not in TESTS:
        raise unknown_test(str(name))
    if name not in _TAKE_UNDEFINED:
        require_defined(value)
        for arg in args:
            require_defined(arg)
    return TESTS[name](bounds, value, *args)


def unknown_test(name: str) -> ExpressionError:
    return ExpressionError(f"unknown test {shorten(name, 40)!r}", did_you_mean(name, TESTS))
