"""Durations as an author writes them: ``30s``, ``1h30m``, ``2d``, ISO 8601, plain seconds or a `timedelta`."""

import re
from datetime import timedelta

from holdfast.blueprint.amounts import say_count

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_FRIENDLY = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_ISO = re.compile(
    r"P(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)
_ISO_UNITS = (604800.0, 86400.0, 3600.0, 60.0, 1.0)
LONGEST = 100 * 366 * 86400.0


def read_duration(value: object) -> float:
    """Return the duration in seconds. Raises `ValueError`, which lists the accepted forms.

    >>> read_duration("1h30m"), read_duration("P2DT1H"), read_duration(90), read_duration("250ms")
    (5400.0, 176400.0, 90.0, 0.25)
    >>> read_duration("soon")
    Traceback (most recent call last):
        ...
    ValueError: 'soon' is not a duration; write it like 30s, 1h30m, 2d, PT15M or as plain seconds
    """
    seconds = _parse(value)
    if seconds is None or not 0 < seconds <= LONGEST:
        raise ValueError(f"{value!r} is not a duration; write it like 30s, 1h30m, 2d, PT15M or as plain seconds")
    return seconds


def _parse(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, str):
        return None
    text = value.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if re.fullmatch(rf"(?:{_FRIENDLY.pattern})+", text):
        return sum(float(number) * _UNITS[unit] for number, unit in _FRIENDLY.findall(text))
    if (iso := _ISO.fullmatch(text)) and any(iso.groups()):
        return sum(float(part) * unit for part, unit in zip(iso.groups(), _ISO_UNITS, strict=True) if part)
    return None


def say_duration(seconds: float) -> str:
    """Return a duration in words.

    >>> say_duration(172800), say_duration(5400), say_duration(1), say_duration(0.5)
    ('2 days', '1 hour 30 minutes', '1 second', '0.5 seconds')
    """
    parts, rest = [], seconds
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        count, rest = divmod(rest, size)
        parts += [say_count(int(count), unit)] if count else []
    return " ".join([*parts, *([_seconds(rest)] if rest or not parts else [])])


def _seconds(rest: float) -> str:
    return say_count(int(rest), "second") if float(rest).is_integer() else f"{rest:g} seconds"
