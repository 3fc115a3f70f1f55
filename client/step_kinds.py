"""What views and texts need to know of a step's kind: its class. It loads the language, when a step is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Step


def find_step_kind(name: str) -> type[Step]:
    """Return the class of a kind, or the base of all for what is no step: a run, a call of a tool."""
    from holdfast.blueprint.kinds import kind_named  # noqa: PLC0415  commands that show no step do without

    return kind_named(name)
