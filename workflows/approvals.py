"""Approval and review of tool calls by a person, for agents and plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.blueprint import defaults
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.parts import Risk
from holdfast.blueprint.questions import Permission, Review
from holdfast.protocol.agents import ToolCall, ToolSpec
from holdfast.protocol.ledger import LedgerEntry
from holdfast.protocol.permissions import (
    CallDecision,
    Policy,
    ProposedCall,
    Repetition,
    decide,
    is_repeatable,
    make_permit_key,
)
from holdfast.protocol.tool_rules import Consent
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame


class Denied(Exception):
    """The call may not be made; the message is for the model."""


class Refused(Denied):
    """A rule or a person does not allow the call."""


class Declined(Refused):
    """A person does not allow the call."""


class Allowed(NamedTuple):
    """A call that may be made, and what a person has said of its arguments."""

    call: ToolCall
    consent: Consent = ""
    earlier: LedgerEntry | None = None
    """The same call of an earlier plan, if a person wants that to stand: then this one is not made."""


async def approve_call(
    call: ToolCall,
    spec: ToolSpec,
    policies: Sequence[Policy],
    frame: Frame,
    repetition: Repetition = "",
    note: str = "",
) -> Allowed:
    """Return the call as it may be made; a person may have changed its arguments. The `note` goes with the question.

    Raises `Refused`, and the failure `doom_loop` for a repeated call where nobody can be asked.
    """
    permit = make_permit_key(spec, frame.blueprint) if frame.host.permits else ""
    consent: Consent = "approved" if permit in frame.host.permits else ""
    earlier = _find_earlier(call, spec, policies, frame)
    decision = decide(ProposedCall(spec, call.args, policies, consent, repetition, earlier, note))
    if decision.action == "review":
        call, consent = add_defaults(await _ask_review(call, spec, decision, frame), spec), "reviewed"
        # Once more: a rule may forbid the arguments that the person has put in, and they may be those of another call.
        told, earlier = earlier, _find_earlier(call, spec, policies, frame)
        earlier = None if earlier == told else earlier
        decision = decide(ProposedCall(spec, call.args, policies, consent, earlier=earlier))
    match decision.action:
        case "refuse":
            raise Refused(decision.reason)
        case "end":
            raise failure("doom_loop", decision.reason, frame.address)
        case "approve":
            answer = await _ask_approval(call, decision, frame, earlier)
            if earlier is not None and answer["granted"] is not True:
                return Allowed(call, consent, earlier)
            if decision.permits and answer.get("scope") in ("run", "always"):
                frame.host.permit(make_permit_key(spec, frame.blueprint))
            consent = "approved"
    return Allowed(call, consent)


def add_defaults(call: ToolCall, spec: ToolSpec) -> ToolCall:
    """Return the call with the tool's default arguments filled in, as whoever approves must see them."""
    return call.model_copy(update={"args": defaults.with_defaults(spec.parameters, call.args)})


def _find_earlier(call: ToolCall, spec: ToolSpec, policies: Sequence[Policy], frame: Frame) -> LedgerEntry | None:
    """Return the same call of an earlier plan; None if there is none, or if it may be made twice."""
    earlier = frame.host.ledgers.find(frame.address, spec.reference, call.args)
    return None if earlier is None or is_repeatable(spec, policies) else earlier


async def _ask_approval(
    call: ToolCall, decision: CallDecision, frame: Frame, earlier: LedgerEntry | None
) -> JSONObject:
    """Return a person's approval of a call.

    Raises `Denied` unless it is an explicit yes, or a no to a call that was made earlier.
    """
    done = {} if earlier is None else {"done": earlier.to_output()}
    info = {"tool": call.name, "args": call.args, **_describe_risk(decision.risk), **done}
    asked = Permission(message=decision.reason, info=info)
    reply = await frame.ask(asked)
    answer: JSONObject = reply.content if reply.status == "answered" else asked.when_declined(reply.comment)
    if earlier is not None and reply.status in ("answered", "declined"):
        return answer
    # Only True: whatever else stands there is no consent.
    if answer["granted"] is not True:
        raise Declined(f"not approved{_describe_reason(answer)}")
    return answer


async def _ask_review(call: ToolCall, spec: ToolSpec, decision: CallDecision, frame: Frame) -> ToolCall:
    info = {"tool": call.name, **_describe_risk(decision.risk)}
    asked = Review(message=decision.reason, payload=call.args, payload_schema=spec.parameters, info=info)
    reply = await frame.ask(asked)
    answer = reply.content if reply.status == "answered" else asked.when_declined(reply.comment)
    if answer["verdict"] == "rejected":
        raise Declined(f"rejected{_describe_reason(answer)}")
    return call.model_copy(update={"args": answer["payload"]})


def _describe_risk(risk: Risk | None) -> JSONObject:
    return {} if risk is None else {"risk": risk}


def _describe_reason(answer: JSONObject) -> str:
    return f": {answer['reason']}" if answer.get("reason") else ""
