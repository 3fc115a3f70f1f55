"""The `hitl` kind: ask a person; the output is the answer."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from blueprint.expressions import text_of
from blueprint.grammar import Hitl, Option
from protocol.questions import Asked, Choice, Clarification, Decision, Input, InvalidAnswer
from workflows.failures import failure
from workflows.frame import Frame
from workflows.questions import Reply


async def run_hitl(step: Hitl, frame: Frame) -> Any:
    asked = _asked(step, frame)
    reply = await frame.ask(asked, step.timeout, takes_default=step.on_timeout == "default")
    match reply.status:
        case "answered":
            frame.turn("User", reply.content)
            return reply.content
        case "expired":
            return _expired(step, asked, frame)
        case _:
            return _declined(step, reply, frame)


def _asked(step: Hitl, frame: Frame) -> Asked:
    frame = frame.after(frame.render(step.input))
    message = text_of(frame.render(step.message))
    if not message.strip():
        raise failure(
            "empty_message", f"the message of {step.name} is empty; a person must see what is asked", frame.address
        )
    default = frame.render(step.default)
    options = _options(step, frame)
    if step.ask == "input" and not options:
        return Input(message=message, form=step.input_schema, default=default)
    most = max(len(options), 1) if step.multiple is True else step.multiple or 1
    own = {} if step.allow_custom is None else {"allow_custom": step.allow_custom}
    return _CHOICES[step.ask](message=message, options=options, default=default, max_selections=most, **own)


_CHOICES: dict[str, type[Choice | Clarification | Decision]] = {
    "input": Choice,
    "clarification": Clarification,
    "decision": Decision,
}


def _options(step: Hitl, frame: Frame) -> list[Option]:
    """The options as written, or the list that their template gives: texts or objects."""
    rendered = frame.render(step.options) if isinstance(step.options, str) else None
    if rendered is None:
        return [_rendered(option, frame) for option in step.options] if not isinstance(step.options, str) else []
    if not isinstance(rendered, list):
        raise failure("bad_options", f"the options of {step.name} are no list", frame.address)
    try:
        return [Option.model_validate({"id": one, "label": one} if isinstance(one, str) else one) for one in rendered]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise failure(
            "bad_options", f"the options of {step.name}: {first['loc']}: {first['msg']}", frame.address
        ) from None


def _rendered(option: Option, frame: Frame) -> Option:
    texts = frame.render({"label": option.label or option.id, "description": option.description})
    return option.model_copy(update={key: None if text is None else text_of(text) for key, text in texts.items()})


def _expired(step: Hitl, asked: Asked, frame: Frame) -> Any:
    match step.on_timeout:
        case "default":
            return _default(step, asked, frame)
        case "skip":
            return None
        case _:
            raise failure("question_expired", f"nobody answered {step.name} in time", frame.address)


def _default(step: Hitl, asked: Asked, frame: Frame) -> Any:
    try:
        return asked.accept(asked.default)
    except InvalidAnswer as error:
        raise failure("bad_default", f"the default of {step.name} is no answer to it: {error}", frame.address) from None


def _declined(step: Hitl, reply: Reply, frame: Frame) -> Any:
    if step.on_decline == "continue":
        return None
    who = reply.by or "somebody"
    why = f": {reply.comment}" if reply.comment else ""
    if step.on_decline == "abort":
        raise failure("aborted", f"{who} {reply.status} {step.name}{why}", frame.address, final=True)
    raise failure(f"question_{reply.status}", f"{who} {reply.status} {step.name}{why}", frame.address)
