"""The `wait` kind: wait for an event of another system; the output is the payload of the event."""

from __future__ import annotations

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Wait
from holdfast.blueprint.questions import AwaitedEvent
from holdfast.protocol.incoming import LONGEST_KEY
from holdfast.protocol.questions import QuestionRequest
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.replies import DEFAULT, describe_reply
from holdfast.workflows.template_values import render_duration


async def run_wait(step: Wait, frame: Frame) -> JSON:
    seen = frame.after(frame.read_input(step))
    key = write_text(seen.render(step.key))
    if not key.strip() or len(key) > LONGEST_KEY:
        reason = f"has {len(key)} characters; at most {LONGEST_KEY}" if key.strip() else "is empty"
        raise failure("bad_key", f"the key of the event that {step.name} waits for {reason}", frame.address)
    message = f"Waits for the event {step.event} with the key {key}."
    default = seen.render(step.default)
    asked = AwaitedEvent(
        message=message, name=step.event, key=key, payload=step.payload or {}, early=step.early, default=default
    )
    takes_default = step.on_timeout == "default"
    timeout = render_duration("timeout", step.timeout, step, seen)
    request = QuestionRequest(asked, frame.address, frame.iteration, timeout, takes_default, label=frame.label)
    reply = await frame.put(request)
    described = describe_reply(asked, reply)
    frame.scope.replies[step.name] = described
    match reply.status:
        case "answered":
            return asked.read_output(reply.content)
        case "expired" if takes_default:
            frame.scope.replies[step.name] = described | DEFAULT
            return default
        case "expired" if step.on_timeout == "skip":
            return None
        case "expired":
            message = f"the event {step.event} with the key {key} did not come in time"
            raise failure("event_timeout", message, frame.address)
    raise failure(f"question_{reply.status}", f"{reply.by or 'somebody'} {reply.status} {step.name}", frame.address)
