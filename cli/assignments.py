"""The commands that change whom a question waits for: `claim`, `release`, `delegate`, `reassign`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from holdfast.blueprint.durations import read_duration
from holdfast.blueprint.json_values import JSONObject
from holdfast.cli.answer import only_question
from holdfast.cli.command import perform
from holdfast.cli.completion import complete_question
from holdfast.cli.flags import AsJson, By, IdempotencyKey, RunName
from holdfast.cli.output import DONE, print_json, print_text, say
from holdfast.cli.session import open_session
from holdfast.cli.tables import when
from holdfast.client.open_questions import OpenQuestions, find_question
from holdfast.client.reading import person
from holdfast.client.texts import place
from holdfast.protocol.assignment import (
    AssignmentCommand,
    AssignmentReceipt,
    Claim,
    Delegation,
    Reassignment,
    Release,
)
from holdfast.protocol.questions import Question

app = typer.Typer(rich_markup_mode=None)

SomeQuestion = Annotated[
    str | None,
    typer.Argument(
        metavar="[QUESTION]",
        help="Id, its beginning, address or step; omit it if one is open.",
        show_default=False,
        autocompletion=complete_question,
    ),
]
Comment = Annotated[str | None, typer.Option("--comment", metavar="T", help="Comment stored with the event.")]


@app.command()
def claim(
    run: RunName,
    question: SomeQuestion = None,
    time: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long the claim lasts, such as 30m; at most 7d.")
    ] = "8h",
    by: By = None,
    comment: Comment = None,
    key: IdempotencyKey = None,
    as_json: AsJson = False,
) -> None:
    """Claim a question: until the claim ends, nobody else may answer it. A second claim extends it."""
    fields: JSONObject = {"by": person(by), "comment": comment, "key": key, "seconds": _seconds(time)}
    perform(_assign(run, question, Claim, fields, as_json), as_json)


@app.command()
def release(
    run: RunName,
    question: SomeQuestion = None,
    by: By = None,
    comment: Comment = None,
    key: IdempotencyKey = None,
    as_json: AsJson = False,
) -> None:
    """End your claim; if you may steer the run, also the claim of somebody else."""
    fields: JSONObject = {"by": person(by), "comment": comment, "key": key}
    perform(_assign(run, question, Release, fields, as_json), as_json)


@app.command()
def delegate(
    run: RunName,
    to: Annotated[
        str, typer.Option("--to", metavar="NAME", help="Who is to answer instead: a user, user:NAME or group:NAME.")
    ],
    question: SomeQuestion = None,
    by: By = None,
    comment: Comment = None,
    key: IdempotencyKey = None,
    as_json: AsJson = False,
) -> None:
    """Delegate your answer to somebody else; you can no longer answer the question yourself."""
    fields: JSONObject = {"by": person(by), "comment": comment, "key": key, "to": person(to)}
    perform(_assign(run, question, Delegation, fields, as_json), as_json)


@app.command()
def reassign(
    run: RunName,
    to: Annotated[
        list[str],
        typer.Option("--to", metavar="NAME", help="Who may answer from now on: user:NAME or group:NAME; repeatable."),
    ],
    question: SomeQuestion = None,
    by: By = None,
    comment: Comment = None,
    key: IdempotencyKey = None,
    as_json: AsJson = False,
) -> None:
    """Replace the assignees of a question, if you may steer the run; its claim and delegations end."""
    fields: JSONObject = {"by": person(by), "comment": comment, "key": key, "to": [person(name) for name in to]}
    perform(_assign(run, question, Reassignment, fields, as_json), as_json)


def _seconds(text: str) -> float:
    try:
        return read_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from None


async def _assign(run: str, named: str | None, kind: type[AssignmentCommand], fields: JSONObject, as_json: bool) -> int:
    session = await open_session()
    runs = session.runs
    open_questions = await runs.find_questions(run, [] if named is None else [named])
    question = _find_named(open_questions, named)
    receipt = await runs.assignment.send(open_questions, kind, question=question.id, **fields)
    from holdfast.server.notices.channels import AddressBook  # noqa: PLC0415  of two of these commands only

    recipients = kind.read({**fields, "question": question.id}).recipients
    if unknown := AddressBook(session.config.people, session.config.groups).list_unknown(recipients):
        say(f"neither [people] nor [groups] names {', '.join(unknown)}: check the spelling, unless they sign in so")
    if as_json:
        print_json(receipt.model_dump(mode="json"))
    else:
        print_text(f"{_words(receipt, recipients)}: {place(question.address)}")
    return DONE


def _find_named(open_questions: OpenQuestions, named: str | None) -> Question:
    """Return the question of this name, or the only one that is open."""
    if named is None:
        return only_question(open_questions)
    if (question := find_question(open_questions.questions, named)) is not None:
        return question
    raise open_questions.unknown(named)


def _words(receipt: AssignmentReceipt, recipients: Sequence[str]) -> str:
    text = f"{receipt.status} by {receipt.by}"
    if receipt.until is not None:
        return f"{text} until {when(receipt.until)}"
    return f"{text} to {', '.join(recipients)}" if recipients else text
