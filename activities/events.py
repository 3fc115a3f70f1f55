"""The activity by which a run sends an event that it has kept to the workflow of it that waits for it."""

from __future__ import annotations

from temporalio import activity
from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateHandle
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from holdfast.activities.attempts import run_attempt
from holdfast.activities.signing import sign_command
from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.answers import REFUSALS
from holdfast.protocol.event_delivery import (
    DELIVER_EVENT,
    NOT_AWAITED,
    DeliveryRequest,
    DeliveryResult,
    DeliveryStatus,
)
from holdfast.protocol.guard import PROOFS, SignedCommand
from holdfast.protocol.incoming import SEND_EVENT, EventReceipt


@activity.defn(name=DELIVER_EVENT)
async def deliver_event(request: DeliveryRequest) -> DeliveryResult:
    """Send the event, signed with a key of the deployment; each attempt of a delivery is the same update.

    A workflow that has too many updates for now is tried again.
    """
    async with run_attempt(request):
        handle = activity.client().get_workflow_handle(request.owner)
        id_ = f"delivery:{activity.info().activity_id}"
        try:
            await handle.execute_update(SEND_EVENT, _sign(request), id=id_, result_type=EventReceipt)
        except WorkflowUpdateFailedError as error:
            return DeliveryResult(status=_read_status(error))
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return DeliveryResult(status=await _read_outcome(handle.get_update_handle(id_)))
        return DeliveryResult(status="taken")


async def _read_outcome(update: WorkflowUpdateHandle[object]) -> DeliveryStatus:
    """Return what an attempt before this one came to in a workflow that has ended."""
    try:
        await update.result()
    except (WorkflowUpdateFailedError, RPCError):
        return "not_awaited"
    return "taken"


def _sign(request: DeliveryRequest) -> JSONObject:
    """Return the argument of the update: with a token that proves what the event's own has proved to the run."""
    payload = request.event.to_json()
    for proof in PROOFS["person"]:
        if proof == request.proof:
            return sign_command(SignedCommand(request.run, request.owner, SEND_EVENT, payload), proof)
    return payload


def _read_status(error: WorkflowUpdateFailedError) -> DeliveryStatus:
    cause = error.cause
    if not isinstance(cause, ApplicationError) or cause.type not in REFUSALS or cause.type == "busy":
        raise error
    return "not_awaited" if cause.type in NOT_AWAITED else "refused"
