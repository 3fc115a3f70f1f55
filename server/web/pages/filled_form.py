"""A form as a page shows it: its controls, what is typed in them, and what was refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.datastructures import FormData

from holdfast.client.forms import FormControl, Texts, first_text, item_count


@dataclass(frozen=True)
class FilledForm:
    """The controls of a form with their texts and problems; the macros of `forms.html` render it."""

    control: FormControl
    texts: Texts = field(default_factory=dict)
    """What the controls show, by name."""
    problems: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What is wrong, by the name of the control."""

    def text(self, name: str) -> str:
        """Return the text in a control; empty if there is none."""
        return first_text(self.texts, name)

    def has(self, name: str, code: str) -> bool:
        """Return whether a choice is chosen."""
        return code in self.texts.get(name, ())

    def problem(self, name: str) -> str:
        """Return what is wrong with a control; empty if nothing is."""
        return "; ".join(self.problems.get(name, ()))

    def items(self, control: FormControl) -> list[FormControl]:
        """Return the controls of the items of a list."""
        return [control.item(index) for index in range(item_count(control, self.texts))]


def typed_texts(texts: Texts) -> list[str]:
    """Return what a person has typed into the form of a question, each behind its field's name, without secrets."""
    typed = [
        (name.removeprefix("f:"), text)
        for name, values in texts.items()
        if name.startswith(("f:", "own", "reason", "comment")) and not name.endswith("#")  # a list's length
        for text in values
        if text.strip()
    ]
    return [f"{name}: {text}" if name and name != "own" else text for name, text in typed]


def texts_of_form(data: FormData) -> dict[str, list[str]]:
    """Return what a browser has sent as texts by name; files are left out."""
    texts: dict[str, list[str]] = {}
    for name, value in data.multi_items():
        if isinstance(value, str):
            texts.setdefault(name, []).append(value)
    return texts
