"""Static interrupts: before or after a step a person sees the context, and may give it back changed."""

from __future__ import annotations

from dataclasses import replace

from protocol.address import Address, parts
from protocol.questions import Checkpoint
from workflows.failures import failure
from workflows.frame import Frame

_ENCLOSING = ("pipeline", "loop", "import")


async def stop(frame: Frame, where: str) -> None:
    """Wait for a person. A context that comes back replaces the one that was shown; declining fails the run."""
    await frame.host.until_resumed()
    here = replace(frame, address=_enclosing(frame.address))
    context = frame.store.value
    asked = Checkpoint(message=f"Stopped {where}.", info=context, context_schema=frame.store.schema)
    reply = await here.host.ask(here.address, asked, iteration=frame.iteration, timeout=None)
    if reply.status != "answered":
        who, why = reply.by or "somebody", f": {reply.comment}" if reply.comment else ""
        raise failure("stopped", f"{who} ended the run {where}{why}", here.address, final=True)
    if reply.content is not None:
        here.write(reply.content)


def _enclosing(address: Address) -> Address:
    """The pipeline, loop or import that the steps of a list belong to."""
    segments = address.split(";")
    kinds = [kind for kind, _, _ in parts(address)]
    last = max(index for index, kind in enumerate(kinds) if kind in _ENCLOSING)
    return Address(";".join(segments[: last + 1]))
