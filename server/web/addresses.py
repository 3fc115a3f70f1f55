"""The addresses of pages, for whatever links to them: other pages, links in messages, notices, commands."""

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


def temporal_address(ui: str | None, namespace: str, run: str) -> str | None:
    """Return the address of a run in Temporal's own UI; None if that of the UI is not known.

    >>> temporal_address("http://localhost:8233", "default", "a b")
    'http://localhost:8233/namespaces/default/workflows/a%20b'
    """
    return None if ui is None else f"{ui}/namespaces/{namespace}/workflows/{quote(run, safe='')}"
