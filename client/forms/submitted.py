"""Texts in the controls of a form: of a value that they begin with, and back to the value that was typed.

What is typed is a mapping of the controls' names to texts, as a browser sends it; a refused form is shown again from
the same mapping, so that nothing of it is lost.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.questions import YES
from holdfast.blueprint.schema_messages import own_words
from holdfast.client.forms.controls import ABSENT, FormControl
from holdfast.client.reading import BadUsage, from_json

Texts = Mapping[str, Sequence[str]]
"""What is typed, by the name of the control."""
MOST_ITEMS = 200
"""The most items of a list that a form shows."""
MOST_DIGITS = 300
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?")


@dataclass
class Submission:
    """The value that was typed, with what is wrong in it by the name of the control."""

    value: object = ABSENT
    """A JSON value, or `ABSENT` if nothing was typed."""
    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def read_control(control: FormControl, texts: Texts) -> Submission:
    """Return the value that is typed into a control. It may still not fit its schema: see `check_typed`."""
    submission = Submission()
    submission.value = _read(control, texts, submission.problems)
    if submission.value is ABSENT and control.is_required and not submission.problems:
        submission.problems[control.name].append("this field is needed")
    return submission


def check_typed(
    control: FormControl, texts: Texts, submission: Submission, problems: Sequence[tuple[str, str]]
) -> None:
    """Add to a submission what its value does not fit, each problem once, at the control that shows its place.

    Args:
        control: The whole form.
        texts: What is typed, which tells how many items the lists have.
        submission: What was read; a control that it has a problem of gets no other.
        problems: Pairs of a path and a reason, as `list_misfits` gives them for the value.
    """
    placed = _place(control, texts, problems)
    if submission.problems:  # of what is around a wrong field nothing is told: it may be wrong for that alone
        fields = {field.name for field in shown_controls(control, texts) if field.widget not in ("group", "list")}
        placed = {name: placed[name] for name in fields & placed.keys() - submission.problems.keys()}
    submission.problems |= placed


def _read(control: FormControl, texts: Texts, problems: dict[str, list[str]]) -> object:
    match control.widget:
        case "group":
            return _read_group(control, texts, problems)
        case "list":
            return _read_list(control, texts, problems)
        case "choices":
            codes = texts.get(control.name, ())
            chosen = [choice.value for choice in control.choices if choice.code in codes]
            return chosen if chosen or control.is_required else ABSENT
        case "lines":
            lines = [line.strip() for line in first_text(texts, control.name).splitlines() if line.strip()]
            return lines if lines or control.is_required else ABSENT
    text = first_text(texts, control.name)
    if not text.strip():
        return None if control.is_nullable and control.is_required else ABSENT
    try:
        return _read_text(control, text)
    except ValueError as error:
        problems[control.name].append(own_words(control.schema, "type") or str(error))
        return text


def _read_text(control: FormControl, text: str) -> JSON:
    """Return the value of text that is not blank. Raises `ValueError` with what to type."""
    plain = text.strip()
    match control.widget:
        case "number":
            return _number(plain, control)
        case "boolean":
            if plain.lower() not in YES:
                raise ValueError("say yes or no")
            return YES[plain.lower()]
        case "choice":
            return next((choice.value for choice in control.choices if choice.code == plain), plain)
        case "datetime":
            return f"{plain if len(plain) > 16 else plain + ':00'}Z" if _STAMP.fullmatch(plain) else plain
        case "time":  # of JSON Schema it has seconds and an offset, which a browser's field has not
            return f"{plain if len(plain) > 5 else plain + ':00'}Z" if re.fullmatch(r"[\d:]{5,8}", plain) else plain
        case "json":
            return json_typed(text)
        case "date":
            return plain
    return text.replace("\r\n", "\n")


def _number(text: str, control: FormControl) -> JSON:
    if not _NUMBER.fullmatch(text):
        raise ValueError(
            "write a whole number, such as 12" if control.is_whole else "write a number, such as 12 or 1.5"
        )
    number = float(text)
    if len(text) > MOST_DIGITS or not math.isfinite(number):
        raise ValueError("the number is out of range")
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    # JSON Schema calls 3.0 an integer; larger floats skip whole numbers.
    return int(number) if control.is_whole and number.is_integer() and abs(number) < 2**53 else number


def json_typed(text: str) -> JSON:
    """Return the value of JSON text. Raises `ValueError` that names line and column of the first mistake."""
    try:
        return from_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except BadUsage as error:
        raise ValueError(str(error)) from None


def _read_group(control: FormControl, texts: Texts, problems: dict[str, list[str]]) -> object:
    values = {str(part.path[-1]): (part, _read(part, texts, problems)) for part in control.parts}
    typed = {key: value for key, (_, value) in values.items() if value is not ABSENT}
    if not typed and not control.is_required and not _has_problem_below(control, problems):
        return ABSENT
    for part, value in values.values():
        if value is ABSENT and part.is_required and not problems.get(part.name):
            words = own_words(control.schema, "required", str(part.path[-1]))
            problems[part.name].append(words or "this field is needed")
    return typed


def _has_problem_below(control: FormControl, problems: Mapping[str, Sequence[str]]) -> bool:
    return any(problems.get(part.name) for part in control.walk())


def _read_list(control: FormControl, texts: Texts, problems: dict[str, list[str]]) -> object:
    items = []
    for index in range(item_count(control, texts)):
        item = control.item(index)
        value = _read(item, texts, problems)
        if value is ABSENT:
            problems[item.name].append("fill it in, or remove it")
        items.append(None if value is ABSENT else value)  # the others keep their places: problems name them by these
    return items if items or control.is_required else ABSENT


def item_count(control: FormControl, texts: Texts) -> int:
    """Return how many items of a list are shown."""
    return _count(control.name, texts)


def _count(name: str, texts: Texts) -> int:
    text = next(iter(texts.get(f"{name}#", ())), "0")
    return min(int(text), MOST_ITEMS) if text.isascii() and text.isdigit() and len(text) < 5 else 0


def first_text(texts: Texts, name: str) -> str:
    """Return the text of a control, the first if it has several; empty if there is none."""
    return next(iter(texts.get(name, ())), "")


# Values that a form begins with


def texts_of_value(control: FormControl, value: object = ABSENT) -> dict[str, list[str]]:
    """Return the texts that show a value in a control; without one, those of the schema's defaults."""
    if control.widget == "secret":
        return {}
    if value is ABSENT:
        value = control.schema.get("default", ABSENT)
    match control.widget:
        case "group":
            fields = value if isinstance(value, dict) else {}
            parts = [texts_of_value(part, fields.get(str(part.path[-1]), ABSENT)) for part in control.parts]
            return {name: text for texts in parts for name, text in texts.items()}
        case "list":
            items = value if isinstance(value, list) else []
            parts = [texts_of_value(control.item(index), item) for index, item in enumerate(items[:MOST_ITEMS])]
            return {
                control.count_name: [str(len(parts))],
                **{name: text for part in parts for name, text in part.items()},
            }
    if value is ABSENT:
        return {}
    return {control.name: _texts(control, value)}


def shows(control: FormControl, value: object) -> bool:
    """Return whether the controls show all of a value: what a browser shows is read as the same value again."""
    texts = texts_of_value(control, value)
    submission = read_control(control, texts)
    fits = all(_fits(inner, texts) for inner in shown_controls(control, texts))
    return fits and not submission.problems and _same(submission.value, value)


def _fits(control: FormControl, texts: Texts) -> bool:
    """Return whether a browser leaves the text of a control unchanged: fields of one line lose ends of lines."""
    text = first_text(texts, control.name)
    return "\r" not in text and (
        "\n" not in text or control.may_have_lines or control.widget in ("long", "lines", "json")
    )


def _texts(control: FormControl, value: object) -> list[str]:
    if control.widget in ("choice", "choices"):
        values = value if control.widget == "choices" and isinstance(value, list) else [value]
        return [choice.code for choice in control.choices if any(_same(choice.value, chosen) for chosen in values)]
    match control.widget, value:
        case "json", _:
            return [json.dumps(value, indent=2, ensure_ascii=False)]
        case "boolean", bool():
            return ["yes" if value else "no"]
        case (("datetime" | "time"), str()):
            return [re.sub(r"(Z|[+-]00:00)$", "", value)]
        case "lines", list():
            return ["\n".join(map(str, value))]
        case _, None:
            return [""]
    return [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]


def _same(value: object, other: object) -> bool:
    """Return whether two JSON values are equal: for Python, true is 1."""
    return value == other and json.dumps(value, sort_keys=True) == json.dumps(other, sort_keys=True)


# Lists that grow and shrink


def change_list(control: FormControl, texts: Texts, change: str) -> dict[str, list[str]]:
    """Return the texts after an item was added to a list, or removed from it.

    Args:
        control: The whole form.
        texts: What is typed.
        change: `add:NAME` with the name of the list, or `remove:NAME` with that of the item.
    """
    verb, _, name = change.partition(":")
    changed = {key: list(value) for key, value in texts.items()}
    if verb == "add":
        return {**changed, f"{name}#": [str(_count(name, texts) + 1)]}
    match = re.fullmatch(r"(.*)\[(\d+)\]", name)
    if verb != "remove" or match is None:
        return changed
    list_, removed = match[1], int(match[2])
    count = _count(list_, texts)
    kept = {key: value for key, value in changed.items() if not key.startswith(f"{list_}[")}
    for index in range(count):
        if index != removed:
            old, new = f"{list_}[{index}]", f"{list_}[{index - (index > removed)}]"
            kept |= {new + key[len(old) :]: value for key, value in changed.items() if key.startswith(old)}
    return {**kept, f"{list_}#": [str(max(count - 1, 0))]}


def _place(control: FormControl, texts: Texts, problems: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Return problems of a value by the name of the control that shows their place, or the nearest around it."""
    names = {shown.place: shown.name for shown in shown_controls(control, texts)}
    placed: dict[str, list[str]] = defaultdict(list)
    for path, reason in problems:
        around = path
        while around not in names and around:
            around = re.sub(r'(\.?[\w$-]+|\[\d+\]|\["(?:[^"\\]|\\.)*"\]|.)$', "", around)
        rest = path[len(around) :].lstrip(".")
        placed[names[around]].append(f"{rest} {reason}" if rest else reason)
    return dict(placed)


def shown_controls(control: FormControl, texts: Texts) -> list[FormControl]:
    """Return the control and all that are shown below it, items of lists included."""
    if control.widget == "list":
        inner = [control.item(index) for index in range(item_count(control, texts))]
    else:
        inner = list(control.parts)
    return [control, *(below for part in inner for below in shown_controls(part, texts))]
