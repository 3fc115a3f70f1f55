"""Values that are written as a constant or as a template: durations, quorums, risks. Constants are read at load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BeforeValidator, WithJsonSchema

from holdfast.blueprint.durations import read_duration
from holdfast.blueprint.findings import is_literal
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.moments import read_moment
from holdfast.blueprint.parts import Risk
from holdfast.blueprint.questions import brief

MOST_ACCEPTING = 100
_RISKS = get_args(Risk)
_TEMPLATE: JSONObject = {"type": "string", "pattern": r"\{[{%]"}
DURATION_SCHEMA: JSONObject = {"type": ["string", "number"]}
RISK_SCHEMA: JSONObject = {"enum": list(_RISKS)}

_Read = TypeVar("_Read")


def _or_template(read: Callable[[object], _Read]) -> BeforeValidator:
    """Return what reads a constant, and leaves a template as it is."""

    def accept(value: object) -> object:
        return value if isinstance(value, str) and not is_literal(value) else read(value)

    return BeforeValidator(accept)


def _read_any(value: object) -> object:
    return value


def read_quorum(value: object) -> int:
    """Return a number of people, from a number or from the text that a template gives. Raises `ValueError`.

    >>> read_quorum(2), read_quorum("2"), read_quorum(2.0)
    (2, 2, 2)
    """
    match value:
        case str() if value.strip().isdecimal():
            number = int(value)
        case int() | float() if not isinstance(value, bool) and float(value).is_integer():
            number = int(value)
        case _:
            number = 0
    if not 1 <= number <= MOST_ACCEPTING:
        raise ValueError(f"{brief(value)} is not a quorum, which is at least 1 and at most {MOST_ACCEPTING}")
    return number


def _read_written_quorum(value: object) -> int:
    """Return a constant: a text is none, as everywhere in a blueprint."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"'quorum' must be a whole number, or a template of one, not {brief(value)}")
    if not 1 <= value <= MOST_ACCEPTING:
        bound = "at least 1" if value < 1 else f"at most {MOST_ACCEPTING}"
        raise ValueError(f"'quorum' must be {bound}, not {value}")
    return value


def read_risk(value: object) -> Any:
    """Return a risk. Raises `ValueError`."""
    if value not in _RISKS:
        raise ValueError(f"{brief(value)} is not a risk; write one of {', '.join(_RISKS)}")
    return value


DurationTemplate = Annotated[
    float | str,
    _or_template(read_duration),
    WithJsonSchema({**DURATION_SCHEMA, "examples": ["30s", "1h30m", "2d", "{{ input.days }}d"]}),
]
QuorumTemplate = Annotated[
    int | str,
    _or_template(_read_written_quorum),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": MOST_ACCEPTING}, _TEMPLATE]}),
]
RiskTemplate = Annotated[Risk | str, _or_template(read_risk), WithJsonSchema({"anyOf": [RISK_SCHEMA, _TEMPLATE]})]


def find_constant(duration: float | str | None) -> float | None:
    """Return the seconds of a duration; None for a template of one, and for none."""
    return None if isinstance(duration, str) else duration


@dataclass(frozen=True)
class TemplateForm:
    """What a template must give."""

    schema: JSONObject
    """JSON Schema; what it allows may still not be read."""
    read: Callable[[object], object] = _read_any
    """Reads a value. Raises `ValueError` for one that makes no sense."""
    parts: tuple[str, ...] = ()
    """Texts that a text inside a template may be, of which one must do; none: any may do."""
    keys: tuple[str, ...] = ()
    """An object must have one of these keys."""


DURATION_PARTS = (
    "",
    "2",
    "2h",
    "2h2",
    "s",
    "h",
    "P",
    "P2",
    "PT",
    "PT2",
    "P2D",
    "P2DT",
    "P2DT2",
    "2H",
    "D",
    "H",
    "T2H",
    "DT2H",
)
"""What may stand beside a constant part of a duration."""
DURATION = TemplateForm(DURATION_SCHEMA, read_duration, DURATION_PARTS)
MOMENT = TemplateForm({"type": "string"}, read_moment)
QUORUM = TemplateForm({"type": ["integer", "string"]}, read_quorum, ("", "2"))
RISK = TemplateForm({"type": "string"}, read_risk)
PEOPLE = TemplateForm({"type": ["array", "string"], "items": {"type": "string"}})
