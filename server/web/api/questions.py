"""The calls about questions: what waits, one question, its claims, its answers, the comments beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from typing_extensions import TypedDict

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.questions.kind import join_paths
from holdfast.client.open_questions import OpenQuestions, find_question, must_be_seen
from holdfast.client.proposals import question_json
from holdfast.client.runs import Runs
from holdfast.client.signals import Sent
from holdfast.client.states import WaitingRow
from holdfast.client.tree import UnknownRun
from holdfast.protocol.answers import Answer, Receipt, Refusal
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
from holdfast.runtime.errors import BadInput, NoRecord
from holdfast.server.record.entries import RecordedComment
from holdfast.server.record.record import LONGEST_COMMENT, Record
from holdfast.server.web.api.routes import LONGEST_KEY, WEB_PAGE, Answerer, ApiCall, Exchange, PageQuery, link_to_next
from holdfast.server.web.content import attachment_response
from holdfast.server.web.credentials import WebScope
from holdfast.server.web.gate import Identity
from holdfast.server.web.problems import Unfit, name_no_folder
from holdfast.server.web.requests import WebInput


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
        questions = runs.lists.select_for(user, await runs.access.visible_questions(query.run))
        return [question_json(one) for one in await runs.access.select_visible(query.run, questions, user)]
    return await _of_all_runs(exchange, user, query)


async def _of_all_runs(exchange: Exchange, user: str | None, query: QuestionsQuery) -> list[dict[str, Any]]:
    runs = exchange.runs
    rows, cursor = await runs.lists.find_waiting(user, cursor=query.after, page=query.number, size=WEB_PAGE)
    link_to_next(exchange, cursor)
    return [entry for row in rows for entry in row.to_json()]


async def show_question(exchange: Exchange) -> dict[str, Any]:
    """Show an open question."""
    return question_json(await exchange.runs.lists.find_question(exchange.path("id")))


async def show_attachment(exchange: Exchange) -> Response:
    """Give the content of an attachment of an open question, by its number from 1."""
    question = await exchange.runs.lists.find_question(exchange.path("id"))
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


class GivenReceipt(AssignmentReceipt):
    """The confirmation of a delegation or a reassignment."""

    unknown: list[str] = []
    """Users and groups among `to` that neither the configuration nor a sign-in has named: they may be misspelt."""


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
    return await _give(exchange, Delegation, exchange.body.to)


async def reassign_question(exchange: Exchange) -> dict[str, Any]:
    """Replace the assignees of a question, for who may steer the run."""
    return await _give(exchange, Reassignment, exchange.body.to)


async def _assign(exchange: Exchange, command: type[AssignmentCommand], **fields: JSON) -> dict[str, Any]:
    runs, comment, by = exchange.runs, exchange.body.comment, exchange.identity.user
    question = await runs.lists.find_question(exchange.path("id"))
    receipt = await runs.assignment.send(
        OpenQuestions(question.run, [question]),
        command,
        question=question.id,
        by=by,
        key=exchange.key(),
        comment=comment,
        **fields,
    )
    return receipt.model_dump(mode="json")


async def _give(exchange: Exchange, command: type[AssignmentCommand], to: JSON) -> dict[str, Any]:
    receipt = await _assign(exchange, command, to=to)
    recipients = command.read({"question": receipt["question"], "to": to}).recipients
    return {**receipt, "unknown": await exchange.site.upkeep.list_unknown(recipients)}


def _command(
    name: str,
    answer: Answerer,
    body: type[WebInput],
    scope: WebScope = "answer",
    result: type[AssignmentReceipt] = AssignmentReceipt,
) -> ApiCall:
    problems = (403, 404, 409, 410, 422, 503)
    path = f"/questions/{{id}}/{name}"
    return ApiCall("POST", path, answer, result, scope, body=body, takes_key=True, problems=problems)


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
    _command("delegate", delegate_question, DelegateInput, result=GivenReceipt),
    _command("reassign", reassign_question, ReassignInput, "steer", GivenReceipt),
]


class AnswerInput(WebInput):
    """One answer to one question."""

    question: str = Field(min_length=1, description="Id or address of the question, or the name of its step.")
    action: Literal["accept", "decline", "cancel"] = "accept"
    content: JSON = None
    digest: str | None = Field(
        None, description="That of the question as it was shown; permission, review, decision and checkpoint need it."
    )


class AnswersInput(WebInput):
    """A batch of answers, accepted or refused as a whole by each workflow that asks."""

    answers: list[AnswerInput] = Field(min_length=1, max_length=1000)
    key: str | None = Field(None, min_length=1, max_length=LONGEST_KEY, description="As the header Idempotency-Key.")
    comment: str | None = Field(None, max_length=2000)


async def answer_questions(exchange: Exchange) -> list[dict[str, Any]]:
    """Answer questions of a run and return a receipt for each; `sent` says that no worker has accepted it yet."""
    async with exchange.site.dispatches.take_place():
        return await _answer_questions(exchange)


async def _answer_questions(exchange: Exchange) -> list[dict[str, Any]]:
    body: AnswersInput = exchange.body
    runs, run = exchange.runs, exchange.path("run")
    answers = [Answer(**answer.model_dump()) for answer in body.answers]
    open_questions = await runs.access.answerable(run, [answer.question for answer in answers])
    pairs = [(answer, find_question(open_questions.questions, answer.question)) for answer in answers]
    _check_answers(pairs, exchange.identity)
    key, by = exchange.key(body.key), exchange.identity.user
    try:
        with name_no_folder():
            receipts = await runs.answer(
                run, answers, by=by, key=key, comment=body.comment, open_questions=open_questions
            )
    except Refusal as refusal:
        raise _place_refusal(refusal, pairs) from None
    if any(isinstance(receipt, Sent) for receipt in receipts):
        exchange.status = 202
    return [receipt.model_dump(mode="json") for receipt in receipts]


def _place_refusal(refusal: Refusal, pairs: Sequence[tuple[Answer, Question | None]]) -> Exception:
    """Return the error with the places that a workflow names in the content of an answer, as paths in the request."""
    ids = [None if question is None else question.id for _, question in pairs]
    index = ids.index(refusal.question) if refusal.question in ids else None
    if index is None or not refusal.problems:
        return refusal
    return Unfit(
        [(join_paths(f"answers[{index}].content", path), reason) for path, reason in refusal.problems], refusal.code
    )


def _check_answers(pairs: Sequence[tuple[Answer, Question | None]], identity: Identity) -> None:
    """Raise `Unfit` with everything that is wrong with the answers, or `Refusal` for a service that consents."""
    consents = [
        question.id
        for answer, question in pairs
        if answer.action == "accept" and question is not None and must_be_seen(question)
    ]
    if identity.is_service and consents:
        reason = f"{identity.user} is a service, and question {consents[0]} asks for a person's consent"
        raise Refusal("not_allowed", f"{reason}; a person must answer it")
    problems = [
        problem for index, (answer, question) in enumerate(pairs) for problem in _find_problems(index, answer, question)
    ]
    if problems:
        raise Unfit(problems, "invalid_answer")


def _find_problems(index: int, answer: Answer, question: Question | None) -> Iterator[tuple[str, str]]:
    if question is None:  # closed, perhaps by this very answer: its owner decides
        return
    if answer.digest is None and must_be_seen(question):
        yield (
            f"answers[{index}].digest",
            f"send the digest of the {question.kind} as it was shown: question {question.id}",
        )
    if answer.action == "accept":
        for path, reason in question.find_problems(answer.content):
            yield join_paths(f"answers[{index}].content", path), reason


ANSWER_CALLS = [
    ApiCall(
        "POST",
        "/runs/{run}/answers",
        answer_questions,
        list[Receipt | Sent],
        scope="answer",
        body=AnswersInput,
        takes_key=True,
        others={202: "Sent: no worker is there to accept them."},
        problems=(404, 409, 410, 422, 503),
    ),
]


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
    record, (run, _) = _record(exchange), await _find_place(exchange)
    return [comment.to_json() for comment in await record.comments(run, exchange.path("id"))]


async def add_comment(exchange: Exchange) -> Said:
    """Add a comment beside a question, open or closed. It goes to the record; the run does not see it."""
    record, (run, owner) = _record(exchange), await _find_place(exchange)
    question, by, text = exchange.path("id"), exchange.identity.user, exchange.body.comment
    await exchange.runs.access.require_comment(run)
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


async def _find_place(exchange: Exchange) -> tuple[str, str]:
    """Return the run and the workflow of the question of a call, open or recorded. Raises `Refusal` or `NoWorker`.

    A question that the person may not see is unknown to them.
    """
    id_, runs = exchange.path("id"), exchange.runs
    recorded = await _record(exchange).asked_in(id_)
    if recorded is not None and await _may_see(runs, recorded[0], id_):
        return recorded
    question = await runs.lists.find_question(id_)
    return question.run, question.owner


async def _may_see(runs: Runs, run: str, id_: str) -> bool:
    try:
        await runs.access.require_question(run, id_)
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
