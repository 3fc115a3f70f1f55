"""Open questions offered one by one at a person's terminal: `holdfast answer` without an answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from functools import partial

from holdfast.cli.attendance import NotOpenError, answer_while_open
from holdfast.cli.output import DONE, say
from holdfast.cli.prompt import PromptInterrupted
from holdfast.cli.prompts import Terminal, can_edit, read_choice
from holdfast.cli.receipts import receipt_text
from holdfast.cli.session import Session, open_session
from holdfast.cli.tables import ago, console, table
from holdfast.client.event_texts import closing_text
from holdfast.client.reading import BadUsage
from holdfast.client.texts import place, preview
from holdfast.client.views.questions import QuestionView
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.events import QuestionClosed
from holdfast.protocol.questions import Question

LOOK_SECONDS = 1.5
"""The pause between two looks whether the question at the prompt is still open."""


def at_terminal() -> bool:
    """Return whether a person can be asked here."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


async def offer(run: str | None, user: str) -> int:
    """Offer the questions that wait for a person, of one run or of all, until none is left or the person leaves.

    Raises `BadUsage` where there is no terminal.
    """
    if not at_terminal():
        raise BadUsage("no answer, and no terminal to ask at: holdfast answer RUN [QUESTION] VALUE")
    session = await open_session()
    of_run = None if run is None else await session.runs.resolve(run)
    while questions := await waiting_for(session, user, of_run):
        question = await _choose(questions)
        if question is None or not await _ask(session, question, user):
            return DONE
    say("No open questions." if of_run else f"No open questions for {user}.")
    return DONE


async def waiting_for(session: Session, user: str, run: str | None = None) -> list[Question]:
    """Return the open questions that this person may answer, of one run or of a page of all, the oldest first."""
    runs = session.runs
    if run is not None:
        questions = runs.lists.select_for(user, await runs.questions(run))
    else:
        rows, _ = await runs.lists.find_waiting(user)
        questions = [question for row in rows for question in row.open or ()]
    return sorted(questions, key=lambda question: question.asked_at)


async def _choose(questions: list[Question]) -> Question | None:
    """Let the person choose a question by number or by the beginning of its id or step; None to leave."""
    if len(questions) == 1:
        return questions[0]
    rows = [
        (
            str(number),
            question.run,
            QuestionView(question).asker,
            ago(question.asked_at),
            preview(question.message, 200),
        )
        for number, question in enumerate(questions, 1)
    ]
    out = console()
    out.print(table(("", "RUN", "STEP", "SINCE", "MESSAGE"), rows, out.width if out.is_terminal else None), end="")
    while True:
        text = await _read_typed(f"Which one? (1-{len(questions)}; Enter: 1; Ctrl-D: leave) ", questions)
        if text is None:
            return None
        if (question := _find_named(text.strip() or "1", questions)) is not None:
            return question
        say(f"{text.strip()!r} is not one of them: type a number, or the beginning of an id or of a step's name")


def _find_named(text: str, questions: list[Question]) -> Question | None:
    """Return the question that a number stands for, or the only one whose id or step begins with the text."""
    if text.isascii() and text.isdigit() and 1 <= int(text) <= len(questions):
        return questions[int(text) - 1]
    fitting = [
        question
        for question in questions
        if question.id.startswith(text) or QuestionView(question).asker.startswith(text)
    ]
    return fitting[0] if len(fitting) == 1 else None


async def _ask(session: Session, question: Question, user: str) -> bool:
    """Ask the question until its answer is taken; return False if it is left open."""
    terminal = Terminal(console(), editing=can_edit())
    while True:
        try:
            answer = await answer_while_open(terminal, question, partial(_check_open, session))
        except PromptInterrupted:
            return False
        except NotOpenError as closed:
            say(f"{place(question.address)}: {closed}")
            return True
        if answer is None:
            return False
        try:
            await _send(session, question, answer, user)
        except Refusal as refusal:
            terminal.tell_refusal(question, f"{refusal.code}: {refusal.message}")
            if refusal.code == "invalid_answer":
                continue
        return True


async def _check_open(session: Session, question: Question) -> None:
    """Raise `NotOpenError` with what became of the question unless it is still open as it was shown."""
    await asyncio.sleep(LOOK_SECONDS)
    listed = await session.runs.reader.read(question.owner)
    if listed is None:  # no worker answers: the question stands
        return
    open_ = {other.id: other for other in listed}
    if question.id not in open_:
        events = [event.data for event in await session.runs.watch.events(question.run)]
        became = [data for data in events if isinstance(data, QuestionClosed) and data.id == question.id]
        raise NotOpenError(closing_text(became[-1]) if became else "it is not open any more")
    if open_[question.id].digest != question.digest:
        raise NotOpenError("it has changed")


async def _send(session: Session, question: Question, answer: Answer, user: str) -> None:
    for receipt in await session.runs.answer(question.run, [answer], by=user):
        say(receipt_text(receipt, place(question.address)))


async def _read_typed(prompt: str, questions: Sequence[Question]) -> str | None:
    words = [word for question in questions for word in (QuestionView(question).asker, question.id)]
    try:
        return await read_choice(prompt, words)
    except PromptInterrupted:
        return None
