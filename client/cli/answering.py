"""The commands for questions and answers: `questions`, `answer`, `history`."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from holdfast.blueprint.json_values import JSONObject
from holdfast.client.answering import OpenQuestions, Sent, find_question
from holdfast.client.cli.command import perform
from holdfast.client.cli.flags import AsJson, By, RunName
from holdfast.client.cli.output import DONE, print_json, print_text, say
from holdfast.client.cli.session import open_session
from holdfast.client.errors import Ambiguous
from holdfast.client.history import answers_given
from holdfast.client.reading import BadUsage, answers_for, content_of, from_json, person, read_entries, yes_or_no
from holdfast.client.render import ago, asker, console, place, preview, print_table, waiting_text
from holdfast.client.runs import Runs
from holdfast.client.states import Waiting
from holdfast.client.tree import UnknownRun
from holdfast.client.workers import NoWorker
from holdfast.protocol.answers import Answer, Receipt, Refusal
from holdfast.protocol.events import QuestionEvent
from holdfast.protocol.people import Groups, concerns, who_may
from holdfast.protocol.questions import Question

app = typer.Typer(rich_markup_mode=None)

UNKNOWN = "(not available now; `holdfast show` says why)"


@app.command()
def questions(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A run; default: all runs.", show_default=False)
    ] = None,
    user: Annotated[
        str | None, typer.Option("--for", metavar="USER", help="Only questions that wait for this person.")
    ] = None,
    page: Annotated[
        int, typer.Option("--page", metavar="N", min=1, help="The page of the list: a hundred workflows each.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """List open questions and whom they wait for, a hundred workflows per page; with RUN, all questions of that run."""
    user = None if user is None else person(user)
    perform(_questions_of(run, user, as_json) if run else _all_questions(user, page, as_json), as_json)


@app.command()
def answer(
    run: RunName,
    words: Annotated[list[str] | None, typer.Argument(metavar="[QUESTION] [VALUE]", show_default=False)] = None,
    content: Annotated[str | None, typer.Option("--content", metavar="JSON", help="The answer as JSON.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Answer yes to a permission, a review or a yes-no question.")
    ] = False,
    no: Annotated[str | None, typer.Option("--no", metavar="WHY", help="Answer no, with a reason.")] = None,
    decline: Annotated[bool, typer.Option("--decline", help="Decline to answer.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the step that asks.")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="ANSWERS", help="A file of several answers, as for run --answers.")
    ] = None,
    signal: Annotated[bool, typer.Option("--signal", help="Send by signal, without waiting for a receipt.")] = False,
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="WORKFLOW", help="The workflow that asks, if no worker can be asked."),
    ] = None,
    by: By = None,
    key: Annotated[str | None, typer.Option("--key", metavar="K", help="Idempotency key.")] = None,
    comment: Annotated[
        str | None, typer.Option("--comment", metavar="T", help="Comment stored with the answer.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question of a run.

    A single argument after RUN is the VALUE, or the QUESTION if an option such as --yes or --content gives the answer.
    QUESTION is an id, the beginning of one, an address, or the name of the step that asks; it may be omitted if only
    one question is open. VALUE is text if the question asks for text, else JSON if it can be read as JSON; write `a,b`
    for several options, and yes or no (`no, WHY`) for a permission or a review. Put `--` before a VALUE that begins
    with a dash.
    """
    typed = Typed(words or [], content, decline, cancel, file, yes, no)
    options = {"by": person(by), "key": key, "comment": comment, "signal": signal, "owner": owner}
    perform(_answer(run, typed, options, as_json), as_json)


@app.command()
def history(run: RunName, as_json: AsJson = False) -> None:
    """List the answers of a run from Temporal's history: who, what, when; by signal, refused ones are listed too."""
    perform(_history(run, as_json), as_json)


# Questions


async def _questions_of(run: str, user: str | None, as_json: bool) -> int:
    session = await open_session()
    open_ = await session.runs.questions(await session.runs.resolve(run))
    open_ = [question for question in open_ if _waits_for(question, user, session.config.groups)]
    if as_json:
        print_json([question.model_dump(mode="json") for question in open_])
    elif open_:
        console(sys.stdout).print(waiting_text(open_), end="")
    else:
        say(_nothing_open(user))
    return DONE


async def _all_questions(user: str | None, page: int, as_json: bool) -> int:
    session = await open_session()
    rows = await session.runs.waiting(page, user)
    by_row = [
        None if open_ is None else [question for question in open_ if _waits_for(question, user, session.config.groups)]
        for open_ in await asyncio.gather(*(_open_questions(session.runs, row) for row in rows))
    ]
    if as_json:
        print_json([entry for row, open_ in zip(rows, by_row, strict=True) for entry in _rows_json(row, open_)])
    elif any(open_ is None or open_ for open_ in by_row):
        lines = [line for row, open_ in zip(rows, by_row, strict=True) for line in _rows_text(row, open_)]
        print_table(("RUN", "QUESTION", "STEP", "SINCE", "FOR", "MESSAGE"), lines)
    else:
        say(_nothing_open(user) if page == 1 else f"Page {page} is empty.")
    return DONE


def _nothing_open(user: str | None) -> str:
    return "No open questions." if user is None else f"No open questions for {user}."


def _waits_for(question: Question, user: str | None, groups: Groups) -> bool:
    """Return whether the question still needs an answer from this person; always true without one."""
    return user is None or (concerns(question.people, user, groups) and user not in question.accepted_by)


async def _open_questions(runs: Runs, row: Waiting) -> list[Question] | None:
    """Return the open questions of a workflow; None if no worker can be asked."""
    try:
        return (await runs.tree.view(row.owner)).questions
    except (NoWorker, UnknownRun):
        return None


def _rows_json(row: Waiting, questions: list[Question] | None) -> list[JSONObject]:
    waits = {"run": row.run, "owner": row.owner, "waiting_for": row.waiting_for, "since": row.since.isoformat()}
    return [waits] if questions is None else [{**question.model_dump(mode="json"), **waits} for question in questions]


def _rows_text(row: Waiting, questions: list[Question] | None) -> list[tuple[str, ...]]:
    if questions is None:
        return [(row.run, "?", row.owner, ago(row.since), ", ".join(row.waiting_for), UNKNOWN)]
    return [
        (
            question.run,
            question.id,
            asker(question),
            ago(question.asked_at),
            who_may(question.people),
            preview(question.message, 200),
        )
        for question in questions
    ]


# Answering


@dataclass(frozen=True)
class Typed:
    """The arguments and options of `answer` after the run."""

    words: list[str]
    content: str | None = None
    decline: bool = False
    cancel: bool = False
    file: Path | None = None
    yes: bool = False
    no: str | None = None

    def check(self) -> None:
        """Raise `BadUsage` unless there is exactly one answer, and no argument too many."""
        ways = self._ways + (self.file is not None)
        if ways > 1:
            raise BadUsage("give only one of VALUE, --yes, --no, --content, --decline, --cancel and --file")
        most = 0 if self.file else 1 if ways else 2
        if len(self.words) > most:
            raise BadUsage(f"Too many arguments: {self.words[most]!r}. Put text of several words in quotes.")
        if not ways and not self.words:
            raise BadUsage("No answer: give a VALUE, --yes, --no WHY, --content JSON, --decline or --cancel.")

    @property
    def _ways(self) -> int:
        """Return the number of options that give the answer in place of a VALUE."""
        return sum([self.content is not None, self.decline, self.cancel, self.yes, self.no is not None])

    @property
    def question(self) -> str | None:
        """The QUESTION argument, if there is one."""
        named = self.words if self._ways else self.words[:-1]
        return named[0] if named else None

    def about(self, question: str) -> Typed:
        """Return the same arguments with this QUESTION."""
        return replace(self, words=[question] if self._ways else [question, *self.words[-1:]])

    def answer(self, name: str, question: Question | None) -> Answer:
        """Return the answer to this question. Raises `BadUsage` if it cannot be read."""
        if self.decline or self.cancel:
            return Answer(question=name, action="decline" if self.decline else "cancel")
        if self.yes or self.no is not None:
            return Answer(question=name, content=yes_or_no(question, self.yes, (self.no or "").strip()))
        if self.content is None:
            return Answer(question=name, content=content_of(self.words[-1], question))
        try:
            return Answer(question=name, content=from_json(self.content))
        except BadUsage as error:
            raise BadUsage(f"--content: {error}") from None
        except ValueError as error:
            raise BadUsage(f"--content is not JSON ({error}); give text as VALUE") from None


async def _answer(run: str, typed: Typed, options: JSONObject, as_json: bool) -> int:
    typed.check()
    entries = None if typed.file is None else read_entries(typed.file)
    session = await open_session()
    runs = session.runs
    found = await runs.open_questions(await runs.find(run), patient=not options["signal"])
    if entries is not None:
        answers, unused = answers_for(entries, found.questions)
        if unused:
            raise _unknown(found.run, unused[0].pattern, found.questions)
    else:
        answers = [_one_answer(runs, await _named_by_key(runs, found, typed, options["key"]), found)]
    receipts = await runs.answer(found.run, answers, found=found, **options)
    if as_json:
        print_json([receipt.model_dump(mode="json") for receipt in receipts])
    else:
        _print_receipts(receipts, found.questions)
        _print_rules(answers, found.questions)
    return DONE


async def _named_by_key(runs: Runs, found: OpenQuestions, typed: Typed, key: str | None) -> Typed:
    """Return the arguments with the question that was answered under this key before: a retry means that one."""
    if key is None or typed.question is not None or found.silence is not None:
        return typed
    question = await runs.answering.closed_under(runs.tree, found.run, key)
    return typed if question is None else typed.about(question)


def _one_answer(runs: Runs, typed: Typed, found: OpenQuestions) -> Answer:
    """Return the answer to the named question, or to the only open one."""
    run, open_ = found.run, found.questions
    if typed.question is not None:
        question = find_question(open_, typed.question)
        # A closed question may be answered again under the same key: its owner then returns the first receipt.
        question = question or find_question(runs.answering.memory.of(run), typed.question)
        return typed.answer(question.id if question else typed.question, question)
    if len(open_) > 1:
        names = ", ".join(f"{question.id} ({place(question.address)})" for question in open_)
        raise Ambiguous(f"{len(open_)} questions are open in {run}; name one: {names}")
    if not open_ and found.has_ended:
        raise Refusal("run_closed", f"run {run} has ended and has no open questions")
    if not open_:
        raise Refusal("unknown_question", f"run {run} has no open question now")
    return typed.answer(open_[0].id, open_[0])


def _unknown(run: str, pattern: str, open_: list[Question]) -> Refusal:
    names = ", ".join(f"{question.id} ({question.address})" for question in open_) or "none"
    return Refusal("unknown_question", f"no open question of {run} is called {pattern!r}; open: {names}")


def _print_receipts(receipts: list[Receipt | Sent], open_: list[Question]) -> None:
    names = {question.id: place(question.address) for question in open_}
    for receipt in receipts:
        name = names.get(receipt.question, receipt.question)
        if isinstance(receipt, Sent):
            print_text(f"sent to {receipt.owner}: {name}; it counts once a worker has taken it")
        else:
            waits = "; more answers are needed" if receipt.status == "waiting_quorum" else ""
            print_text(f"{'accepted' if waits else receipt.status} by {receipt.by}: {name}{waits}")


def _print_rules(answers: list[Answer], open_: list[Question]) -> None:
    """Print the rule for the blueprint after an "always allow", which itself holds for this run only."""
    tools = {
        question.id: question.info["tool"]
        for question in open_
        if question.asked.scopes and "tool" in (question.info or {})
    }
    for answer in answers:
        match answer.content:
            case {"granted": True, "scope": "always"} if answer.question in tools:
                say("allowed for this run; for every run, add to the agent in the blueprint:")
                say(f"  permissions: [{{tool: {tools[answer.question]}, action: allow}}]")


async def _steps_asked(runs: Runs, run: str) -> dict[str, str]:
    """Return the place of each question by its id; none if no worker can be asked."""
    try:
        events = await runs.events(run)
    except (NoWorker, UnknownRun):
        return {}
    return {event.data.id: place(event.address) for event in events if isinstance(event.data, QuestionEvent)}


async def _history(run: str, as_json: bool) -> int:
    session = await open_session()
    run = await session.runs.resolve(run)
    answers = await answers_given(session.connection.client, run)
    if as_json:
        print_json([answer.to_json() for answer in answers])
    elif answers:
        steps = await _steps_asked(session.runs, run)
        rows = [
            (f"{answer.at.astimezone():%Y-%m-%d %H:%M}", answer.by or "?", steps.get(answer.question, answer.question))
            + (answer.action, answer.comment or "", preview(answer.content))
            for answer in answers
        ]
        print_table(("WHEN", "WHO", "QUESTION", "ACTION", "COMMENT", "CONTENT"), rows)
    else:
        say("No answers yet.")
    return DONE
