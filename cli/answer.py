"""The command `answer`.

What prompts a person is imported where one is asked: an answer is mostly given with the command.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.blueprint.json_values import JSONObject
from holdfast.cli.command import perform
from holdfast.cli.completion import complete_question, complete_run
from holdfast.cli.flags import AsJson, By, IdempotencyKey
from holdfast.cli.output import DONE, print_json, print_text, say
from holdfast.cli.receipts import receipt_text
from holdfast.cli.session import open_session
from holdfast.client.earlier_answers import EarlierAnswers, refusal_of_closed
from holdfast.client.memory import QuestionMemory
from holdfast.client.open_questions import OpenQuestions, find_question, must_be_seen
from holdfast.client.reading import BadUsage, from_json, parse_content, person, value_of_file, yes_or_no
from holdfast.client.runs import Runs
from holdfast.client.signals import Sent
from holdfast.client.texts import place
from holdfast.protocol.address import names_at
from holdfast.protocol.answers import Answer, Receipt, Refusal
from holdfast.protocol.display import one_line
from holdfast.protocol.questions import Question
from holdfast.runtime.errors import Ambiguous, NothingSent

if TYPE_CHECKING:
    from holdfast.client.answer_files import Entry

app = typer.Typer(rich_markup_mode=None)

_Run = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]", help="A run's id, or the beginning of one.", show_default=False, autocompletion=complete_run
    ),
]
_Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[QUESTION] [VALUE]", show_default=False, autocompletion=complete_question),
]
_Content = Annotated[
    str | None,
    typer.Option("--content", metavar="JSON|@FILE", help="The answer as JSON; @FILE is read (.json, .yaml, text)."),
]
_Yes = Annotated[bool, typer.Option("--yes", help="Answer yes to a permission, a review or a yes-no question.")]
_No = Annotated[str | None, typer.Option("--no", metavar="WHY", help="Answer no, with a reason.")]
_Decline = Annotated[bool, typer.Option("--decline", help="Decline to answer.")]
_Cancel = Annotated[bool, typer.Option("--cancel", help="Cancel the step that asks.")]
_File = Annotated[
    Path | None, typer.Option("--file", metavar="ANSWERS", help="A file of several answers, as for run --answers.")
]
_Signal = Annotated[bool, typer.Option("--signal", help="Send by signal, without waiting for a receipt.")]
_Owner = Annotated[
    str | None, typer.Option("--owner", metavar="WORKFLOW", help="The workflow that asks, if no worker can be asked.")
]
_Comment = Annotated[str | None, typer.Option("--comment", metavar="T", help="Comment stored with the answer.")]


@app.command()
def answer(
    run: _Run = None,
    words: _Words = None,
    content: _Content = None,
    yes: _Yes = False,
    no: _No = None,
    decline: _Decline = False,
    cancel: _Cancel = False,
    file: _File = None,
    signal: _Signal = False,
    owner: _Owner = None,
    by: By = None,
    key: IdempotencyKey = None,
    comment: _Comment = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question of a run.

    A single argument after RUN is the VALUE, or the QUESTION if an option such as --yes or --content gives the answer,
    or if it names a question for a secret: the value is then typed without echo, or a line of standard input.
    QUESTION is an id, the beginning of one, an address, or the name of the step that asks; it may be omitted if only
    one question is open. VALUE is text if the question asks for text, else JSON if it can be read as JSON; write `a,b`
    for several options, and yes or no (`no, WHY`) for a permission or a review. Put `--` before a VALUE that begins
    with a dash.

    At a terminal, `answer` alone offers what waits for you, and `answer RUN` the questions of that run.
    """
    typed = TypedAnswer(words or [], content, decline, cancel, file, yes, no)
    if typed.is_empty:
        from holdfast.cli.offer import offer  # noqa: PLC0415  see the head of this file

        perform(offer(run, person(by)), as_json)
    options = {"by": person(by), "key": key, "comment": comment, "signal": signal, "owner": owner}
    perform(_answer(run, typed, options, as_json), as_json)


@dataclass(frozen=True)
class TypedAnswer:
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
    def is_yes_or_no(self) -> bool:
        """True if the answer is --yes or --no."""
        return self.yes or self.no is not None

    @property
    def is_empty(self) -> bool:
        """True if nothing was given, neither an answer nor a question."""
        return not self.words and not self._ways and self.file is None

    @property
    def question(self) -> str | None:
        """The QUESTION argument, if there is one."""
        named = self.words if self._ways else self.words[:-1]
        return named[0] if named else None

    def named_secret(self, open_: Sequence[Question]) -> Question | None:
        """Return the question for a secret that the only argument names: it is not the secret itself."""
        if self._ways or self.file is not None or len(self.words) != 1:
            return None
        return next((question for question in open_ if question.asked.hidden and _names(self.words[0], question)), None)

    def about(self, question: str) -> TypedAnswer:
        """Return the same arguments with this QUESTION."""
        return replace(self, words=[question] if self._ways else [question, *self.words[-1:]])

    def answer(self, name: str, question: Question | None) -> Answer:
        """Return the answer to this question. Raises `BadUsage` if it cannot be read."""
        if self.decline or self.cancel:
            return Answer(question=name, action="decline" if self.decline else "cancel")
        if self.is_yes_or_no:
            return Answer(question=name, content=yes_or_no(question, self.yes, (self.no or "").strip()))
        if self.content is None:
            return Answer(question=name, content=parse_content(_no_file(self.words[-1], question), question))
        if self.content.startswith("@"):
            return Answer(question=name, content=value_of_file(Path(self.content[1:])))
        try:
            return Answer(question=name, content=from_json(self.content))
        except BadUsage as error:
            raise BadUsage(f"--content: {error}") from None
        except ValueError as error:
            raise BadUsage(f"--content is not JSON ({error}); give text as VALUE") from None


def _no_file(value: str, question: Question | None) -> str:
    """Return a VALUE. Raises `BadUsage` for one that names a file as --content and --input do; a secret may."""
    is_hidden = question is not None and question.asked.hidden
    if value.startswith("@") and not is_hidden and Path(value[1:]).is_file():
        literal = shlex.quote(json.dumps(value, ensure_ascii=False))
        ways = f"to answer with what it holds: --content {value}; with the text: --content {literal}"
        raise BadUsage(f"{value[1:]} is a file; {ways}")
    return value


def _names(word: str, question: Question) -> bool:
    return word in (question.id, question.address, *names_at(question.address))


async def _answer(run: str | None, typed: TypedAnswer, options: JSONObject, as_json: bool) -> int:
    if run is None:
        raise BadUsage("name the RUN: holdfast answer RUN [QUESTION] VALUE")
    typed.check()
    entries = None if typed.file is None else _read_entries(typed.file)
    session = await open_session()
    runs = session.runs
    named = [] if typed.question is None else [typed.question]
    seen = SeenQuestions.read(runs.answering.memory)
    open_questions = await runs.find_questions(run, named, patient=not options["signal"])
    if entries is not None:
        answers = _take_entries(entries, open_questions)
    else:
        typed = await _with_secret(typed, open_questions.questions)
        if options["key"] is not None and open_questions.silence is None:
            open_questions = replace(open_questions, earlier=EarlierAnswers(runs.tree, open_questions.run))
            typed = await _name_retried(open_questions, typed, options["key"])
        answers = [await _one_answer(runs, typed, open_questions)]
        seen.check(open_questions, answers[0].question, typed.question)
    receipts = await runs.answer(open_questions.run, answers, open_questions=open_questions, **options)
    if as_json:
        print_json([receipt.model_dump(mode="json") for receipt in receipts])
    else:
        _print_receipts(receipts, open_questions.questions)
        _print_rules(answers, open_questions.questions)
    return DONE


def _read_entries(path: Path) -> list[Entry]:
    from holdfast.client.answer_files import read_entries  # noqa: PLC0415  it loads PyYAML, and most answers are typed

    return read_entries(path)


def _take_entries(entries: Sequence[Entry], open_questions: OpenQuestions) -> list[Answer]:
    """Return the answers of a file. Raises `Refusal` if one of them fits no open question."""
    from holdfast.client.answer_files import answers_for  # noqa: PLC0415  see `_read_entries`

    answers, unused = answers_for(entries, open_questions.questions)
    if unused:
        raise open_questions.unknown(unused[0].pattern)
    return answers


async def _with_secret(typed: TypedAnswer, open_: Sequence[Question]) -> TypedAnswer:
    """Return the arguments with the value of a secret of which only the question was named."""
    question = typed.named_secret(open_)
    if question is None:
        return typed
    from holdfast.cli.prompts import read_value  # noqa: PLC0415  see the head of this file

    value = await read_value(f"{place(question.address)}: ")
    if value is None or not value.strip():
        raise BadUsage(f"no value was given; type it, pipe it in, or: holdfast answer RUN {typed.words[0]} VALUE")
    return replace(typed, words=[question.id, value])


async def _name_retried(open_questions: OpenQuestions, typed: TypedAnswer, key: str) -> TypedAnswer:
    """Return the arguments with the question that an earlier answer under this key was for: a retry means that one."""
    is_open = typed.question in [question.id for question in open_questions.questions]
    if is_open or open_questions.earlier is None:
        return typed
    question = await open_questions.earlier.find_retried(key, typed.question)
    return typed if question is None else typed.about(question)


async def _one_answer(runs: Runs, typed: TypedAnswer, open_questions: OpenQuestions) -> Answer:
    """Return the answer to the named question, or to the only open one."""
    if typed.question is not None:
        question = find_question(open_questions.questions, typed.question)
        # A closed question may be answered again under the same key: its owner then returns the first receipt.
        question = question or find_question(runs.answering.memory.of(open_questions.run), typed.question)
        if question is None and typed.is_yes_or_no and open_questions.silence is None:
            # What they mean is known to the question alone, and it is not there to take them.
            closing = await runs.access.find_closing(open_questions.run, typed.question)
            raise open_questions.unknown(typed.question) if closing is None else refusal_of_closed(closing)
        return typed.answer(question.id if question else typed.question, question)
    question = only_question(open_questions)
    return typed.answer(question.id, question)


@dataclass(frozen=True)
class SeenQuestions:
    """What was seen here before a command, by which a question without its id is meant."""

    memory: QuestionMemory
    began: float
    ids: frozenset[str]
    """The ids of the questions that were seen."""

    @classmethod
    def read(cls, memory: QuestionMemory) -> SeenQuestions:
        """Return it before anything is looked at for the command."""
        return cls(memory, time.time(), memory.list_ids())

    def check(self, open_questions: OpenQuestions, id_: str, name: str | None) -> None:
        """Raise `Refusal` where the question that a person means is closed by now, and another one has its place.

        Args:
            open_questions: The open questions of the run.
            id_: The id of the question that the answer would go to.
            name: What names it; None: nothing does.
        """
        there = {one.id: one for one in open_questions.questions}
        if id_ not in there or id_ in self.ids or (name is not None and id_.startswith(name)):
            return
        seen = [one for one in self.memory.of(open_questions.run) if one.id in self.ids]
        meant = next((one for one in reversed(seen) if name is None or _names(name, one)), None)
        if meant is None or meant.id in there:
            return
        # One answer after another to a step, as in a loop, needs no look; but nobody agrees to what was not shown.
        is_same_step = names_at(meant.address) == names_at(there[id_].address)
        is_next = is_same_step and self.memory.was_answered(meant.id, self.began)
        if is_next and not must_be_seen(there[id_]):
            return
        told = f"the question that you saw, {place(meant.address)}, is closed, and another one is open now"
        other = f"{one_line(there[id_].message)!r} ({place(there[id_].address)})"
        way = f"if you mean that one: holdfast answer {shlex.quote(open_questions.run)} {id_} VALUE"
        raise Refusal("unknown_question", f"{told}: {other}; {way}")


def only_question(open_questions: OpenQuestions) -> Question:
    """Return the question of a run where only one is open. Raises `Ambiguous`, or `Refusal` if there is none."""
    questions = open_questions.questions
    if len(questions) > 1:
        are = "are open" if open_questions.silence is None else "may be open, which no worker can tell now,"
        many = f"{len(questions)} questions {are} in {open_questions.run}"
        raise Ambiguous(f"{many}; name one: {open_questions.names}")
    if questions:
        return questions[0]
    if open_questions.silence is not None and not open_questions.has_ended:
        raise NothingSent(open_questions.silence)
    raise open_questions.unknown(None)


def _print_receipts(receipts: list[Receipt | Sent], open_: list[Question]) -> None:
    names = {question.id: place(question.address) for question in open_}
    for receipt in receipts:
        name = names.get(receipt.question, receipt.question)
        print_text(receipt_text(receipt, name))


def _print_rules(answers: list[Answer], open_: list[Question]) -> None:
    """Print the rule for the blueprint after an "always allow", which itself holds for this run only."""
    tools = {
        question.id: question.info["tool"]
        for question in open_
        if question.asked.scopes and isinstance(question.info, dict) and "tool" in question.info
    }
    for answer in answers:
        match answer.content:
            case {"granted": True, "scope": "always"} if answer.question in tools:
                say("allowed for this run; for every run, add to the agent in the blueprint:")
                say(f"  permissions: [{{tool: {tools[answer.question]}, action: allow}}]")
