"""The calls for the comments beside a question, which stand in the record."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from typing_extensions import TypedDict

from holdfast.client.runs import Runs
from holdfast.client.tree import UnknownRun
from holdfast.runtime.errors import NoRecord
from holdfast.server.record.comments import RecordedComment
from holdfast.server.record.record import LONGEST_COMMENT, Record
from holdfast.server.web.api.bodies import WebInput
from holdfast.server.web.api.calls import ApiCall, Exchange
from holdfast.server.web.problems import Unfit


class SaidInput(WebInput):
    """A comment on a question."""

    comment: str = Field(min_length=1, max_length=LONGEST_COMMENT)


class Said(TypedDict):
    """A comment that was added."""

    run: str
    question: str
    by: str
    comment: str


async def list_comments(exchange: Exchange) -> list[dict[str, Any]]:
    """List the comments beside a question, open or closed, the oldest first. An erased one has no text."""
    record, (run, _) = _record(exchange), await _place(exchange)
    return [comment.to_json() for comment in await record.comments(run, exchange.path("id"))]


async def add_comment(exchange: Exchange) -> Said:
    """Add a comment beside a question, open or closed. It goes to the record; the run does not see it."""
    record, (run, owner) = _record(exchange), await _place(exchange)
    question, by, text = exchange.path("id"), exchange.identity.user, exchange.body.comment
    await exchange.runs.require_comment(run)
    proof = exchange.identity.sender.proof
    try:
        await record.comment(run, question, text, by, owner=owner, proved_by=proof, key=exchange.key())
    except ValueError as error:
        raise Unfit([("comment", str(error))]) from None
    return Said(run=run, question=question, by=by, comment=text)


def _record(exchange: Exchange) -> Record:
    if exchange.site.record is None:
        raise NoRecord("there is no record here, so there are no comments; holdfast serve keeps one")
    return exchange.site.record


async def _place(exchange: Exchange) -> tuple[str, str]:
    """Return the run and the workflow of the question of a call, open or recorded. Raises `Refusal` or `NoWorker`.

    A question that the person may not see is unknown to them.
    """
    id_, runs = exchange.path("id"), exchange.runs
    recorded = await _record(exchange).asked_in(id_)
    if recorded is not None and await _may_see(runs, recorded[0], id_):
        return recorded
    question = await runs.question(id_)
    return question.run, question.owner


async def _may_see(runs: Runs, run: str, id_: str) -> bool:
    try:
        await runs.require_question(run, id_)
    except UnknownRun:
        return False
    return True


COMMENT_CALLS = [
    ApiCall("GET", "/questions/{id}/comments", list_comments, list[RecordedComment], problems=(404, 503)),
    ApiCall(
        "POST",
        "/questions/{id}/comment",
        add_comment,
        Said,
        "answer",
        status=201,
        body=SaidInput,
        takes_key=True,
        problems=(404, 503),
    ),
]
