"""Operators on JSON values, with Python's meaning where JSON has one and an error where it has none."""

import operator
from collections.abc import Callable
from typing import Any

from holdfast.blueprint.expressions.bounds import Bounds
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.values import Undefined, kind, number, require_defined
from holdfast.blueprint.json_values import JSON

Binary = Callable[[Bounds, Any, Any], Any]
_NUMBERS = (int, float)


def add(bounds: Bounds, left: JSON, right: JSON) -> JSON:
    match left, right:
        case str(), str():
            bounds.room_for_text(len(left) + len(right))
            return left + right
        case list(), list():
            bounds.room_for_items(len(left) + len(right))
            return left + right
        case (str(), _) | (_, str()):
            raise ExpressionError(f"cannot add {kind(right)} to {kind(left)}", "`~` joins values as text")
    return _arithmetic("+", operator.add, left, right)


def subtract(_: Bounds, left: JSON, right: JSON) -> JSON:
    return _arithmetic("-", operator.sub, left, right)


def multiply(_: Bounds, left: JSON, right: JSON) -> JSON:
    return _arithmetic("*", operator.mul, left, right)


def divide(_: Bounds, left: JSON, right: JSON) -> JSON:
    return _arithmetic("/", operator.truediv, left, right)


def divide_whole(_: Bounds, left: JSON, right: JSON) -> JSON:
    return _arithmetic("//", operator.floordiv, left, right)


def remainder(_: Bounds, left: JSON, right: JSON) -> JSON:
    return _arithmetic("%", operator.mod, left, right)


def power(_: Bounds, left: JSON, right: JSON) -> JSON:
    if isinstance(left, int) and isinstance(right, int) and abs(left) > 1 and right > 64:
        raise ExpressionError("a number is over 2^63")
    return _arithmetic("**", operator.pow, left, right)


def _arithmetic(sign: str, compute: Callable[[Any, Any], Any], left: JSON, right: JSON) -> JSON:
    """Compute with two numbers, both at most 2^63 in magnitude, so that no result is large."""
    if not isinstance(left, _NUMBERS) or not isinstance(right, _NUMBERS):
        raise ExpressionError(f"{sign} needs numbers, not {kind(left)} and {kind(right)}")
    try:
        return number(compute(number(left), number(right)))
    except ZeroDivisionError:
        raise ExpressionError(f"{sign} by zero") from None
    except OverflowError:
        raise ExpressionError("a number is too large") from None


def negative(value: JSON) -> JSON:
    return number(-number(value))


def positive(value: JSON) -> JSON:
    return number(+number(value))


def equal(bounds: Bounds, left: JSON, right: JSON) -> bool:
    match left, right:
        case (Undefined(), _) | (_, Undefined()):
            return type(left) is type(right)
        case (list(), list()) | (dict(), dict()):
            if len(left) != len(right):
                return False
            bounds.pay(bounds.weigh(left) >> 6)
        case str(), str():
            bounds.pay(min(len(left), len(right)) >> 10)
    return bool(left == right)


def unequal(bounds: Bounds, left: JSON, right: JSON) -> bool:
    return not equal(bounds, left, right)


def _make_ordering(compare: Callable[[Any, Any], bool]) -> Binary:
    def put_in_order(bounds: Bounds, left: JSON, right: JSON) -> bool:
        match require_defined(left), require_defined(right):
            case str(), str():
                bounds.pay(min(len(left), len(right)) >> 10)
                return compare(left, right)
            case (int() | float(), int() | float()):
                return compare(left, right)
        raise ExpressionError(f"cannot order {kind(left)} and {kind(right)}")

    return put_in_order


def is_contained(bounds: Bounds, value: JSON, within: JSON) -> bool:
    """Return `value in within`: a part of a text, an element of a list, a key of an object."""
    match require_defined(within):
        case str():
            bounds.pay(len(within) >> 6)
            return bounds.text(require_defined(value)) in within
        case list():
            bounds.pay(_steps_to_find(bounds, require_defined(value), within))
            return value in within
        case dict():
            return isinstance(require_defined(value), str) and value in within
    raise ExpressionError(f"`in` needs a list, an object or a text, not {kind(within)}")


def _steps_to_find(bounds: Bounds, value: JSON, within: list[JSON]) -> int:
    """Return the cost of a search: a long text may be compared to its end with each element."""
    if isinstance(value, (dict, list)):
        return bounds.weigh(within) >> 6
    return len(within) * (1 + (len(value) >> 10 if isinstance(value, str) else 0)) >> 4


def not_contained(bounds: Bounds, value: JSON, within: JSON) -> bool:
    return not is_contained(bounds, value, within)


COMPARISONS: dict[str, Binary] = {
    "eq": equal,
    "ne": unequal,
    "lt": _make_ordering(operator.lt),
    "lteq": _make_ordering(operator.le),
    "gt": _make_ordering(operator.gt),
    "gteq": _make_ordering(operator.ge),
    "in": is_contained,
    "notin": not_contained,
}
