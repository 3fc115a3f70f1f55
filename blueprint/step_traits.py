"""What views and texts need to know of a step's kind without its class: a command that shows a run loads no kinds.

A kind that is not as most are has a row here. All else it says in its class (`kinds/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class StepTraits(NamedTuple):
    """What most kinds are; and what is no step, as a run or a call of a tool."""

    shows_kind: bool = True
    """The kind stands beside the name in a trace."""
    shows_output: bool = False
    """A line of progress shows the output when the step has completed."""
    iterates: bool = False
    """The steps inside run in iterations."""
    runs_steps_in_child: bool = False
    """The steps inside run in a child workflow."""
    runs_branches_at_once: bool = False
    skips_known_results: bool = False
    """The steps inside do not run where their result is stored already."""


TRAITS: Mapping[str, StepTraits] = {
    "cache": StepTraits(skips_known_results=True),
    "hitl": StepTraits(shows_kind=False),
    "loop": StepTraits(iterates=True, runs_steps_in_child=True),
    "parallel": StepTraits(runs_branches_at_once=True),
    "plan": StepTraits(runs_steps_in_child=True),
    "states": StepTraits(iterates=True, runs_steps_in_child=True),
    "step": StepTraits(shows_kind=False, shows_output=True),
    "workflow": StepTraits(shows_output=True),
}
"""By kind."""


def find_traits(kind: str) -> StepTraits:
    """Return the traits of a kind.

    >>> find_traits("loop").iterates, find_traits("tool").iterates
    (True, False)
    """
    return TRAITS.get(kind, StepTraits())
