"""Checkpoints before or after a step: a person sees the context, and may return it changed. For the interpreter."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Literal

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import AnyStep
from holdfast.blueprint.questions import Checkpoint
from holdfast.blueprint.words.text import RUN
from holdfast.protocol.address import Address, parts
from holdfast.protocol.questions import QuestionRequest
from holdfast.workflows.failures import HANDLED, failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.journal import preview

_ENCLOSING = ("pipeline", "loop", "import", "map")


LONGEST_SHOWN = 2_000
"""Characters of a value that a step would get, as a stop before it shows it."""


async def stop(
    frame: Frame,
    position: Literal["before", "after"],
    step: AnyStep,
    *,
    previous: object = None,
    following: AnyStep | None = None,
    is_at_once: bool = False,
) -> None:
    """Wait for a person; a returned context replaces the shown one, declining fails the run.

    Where several may be waited for at once, each has an address of its own: a run that goes on from this one finds its
    reply by that.

    Args:
        frame: The frame of the step's list.
        position: Where it stops.
        step: The step.
        previous: Before a step: the output of the one before it.
        following: Before a step: the one that comes after it in its list.
        is_at_once: Whether steps of the same list may be under way at once.
    """
    await frame.host.until_resumed()
    own = frame.at(step.segment, step.name).address
    enclosing = replace(frame, address=own if is_at_once else _find_enclosing(frame.address))
    place = f"{position} {step.name}"
    own_info = _announce(step, following, frame, previous) if position == "before" else None
    asked = Checkpoint(
        message=f"Stopped {place}.",
        info=frame.store.value,
        context_schema=frame.store.schema,
        step=own,
        position=position,
    )
    parents = [] if own_info is None else [{"address": own, "info": own_info}]
    reply = await frame.host.ask(QuestionRequest(asked, enclosing.address, frame.iteration, parents=parents))
    if reply.status != "answered":
        person, reason = reply.by or "somebody", f": {reply.comment}" if reply.comment else ""
        raise failure("stopped", f"{person} ended the run {place}{reason}", enclosing.address, final=True)
    if reply.content is not None:
        enclosing.write(reply.content)


def _announce(step: AnyStep, following: AnyStep | None, frame: Frame, previous: object) -> JSONObject:
    """Return what the step will do, with the values that it would get as the context is now, and what comes next."""
    seen = frame.at(step.segment, step.name).after(previous)
    rendered = {key: _render(template, seen) for key, template in step.reads().items()}
    values = {key: preview(value, LONGEST_SHOWN) for key, value in rendered.items() if value not in (None, "", [], {})}
    told: JSONObject = {"next": f"{step.label} {step.describe(RUN.after('what came before')).text}"}
    if values:
        told["with"] = values if len(values) > 1 else next(iter(values.values()))
    if _is_skipped(step, seen):
        told["but"] = "as the context is now, its condition does not hold: it will be skipped"
    if following is not None:
        told["then"] = following.label
    return told


def _is_skipped(step: AnyStep, seen: Frame) -> bool:
    with suppress(*HANDLED):
        return step.when is not None and not seen.holds(step.when)[0]
    return False


def _render(template: object, seen: Frame) -> JSON:
    """Return the value of a template; None where there is none, or it cannot be known before the step runs."""
    with suppress(*HANDLED):
        return seen.render(template)
    return None


def _find_enclosing(address: Address) -> Address:
    """Return the address of the pipeline, iteration, item, import or branch at once that the step's list belongs to."""
    segments = address.split(";")
    kinds = [kind for kind, _, _ in parts(address)]
    at_once = {depth for depth in range(1, len(kinds)) if kinds[depth - 1 : depth + 1] == ["parallel", "branch"]}
    last = max(depth for depth, kind in enumerate(kinds) if kind in _ENCLOSING or depth in at_once)
    return Address(";".join(segments[: last + 1]))
