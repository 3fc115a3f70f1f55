"""What a blueprint will do, in plain words: step by step, who is asked what, what it may cost, what comes out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from blueprint.explain.agents import LIMIT
from blueprint.explain.amounts import Amount
from blueprint.explain.cost import requests_of, spent
from blueprint.explain.outline import EMPTY, Line, laid_out
from blueprint.explain.page import Book, Page
from blueprint.explain.people import Ask
from blueprint.explain.words import listed, one_line
from blueprint.grammar import Blueprint

__all__ = ["Ask", "Explanation", "explain"]


@dataclass(frozen=True)
class Explanation:
    """A blueprint in words, and what programs may want to know of it."""

    blueprint: str
    text: str
    asks: tuple[Ask, ...]
    """Every question that it may ask, in the order of the text; what a tool asks is known to its code alone."""
    model_requests_at_most: int | None
    """None where nothing bounds them."""

    def to_json(self) -> dict[str, Any]:
        return {
            "blueprint": self.blueprint,
            "text": self.text,
            "asks": [ask.to_json() for ask in self.asks],
            "model_requests_at_most": self.model_requests_at_most,
        }


def explain(blueprint: Blueprint) -> Explanation:
    """
    >>> from blueprint import loads
    >>> print(explain(loads("steps: [{name: ask, kind: hitl, message: 'Which?'}]", name="tiny")).text, end="")
    tiny
    <BLANKLINE>
    1. ask: asks a person for text: "Which?" Declining fails the step.
    <BLANKLINE>
    The run gives the answer to ask.
    <BLANKLINE>
    Requests to models: none.
    A question without a deadline waits for as long as it takes.
    """
    book, requests = Book(), requests_of(blueprint)
    own = Page(blueprint, book).sections()
    imported = _imports(book)
    lines = _spaced([[_headed(blueprint.name, blueprint)], *own, _end(blueprint, requests, book), *imported])
    return Explanation(blueprint.name, laid_out(lines), tuple(book.asks), requests.bound)


def _imports(book: Book) -> list[list[Line]]:
    """The imports' own explanations, and those of what they import."""
    found = []
    while book.imports:
        alias, child = book.imports.pop(0)
        inside = Page(child, book, 1, f"{alias} ").sections()
        found.append([_headed(f"The blueprint {alias}", child), *(line for section in inside for line in section)])
    return found


def _headed(title: str, blueprint: Blueprint) -> Line:
    return Line(f"{title}: {one_line(blueprint.description, 400)}" if blueprint.description else title)


def _end(blueprint: Blueprint, requests: Amount, book: Book) -> list[Line]:
    """What the run may cost, how long it may wait, and what is not known."""
    said = [f"Requests to models: {requests}."]
    limits = blueprint.limits
    if limits is not None and (most := spent(limits)):
        more = "a person is asked for more" if limits.on_limit == "ask" else "it fails"
        said.append(f"The run may take at most {listed(most)}; then {more}.")
        book.asks += [LIMIT] if limits.on_limit == "ask" else []
    if any(ask.by is None for ask in book.asks):
        said.append("A question without a deadline waits for as long as it takes.")
    if book.tools:
        said.append("What a tool asks of people, if it does, is known to its code alone.")
    return [Line(text) for text in said]


def _spaced(sections: Iterable[list[Line]]) -> list[Line]:
    """The sections that say anything, with an empty line between."""
    lines: list[Line] = []
    for section in sections:
        lines += [EMPTY, *section] if lines and section else section
    return lines
