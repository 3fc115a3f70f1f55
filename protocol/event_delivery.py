"""How a run sends an event that it has kept to the workflow of it that has claimed it: the request of an activity."""

from __future__ import annotations

from typing import Literal

from holdfast.blueprint.parts import Retry
from holdfast.protocol.activity_request import ActivityRequest
from holdfast.protocol.incoming import SystemEvent
from holdfast.protocol.values import Value

DELIVER_EVENT = "deliver_event"
DeliveryStatus = Literal["taken", "not_awaited", "refused"]
"""`not_awaited`: the workflow waits for it no more, so that another one may take it."""
NOT_AWAITED = ("unknown_question", "run_closed")
"""The refusals of such a workflow."""


class DeliveryRequest(ActivityRequest):
    """An event that a run has kept, for the workflow of it that has claimed it."""

    timeout: float = 30.0
    retry: Retry = Retry(attempts=1000)
    run: str
    owner: str
    event: SystemEvent
    proof: str
    """What the token proved that the event came with; `nothing` without one."""


class DeliveryResult(Value):
    """What came of the delivery."""

    status: DeliveryStatus
