"""The open questions of the site: a page of them from visibility, their texts from a cache. Pages and API use it."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from holdfast.client.runs import Runs
from holdfast.client.states import Waiting
from holdfast.client.tree import Tree
from holdfast.protocol.address import in_order
from holdfast.protocol.people import ANYONE, MANY, Groups, names_of
from holdfast.protocol.questions import Question

PAGE_ROWS = 50
"""The workflows on a page."""
MOST_CACHED = 5_000
"""The workflows whose questions are kept."""
MOST_QUERIES = 16
"""The workflows that are queried at a time."""
FRESH_SECONDS = 60.0
"""How long the questions of a workflow are shown without a query while its search attributes stay the same."""
FRESH_QUORUM_SECONDS = 3.0
"""The same for questions that several people answer: an acceptance changes no search attribute."""
SILENT_SECONDS = 5.0
"""How long a workflow that did not answer is not queried again."""

PATIENCE_SECONDS = 2.0
"""How long a list waits for a workflow; the query goes on, and the next list has its questions."""

Whose = Literal["me", "mine", "groups", "anyone", "all"]
"""`me` is all that I may answer; `mine`, `groups` and `anyone` are parts of it; `all` is what everybody may answer."""
Order = Literal["newest", "oldest", "deadline", "blueprint"]


@dataclass(frozen=True)
class QuestionQuery:
    """The questions to list. All but `text` and `order` is evaluated by visibility; those two within the page."""

    whose: Whose = "me"
    blueprint: str | None = None
    since: datetime | None = None
    """Only workflows with a question that was asked at this time or before."""
    deadline: datetime | None = None
    """Only workflows with a deadline at this time or before."""
    text: str = ""
    order: Order = "newest"
    page: int = 1
    """The number of the page; those before it are read where `after` is left out."""
    after: str | None = None
    """The cursor of the page before it."""


@dataclass(frozen=True)
class ListedQuestion:
    """A question in a list."""

    question: Question
    blueprint: str

    @property
    def searchable(self) -> str:
        """Return the text that a search looks at."""
        question = self.question
        words = [question.message, question.address, question.run, self.blueprint, *question.assignees]
        words += [question.label] if question.label else []
        return "\n".join(words).casefold()


@dataclass(frozen=True)
class QuestionPage:
    """The questions of one page of workflows."""

    questions: list[ListedQuestion] = field(default_factory=list)
    hidden: int = 0
    """How many questions of the page the search for text left out."""
    silent: list[Waiting] = field(default_factory=list)
    """Workflows that wait, whose questions no worker tells now."""
    after: str | None = None
    """The cursor of the next page; None after the last one."""


@dataclass
class CachedQuestions:
    """The questions of a workflow, with the row of visibility that they belong to."""

    row: Waiting
    questions: list[Question] | None
    """None: no worker answered."""
    at: float
    seen: list[Question]
    """The questions when a worker answered last."""
    is_stale: bool = False
    """True if something was sent to the workflow since."""

    def is_fresh(self, row: Waiting, now: float) -> bool:
        if self.is_stale:
            return False
        age = now - self.at
        if self.questions is None:
            return age < SILENT_SECONDS
        same = (row.questions, row.waiting_for, row.deadline) == (
            self.row.questions,
            self.row.waiting_for,
            self.row.deadline,
        )
        if not same or not row.questions or MANY in row.questions:
            return False
        if {question.id for question in self.questions} != set(row.questions):
            return False
        quorum = any(question.quorum > 1 for question in self.questions)
        return age < (FRESH_QUORUM_SECONDS if quorum else FRESH_SECONDS)


class OpenQuestionCache:
    """The open questions of workflows, queried only where visibility shows ids that are not known.

    Args:
        tree: The access to the workflows.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._kept: OrderedDict[str, CachedQuestions] = OrderedDict()
        self._queries: dict[str, asyncio.Future[CachedQuestions]] = {}
        self._turns = asyncio.Semaphore(MOST_QUERIES)

    async def of(self, row: Waiting) -> list[Question] | None:
        """Return the open questions of a workflow; None if no worker can be asked."""
        kept = self._kept.get(row.owner)
        if kept is None or not kept.is_fresh(row, time.monotonic()):
            try:
                kept = await asyncio.wait_for(self._query_once(row), PATIENCE_SECONDS)
            except TimeoutError:  # without a worker a query takes many seconds to fail
                return None
        return kept.questions

    def forget(self, owner: str, closed: str | None = None) -> None:
        """Query a workflow anew next time: something was sent to it.

        Its questions stay `known`: if nobody answers the query, a form of one comes back with what was typed.

        Args:
            owner: The id of the workflow.
            closed: The id of its question that is closed, and no longer `known`.
        """
        if (kept := self._kept.get(owner)) is not None:
            kept.is_stale = True
            kept.seen = [question for question in kept.seen if question.id != closed]

    def known(self, run: str, id: str) -> Question | None:
        """Return a question as it was seen last, by its run and id; None if it was not seen, or is closed."""
        open_ = [question for kept in self._kept.values() if kept.row.run == run for question in kept.seen]
        return next((question for question in open_ if question.id == id), None)

    async def _query_once(self, row: Waiting) -> CachedQuestions:
        """Query a workflow, or wait for the query that is under way."""
        if (query := self._queries.get(row.owner)) is None:
            query = self._queries[row.owner] = asyncio.ensure_future(self._query(row))
            query.add_done_callback(lambda _: self._queries.pop(row.owner, None))
        return await asyncio.shield(query)

    async def _query(self, row: Waiting) -> CachedQuestions:
        async with self._turns:
            found = await self.tree.open_questions(row.owner)
        before = self._kept.get(row.owner)
        seen = found if found is not None else before.seen if before is not None else []
        kept = CachedQuestions(row, found, time.monotonic(), seen)
        self._kept[row.owner] = kept
        self._kept.move_to_end(row.owner)
        while len(self._kept) > MOST_CACHED:
            self._kept.popitem(last=False)
        return kept


def list_names(whose: Whose, runs: Runs, user: str) -> list[str]:
    """Return the values of the search attribute to look for; [] for everybody's questions."""
    groups = list_groups(runs, user)
    match whose:
        case "all":
            return []
        case "mine":
            return [user, MANY]
        case "groups":
            return [*groups, MANY]
        case "anyone":
            return [ANYONE]
    return [user, *groups, ANYONE, MANY]


def list_groups(runs: Runs, user: str) -> list[str]:
    """Return the groups of a user."""
    return names_of(user, runs.answering.known_groups)[1:]


async def list_questions(cache: OpenQuestionCache, runs: Runs, user: str, wanted: QuestionQuery) -> QuestionPage:
    """Return a page of open questions.

    Args:
        cache: The cache of their texts.
        runs: The runs as this person commands them.
        user: The person who looks, such as `user:ana`.
        wanted: Which questions, in which order.

    Raises:
        BadCursor: The page before it is of another list.
    """
    names = list_names(wanted.whose, runs, user)
    if wanted.whose == "groups" and names == [MANY]:
        return QuestionPage()
    rows, after = await runs.lists.waiting(
        names=names,
        blueprint=wanted.blueprint,
        since=wanted.since,
        deadline=wanted.deadline,
        cursor=wanted.after,
        page=wanted.page,
        size=PAGE_ROWS,
    )
    lists = await asyncio.gather(*(cache.of(row) for row in rows))
    silent = [row for row, open_ in zip(rows, lists, strict=True) if open_ is None]
    listed = [
        ListedQuestion(question, row.blueprint)
        for row, open_ in zip(rows, lists, strict=True)
        for question in await runs.access.select_visible(row.run, open_ or (), None if wanted.whose == "all" else user)
        if waits_for(question, user, wanted.whose, runs.answering.known_groups)
    ]
    matching = [item for item in listed if wanted.text.casefold().strip() in item.searchable]
    hidden = len(listed) - len(matching)
    return QuestionPage(_sort(matching, wanted.order), hidden, silent, after)


def waits_for(question: Question, user: str, whose: Whose, groups: Groups) -> bool:
    """Return whether a question is among those of `whose` for this person."""
    if whose == "all":
        return True
    if not question.waits_for(user, groups):
        return False
    assignees = question.people.assignees
    match whose:
        case "mine":
            return user in assignees
        case "groups":
            return any(name in assignees for name in names_of(user, groups)[1:])
        case "anyone":
            return not assignees
    return True


def _sort(items: list[ListedQuestion], order: Order) -> list[ListedQuestion]:
    by_place = sorted(items, key=lambda item: in_order(item.question.address))  # those of one moment
    by_age = sorted(by_place, key=lambda item: item.question.asked_at, reverse=order == "newest")
    match order:
        case "deadline":
            return sorted(by_age, key=lambda item: _deadline_key(item.question))
        case "blueprint":
            return sorted(by_age, key=lambda item: (item.blueprint, in_order(item.question.address)))
    return by_age


def _deadline_key(question: Question) -> tuple[bool, float]:
    """Return a key that puts questions without a deadline last."""
    deadline = question.deadline
    return (deadline is None, 0.0 if deadline is None else deadline.timestamp())
