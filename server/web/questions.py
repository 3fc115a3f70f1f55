"""The open questions that a page lists: those of one person, searched and in an order. The inbox uses it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from holdfast.client.listing import WaitingFilter
from holdfast.client.question_reader import PATIENCE_SECONDS
from holdfast.client.runs import Runs
from holdfast.client.states import Waiting
from holdfast.protocol.address import in_order
from holdfast.protocol.people import ANYONE, MANY, Groups, list_assignee_names
from holdfast.protocol.questions import Question

PAGE_ROWS = 50
"""The workflows on a page."""

Whose = Literal["me", "mine", "groups", "anyone", "all"]
"""`me` is all that I may answer; `mine`, `groups` and `anyone` are parts of it; `all` is what everybody may answer."""
Order = Literal["newest", "oldest", "deadline", "blueprint"]


@dataclass(frozen=True)
class QuestionQuery:
    """The questions to list. `order` counts within the page."""

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


@dataclass(frozen=True)
class QuestionPage:
    """The questions of one page of workflows."""

    questions: list[ListedQuestion] = field(default_factory=list)
    silent: list[Waiting] = field(default_factory=list)
    """Workflows that wait, whose questions no worker tells now."""
    after: str | None = None
    """The cursor of the next page; None after the last one."""


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
    return list_assignee_names(user, runs.answering.known_groups)[1:]


async def list_questions(runs: Runs, user: str, wanted: QuestionQuery) -> QuestionPage:
    """Return a page of open questions.

    Args:
        runs: The runs as this person commands them.
        user: The person who looks, such as `user:ana`.
        wanted: Which questions, in which order.

    Raises:
        BadCursor: The page before it is of another list.
    """
    names = list_names(wanted.whose, runs, user)
    if wanted.whose == "groups" and names == [MANY]:
        return QuestionPage()
    groups = runs.answering.known_groups
    waiting = WaitingFilter(
        names,
        wanted.blueprint,
        wanted.since,
        wanted.deadline,
        lambda question: waits_for(question, user, wanted.whose, groups),
        wanted.text,
        patience=PATIENCE_SECONDS,
    )
    asker = None if wanted.whose == "all" else user
    rows, after = await runs.lists.find_waiting(asker, waiting, cursor=wanted.after, page=wanted.page, size=PAGE_ROWS)
    silent = [row for row in rows if row.open is None]
    listed = [ListedQuestion(question, row.blueprint) for row in rows for question in row.open or ()]
    return QuestionPage(_sort(listed, wanted.order), silent, after)


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
            return any(name in assignees for name in list_assignee_names(user, groups)[1:])
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
