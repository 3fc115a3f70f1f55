"""All that a run did and met, where it goes on from another one: for `case_recorder`, which writes a test of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from holdfast.client.run_histories import Call, ChildRun, Histories, WorkflowHistory
from holdfast.client.tree import Tree


@dataclass
class WholeRun:
    """What counts of a run, and of those that it goes on from."""

    histories: list[WorkflowHistory] = field(default_factory=list)
    """Those of which everything counts."""
    calls: list[Call] = field(default_factory=list)
    """Calls of other histories that were met."""
    own_children: list[ChildRun] = field(default_factory=list)
    """Workflows of the author's own that were met."""
    past: list[str] = field(default_factory=list)
    """The runs that it goes on from, the last one first."""


class WholeRunReader:
    """Reads one run, by `read`. Raises `BadInput` for what Temporal has forgotten."""

    def __init__(self, tree: Tree, run: str) -> None:
        self._run, self._histories = run, Histories(tree, run)
        self._whole = WholeRun()
        self._calls: dict[str, Call] = {}
        self._children: dict[str, ChildRun] = {}
        self._workflows: dict[str, list[str]] = defaultdict(list)
        """Of the earlier runs, by the addresses of their steps."""

    async def read(self) -> WholeRun:
        """Return what counts of the run."""
        before = await self._histories.read_chain(self._run)
        while (past := before[0].past) is not None:
            self._whole.past.append(past.run)
            before = await self._histories.read_chain(past.run)
        for run in reversed(self._whole.past):
            await self._list(run)
        await self._take(self._run, "")
        return self._whole

    async def _list(self, run: str) -> None:
        """List what an earlier run did, in place of what those before it did under the same ids."""
        async for history in self._histories.walk(run):
            self._calls |= history.calls
            for child in history.children:
                self._children[child.workflow] = child
                self._workflows[child.address].append(child.workflow)

    async def _take(self, workflow: str, address: str) -> None:
        """Take a workflow of any of the runs, what it met, and all below it."""
        chain = await self._histories.read_chain(workflow)
        if chain[0].past is not None:
            await self._take_met(chain[0], address)
        for history in chain:
            await self._take_history(history)

    async def _take_history(self, history: WorkflowHistory) -> None:
        self._whole.histories.append(history)
        for child in history.children:
            if not child.is_own:
                await self._take(child.workflow, child.address)

    async def _take_met(self, history: WorkflowHistory, address: str) -> None:
        """Take what a workflow met, and what it had done before the state that it began with."""
        assert history.past is not None
        ended = {
            child.workflow: address
            for address, there in history.past.children.items()
            for child in there
            if child.status != "open"
        }
        for id_ in (await self._histories.read_waits(history)).met:
            if id_ in self._calls:
                self._whole.calls.append(self._calls[id_])
            elif id_ in ended and self._children[id_].is_own:
                self._whole.own_children.append(self._children[id_])
            elif id_ in ended:
                await self._take(id_, ended[id_])
        if history.past.state is not None:
            for before in await self._find_before(history, address):
                await self._take_history(before)

    async def _find_before(self, history: WorkflowHistory, address: str) -> list[WorkflowHistory]:
        """Return the histories that led to the state that a workflow began with."""
        for workflow in reversed(self._workflows[address]):
            chain = await self._histories.read_chain(workflow)
            for number, other in enumerate(chain):
                if history.past is not None and other.state == history.past.state:
                    return chain[:number]
        return []
