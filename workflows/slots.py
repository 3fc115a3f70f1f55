"""How many items of a map may be under way in each of its workflows, and how what is free goes to the next page.

A page whose items have all begun tells the workflow around it what it no longer needs. That one starts the next page
with it, or grants it to the page that has items to begin; so an item that waits holds back none behind it. For
`MapWorkflow`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from temporalio import workflow
from temporalio.common import RawValue

from holdfast.protocol.address import Address
from holdfast.protocol.children import FreedSlots, GrantedSlots
from holdfast.protocol.names import SLOTS_FREED, SLOTS_GRANTED
from holdfast.protocol.usage import Usage
from holdfast.workflows.concurrency import deliver
from holdfast.workflows.door import NOTHING, read_from_workflow
from holdfast.workflows.handlers import Host

MESSAGES = 8
"""About so many are sent by a page: with one for each item the history of a map would grow with its items."""


@dataclass
class _Share:
    """The slots of a page, as the workflow around it knows them."""

    slots: int
    usage: Usage = Usage()
    """What the page has spent, as it told last."""
    is_filled: bool = False
    """True once all of its items have begun."""


class Slots:
    """The slots of one workflow of a map: each is for one item that is under way, here or in a page.

    Args:
        host: The workflow.
        most: Slots of the whole map.
        held: Those of this workflow, at its start.
        count: How many items, or pages, are to begin here.
        is_page: Whether there is a workflow around it that is told what is free.
    """

    def __init__(self, host: Host, most: int, held: int, count: int, *, is_page: bool) -> None:
        self.door = host.door
        self._host, self._most, self._held, self._count, self._is_page = host, most, held, count, is_page
        self._used = self._begun = 0
        self._free = asyncio.Semaphore(held)
        """For items; a page takes all that is free."""
        self._shares: dict[Address, _Share] = {}
        self._telling = asyncio.Lock()

    # An item, or a page, that fails gives its slots to no other: its map fails, too.

    async def __aenter__(self) -> None:
        """Wait for a slot, and begin an item with it."""
        await self._free.acquire()
        self._used += 1
        self._begun += 1
        self._hand_on()

    async def __aexit__(self, failed: type[BaseException] | None, *error: object) -> None:
        self._used -= 1
        if failed is None:
            self._free.release()
            self._hand_on()

    @asynccontextmanager
    async def hold_for_page(self, page: Address, nth: int) -> AsyncIterator[int]:
        """Wait until all items before a page have begun, and hold what is free until its end; yield how many."""
        await workflow.wait_condition(lambda: self._begun == nth and self._used < self._held)
        share = self._shares[page] = _Share(self._take_free())
        asyncio.create_task(self._grant_free(page, share))
        yield share.slots
        del self._shares[page]
        self._take_back(share, share.slots)

    @property
    def spent_in_pages(self) -> Usage:
        """Return what the pages that are under way have spent, as they told."""
        return sum((share.usage for share in self._shares.values()), Usage())

    def _take_free(self) -> int:
        free, self._used = self._held - self._used, self._held
        return free

    async def _grant_free(self, page: Address, share: _Share) -> None:
        """Grant a page what becomes free while it has items to begin."""
        children = self._host.children
        while True:
            await workflow.wait_condition(
                lambda: share.is_filled or (self._used < self._held and children.is_running(page))
            )
            if share.is_filled:
                return
            granted = GrantedSlots(slots=self._take_free())
            share.slots += granted.slots
            await children.signal_at(page, SLOTS_GRANTED, granted)

    def _take_back(self, share: _Share, slots: int) -> None:
        self._begun += not share.is_filled
        share.is_filled = True
        share.slots -= slots
        self._used -= slots
        self._hand_on()

    # Between the workflows of a map. Anybody can send these signals, so no more is taken than there may be.

    @workflow.signal(name=SLOTS_FREED)
    def take_freed(self, payload: RawValue = NOTHING) -> None:
        """Take back slots of a page; from one that has ended all were taken."""
        freed = read_from_workflow(FreedSlots, payload)
        if freed is not None and (share := self._shares.get(freed.page)) is not None:
            share.usage = freed.usage
            self._take_back(share, min(freed.slots, share.slots))

    @workflow.signal(name=SLOTS_GRANTED)
    def take_granted(self, payload: RawValue = NOTHING) -> None:
        """Take slots that have become free in another page."""
        granted = read_from_workflow(GrantedSlots, payload)
        more = 0 if granted is None else min(granted.slots, self._most - self._held)
        self._held += more
        for _ in range(more):
            self._free.release()
        self._hand_on()

    def _hand_on(self) -> None:
        if self._is_much_free():
            asyncio.create_task(self._tell_free())

    def _is_much_free(self) -> bool:
        """Return whether so much is free here for good that the workflow around it is told; at its end it knows."""
        free = self._held - self._used
        is_much = free >= max(self._most // MESSAGES, 1) or free * 2 >= self._held
        return self._is_page and self._begun == self._count and self._used > 0 and is_much

    async def _tell_free(self) -> None:
        """Tell the workflow around this one what is free; one message after the other, as a second may arrive first."""
        parent = workflow.info().parent
        async with self._telling:
            if not self._is_much_free() or parent is None:
                return
            usage = self._host.progress.usage + self.spent_in_pages
            freed = FreedSlots(page=self._host.identity.address, slots=self._held - self._used, usage=usage)
            self._held = self._used
            handle = workflow.get_external_workflow_handle(parent.workflow_id)
            await deliver(handle.signal(SLOTS_FREED, freed))
