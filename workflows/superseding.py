"""The branches that have lost a race: what asks or runs in them ends as superseded, in children too.

A parent tells its children so by the reason of the cancellation that it sends them. For questions and children.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from temporalio import workflow

from holdfast.protocol.address import Address, is_within

SUPERSEDED = "superseded by another branch"
"""The reason of a cancellation of what runs in a branch that has lost."""


class Superseding:
    """The places of one workflow in which everything is being cancelled because others came first."""

    def __init__(self) -> None:
        self._places: list[Address] = []

    @contextmanager
    def supersede(self, places: Sequence[Address]) -> Iterator[None]:
        """Hold these places as superseded, while what runs in them ends."""
        self._places += places
        try:
            yield
        finally:
            for place in places:
                self._places.remove(place)

    def covers(self, address: Address) -> bool:
        """Return whether what is cancelled at an address has lost, here or in a workflow around this one."""
        # The SDK's core puts words of its own before the reason.
        is_around = (workflow.cancellation_reason() or "").endswith(SUPERSEDED)
        return is_around or any(is_within(address, place) for place in self._places)

    def reason_for(self, address: Address) -> str:
        """Return the reason of a cancellation that is sent to a child at an address; "" for any other."""
        return SUPERSEDED if self.covers(address) else ""
