"""The addresses of pages, for whatever links to them: other pages, links in messages, notices."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from holdfast.protocol.questions import Question


def run_address(run: str, below: str = "", **query: object) -> str:
    """Return the address of a page of a run.

    >>> run_address("a b", "/graph", back=3)
    '/runs/a%20b/graph?back=3'
    """
    return f"/runs/{quote(run, safe='')}{below}" + (f"?{urlencode(query)}" if query else "")


def question_path(run: str, question: str) -> str:
    """Return the address of a question's page, by the ids of the run and of the question."""
    return f"/questions/{quote(run, safe='')}/{quote(question, safe='')}"


def question_address(question: Question) -> str:
    """Return the address of a question's page."""
    return question_path(question.run, question.id)
