"""Which runs there are, and which of them wait for people: `runs.lists`. No workflow is asked for a list."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from holdfast.client.answering import Answering
from holdfast.client.facets.access import AccessControl
from holdfast.client.listing import RunsFilter, WaitingFilter, listed_runs, read_page, running_runs
from holdfast.client.permissions import Permissions
from holdfast.client.states import Listed, Waiting
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.people import ANYONE, MANY, names_of
from holdfast.protocol.questions import Question
from holdfast.protocol.runs import Status
from holdfast.runtime.errors import raise_server_errors


@raise_server_errors
class RunLists:
    """The lists of runs and of workflows that wait, from Temporal's visibility, newest first.

    Args:
        tree: The access to the workflows.
        answering: The groups of this client.
        access: What the person may do.
        permissions: Those of the person, as a condition of the lists; None: they show everything.
    """

    def __init__(
        self, tree: Tree, answering: Answering, access: AccessControl, permissions: Permissions | None
    ) -> None:
        self._tree, self._answering, self._access, self._permissions = tree, answering, access, permissions

    async def all(self, *, blueprint: str | None = None, waiting: bool = False) -> list[Listed]:
        """Return all runs.

        Args:
            blueprint: Only runs of the blueprint with this name.
            waiting: Only runs with an open question.
        """
        return await listed_runs(self._tree.client, blueprint, waiting=waiting)

    async def running(self, blueprint: str | None = None) -> list[str]:
        """Return the ids of all runs that have not ended, or of those with this blueprint's name."""
        return await running_runs(self._tree.client, blueprint)

    async def page(
        self,
        cursor: str | None = None,
        *,
        page: int = 1,
        blueprint: str | None = None,
        status: Status | None = None,
        size: int = 50,
    ) -> tuple[list[Listed], str | None]:
        """Return a page of the runs, and the cursor of the next one; only as much is read as the page needs.

        Args:
            cursor: What an earlier call with the same filters gave; None: `page` counts.
            page: The page, from 1; all before it are read.
            blueprint: Only runs of the blueprint with this name.
            status: Only runs of this status.
            size: The runs of a page.

        Returns:
            The runs, and a cursor; None after the last page.

        Raises:
            BadCursor: The cursor is none of this list.
        """
        wanted = RunsFilter(blueprint, status, self._permissions)
        return await read_page(self._tree.client, wanted, size, page=page, cursor=cursor)

    async def waiting(
        self,
        user: str | None = None,
        *,
        names: Sequence[str] | None = None,
        blueprint: str | None = None,
        since: datetime | None = None,
        deadline: datetime | None = None,
        cursor: str | None = None,
        page: int = 1,
        size: int = 100,
    ) -> tuple[list[Waiting], str | None]:
        """Return a page of the workflows with open questions, and the cursor of the next one.

        Args:
            user: Only what this user may answer: assigned to them, to one of their groups, or to anyone. `many`
                (more assignees than a search attribute holds) is listed, too, as it may include them.
            names: In place of a user: only what waits for one of these names.
            blueprint: Only workflows of runs of the blueprint with this name.
            since: Only workflows with a question that was asked at this time or before.
            deadline: Only workflows with a question whose deadline is at this time or before.
            cursor: What an earlier call with the same filters gave; None: `page` counts.
            page: The page, from 1; all before it are read.
            size: The rows of a page. There are fewer where the person may not see some.

        Returns:
            The rows, and a cursor; None after the last page.

        Raises:
            BadCursor: The cursor is none of this list.
        """
        if names is None:
            names = [] if user is None else [ANYONE, MANY, *names_of(user, self._answering.known_groups)]
        wanted = WaitingFilter(names, blueprint, since, deadline, permissions=self._permissions)
        rows, following = await read_page(self._tree.client, wanted, size, page=page, cursor=cursor)
        return await self._select(rows), following

    async def read_questions(self, rows: Sequence[Waiting], user: str | None = None) -> list[list[Question] | None]:
        """Return the open questions of each of these workflows; None for one that no worker can be asked for.

        Args:
            rows: The workflows, from `waiting`.
            user: Only questions that still wait for this user.
        """
        lists = await asyncio.gather(*(self._tree.open_questions(row.owner) for row in rows))
        self._answering.memory.keep([question for open_ in lists for question in open_ or ()])
        return [
            None if open_ is None else await self._access.select_visible(row.run, self.select_for(user, open_), user)
            for row, open_ in zip(rows, lists, strict=True)
        ]

    def select_for(self, user: str | None, questions: Sequence[Question]) -> list[Question]:
        """Return the questions that still wait for this user; all for None."""
        groups = self._answering.known_groups
        return [question for question in questions if user is None or question.waits_for(user, groups)]

    async def _select(self, rows: Sequence[Waiting]) -> list[Waiting]:
        """Return the workflows of a list that wait for the person for whom these runs are, or whose run they may see.

        Of `many` assignees they may be one, which their questions show.
        """
        if self._permissions is None or not self._permissions.rules.enforced:
            return list(rows)
        names = {*self._permissions.person.names, MANY}
        seen = await asyncio.gather(*(self._sees(row.run) for row in rows))
        return [row for row, is_seen in zip(rows, seen, strict=True) if is_seen or names & set(row.waiting_for)]

    async def _sees(self, run: str) -> bool:
        try:
            return await self._access.may("see", run)
        except UnknownRun:  # it has ended since it was listed
            return False
