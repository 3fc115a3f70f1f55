"""What forks have changed: the context at their places, and the run's input from there on. For `earlier_run`."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.blueprint.json_values import JSON
from holdfast.protocol.address import Address
from holdfast.protocol.past import Fork, Past


class ChangedValues:
    """The changes of the fork that a run is, and of those that it goes on from; none in any other run."""

    def __init__(self, past: Past) -> None:
        self._places = [*past.changed, *([past.fork] if past.fork is not None else [])]
        self._reached: list[Fork] = []
        """Those to which this workflow has come, in that order."""
        self._untaken = [place for place in self._places if place.changes]
        self._begun_with = past.input

    def arrive(self, address: str) -> None:
        """Note that the run has come to an address."""
        self._reached += [place for place in self._places if place.address == address and place not in self._reached]

    def leave(self, addresses: Collection[Address]) -> None:
        """Note that the run has come to places in a child, which takes the changes there."""
        for place in [place for place in self._places if place.address in addresses]:
            self.arrive(place.address)
        self._untaken = [place for place in self._untaken if place.address not in addresses]

    def take(self, address: Address) -> dict[str, JSON]:
        """Return what is to be written into the context at a step, by path; once, at the place."""
        here = [place for place in self._untaken if place in self._reached and place.is_around(address)]
        self._untaken = [place for place in self._untaken if place not in here]
        return {path: value for place in here for path, value in place.changes.items()}

    def read_input(self, address: str, own: JSON) -> JSON:
        """Return the run's input as it is read at an address; `own` is what the workflow was started with."""
        inputs = [place.input[0] for place in self._reached if place.input and not place.is_beside(address)]
        return [own, *self._begun_with, *inputs][-1]

    @property
    def next_input(self) -> list[JSON]:
        """The run's input for the next history of this workflow, in a list; [] where it stays."""
        return next((place.input for place in reversed(self._reached) if place.input), self._begun_with)
