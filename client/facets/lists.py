"""Which runs there are, and which of them wait for people: `runs.lists`.

Visibility finds them; only the workflows that may wait are asked, side by side.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from holdfast.client.answering import Answering
from holdfast.client.facets.access import AccessControl
from holdfast.client.listing import RunsFilter, WaitingFilter, listed_runs, read_page, running_runs, waiting_workflows
from holdfast.client.permissions import Permissions
from holdfast.client.question_reader import QuestionReader
from holdfast.client.states import Listed, Waiting
from holdfast.client.tree import Tree, UnknownRun, collect_questions
from holdfast.protocol.answers import Refusal
from holdfast.protocol.people import ANYONE, MANY, list_assignee_names
from holdfast.protocol.questions import Question
from holdfast.protocol.views import Status
from holdfast.runtime.errors import raise_server_errors

QUESTION_ID = re.compile("[0-9a-f]{16}")
EVERYTHING = WaitingFilter()


@raise_server_errors
class RunLists:
    """The lists of runs and of workflows that wait, newest first.

    Args:
        tree: The access to the workflows.
        answering: The groups of this client.
        access: What the person may do.
        permissions: Those of the person, as a condition of the lists; None: they show everything.
        reader: Reads what workflows wait for.
    """

    def __init__(
        self,
        tree: Tree,
        answering: Answering,
        access: AccessControl,
        permissions: Permissions | None,
        reader: QuestionReader,
    ) -> None:
        self._tree, self._answering, self._access, self._permissions = tree, answering, access, permissions
        self._reader = reader

    async def all(self, *, blueprint: str | None = None, waiting: bool = False) -> list[Listed]:
        """Return all runs, also those that the person may not see for whom these runs are: a surface lists by `page`.

        Args:
            blueprint: Only runs of the blueprint with this name.
            waiting: Only runs with an open question.
        """
        return await listed_runs(self._reader, blueprint, waiting=waiting)

    async def find_running(self, blueprint: str | None = None) -> list[str]:
        """Return the ids of all runs that have not ended, or of those with this blueprint's name.

        Also of those that the person may not see for whom these runs are.
        """
        return await running_runs(self._tree.client, blueprint)

    async def find_question(self, id: str) -> Question:
        """Return the open question of this id, of whatever run.

        Raises:
            Refusal: `unknown_question`: no open question has this id.
            NoWorker: No worker answers.
        """
        if not QUESTION_ID.fullmatch(id):  # a query that named it would fail at a quotation mark
            raise _unknown(id)
        seen = self._answering.memory.find(id)
        # Visibility learns of a question a moment after it was asked; who asks by id has mostly just seen it.
        if seen is not None and (question := await self._ask(seen.owner, id)) is not None:
            return question
        async for row in waiting_workflows(self._tree.client, wanted=WaitingFilter(question=id)):
            if (question := await self._ask(row.owner, id)) is not None:
                return question
        raise _unknown(id)

    async def _ask(self, owner: str, id: str) -> Question | None:
        """Return the question of this id if the workflow asks it and the person may see it."""
        with suppress(UnknownRun):  # it has ended since it was listed
            view = await self._tree.view(owner, unless_ended=True)
            found = [question for question in collect_questions([view]) if question.id == id]
            return next(iter(await self._access.select_visible(view.run, found)), None)
        return None

    async def page(
        self,
        cursor: str | None = None,
        *,
        page: int = 1,
        blueprint: str | None = None,
        status: Status | None = None,
        beginning: str = "",
        size: int = 50,
    ) -> tuple[list[Listed], str | None]:
        """Return a page of the runs, and the cursor of the next one; only as much is read as the page needs.

        Args:
            cursor: What an earlier call with the same filters gave; None: `page` counts.
            page: The page, from 1; all before it are read.
            blueprint: Only runs of the blueprint with this name.
            status: Only runs of this status.
            beginning: Only runs whose ids begin with it.
            size: The runs of a page.

        Returns:
            The runs, and a cursor; None after the last page.

        Raises:
            BadCursor: The cursor is none of this list.
        """
        wanted = RunsFilter(blueprint, status, self._permissions, beginning)
        return await read_page(self._reader, wanted, size, page=page, cursor=cursor)

    async def find_waiting(
        self,
        user: str | None = None,
        wanted: WaitingFilter = EVERYTHING,
        *,
        cursor: str | None = None,
        page: int = 1,
        size: int = 100,
    ) -> tuple[list[Waiting], str | None]:
        """Return a page of the workflows with open questions, and the cursor of the next one.

        Args:
            user: Only questions that this user may answer: assigned to them, to one of their groups, or to anyone.
            wanted: What limits the list besides; its `names` and `fits` in place of what the user may answer.
            cursor: What an earlier call with the same filters gave; None: `page` counts.
            page: The page, from 1; all before it are read.
            size: The rows of a page.

        Returns:
            The rows, each with its `open` questions, and a cursor; None after the last page. There are fewer rows than
            `size` on the last page, and where very few of the workflows that visibility finds have a question to show.

        Raises:
            BadCursor: The cursor is none of this list.
        """
        names = wanted.names
        if user is not None and not names:
            names = [ANYONE, MANY, *list_assignee_names(user, self._answering.known_groups)]

        async def select(row: Waiting) -> Waiting | None:
            return await self._select(row, user, wanted)

        own = replace(wanted, names=names, permissions=self._permissions, select=select)
        rows, following = await read_page(self._reader, own, size, page=page, cursor=cursor)
        self._answering.memory.keep([question for row in rows for question in row.open or ()])
        return rows, following

    def select_for(self, user: str | None, questions: Sequence[Question]) -> list[Question]:
        """Return the questions that still wait for this user; all for None."""
        groups = self._answering.known_groups
        return [question for question in questions if user is None or question.waits_for(user, groups)]

    async def _select(self, row: Waiting, user: str | None, wanted: WaitingFilter) -> Waiting | None:
        """Return a row with those of its questions that fit and that the person may see; None if there are none.

        Of a workflow that nobody can be asked for, the names and the run decide: of `many` nobody is known to be one.
        """
        if row.open is None:
            return row if await self._may_be_shown(row) else None
        fitting = self.select_for(user, row.open) if wanted.fits is None else list(filter(wanted.fits, row.open))
        visible = await self._access.select_visible(row.run, fitting, user)
        found = [question for question in visible if wanted.finds(question, row.blueprint)]
        return replace(row, open=found) if found else None

    async def _may_be_shown(self, row: Waiting) -> bool:
        if self._permissions is None or not self._permissions.rules.enforced:
            return True
        return not self._permissions.person.names.isdisjoint(row.waiting_for) or await self._sees(row.run)

    async def _sees(self, run: str) -> bool:
        try:
            return await self._access.may("see", run)
        except UnknownRun:  # it has ended since it was listed
            return False


def _unknown(id: str) -> Refusal:
    return Refusal("unknown_question", f"no open question has the id {id[:40]!r}; it may have been answered")
