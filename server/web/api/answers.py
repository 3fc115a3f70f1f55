"""The call that answers questions. Who answers is the person of the request, never what the body says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import Field

from holdfast.blueprint.json_values import JSON
from holdfast.client.answering import Sent, content_problems, find_question, must_be_seen
from holdfast.protocol.answers import Answer, Receipt, Refusal
from holdfast.protocol.questions import Question
from holdfast.protocol.questions.kind import joined
from holdfast.server.web.api.bodies import WebInput
from holdfast.server.web.api.calls import LONGEST_KEY, ApiCall, Exchange
from holdfast.server.web.identity import Identity
from holdfast.server.web.problems import Unfit


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
    body: AnswersInput = exchange.body
    runs, run = exchange.runs, exchange.path("run")
    answers = [Answer(**answer.model_dump()) for answer in body.answers]
    open_questions = await runs.answerable(run, [answer.question for answer in answers])
    pairs = [(answer, find_question(open_questions.questions, answer.question)) for answer in answers]
    _check(pairs, exchange.identity)
    key, by = exchange.key(body.key), exchange.identity.user
    receipts = await runs.answer(run, answers, by=by, key=key, comment=body.comment, open_questions=open_questions)
    if any(isinstance(receipt, Sent) for receipt in receipts):
        exchange.status = 202
    return [receipt.model_dump(mode="json") for receipt in receipts]


def _check(pairs: Sequence[tuple[Answer, Question | None]], identity: Identity) -> None:
    """Raise `Unfit` with everything that is wrong with the answers, or `Refusal` for a service that consents."""
    seen_by_nobody = [question for _, question in pairs if question is not None and must_be_seen(question)]
    if identity.is_service and seen_by_nobody:
        reason = f"{identity.user} is a service, and question {seen_by_nobody[0].id} asks for a person's consent"
        raise Refusal("not_allowed", f"{reason}; a person must answer it")
    problems = [
        problem for index, (answer, question) in enumerate(pairs) for problem in _problems(index, answer, question)
    ]
    if problems:
        raise Unfit(problems, "invalid_answer")


def _problems(index: int, answer: Answer, question: Question | None) -> Iterator[tuple[str, str]]:
    if question is None:  # closed, perhaps by this very answer: its owner decides
        return
    if answer.digest is None and must_be_seen(question):
        yield (
            f"answers[{index}].digest",
            f"send the digest of the {question.kind} as it was shown: question {question.id}",
        )
    if answer.action == "accept":
        for path, reason in content_problems(question, answer.content):
            yield joined(f"answers[{index}].content", path), reason


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
