"""Checkpoints before or after a step: a person sees the context, and may return it changed. For the interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from holdfast.blueprint.kinds import AnyStep
from holdfast.blueprint.questions import Checkpoint
from holdfast.protocol.address import Address, parts
from holdfast.protocol.questions import QuestionRequest
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame

_ENCLOSING = ("pipeline", "loop", "import", "map")


async def stop(frame: Frame, position: Literal["before", "after"], step: AnyStep, *, is_at_once: bool = False) -> None:
    """Wait for a person; a returned context replaces the shown one, declining fails the run.

    Where several may be waited for at once, each has an address of its own: a run that goes on from this one finds its
    reply by that. `is_at_once`: whether steps of the same list may.
    """
    await frame.host.until_resumed()
    own = frame.at(step.segment, step.name).address
    enclosing = replace(frame, address=own if is_at_once else _find_enclosing(frame.address))
    place = f"{position} {step.name}"
    asked = Checkpoint(
        message=f"Stopped {place}.",
        info=frame.store.value,
        context_schema=frame.store.schema,
        step=own,
        position=position,
    )
    reply = await frame.host.ask(QuestionRequest(asked, enclosing.address, frame.iteration))
    if reply.status != "answered":
        person, reason = reply.by or "somebody", f": {reply.comment}" if reply.comment else ""
        raise failure("stopped", f"{person} ended the run {place}{reason}", enclosing.address, final=True)
    if reply.content is not None:
        enclosing.write(reply.content)


def _find_enclosing(address: Address) -> Address:
    """Return the address of the pipeline, iteration, item, import or branch at once that the step's list belongs to."""
    segments = address.split(";")
    kinds = [kind for kind, _, _ in parts(address)]
    at_once = {depth for depth in range(1, len(kinds)) if kinds[depth - 1 : depth + 1] == ["parallel", "branch"]}
    last = max(depth for depth, kind in enumerate(kinds) if kind in _ENCLOSING or depth in at_once)
    return Address(";".join(segments[: last + 1]))
