"""The `cache` kind: a step that is not run again for the same key; a hit writes to the context like a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from temporalio.exceptions import ActivityError

from blueprint.grammar import Cache
from blueprint.reach import agent_of
from protocol.agents import CacheEntry
from protocol.context import GONE, Path, changes, with_changes
from protocol.values import digest_of
from workflows.failures import failure_of
from workflows.frame import Frame
from workflows.together import is_cancelled

FORMAT = 1
"""Of what is kept; another one does not meet values of this one."""


async def run_cache(step: Cache, frame: Frame) -> Any:
    value = frame.input_of(step)
    key = _key(step, frame.after(value))
    hit = await frame.host.look_up(key)
    if hit.found:
        frame.note("cache.hit", key=key)
        changed = {tuple(path): GONE if gone else new for path, new, gone in hit.value["changes"]}
        frame.write(with_changes(frame.store.value, changed))
        return hit.value["output"]
    before = frame.store.value
    inside = replace(frame, scope=frame.scope.inner())
    output = await frame.run_steps([step.wrapped_step], inside, value)
    written = _written(changes(before, frame.store.value))
    try:
        await frame.host.keep(CacheEntry(key=key, value={"output": output, "changes": written}, ttl=step.ttl))
    except ActivityError as error:
        if is_cancelled(error):
            raise
        # What has been done and paid for is not lost because it cannot be kept.
        frame.note("cache.failed", message=failure_of(error, frame.address).message)
    return output


def _key(step: Cache, frame: Frame) -> str:
    """The author's key within the step; by default the wrapped step, its agent, and what it gets."""
    place = (FORMAT, frame.host.blueprint_name, frame.blueprint.name, step.name)
    if step.key is not None:
        return digest_of(*place, frame.render(step.key))
    wrapped = step.wrapped_step
    agent = agent_of(wrapped, frame.blueprint)
    said = [wrapped.model_dump(mode="json"), None if agent is None else agent.model_dump(mode="json")]
    return digest_of(*place, *said, frame.render(wrapped.input))


def _written(changed: dict[Path, Any]) -> list[Any]:
    return [[list(path), None if value is GONE else value, value is GONE] for path, value in changed.items()]
