"""Approval and review of tool calls by a person, for agents and plans."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.blueprint import defaults
from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.agents import ToolCall, ToolSpec
from holdfast.protocol.questions import Permission, Review
from holdfast.workflows.frame import Frame
from holdfast.workflows.permissions import CallDecision, Policy, decide, permit_of


class Denied(Exception):
    """The call may not be made; the message is for the model."""


async def approved(call: ToolCall, spec: ToolSpec, policies: Sequence[Policy], frame: Frame) -> ToolCall:
    """Return the call as it may be made; a person may have changed its arguments. Raises `Denied`."""
    decision = _decide(call, spec, policies, frame)
    if decision.action == "review":
        call = with_defaults(await _reviewed(call, spec, decision.reason, frame), spec)
        decision = _decide(call, spec, policies, frame, reviewed=True)
    if decision.action == "refuse":
        raise Denied(decision.reason)
    if decision.action == "approve":
        answer = await ask_approval(call, decision.reason, frame)
        if answer.get("scope") in ("run", "always"):
            frame.host.permit(permit_of(spec, frame.blueprint))
    return call


def _decide(
    call: ToolCall, spec: ToolSpec, policies: Sequence[Policy], frame: Frame, *, reviewed: bool = False
) -> CallDecision:
    permits = frame.host.permits
    permitted = bool(permits) and permit_of(spec, frame.blueprint) in permits
    return decide(call.args, spec, policies, permitted=permitted, reviewed=reviewed)


def with_defaults(call: ToolCall, spec: ToolSpec) -> ToolCall:
    """Return the call with the tool's default arguments filled in, as whoever approves must see them."""
    return call.model_copy(update={"args": defaults.with_defaults(spec.parameters, call.args)})


async def ask_approval(call: ToolCall, message: str, frame: Frame) -> JSONObject:
    """Ask a person to approve a call, and return the answer. Raises `Denied` unless it is an explicit yes."""
    asked = Permission(message=message, info={"tool": call.name, "args": call.args})
    reply = await frame.ask(asked)
    answer: JSONObject = reply.content if reply.status == "answered" else asked.when_declined(reply.comment)
    if answer["granted"] is not True:
        raise Denied(f"not approved{_because(answer)}")
    return answer


async def _reviewed(call: ToolCall, spec: ToolSpec, message: str, frame: Frame) -> ToolCall:
    asked = Review(message=message, payload=call.args, payload_schema=spec.parameters, info={"tool": call.name})
    reply = await frame.ask(asked)
    answer = reply.content if reply.status == "answered" else asked.when_declined(reply.comment)
    if answer["verdict"] == "rejected":
        raise Denied(f"rejected{_because(answer)}")
    return call.model_copy(update={"args": answer["payload"]})


def _because(answer: JSONObject) -> str:
    return f": {answer['reason']}" if answer.get("reason") else ""
