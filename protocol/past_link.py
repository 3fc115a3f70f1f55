"""Which run another one goes on from: in its memo, for whoever lists or shows it. `past` has what that run did."""

from __future__ import annotations

from holdfast.protocol.values import Value

PAST_MEMO = "holdfastPast"
"""In the memo of a run that goes on from another one: its `PastLink`."""


class PastLink(Value):
    """The run that another one goes on from."""

    run: str
    by: str | None = None
    """Who asked for it."""
    digest: str = ""
    """Of the blueprint that took the place of the old one; empty where none did."""
    at: str = ""
    """For a fork: the address from which on nothing was met."""
