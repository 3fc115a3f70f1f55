"""What one person may do with the runs of a deployment: the rules, with what each run says of itself.

`Runs` has one for the person whom it acts for. What somebody may not see does not exist for them: it is an unknown run.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from temporalio.client import WorkflowExecution

from holdfast.client.tree import Tree, UnknownRun
from holdfast.client.visibility import ListedExecution
from holdfast.protocol.access import (
    THIS_MACHINE,
    AccessPolicy,
    AccessRules,
    Capability,
    Person,
    RunAccess,
    may,
    may_see_question,
    words_for,
)
from holdfast.protocol.names import ACCESS_ATTRIBUTE, ACCESS_MEMO, WAITING_ATTRIBUTE
from holdfast.protocol.questions import Question
from holdfast.runtime.errors import NotReadable
from holdfast.runtime.namespace import quote

if TYPE_CHECKING:
    from holdfast.client.archive import Archive

MOST_KEPT = 5_000
"""The runs whose access is kept."""
KEPT_SECONDS = 600.0
"""How long it is kept: an id is used again only after Temporal has forgotten the run."""


@dataclass
class RunAccessCache:
    """What the runs of a deployment say of the access to them, kept for a while: it does not change."""

    _kept: OrderedDict[str, tuple[float, RunAccess]] = field(default_factory=OrderedDict)

    async def read(self, tree: Tree, archive: Archive | None, run: str) -> RunAccess:
        """Return what a run says of the access to it. Raises `UnknownRun`."""
        at, kept = self._kept.get(run, (0.0, None))
        if kept is None or time.monotonic() - at > KEPT_SECONDS:
            kept = await _read(tree, archive, run)
            self._kept[run] = time.monotonic(), kept
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return kept


NOBODY = AccessPolicy(see=[], comment=[], answer=[], start=[], steer=[], administer=[])
"""Stands for rules that cannot be read."""


async def _read(tree: Tree, archive: Archive | None, run: str) -> RunAccess:
    try:
        return await read_access(await tree.describe(run))
    except UnknownRun:
        archived = None if archive is None else await archive.access(run)
        if archived is None:
            raise
        return archived


async def read_access(execution: WorkflowExecution | ListedExecution) -> RunAccess:
    """Return what stands in the memo of a run; of an author's own workflow that nobody has started it.

    What cannot be read here, for want of a codec or a key, lets nobody see the run: one such run must not end a list.
    """
    try:
        return await execution.memo_value(ACCESS_MEMO, RunAccess(), type_hint=RunAccess)
    except (KeyError, ValueError, RuntimeError, NotReadable):
        return RunAccess(written=NOBODY)


@dataclass(frozen=True)
class Permissions:
    """What one person may do.

    Args:
        person: The person.
        rules: The rules of the deployment.
        cache: What its runs say.
    """

    person: Person
    rules: AccessRules = THIS_MACHINE
    cache: RunAccessCache = field(default_factory=RunAccessCache)

    def may(self, capability: Capability, run: RunAccess) -> bool:
        """Return whether the person may do something with a run."""
        return may(self.person, capability, run, self.rules)

    @property
    def sees_all(self) -> bool:
        """True for who may see the runs of every blueprint that does not say itself who may."""
        general = self.rules.general.names_having("see")
        return not self.rules.enforced or not general.isdisjoint(self.person.names)

    def may_see_question(self, question: Question, run: RunAccess) -> bool:
        """Return whether the person may see a question."""
        return may_see_question(self.person, question.people, question.accepted_by, run, self.rules)

    def condition(self, waits_for: Sequence[str] | None = None) -> str | None:
        """Return the condition of visibility that a run fulfils which the person may see; None where they see all.

        Others fulfil it, too: what it finds is looked at one by one.

        Args:
            waits_for: For workflows with questions: of those that wait for one of these the condition is fulfilled.
        """
        if not self.rules.enforced:
            return None
        words = " ".join(words_for(self.person, self.rules))
        condition = f"{ACCESS_ATTRIBUTE} = '{words}'"
        if not waits_for:
            return condition
        names = ", ".join(f"'{quote(name)}'" for name in waits_for)
        return f"({condition} OR {WAITING_ATTRIBUTE} IN ({names}))"
