"""Explain a blueprint in plain words, for `holdfast explain`: its steps, questions, cost and result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.blueprint.explain.cost import count_requests, limit_asks, limit_sentences
from holdfast.blueprint.explain.demands import Demands, add_demands, demand_lines
from holdfast.blueprint.explain.outline import EMPTY, WIDTH, Line, render
from holdfast.blueprint.explain.page import Book, Page
from holdfast.blueprint.explain.values import write_schema
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.kinds.deadlines import deadline_asks, deadline_sentence
from holdfast.blueprint.kinds.description import Ask
from holdfast.blueprint.kinds.knowledge import ToolShapes
from holdfast.blueprint.kinds.references import tool_name
from holdfast.blueprint.shapes import NO_TOOLS
from holdfast.blueprint.words.amounts import Amount
from holdfast.blueprint.words.text import RUN, enumerate_words, one_line

__all__ = ["Ask", "Explanation", "explain"]

ACCESS = {
    "see": "The run may be seen by",
    "comment": "Its questions may be commented on by",
    "answer": "Questions that name nobody may be answered by",
    "start": "It may be started by",
    "steer": "The run may be steered by",
    "administer": "It may be administered by",
}
"""What `access` says, by its keys."""


@dataclass(frozen=True)
class Explanation:
    """The explanation of a blueprint: its text, and the same facts for programs."""

    blueprint: str
    text: str
    asks: tuple[Ask, ...]
    """Every question of the blueprint itself, in the order of the text; those of tools are not known."""
    model_requests_at_most: int | None
    """None if nothing bounds the number."""
    output: JSONObject
    """JSON Schema that every output of the run fits, as far as that is known before it runs; {} if nothing is."""

    def to_json(self) -> JSONObject:
        return {
            "blueprint": self.blueprint,
            "text": self.text,
            "asks": [ask.to_json() for ask in self.asks],
            "model_requests_at_most": self.model_requests_at_most,
            "output": self.output,
        }


def explain(
    blueprint: Blueprint,
    width: int = WIDTH,
    demands: Demands | None = None,
    local: Sequence[str] = (),
    shapes: ToolShapes = NO_TOOLS,
) -> Explanation:
    """Return the explanation of a blueprint.

    Args:
        blueprint: The blueprint.
        width: Characters in a line of its text at most.
        demands: What the owners of its tools demand; None: that is not known.
        local: Those of its tools that are called in the workflow's own task.
        shapes: What its tools take and give, as far as that is known.

    >>> from holdfast.blueprint.load import loads
    >>> print(explain(loads("steps: [{name: ask, kind: hitl, message: 'Which?'}]", name="tiny")).text, end="")
    tiny
    <BLANKLINE>
    1. ask: asks a person for text: "Which?" Declining fails the step.
    <BLANKLINE>
    The run returns the answer to ask.
    <BLANKLINE>
    Model requests: none.
    A question without a deadline waits until it is answered.
    """
    book, requests = Book(shapes=shapes), count_requests(blueprint)
    blueprint = add_demands(blueprint, demands or {})
    page = Page(blueprint, book)
    own = page.sections()
    imported = _imports(book)
    summary = _summary(blueprint, requests, book, are_known=demands is not None)
    heading = [_write_heading(blueprint.name, blueprint)]
    lines = _join_sections([heading, *own, demand_lines(demands or {}), _list_local(local), summary, *imported])
    return Explanation(
        blueprint.name, render(lines, width), tuple(book.asks), requests.bound, write_schema(page.values.facts.output)
    )


def _list_local(tools: Sequence[str]) -> list[Line]:
    """Return a section that names the tools that are called in the workflow's own task."""
    names = enumerate_words([tool_name(name) for name in sorted(tools)])
    return [Line(f"Called in the workflow's own task, and again if its worker is lost: {names}.")] if tools else []


def _imports(book: Book) -> list[list[Line]]:
    """Return a section for each imported blueprint, direct or indirect. Empties `book.imports`."""
    sections = []
    while book.imports:
        alias, child = book.imports.pop(0)
        inside = Page(child, book, 1, f"{alias} ").sections()
        sections.append(
            [_write_heading(f"The blueprint {alias}", child), *(line for section in inside for line in section)]
        )
    return sections


def _write_heading(title: str, blueprint: Blueprint) -> Line:
    return Line(f"{title}: {one_line(blueprint.description, 400)}" if blueprint.description else title)


def _summary(blueprint: Blueprint, requests: Amount, book: Book, *, are_known: bool) -> list[Line]:
    """Return the closing lines: model requests, limits, who may do what, how long it may wait."""
    sentences = [f"Model requests: {requests}."]
    sentences += limit_sentences("The run may take", blueprint.limits)
    deadline = deadline_sentence(blueprint.deadline, blueprint.on_deadline, RUN)
    sentences += [deadline.strip().replace("If it has", "If the run has", 1)] if deadline else []
    book.asks += limit_asks(blueprint.limits)
    book.asks += deadline_asks("The run", blueprint.deadline, blueprint.on_deadline)
    if blueprint.access is not None:
        sentences += [
            f"{ACCESS[capability]} {enumerate_words(names)}." for capability, names in blueprint.access if names
        ]
    if any(ask.by is None for ask in book.asks):
        sentences.append("A question without a deadline waits until it is answered.")
    if book.tools:
        also = "" if are_known else ", and their owners may demand approvals"
        source = "their code" if are_known else "a worker"
        sentences.append(f"Tools may also ask people questions{also}; only {source} shows which.")
    return [Line(text) for text in sentences]


def _join_sections(sections: Iterable[list[Line]]) -> list[Line]:
    """Return the lines of all sections that have any, separated by empty lines."""
    lines: list[Line] = []
    for section in sections:
        lines += [EMPTY, *section] if lines and section else section
    return lines
