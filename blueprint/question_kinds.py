"""Traits of the values of `ask`: what the checks, the explanation and the drawing of a `hitl` need to know of each.

`protocol/questions/` has the classes of these names, which know how an answer is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.blueprint.json_values import JSON


@dataclass(frozen=True)
class AskKind:
    """A value of `ask`."""

    request: str = "asks {who} for {what}: {message}"
    """Its description. `what` describes the answer, `subject` the input; `about` is the message, `form` its schema."""
    choice: str = "asks {who} to choose{many}: {message}"
    """The description where there are options."""
    takes_options: bool = True
    is_choice: bool = False
    """True if an answer is always one of the options."""
    own_words: bool = False
    """True if own words are accepted beside the options, unless `allow_custom` says otherwise."""
    hidden: bool = False
    """True if the answer is a secret: no value in the blueprint can be one."""
    is_pause: bool = False
    """True if nobody is asked anything: the output is the input."""
    weighed: bool = False
    """True if a person permits an action, with its risk and its details."""
    refusal: tuple[str, JSON] | None = None
    """Key and value of an answer that refuses, where only an explicit yes is one: so no default may approve."""
    declined: str | None = None
    """What declining means unless `on_decline` is written: in data, and as a sentence."""
    declining: str = ""

    @property
    def is_plain(self) -> bool:
        """True if the answer is what the person gave, not an object about it."""
        return self.refusal is None and not self.is_pause

    def refuses(self, answer: object) -> bool:
        """Return whether an answer is the explicit no."""
        if self.refusal is None:
            return False
        key, value = self.refusal
        if not isinstance(answer, dict):
            return answer is False and value is False
        return isinstance(answer.get(key), type(value)) and bool(answer[key] == value)


ASK_KINDS = {
    "input": AskKind(),
    "clarification": AskKind(request="asks {who}: {message}", choice="asks {who}: {message}", own_words=True),
    "decision": AskKind(is_choice=True),
    "permission": AskKind(
        request="asks {who} for an explicit yes: {message}",
        takes_options=False,
        weighed=True,
        refusal=("granted", False),
        declined="denied",
        declining="Declining is a no; after a no the run goes on with false.",
    ),
    "review": AskKind(
        request="shows {subject} to {who}, who may change or reject it{about}{form}",
        takes_options=False,
        refusal=("verdict", "rejected"),
        declined="rejected",
        declining="Declining is a rejection; after one the run goes on with null.",
    ),
    "secret": AskKind(
        request="asks {who} for {what}, visible to tools only: {message}", takes_options=False, hidden=True
    ),
    "hold": AskKind(
        request="waits until {who} continues the run.",
        takes_options=False,
        is_pause=True,
        declined="abort",
        declining="Declining ends the run.",
    ),
}
_OTHER = AskKind()


def ask_kind_named(name: str) -> AskKind:
    """Return the traits of a kind by its name; for one of an author's package those of a plain answer."""
    return ASK_KINDS.get(name, _OTHER)


Source = Callable[[Path | None], Mapping[str, str]]
"""Imports the packages that a configuration lists, for a blueprint in a folder; returns by package why one failed."""
_sources: list[Source] = []


def add_source(source: Source) -> None:
    """Call a function before a kind counts as unknown: it imports packages, whose classes register themselves.

    So a command imports them only where it meets one of their kinds.
    """
    if source not in _sources:
        _sources.append(source)


def import_sources(folder: Path | None) -> dict[str, str]:
    """Import what the sources know of, and return by package why it cannot be imported."""
    return {package: reason for source in _sources for package, reason in source(folder).items()}
