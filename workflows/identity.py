"""What does not change about a workflow of a run. Made by the workflow classes; frames, the door and calls read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.protocol.access import AccessPolicy
from holdfast.protocol.address import Address
from holdfast.protocol.runs import HistoryLimits, LossPolicy
from holdfast.protocol.size_limits import SizeLimits


@dataclass(frozen=True)
class RunIdentity:
    """The constants of a workflow: its run, its place there, the access to it, and the run's limits.

    Limits are fixed when the run starts. The handler of a signal runs again on replay, and must measure by the same
    limits then; those of the deployment may have changed.
    """

    run: str
    address: Address
    blueprint: str
    guarded: bool = False
    access: AccessPolicy = AccessPolicy()
    started_by: str | None = None
    size_limits: SizeLimits = SizeLimits()
    history_limits: HistoryLimits = HistoryLimits()
    loss_policy: LossPolicy = LossPolicy()
    local_tools: Sequence[str] = ()

    @property
    def run_fields(self) -> dict[str, Any]:
        """The fields of every definition that are the same in the whole run."""
        own = ("address", "blueprint")
        return {name: value for name, value in vars(self).items() if name not in own}
