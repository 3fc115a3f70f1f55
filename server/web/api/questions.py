"""The calls that read questions: what waits, and one question."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from holdfast.blueprint.json_values import JSON
from holdfast.client.reports import WaitingRow, question_json, waiting_rows
from holdfast.protocol.assignment import (
    CLAIM_SECONDS,
    LONGEST_CLAIM,
    MOST_ASSIGNEES,
    AssignmentCommand,
    AssignmentReceipt,
    Claim,
    Delegation,
    Reassignment,
    Release,
)
from holdfast.protocol.questions import Question
from holdfast.runtime.errors import BadInput
from holdfast.server.web.api.bodies import WebInput
from holdfast.server.web.api.calls import Answerer, ApiCall, Exchange
from holdfast.server.web.api.paging import WEB_PAGE, PageQuery, link_to_next
from holdfast.server.web.attached import attachment_response
from holdfast.server.web.identity import WebScope


class QuestionsQuery(PageQuery):
    """The filter of a list of questions, and its page."""

    run: str | None = Field(None, min_length=1, max_length=200)
    of: Literal["me", "all"] = Field("all", alias="for")


async def list_questions(exchange: Exchange) -> list[dict[str, Any]]:
    """List open questions, those of fifty workflows a page; of one run all of them."""
    query: QuestionsQuery = exchange.query
    user = exchange.identity.user if query.of == "me" else None
    if query.run is not None:
        runs = exchange.runs
        questions = runs.those_for(user, await runs.visible_questions(query.run))
        return [question_json(question) for question in await runs.select_visible(query.run, questions, user)]
    return await _of_all_runs(exchange, user, query)


async def _of_all_runs(exchange: Exchange, user: str | None, query: QuestionsQuery) -> list[dict[str, Any]]:
    runs = exchange.runs
    rows, cursor = await runs.waiting_from(query.after, user, page=query.number, size=WEB_PAGE)
    link_to_next(exchange, cursor)
    return waiting_rows(rows, await runs.questions_of(rows, user))


async def show_question(exchange: Exchange) -> dict[str, Any]:
    """Show an open question."""
    return question_json(await exchange.runs.question(exchange.path("id")))


async def show_attachment(exchange: Exchange) -> Response:
    """Give the content of an attachment of an open question, by its number from 1."""
    question = await exchange.runs.question(exchange.path("id"))
    number = exchange.path("n")
    if not (number.isascii() and number.isdigit() and len(number) < 6):
        raise HTTPException(404, f"{number[:20]!r} is not the number of an attachment")
    try:
        return await attachment_response(exchange.runs, question, int(number), shows=False)
    except BadInput as error:
        raise HTTPException(404, str(error)) from None


class CommentInput(WebInput):
    """A command about a question that needs no more than a comment, if that."""

    comment: str | None = Field(None, max_length=2000)


class ClaimInput(CommentInput):
    """The body of a claim: how long the question is kept for the person who claims it."""

    seconds: float = Field(CLAIM_SECONDS, gt=0, le=LONGEST_CLAIM)


class DelegateInput(CommentInput):
    """To whom a person gives their part in a question."""

    to: str = Field(min_length=1, max_length=200, description="user:NAME or group:NAME.")


class ReassignInput(CommentInput):
    """The new assignees of a question."""

    to: list[str] = Field(min_length=1, max_length=MOST_ASSIGNEES, description="Each user:NAME or group:NAME.")


async def claim_question(exchange: Exchange) -> dict[str, Any]:
    """Keep a question for oneself: until the claim ends nobody else may answer it."""
    return await _assign(exchange, Claim, seconds=exchange.body.seconds)


async def release_question(exchange: Exchange) -> dict[str, Any]:
    """End a claim: one's own or, for who may steer the run, that of somebody else."""
    return await _assign(exchange, Release)


async def delegate_question(exchange: Exchange) -> dict[str, Any]:
    """Give one's part in a question to somebody else."""
    return await _assign(exchange, Delegation, to=exchange.body.to)


async def reassign_question(exchange: Exchange) -> dict[str, Any]:
    """Replace the assignees of a question, for who may steer the run."""
    return await _assign(exchange, Reassignment, to=exchange.body.to)


async def _assign(exchange: Exchange, command: type[AssignmentCommand], **fields: JSON) -> dict[str, Any]:
    runs, comment, by = exchange.runs, exchange.body.comment, exchange.identity.user
    question = await runs.question(exchange.path("id"))
    open_questions = await runs.open_questions(question.run)
    receipt = await runs.assign(
        open_questions, command, question=question.id, by=by, key=exchange.key(), comment=comment, **fields
    )
    return receipt.model_dump(mode="json")


def _command(name: str, answer: Answerer, body: type[WebInput], scope: WebScope = "answer") -> ApiCall:
    problems = (403, 404, 409, 410, 422, 503)
    path = f"/questions/{{id}}/{name}"
    return ApiCall("POST", path, answer, AssignmentReceipt, scope, body=body, takes_key=True, problems=problems)


QUESTION_CALLS = [
    ApiCall("GET", "/questions", list_questions, list[WaitingRow], query=QuestionsQuery, problems=(404, 422, 503)),
    ApiCall("GET", "/questions/{id}", show_question, Question, problems=(404, 503)),
    ApiCall(
        "GET",
        "/questions/{id}/attachments/{n}",
        show_attachment,
        bytes,
        media_type="application/octet-stream",
        problems=(404, 503),
    ),
    _command("claim", claim_question, ClaimInput),
    _command("release", release_question, CommentInput),
    _command("delegate", delegate_question, DelegateInput),
    _command("reassign", reassign_question, ReassignInput, "steer"),
]
