"""The gates of changed workflow code: what `workflow.patched` asks for, why, and when each may go.

Nothing is released yet, so there is one baseline and no gate. From 0.1.0 on a change of workflow code that leads to
other commands is a row here, and stays until no run started before it can still be open.
"""

from __future__ import annotations

from typing import NamedTuple


class Patch(NamedTuple):
    """One gate. `id` goes to `workflow.patched`; versions are those of the distribution."""

    id: str
    since: str
    why: str
    removed_in: str


PATCHES: tuple[Patch, ...] = ()
