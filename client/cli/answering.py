"""`questions`, `answer`, `history`: what is asked, what is answered, what was answered."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from client.answering import Sent, find_question
from client.cli.flags import AsJson, By, RunName
from client.cli.output import DONE, print_json, say
from client.cli.perform import perform
from client.cli.session import open_session
from client.errors import Ambiguous
from client.history import answers_given
from client.reading import BadUsage, answers_for, content_of, from_json, person, read_entries
from client.render import asker, console, place, preview, print_table, waiting_text, when
from client.runs import STATUSES, Runs, Waiting
from client.tree import NoWorker, UnknownRun
from protocol.answers import Answer, Receipt, Refusal
from protocol.people import Groups, concerns, who_may
from protocol.questions import Question

app = typer.Typer(rich_markup_mode=None)


@app.command()
def questions(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="A run; default: all.", show_default=False)] = None,
    user: Annotated[str | None, typer.Option("--for", metavar="USER", help="Only what waits for this person.")] = None,
    page: Annotated[int, typer.Option("--page", metavar="N", min=1, help="Which hundred of those that wait.")] = 1,
    as_json: AsJson = False,
) -> None:
    """What waits for whom, a hundred workflows a page; with RUN, everything that run asks."""
    user = None if user is None else person(user)
    perform(_questions_of(run, user, as_json) if run else _all_questions(user, page, as_json), as_json)


@app.command()
def answer(
    run: RunName,
    words: Annotated[list[str] | None, typer.Argument(metavar="[QUESTION] [VALUE]", show_default=False)] = None,
    content: Annotated[str | None, typer.Option("--content", metavar="JSON", help="The answer as JSON.")] = None,
    decline: Annotated[bool, typer.Option("--decline", help="Decline to answer.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the step that asks.")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="ANSWERS", help="Several at once, as --answers.")
    ] = None,
    signal: Annotated[bool, typer.Option("--signal", help="Send it without waiting for a receipt.")] = False,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="WORKFLOW", help="Who asks, if nobody can say.")
    ] = None,
    by: By = None,
    key: Annotated[str | None, typer.Option("--key", metavar="K", help="Makes a repeated answer count once.")] = None,
    comment: Annotated[str | None, typer.Option("--comment", metavar="T", help="A word beside the answer.")] = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question of a run.

    One word after RUN is the VALUE (the QUESTION with --content, --decline, --cancel); two are QUESTION VALUE.
    QUESTION is an id, the beginning of one, an address, or the name of the step that asks; it may be left out when one
    question is open. VALUE is text where the question wants text, else JSON if it is JSON; `a,b` for several options.
    A VALUE that begins with a dash comes behind `--`.
    """
    typed = Typed(words or [], content, decline, cancel, file)
    how = {"by": person(by), "key": key, "comment": comment, "signal": signal, "owner": owner}
    perform(_answer(run, typed, how, as_json), as_json)


@app.command()
def history(run: RunName, as_json: AsJson = False) -> None:
    """Who answered what, when, as Temporal's history has it; an answer by signal stands here even if it was refused."""
    perform(_history(run, as_json), as_json)


# Questions


async def _questions_of(run: str, user: str | None, as_json: bool) -> int:
    session = await open_session()
    found = await session.runs.questions(await session.runs.resolve(run))
    found = [question for question in found if _waits_for(question, user, session.config.groups)]
    if as_json:
        print_json([question.model_dump(mode="json") for question in found])
    elif found:
        console(sys.stdout).print(waiting_text(found), end="")
    else:
        say("nothing is asked")
    return DONE


async def _all_questions(user: str | None, page: int, as_json: bool) -> int:
    session = await open_session()
    rows = await session.runs.waiting(page, user)
    open_ = await asyncio.gather(*(_asked(session.runs, row) for row in rows))
    asked = [
        None if found is None else [one for one in found if _waits_for(one, user, session.config.groups)]
        for found in open_
    ]
    if as_json:
        print_json([shown for row, found in zip(rows, asked, strict=True) for shown in _rows_json(row, found)])
    elif any(found is None or found for found in asked):
        lines = [line for row, found in zip(rows, asked, strict=True) for line in _rows_text(row, found)]
        print_table(("RUN", "QUESTION", "STEP", "SINCE", "FOR", "MESSAGE"), lines)
    else:
        nothing = "nobody is awaited" if user is None else f"nothing waits for {user}"
        say(nothing if page == 1 else f"page {page} is empty")
    return DONE


def _waits_for(question: Question, user: str | None, groups: Groups) -> bool:
    """Whether an answer of this person is still needed."""
    return user is None or (concerns(question.people, user, groups) and user not in question.accepted_by)


async def _asked(runs: Runs, row: Waiting) -> list[Question] | None:
    """What a workflow asks; None if nobody can say."""
    try:
        return (await runs.tree.view(row.owner)).questions
    except (NoWorker, UnknownRun):
        return None


def _rows_json(row: Waiting, asked: list[Question] | None) -> list[dict[str, Any]]:
    waits = {"run": row.run, "owner": row.owner, "waiting_for": row.waiting_for, "since": row.since.isoformat()}
    return [waits] if asked is None else [{**question.model_dump(mode="json"), **waits} for question in asked]


def _rows_text(row: Waiting, asked: list[Question] | None) -> list[tuple[str, ...]]:
    if asked is None:
        return [(row.run, "?", row.owner, when(row.since), ", ".join(row.waiting_for), "(no worker answers)")]
    return [
        (one.run, one.id, asker(one), when(one.asked_at), who_may(one.people), preview(one.message, 60))
        for one in asked
    ]


# Answering


@dataclass(frozen=True)
class Typed:
    """What was typed behind the run."""

    words: list[str]
    content: str | None = None
    decline: bool = False
    cancel: bool = False
    file: Path | None = None

    def check(self) -> None:
        """Refuse what cannot be meant."""
        ways = sum([self.content is not None, self.decline, self.cancel, self.file is not None])
        if ways > 1:
            raise BadUsage("give only one of VALUE, --content, --decline, --cancel and --file")
        most = 0 if self.file else 1 if ways else 2
        if len(self.words) > most:
            raise BadUsage(f"too much was typed: {self.words[most]!r}; text of several words goes in quotes")
        if not ways and not self.words:
            raise BadUsage("no answer was typed: give a VALUE, --content JSON, --decline, --cancel or --file ANSWERS")

    @property
    def question(self) -> str | None:
        """The question that was named, if one was."""
        valued = self.content is None and not self.decline and not self.cancel
        named = self.words[:-1] if valued else self.words
        return named[0] if named else None

    def about(self, question: str) -> Typed:
        """The same, with the question named."""
        valued = self.content is None and not self.decline and not self.cancel
        return replace(self, words=[question, *self.words[-1:]] if valued else [question])

    def answer(self, name: str, question: Question | None) -> Answer:
        if self.decline or self.cancel:
            return Answer(question=name, action="decline" if self.decline else "cancel")
        if self.content is None:
            return Answer(question=name, content=content_of(self.words[-1], question))
        try:
            return Answer(question=name, content=from_json(self.content))
        except BadUsage as error:
            raise BadUsage(f"--content: {error}") from None
        except ValueError as error:
            raise BadUsage(f"--content is not JSON ({error}); text can be given as VALUE") from None


async def _answer(run: str, typed: Typed, how: dict[str, Any], as_json: bool) -> int:
    typed.check()
    entries = None if typed.file is None else read_entries(typed.file)
    session = await open_session()
    runs = session.runs
    run = await runs.resolve(run)
    known = await runs.answering.known(runs.tree, run)
    if entries is not None:
        answers, unused = answers_for(entries, known)
        if unused:
            raise _unknown(run, unused[0].pattern, known)
    else:
        answers = [await _one_answer(runs, run, await _named_by_key(runs, run, typed, how["key"]), known)]
    receipts = await runs.answer(run, answers, **how)
    if as_json:
        print_json([receipt.model_dump(mode="json") for receipt in receipts])
    else:
        _print_receipts(receipts, known)
        _print_rules(answers, known)
    return DONE


async def _named_by_key(runs: Runs, run: str, typed: Typed, key: str | None) -> Typed:
    """An answer given once more under its key means its own question, not the one that is open by now."""
    if key is None or typed.question is not None or not await runs.tree.worker_polls(run):
        return typed
    question = await runs.answering.closed_under(runs.tree, run, key)
    return typed if question is None else typed.about(question)


async def _one_answer(runs: Runs, run: str, typed: Typed, known: list[Question]) -> Answer:
    """The answer that was typed, to the question that was named or is the only one."""
    if typed.question is not None:
        found = find_question(known, typed.question)
        # One that is not open may be answered once more, under the same key: its owner knows what to say.
        found = found or find_question(runs.answering.remembered(run), typed.question)
        return typed.answer(found.id if found else typed.question, found)
    if len(known) > 1:
        names = ", ".join(f"{one.id} ({place(one.address)})" for one in known)
        raise Ambiguous(f"{len(known)} questions are open in {run}; name one: {names}")
    if not known:
        status = (await runs.handle(run).describe()).status
        if status in STATUSES:
            raise Refusal("run_closed", f"run {run} has ended; it asks nothing any more")
        raise Refusal("unknown_question", f"run {run} asks nothing now")
    return typed.answer(known[0].id, known[0])


def _unknown(run: str, pattern: str, known: list[Question]) -> Refusal:
    names = ", ".join(f"{one.id} ({one.address})" for one in known) or "none"
    return Refusal("unknown_question", f"no open question of {run} is called {pattern!r}; open: {names}")


def _print_receipts(receipts: list[Receipt | Sent], known: list[Question]) -> None:
    names = {question.id: place(question.address) for question in known}
    for one in receipts:
        name = names.get(one.question, one.question)
        if isinstance(one, Sent):
            print(f"sent to {one.owner}: {name}; it counts once a worker has taken it")
        else:
            waits = "; it waits for somebody else, too" if one.status == "waiting_quorum" else ""
            print(f"{'accepted' if waits else one.status} by {one.by}: {name}{waits}")


def _print_rules(answers: list[Answer], known: list[Question]) -> None:
    """A tool that is always allowed is so in this run; the rule that makes it so for good is the author's to add."""
    tools = {one.id: one.info["tool"] for one in known if one.kind == "permission" and "tool" in (one.info or {})}
    for answer in answers:
        match answer.content:
            case {"granted": True, "scope": "always"} if answer.question in tools:
                say("allowed for this run; for every run, add to the agent in the blueprint:")
                say(f"  permissions: [{{tool: {tools[answer.question]}, action: allow}}]")


async def _history(run: str, as_json: bool) -> int:
    session = await open_session()
    run = await session.runs.resolve(run)
    given = await answers_given(session.connection.client, run)
    if as_json:
        print_json([one.to_json() for one in given])
    elif given:
        rows = [
            (when(one.at), one.by or "?", one.question, one.action, preview(one.content), one.comment or "")
            for one in given
        ]
        print_table(("WHEN", "WHO", "QUESTION", "ACTION", "CONTENT", "COMMENT"), rows)
    else:
        say("nothing was answered yet")
    return DONE
