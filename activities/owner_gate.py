"""The gate in front of a tool whose owner demands a person's word: it holds for steps, agents and plans alike.

Agents and plans ask in their workflows, by what the tool's description says; a step calls at once, and is held here.
"""

from __future__ import annotations

from holdfast.activities.interrupt import Interrupt
from holdfast.activities.registry import Tool, wrong
from holdfast.blueprint.defaults import with_defaults
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.questions import Permission, Review
from holdfast.protocol.address import segment
from holdfast.protocol.agents import ToolRequest, ToolSpec
from holdfast.protocol.permissions import CallDecision, ProposedCall, decide
from holdfast.protocol.tool_rules import Consent

APPROVAL_GATE = segment("level", "owner-approval")
REVIEW_GATE = segment("level", "owner-review")
"""Paths of the questions, which are none of the tool's own."""


def admit_request(tool: Tool, request: ToolRequest) -> ToolRequest:
    """Return the request as it may be made: with the arguments that a person has reviewed, without the gate's answers.

    Raises `Interrupt` for a call that a person must allow first, and `not_approved` for one that is refused. Where
    tools are called by position, as conditions and mappers are, nobody can be asked: `not_allowed`.
    """
    if (rule := tool.rule) is None:
        return request
    if request.args is not None:
        raise wrong("not_allowed", f"{tool.name} needs a person's approval, and cannot be a condition or a mapper")
    args, consent = _arguments(tool, request), request.consent
    if (reviewed := request.given.get(REVIEW_GATE)) is not None:
        args, consent = _take_review(tool, args, reviewed.content), "reviewed"
    elif APPROVAL_GATE in request.given:  # a no has ended the call in the workflow
        consent = "approved"
    spec = ToolSpec(name=tool.name, reference=request.tool, rule=rule)
    decision = decide(ProposedCall(spec, args, consent=consent))
    match decision.action:
        case "review":
            raise _review(tool, decision, args)
        case "approve":
            raise _approval(tool, decision, args, request.tool)
    return _without_gate(request, args if reviewed is not None else None, consent)


def _arguments(tool: Tool, request: ToolRequest) -> JSONObject:
    """Return the arguments by name, with the tool's defaults, as the person must see them."""
    positional, named = tool.arguments(request.input, request.by_name)
    by_name = {**dict(zip(tool.parameter_names, positional, strict=False)), **named}
    filled: JSONObject = with_defaults(tool.parameters(), by_name)
    return filled


def _take_review(tool: Tool, args: JSONObject, answer: JSONObject) -> JSONObject:
    if answer["verdict"] == "rejected":
        because = f": {answer['reason']}" if answer.get("reason") else ""
        raise wrong("not_approved", f"{tool.name}: rejected{because}")
    payload: JSONObject = answer.get("payload") if answer["verdict"] == "edited" else args  # type: ignore[assignment]
    return payload


def _review(tool: Tool, decision: CallDecision, args: JSONObject) -> Interrupt:
    asked = Review(message=decision.reason, payload=args, payload_schema=tool.parameters(), info=_about(tool, decision))
    interrupt = Interrupt(asked)
    interrupt.path = REVIEW_GATE
    return interrupt


def _approval(tool: Tool, decision: CallDecision, args: JSONObject, reference: str) -> Interrupt:
    interrupt = Interrupt(Permission(message=decision.reason, info={**_about(tool, decision), "args": args}))
    interrupt.path, interrupt.ends, interrupt.permit = APPROVAL_GATE, "denied", reference
    return interrupt


def _about(tool: Tool, decision: CallDecision) -> JSONObject:
    return {"tool": tool.name, **({} if decision.risk is None else {"risk": decision.risk})}


def _without_gate(request: ToolRequest, args: JSONObject | None, consent: Consent) -> ToolRequest:
    """Return the request as the tool sees it: an answer to the gate is no answer to an interrupt of the tool."""
    gates = (APPROVAL_GATE, REVIEW_GATE)
    changes: JSONObject = {
        "given": {path: answer for path, answer in request.given.items() if path not in gates},
        "interrupted": [path for path in request.interrupted if path not in gates],
        "consent": consent,
    }
    return request.model_copy(update=changes if args is None else {**changes, "input": args, "by_name": True})
