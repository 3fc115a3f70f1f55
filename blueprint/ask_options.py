"""What Python code may say of a question beside its message: for authors' own workflows, and for `holdfast.ask`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict

from pydantic import BaseModel

from holdfast.blueprint.durations import read_duration
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import validator
from holdfast.blueprint.parts import Option
from holdfast.blueprint.questions import list_kinds_for_steps

AnswerForm = JSONObject | type[BaseModel]
"""JSON Schema, or a pydantic model that has one."""
Time = timedelta | float | str
"""A time, seconds, or text such as `2d`."""
Escalation = Sequence[tuple[Time, Sequence[str]]]
"""Times after asking, rising, each with the assignees from then on."""


class AskOptions(TypedDict, total=False):
    """What is said of a question, beside its message."""

    kind: str
    """`input` (default), `clarification`, `decision`, `permission`, `review`, `secret` or `hold`."""
    options: Sequence[str | JSONObject | Option]
    """Texts, or objects with `id`, `label`, `risk` and so on; for the first three kinds."""
    payload: JSON
    """The value to review, or details shown beside the message."""
    multiple: bool | int
    """Whether several options may be chosen; a number is the maximum."""
    allow_custom: bool | None
    """Whether own words are accepted beside the options; None: as the kind has it."""
    timeout: Time | None
    """Time until the question expires; None: it waits for as long as it takes."""
    default: Any
    """The answer in place of one that did not come in time; that of a permission or a review must be a no."""
    assignees: Sequence[str]
    """Who may answer (`user:x`, `group:y`); without it anyone."""
    not_by: Sequence[str]
    """Who may not, even if assigned."""
    quorum: int
    """How many different people must accept."""
    proof: Literal["person"] | None
    """`person` takes only answers of people who have signed in."""
    escalate: Escalation
    """Pairs of a time after asking and the assignees from then on."""
    remind_every: Time | None
    """Time between reminders, 15 minutes or more."""
    on_decline: Literal["fail", "continue"] | None
    """`fail` raises if the person declines or says no, `continue` returns None (a permission False); by default a no
    goes on and a decline raises, but a permission or review takes it for a no."""


def read_schema(form: AnswerForm | None) -> JSONObject | None:
    """Return the JSON Schema of a form. Raises `TypeError` for what is no form, and `BadSchema`."""
    if isinstance(form, type) and issubclass(form, BaseModel):
        return form.model_json_schema()
    if not isinstance(form, dict | None):
        raise TypeError(f"a schema is a JSON Schema or a pydantic model, not {form!r}")
    if form is not None:
        validator(form)
    return form


def check_options(options: AskOptions) -> None:
    """Raise `TypeError` for a key that no question has."""
    if unknown := sorted(set(options) - set(AskOptions.__annotations__)):
        raise TypeError(f"a question has no {', '.join(unknown)}; it has {', '.join(AskOptions.__annotations__)}")


def read_seconds(options: AskOptions, key: Literal["timeout", "remind_every"]) -> float | None:
    """Return a time of the options in seconds, None if there is none. Raises `ValueError`, which names the key."""
    time = options.get(key)
    return None if time is None else _read_seconds(time, key)


def read_ladder(options: AskOptions) -> list[tuple[float, Sequence[str]]]:
    """Return the pairs of `escalate`, with seconds after asking. Raises `ValueError`, which names the key."""
    try:
        pairs = [(after, names) for after, names in options.get("escalate", ())]
    except (TypeError, ValueError):
        text = "escalate: it is a list of pairs of a time and the assignees from then on"
        raise ValueError(f'{text}, such as [("1d", ["group:leads"])]') from None
    return [(_read_seconds(after, "escalate"), names) for after, names in pairs]


def _read_seconds(time: Time, key: str) -> float:
    try:
        return read_duration(time)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def read_instance(form: AnswerForm | None, kind: str, output: JSON) -> Any:
    """Return what a question of a kind gives, as the model of its form has it. Raises `ValidationError`."""
    known = list_kinds_for_steps()[kind]
    if not isinstance(form, type) or known.hidden or known.scopes or (known.consents and output is None):
        return output
    return form.model_validate(output)
