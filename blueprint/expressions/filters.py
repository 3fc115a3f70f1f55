"""The filters (`|`) of expressions: the deterministic ones of Jinja, with Jinja's arguments."""

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.blueprint.expressions import comparisons, functions
from holdfast.blueprint.expressions.bounds import MAX_ITEMS, MAX_TEXT, Bounds
from holdfast.blueprint.expressions.error import ExpressionError, did_you_mean, shorten
from holdfast.blueprint.expressions.predicates import apply_test
from holdfast.blueprint.expressions.values import Undefined, by_path, is_integer, kind, number, require_defined, to_json
from holdfast.blueprint.json_values import JSON, JSONObject

_WORD = re.compile(r"\w+")
_WORD_START = re.compile(r"([-\s({\[<]+)")
_MISSING = object()


def _default(bounds: Bounds, value: JSON, /, default_value: JSON = "", boolean: JSON = False) -> JSON:
    """Replace an undefined value (with `boolean`: also a false one)."""
    return default_value if isinstance(value, Undefined) or (boolean and not value) else value


# Text


def _capitalize(bounds: Bounds, value: JSON, /) -> str:
    return bounds.built_text(bounds.text(value).capitalize())


def _title(bounds: Bounds, value: JSON, /) -> str:
    bounds.room_for_text(len(bounds.text(value)))
    words = _WORD_START.split(value)
    bounds.pay(len(words))
    return bounds.built_text("".join(word[0].upper() + word[1:].lower() for word in words if word))


def _trim(bounds: Bounds, value: JSON, /, chars: JSON = None) -> str:
    return functions.strip(bounds, bounds.text(value), chars)


def _replace(bounds: Bounds, value: JSON, /, old: JSON, new: JSON, count: JSON = -1) -> str:
    return functions.replace(bounds, value, old, new, count)


def _truncate(
    bounds: Bounds, value: JSON, /, length: JSON = 255, killwords: JSON = False, end: JSON = "...", leeway: JSON = 5
) -> str:
    """Cut a text to at most `length` characters, between words."""
    size = _size("truncate", length, MAX_TEXT) - len(bounds.text(end))
    if size < 0:
        raise ExpressionError("truncate: the length is shorter than the end")
    if len(bounds.text(value)) <= length + _size("truncate", leeway, MAX_TEXT):
        return str(value)
    bounds.room_for_text(length)
    kept = value[:size]
    return str(kept if killwords else kept.rsplit(" ", 1)[0]) + str(end)


def _indent(bounds: Bounds, value: JSON, /, width: JSON = 4, first: JSON = False, blank: JSON = False) -> str:
    margin = width if isinstance(width, str) else " " * _size("indent", width, 1000)
    bounds.room_for_text(len(bounds.text(value)) + (value.count("\n") + 1) * len(margin))
    lines = value.split("\n")
    bounds.pay(len(lines))
    filled = [line if index == 0 and not first or not (line or blank) else margin + line
              for index, line in enumerate(lines)]  # fmt: skip
    return "\n".join(filled)


def _wordcount(bounds: Bounds, value: JSON, /) -> int:
    bounds.pay(len(bounds.text(value)) >> 3)
    return sum(1 for _ in _WORD.finditer(value))


def _join(bounds: Bounds, value: JSON, /, d: JSON = "", attribute: JSON = None) -> str:
    parts = [bounds.display(part) for part in _parts(bounds, value, attribute)]
    return functions.join_texts(bounds, bounds.text(d), parts)


def _string(bounds: Bounds, value: JSON, /) -> str:
    return bounds.display(value)


def _tojson(bounds: Bounds, value: JSON, /, indent: JSON = None) -> str:
    bounds.room_for_text(bounds.weigh(value))
    if indent is None:
        return bounds.built_text(to_json(value))
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=_size("tojson", indent, 16))
    size, chunks = 0, []
    # In pieces: indented, a value that weighs little can be a text of gigabytes.
    for chunk in encoder.iterencode(value):
        bounds.pay(1)
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_TEXT:
            break
    return bounds.built_text("".join(chunks))


def _fromjson(bounds: Bounds, value: JSON, /) -> JSON:
    bounds.pay(len(bounds.text(value)) >> 4)
    try:
        read = json.loads(value)
        # Weighing refuses NaN and infinity, which Python reads.
        bounds.weigh(read)
        # Only an escape can bring in half a character, which no history can hold.
        if "\\u" in value:
            json.dumps(read, ensure_ascii=False).encode()
    except RecursionError:
        raise ExpressionError("fromjson: nested too deeply") from None
    except ExpressionError:
        raise
    except ValueError as error:
        raise ExpressionError(f"fromjson: not JSON: {shorten(str(error), 200)}") from None
    return read


# Numbers


def _int(bounds: Bounds, value: JSON, /, default: JSON = 0, base: JSON = 10) -> JSON:
    """Return a whole number, or `default` for a value that is no number, as in Jinja."""
    try:
        if isinstance(value, str):
            return number(int(bounds.text(value), _size("int", base, 36)))
        return number(int(value))
    except (TypeError, OverflowError):
        return default
    except ExpressionError:
        raise
    except ValueError:
        return _int(bounds, _float(bounds, value, None), default) if base == 10 else default


def _float(bounds: Bounds, value: JSON, /, default: JSON = 0.0) -> JSON:
    """Return a number, or `default` for a value that is no number, as in Jinja."""
    try:
        read = float(bounds.text(value)) if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        return default
    return number(read)


def _round(bounds: Bounds, value: JSON, /, precision: JSON = 0, method: JSON = "common") -> JSON:
    if not is_integer(precision) or not -15 <= precision <= 15:
        raise ExpressionError("round: the precision is a whole number from -15 to 15")
    number(value)
    match method:
        case "common":
            return number(round(value, precision))
        case "ceil":
            return number(math.ceil(value * 10**precision) / 10**precision)
        case "floor":
            return number(math.floor(value * 10**precision) / 10**precision)
    raise ExpressionError("round: the method is 'common', 'ceil' or 'floor'")


def _sum(bounds: Bounds, value: JSON, /, attribute: JSON = None, start: JSON = 0) -> JSON:
    total = number(start)
    for part in _parts(bounds, value, attribute):
        total = number(total + number(part))
    return total


# Lists and objects


def _list(bounds: Bounds, value: JSON, /) -> list[JSON]:
    return list(bounds.elements(value))


def _items(bounds: Bounds, value: JSON, /) -> list[JSON]:
    if not isinstance(value, dict):
        raise ExpressionError(f"items needs an object, not {kind(value)}")
    return functions.items(bounds, value)


def _first(bounds: Bounds, value: JSON, /) -> JSON:
    elements = bounds.elements(value)
    return elements[0] if elements else Undefined("the first of an empty list")


def _last(bounds: Bounds, value: JSON, /) -> JSON:
    elements = bounds.elements(value)
    return elements[-1] if elements else Undefined("the last of an empty list")


def _reverse(bounds: Bounds, value: JSON, /) -> JSON:
    if isinstance(value, str):
        bounds.room_for_text(len(value))
        return value[::-1]
    return bounds.elements(value)[::-1]


def _sort(
    bounds: Bounds, value: JSON, /, reverse: JSON = False, case_sensitive: JSON = False, attribute: JSON = None
) -> list[JSON]:
    elements = bounds.elements(value)
    keys = _keys(bounds, "sort", elements, case_sensitive, attribute)
    return [elements[index] for index in _sorted_places(bounds, keys, bool(reverse))]


def _dictsort(
    bounds: Bounds, value: JSON, /, case_sensitive: JSON = False, by: JSON = "key", reverse: JSON = False
) -> list[JSON]:
    if by not in ("key", "value"):
        raise ExpressionError("dictsort: by is 'key' or 'value'")
    pairs = _items(bounds, value)
    keys = _keys(bounds, "dictsort", [pair[0 if by == "key" else 1] for pair in pairs], case_sensitive)
    return [pairs[index] for index in _sorted_places(bounds, keys, bool(reverse))]


def _sorted_places(bounds: Bounds, keys: list[JSON], reverse: bool) -> list[int]:
    bounds.pay(len(keys) * len(keys).bit_length() >> 4)
    return sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)


def _unique(bounds: Bounds, value: JSON, /, case_sensitive: JSON = False, attribute: JSON = None) -> list[JSON]:
    elements = bounds.elements(value)
    firsts: dict[JSON, JSON] = {}
    for key, element in zip(_keys(bounds, "unique", elements, case_sensitive, attribute), elements, strict=True):
        firsts.setdefault(key, element)
    return list(firsts.values())


def _min(bounds: Bounds, value: JSON, /, case_sensitive: JSON = False, attribute: JSON = None) -> JSON:
    return _extreme(bounds, "min", min, value, case_sensitive, attribute)


def _max(bounds: Bounds, value: JSON, /, case_sensitive: JSON = False, attribute: JSON = None) -> JSON:
    return _extreme(bounds, "max", max, value, case_sensitive, attribute)


def _extreme(bounds: Bounds, name: str, pick: Callable[..., int], value: JSON, case: JSON, attribute: JSON) -> JSON:
    elements = bounds.elements(value)
    if not elements:
        return Undefined(f"the {name} of an empty list")
    keys = _keys(bounds, name, elements, case, attribute)
    return elements[pick(range(len(keys)), key=keys.__getitem__)]


def _map(
    bounds: Bounds, value: JSON, /, *args: JSON, attribute: JSON = None, default: JSON = _MISSING, **kwargs: Any
) -> list[JSON]:
    """Apply a filter to each element (`map('upper')`) or read a key of each (`map(attribute='a.b')`)."""
    if attribute is None and not args:
        raise ExpressionError("map needs the name of a filter or an attribute")
    if attribute is None and default is not _MISSING:
        kwargs["default"] = default
    mapped = []
    for element in bounds.elements(value):
        bounds.pay(1)
        if attribute is None:
            result = apply_filter(bounds, args[0], element, list(args[1:]), kwargs)
        else:
            result = _at(bounds, element, _path("map", attribute))
            result = default if isinstance(result, Undefined) and default is not _MISSING else result
        mapped.append(require_defined(result))
    return mapped


def _select(bounds: Bounds, value: JSON, /, *test: JSON) -> list[JSON]:
    return [element for element in bounds.elements(value) if _passes(bounds, element, test)]


def _reject(bounds: Bounds, value: JSON, /, *test: JSON) -> list[JSON]:
    return [element for element in bounds.elements(value) if not _passes(bounds, element, test)]


def _selectattr(bounds: Bounds, value: JSON, attribute: JSON, /, *test: JSON) -> list[JSON]:
    path = _path("selectattr", attribute)
    return [element for element in bounds.elements(value) if _passes(bounds, _at(bounds, element, path), test)]


def _rejectattr(bounds: Bounds, value: JSON, attribute: JSON, /, *test: JSON) -> list[JSON]:
    path = _path("rejectattr", attribute)
    return [element for element in bounds.elements(value) if not _passes(bounds, _at(bounds, element, path), test)]


def _passes(bounds: Bounds, value: JSON, test: tuple[JSON, ...]) -> bool:
    bounds.pay(1)
    return apply_test(bounds, test[0], value, list(test[1:])) if test else bool(value)


def _batch(bounds: Bounds, value: JSON, /, linecount: JSON, fill_with: JSON = None) -> list[JSON]:
    """Split a list into rows of `linecount` elements."""
    width = _size("batch", linecount, MAX_ITEMS, least=1)
    elements = bounds.elements(value)
    bounds.pay(len(elements))
    rows = [elements[start : start + width] for start in range(0, len(elements), width)]
    if rows and fill_with is not None:
        bounds.pay(width)
        rows[-1] = rows[-1] + [fill_with] * (width - len(rows[-1]))
    return rows


def _slice(bounds: Bounds, value: JSON, /, slices: JSON, fill_with: JSON = None) -> list[JSON]:
    """Split a list into `slices` columns of about the same length."""
    count = _size("slice", slices, MAX_ITEMS, least=1)
    elements = bounds.elements(value)
    bounds.pay(len(elements) + count)
    shortest, longer = divmod(len(elements), count)
    columns = []
    for index in range(count):
        start = index * shortest + min(index, longer)
        column = elements[start : start + shortest + (index < longer)]
        columns.append(column + [fill_with] if fill_with is not None and longer and index >= longer else column)
    return columns


def _parts(bounds: Bounds, value: JSON, attribute: JSON) -> Iterator[JSON]:
    for element in bounds.elements(value):
        bounds.pay(1)
        yield element if attribute is None else require_defined(_at(bounds, element, _path("attribute", attribute)))


def _keys(bounds: Bounds, name: str, elements: list[JSON], case_sensitive: JSON, attribute: JSON = None) -> list[JSON]:
    """Return the values that elements are compared by; as in Jinja, texts without regard to case."""
    keys = functions.orderable(bounds, name, list(_parts(bounds, elements, attribute)))
    return keys if case_sensitive or not keys or not isinstance(keys[0], str) else [key.lower() for key in keys]


def _at(bounds: Bounds, element: JSON, path: str) -> JSON:
    """Return the value at a path of an element; each dot costs a step."""
    bounds.pay(path.count("."))
    return by_path(element, path)


def _path(name: str, attribute: JSON) -> str:
    if isinstance(attribute, str) or is_integer(attribute):
        return attribute if isinstance(attribute, str) and len(attribute) <= 200 else str(number(attribute))
    raise ExpressionError(f"{name}: an attribute is text, not {kind(attribute)}")


def _size(name: str, value: JSON, most: int, least: int = 0) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise ExpressionError(f"{name} needs a whole number from {least} to {most:,}")


FILTERS: dict[str, Callable[..., Any]] = {
    "abs": functions.magnitude,
    "batch": _batch,
    "capitalize": _capitalize,
    "count": functions.length,
    "d": _default,
    "default": _default,
    "dictsort": _dictsort,
    "first": _first,
    "float": _float,
    "fromjson": _fromjson,
    "indent": _indent,
    "int": _int,
    "items": _items,
    "join": _join,
    "last": _last,
    "length": functions.length,
    "list": _list,
    "lower": functions.lower,
    "map": _map,
    "max": _max,
    "min": _min,
    "reject": _reject,
    "rejectattr": _rejectattr,
    "replace": _replace,
    "reverse": _reverse,
    "round": _round,
    "select": _select,
    "selectattr": _selectattr,
    "size": comparisons.size,
    "slice": _slice,
    "sort": _sort,
    "string": _string,
    "sum": _sum,
    "title": _title,
    "tojson": _tojson,
    "trim": _trim,
    "truncate": _truncate,
    "unique": _unique,
    "upper": functions.upper,
    "wordcount": _wordcount,
}


def apply_filter(bounds: Bounds, name: JSON, value: JSON, args: list[JSON], kwargs: JSONObject) -> JSON:
    if not isinstance(name, str) or name not in FILTERS:
        raise unknown_filter(str(name))
    if name not in ("default", "d"):
        require_defined(value)
        for arg in (*args, *kwargs.values()):
            require_defined(arg)
    return FILTERS[name](bounds, value, *args, **kwargs)


def unknown_filter(name: str) -> ExpressionError:
    return ExpressionError(f"unknown filter {shorten(name, 40)!r}", did_you_mean(name, FILTERS))
