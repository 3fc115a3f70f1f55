"""What the plans of a run did before they failed: kept by the workflows around them, asked of before a call is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.blueprint.json_values import JSON
from holdfast.protocol.address import Address, is_within
from holdfast.protocol.ledger import LedgerEntry, add_entries, drop_iterations, is_around, select_near
from holdfast.protocol.values import make_digest


class Ledgers:
    """The ledgers that one workflow has of the plans in it, around it and below it, by the place of the plan."""

    def __init__(self, entries: Mapping[str, list[LedgerEntry]] | None) -> None:
        self.entries = dict(entries or {})

    def read(self, plan: Address) -> list[LedgerEntry]:
        """Return what earlier plans of the step at this address did."""
        return self.entries.get(drop_iterations(plan), [])

    def add(self, plan: Address, entries: Iterable[LedgerEntry]) -> None:
        """Add what a plan did."""
        if found := add_entries(self.read(plan), entries):
            self.entries = {**self.entries, drop_iterations(plan): found}

    def add_item(self, item: Address, entries: Iterable[LedgerEntry]) -> None:
        """Add what was done for an item of a plan's loop that is begun anew: it concerns no other item."""
        if found := add_entries(self.entries.get(item, []), entries):
            self.entries = {**self.entries, item: found}

    def clear_item(self, item: Address) -> None:
        """Forget what was done for an item, as it is over."""
        self.entries = {place: value for place, value in self.entries.items() if place != item}

    def clear(self, plan: Address) -> None:
        """Forget what was done, as the plan has reached its goal: the next one has another."""
        own = drop_iterations(plan)
        self.entries = {place: value for place, value in self.entries.items() if not is_within(place, own)}

    def find(self, address: Address, tool: str, args: JSON) -> LedgerEntry | None:
        """Return the call of an earlier plan that equals one below this one; None if there is none."""
        if not self.entries:
            return None
        digest = make_digest(args)
        around = [entries for place, entries in self.entries.items() if is_around(place, address)]
        equal = (entry for entries in around for entry in entries if entry.matches(tool, digest))
        # One of this very call says more than one of which the arguments are not known.
        return min(equal, key=lambda entry: entry.arguments_digest is None, default=None)

    def select(self, child: Address) -> dict[str, list[LedgerEntry]]:
        """Return those that a child at an address has to know."""
        return select_near(self.entries, child)

    def take_over(self, child: Address, entries: Mapping[str, list[LedgerEntry]] | None) -> None:
        """Take those of the plans in a child that has ended; None: nothing is known of it."""
        if entries is None:
            return
        place = drop_iterations(child)
        others = {key: value for key, value in self.entries.items() if not is_within(key, place)}
        self.entries = {**others, **{key: value for key, value in entries.items() if is_within(key, place)}}
