"""The open questions of a run, as what answers them needs them: found by a walk of its tree, or seen before."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus

from holdfast.blueprint.questions import InvalidAnswer
from holdfast.client.earlier_answers import EarlierAnswers
from holdfast.client.memory import QuestionMemory
from holdfast.client.tree import Tree, UnknownRun, collect_events, collect_questions
from holdfast.protocol.address import name_at, names_at
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.questions import Question
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.errors import Ambiguous
from holdfast.runtime.workers import Busy, NoWorker, is_polled

NO_WORKER = "no worker answers; start one"
"""Why a run is silent on whose task queue nobody polls. Every other reason names its own way out, too."""
SOON_SECONDS = 1.0
"""The time for the workflow of a known question to answer, before it is asked whether a worker is there at all."""
BUSY_LOOKS = 3
"""How often a busy worker is queried; each attempt takes some seconds."""


@dataclass(frozen=True)
class OpenQuestions:
    """The open questions of a run, or of some workflows of it: what reads an answer hands it on to what sends it.

    They come from a walk of the run's tree, from the workflows that asked, or from what was seen before.
    """

    run: str
    questions: list[Question]
    has_ended: bool = False
    silence: str | None = None
    """Why no worker could be asked: the questions are those seen last, and may be closed by now."""
    recalled: bool = False
    """Whether nobody was asked, as all were seen before: the workflow that asks decides, see `recall`."""
    events: list[Question] = field(default_factory=list)
    """The events of other systems that are waited for: a person may answer one by its name, in place of the system."""
    earlier: EarlierAnswers | None = field(default=None, compare=False)
    """The earlier answers of the run, where somebody has begun to read them."""

    @property
    def names(self) -> str:
        """The names of the questions, of many the first 20."""
        return ", ".join(f"{question.id} ({question.address})" for question in self.questions[:20]) or "none"

    def unknown(self, name: str | None) -> Refusal:
        """Return the refusal of a name that no open question has, or of none where no question is open."""
        if self.has_ended:
            return Refusal("run_closed", f"run {self.run} has ended and has no open questions")
        if self.silence is not None:
            what = "a question" if name is None else f"question {name!r}"
            return Refusal("unknown_question", f"{what} of {self.run} cannot be looked for: {self.silence}")
        if name is None:
            return Refusal("unknown_question", f"run {self.run} has no open question now")
        return Refusal("unknown_question", f"no question {name!r} is open in {self.run}; open: {self.names}")


@dataclass(frozen=True)
class QuestionFinder:
    """Finds the open questions of runs for one client, which remembers what it has seen."""

    tree: Tree
    memory: QuestionMemory

    async def find(self, run: str, names: Sequence[str] = (), *, patient: bool = True) -> OpenQuestions:
        """Return the open questions of a run; see `Runs.open_questions`."""
        known = await self.find_known(run, names)
        if known is not None and known.run == run:
            return known
        return await self.walk(await self.tree.describe(run), patient=patient)

    def recall(self, run: str, names: Sequence[str]) -> OpenQuestions | None:
        """Return the questions as this client has seen them last, where an answer needs no look at them before.

        Args:
            run: The id of the run.
            names: What names the questions.

        Returns:
            Those of one workflow, with these ids. None if one was not seen, hides its answer, or waits for some people
            only: these may have changed.
        """
        seen = [self.memory.find(name) for name in names]
        known = list(
            {question.id: question for question in seen if question is not None and question.run == run}.values()
        )
        is_plain = all(
            question.asked.for_people and not question.asked.hidden and not question.people.restricted
            for question in known
        )
        if len(known) < len(names) or not is_plain or len({question.owner for question in known}) != 1:
            return None
        return OpenQuestions(run, known, recalled=True)

    async def find_known(self, run: str, names: Sequence[str]) -> OpenQuestions | None:
        """Ask only the workflows of questions that this client has seen, where all names are ids of such.

        Args:
            run: The id of the run, or its beginning.
            names: What names the questions.

        Returns:
            The open questions of these workflows. None if some are not known or not open, or nobody answers soon: then
            the run must be asked.
        """
        seen = [self.memory.find(name) for name in names]
        known = [question for question in seen if question is not None and question.run.startswith(run)]
        if not run.strip() or not known or len(known) < len(names) or len({question.run for question in known}) > 1:
            return None
        owners = dict.fromkeys(question.owner for question in known)
        try:
            async with asyncio.timeout(SOON_SECONDS):
                views = await asyncio.gather(*(self.tree.view(owner, unless_ended=True) for owner in owners))
        except (TimeoutError, UnknownRun, NoWorker):
            return None
        questions = collect_questions(views)
        if not {question.id for question in known} <= {question.id for question in questions}:
            return None
        self.memory.keep(questions)
        return OpenQuestions(known[0].run, questions, events=collect_events(views))

    async def walk(self, described: WorkflowExecutionDescription, *, patient: bool = True) -> OpenQuestions:
        """Walk the tree of a run and return its open questions; if no worker answers, those seen last.

        Args:
            described: The description of the run.
            patient: Query again while a worker is busy, and raise `Busy` in the end, instead of taking those seen last.

        Raises:
            UnknownRun: There is no such run.
            Busy: A worker is there and does not answer.
        """
        run = described.id
        ended = described.status != WorkflowExecutionStatus.RUNNING
        if not await is_polled(self.tree.client, described.task_queue, certain=True):
            return OpenQuestions(run, self.memory.of(run), ended, NO_WORKER)
        try:
            views = [] if ended else await _views(self.tree, described, BUSY_LOOKS if patient else 1)
        except NoWorker as error:
            if patient and isinstance(error, Busy) and error.is_alive:
                raise
            return OpenQuestions(run, self.memory.of(run), ended, str(error))
        questions = collect_questions(views)
        self.memory.keep(questions)
        return OpenQuestions(run, questions, ended, events=collect_events(views))


async def _views(tree: Tree, described: WorkflowExecutionDescription, looks: int) -> list[WorkflowView]:
    """Return the views of a run, queried so many times more while a worker is busy."""
    # After a worker was killed, its workflows look for some seconds as if it were only busy.
    for _ in range(looks - 1):
        try:
            return await tree.views(described.id, described)
        except Busy as error:
            if not error.is_alive:
                raise
    return await tree.views(described.id, described)


def find_question(questions: Sequence[Question], wanted: str) -> Question | None:
    """Return the question with this id, address or step name, or whose id starts so; None if there is none.

    What a tool, a graph, an agent, a plan or a `clarify` asks has its own name; that of its step means it, too.

    Raises `Ambiguous` if there are several.
    """
    ids = match_named({question.id: question.address for question in questions}, wanted)
    matches = [question for question in questions if question.id in ids]
    if len(matches) > 1:
        names = ", ".join(f"{question.id} ({question.address})" for question in matches)
        raise Ambiguous(f"{wanted!r} could be any of {names}; give an id")
    return matches[0] if matches else None


def match_named(addresses: Mapping[str, str], wanted: str) -> list[str]:
    """Return the ids of the questions that a name may mean, of these with their addresses; see `find_question`."""
    exact = [id_ for id_, address in addresses.items() if wanted in (id_, address)]
    by_name = [id_ for id_, address in addresses.items() if name_at(address) == wanted]
    by_step = [id_ for id_, address in addresses.items() if wanted in names_at(address)]
    return exact or by_name or by_step or [id_ for id_ in addresses if id_.startswith(wanted)]


def check_content(question: Question, answer: Answer) -> None:
    """Raise `Refusal` if the question would refuse the content of an answer."""
    if answer.action == "accept" and (problems := question.find_problems(answer.content)):
        raise Refusal("invalid_answer", f"question {question.id}: {InvalidAnswer.of(problems)}", problems, question.id)


def must_be_seen(question: Question) -> bool:
    """Return whether an answer must carry the digest of what was shown: it is a consent, or goes on from a stop."""
    return question.asked.consents or question.asked.is_breakpoint
