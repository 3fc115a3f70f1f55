"""Options that are known only when a question is asked: from a program, or from the list that a template gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pydantic import ValidationError

from holdfast.blueprint.model_problems import describe_problem
from holdfast.blueprint.parts import Option
from holdfast.blueprint.questions.kind import brief


class RepeatedText(NamedTuple):
    """An id or a label of an option that stands for an earlier option, too."""

    place: int
    key: str
    text: str
    first: int
    """The place of the earlier option; both count from 0."""


def fold(text: str) -> str:
    """Return an id or a label as an answer may give it: in any case, and with any blanks around it."""
    return text.strip().casefold()


def find_repeated(options: Sequence[Option]) -> Iterator[RepeatedText]:
    """Yield the first such text of each option: an answer may give an id or a label."""
    taken: dict[str, int] = {}
    for index, option in enumerate(options):
        for key, text in (("id", option.id), ("label", option.label)):
            if text and (first := taken.setdefault(fold(text), index)) != index:
                yield RepeatedText(index, key, text, first)
                break


def read_options(values: Sequence[object]) -> list[Option]:
    """Return options from texts, objects and options; one that is there twice as a whole counts once.

    >>> [option.id for option in read_options(["tea", {"id": "milk", "label": "Milk"}, "tea"])]
    ['tea', 'milk']

    Raises `ValueError`, which names the option: it cannot be used, or an answer could mean an earlier one as well.
    """
    options: list[Option] = []
    for value in values:
        try:
            option = Option.model_validate({"id": value, "label": value} if isinstance(value, str) else value)
        except ValidationError as error:
            raise ValueError(f"the option {brief(value)}: {describe_problem(error)}") from None
        if option not in options:
            options.append(option)
    for repeated in find_repeated(options):
        raise ValueError(f"the option {repeated.text!r} appears twice, with other words; an answer could mean either")
    return options
