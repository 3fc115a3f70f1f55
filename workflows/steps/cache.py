"""The `cache` kind: a step that is not run again for the same key; a hit writes to the context as a run would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from temporalio.exceptions import ActivityError

from holdfast.blueprint.dependencies import find_reach
from holdfast.blueprint.expressions.evaluation import names_in
from holdfast.blueprint.expressions.texts import read_structure
from holdfast.blueprint.kinds import AnyStep, Cache
from holdfast.blueprint.kinds.walk import steps_within
from holdfast.blueprint.parts import Part
from holdfast.blueprint.reducers import split_keys
from holdfast.protocol.address import parts
from holdfast.protocol.agents import CacheEntry
from holdfast.protocol.context import (
    Change,
    Path,
    changes,
    changes_by_path,
    listed_changes,
    read,
    with_changes,
)
from holdfast.protocol.events import CacheFailed, CacheWasHit
from holdfast.protocol.values import make_digest
from holdfast.workflows.children import list_reads
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import find_failure
from holdfast.workflows.frame import Frame, read_history

FORMAT = 3
"""Version of the stored values, part of each key: another version does not find them."""


async def run_cache(step: Cache, frame: Frame) -> Any:
    value = frame.read_input(step)
    key = _key(step, frame.after(value))
    hit = await frame.host.activities.look_up(key, frame.address)
    if hit.found:
        return _replay(hit.value, key, frame)
    before = frame.store.value
    inside = replace(frame, scope=frame.scope.nest())
    output = await frame.run_steps([step.wrapped_step], inside, value)
    if inside.scope.steps[step.wrapped_step.name]["status"] != "completed":
        return output  # it failed, and `on_error` went on; or it was skipped, as by a person's no
    changed = _list_changed(step.wrapped_step, before, inside)
    listed = [change.model_dump(mode="json", exclude_defaults=True) for change in listed_changes(changed)]
    entry = {"output": output, "changes": listed, "answer": _answer(inside)}
    try:
        await frame.host.activities.keep(CacheEntry(key=key, value=entry, ttl=step.ttl), frame.address)
    except ActivityError as error:
        if is_cancelled(error):
            raise
        # A step that is done and paid for does not fail because its output cannot be stored.
        frame.note(CacheFailed(message=find_failure(error, frame.address).message))
    return output


def _replay(entry: dict[str, Any], key: str, frame: Frame) -> Any:
    """Return the stored output, and repeat the step's writes to the context and its answer."""
    frame.note(CacheWasHit(key=key))
    changed = [Change.model_validate(change) for change in entry["changes"]]
    frame.write(with_changes(frame.store.value, changes_by_path(changed)))
    for content in entry["answer"]:
        frame.scope.take_answer(content)
    return entry["output"]


def _list_changed(wrapped: AnyStep, before: dict[str, Any], inside: Frame) -> dict[Path, Any]:
    """Return what the step changed, and what it wrote with the value that was there before."""
    after = inside.store.value
    record = inside.scope.steps[wrapped.name]
    changed = changes(before, after)
    if wrapped.updates_context and isinstance(output := read_structure(record["output"]), dict):
        # What was written with the value that stood there is no change here, but may be one where the hit is. The
        # scratchpad is merged one level deep: as a whole it would undo what others wrote into it.
        changed |= {(name,): after[name] for name in output if name in after and name != "scratchpad"}
    if wrapped.sink_to is not None:
        changed[split_keys(wrapped.sink_to)] = read(after, wrapped.sink_to)
    return changed


def _answer(inside: Frame) -> list[Any]:
    """Return the last answer in the step as a list of one; empty if nobody answered."""
    return [inside.scope.resume_input] if inside.scope.was_answered else []


def _key(step: Cache, frame: Frame) -> str:
    """Return the digest of the wrapped step, its position, and the author's key, or all values that it reads."""
    if step.key is not None:
        return make_digest(FORMAT, _place(frame), *_definitions(step, frame), frame.render(step.key))
    return make_digest(FORMAT, _place(frame), *_definitions(step, frame), *_read(step.wrapped_step, frame))


def _place(frame: Frame) -> list[tuple[str, str]]:
    """Return the address without what differs between runs, iterations and items."""
    return [(type_, id_) for type_, id_, _ in parts(frame.address)]


def _definitions(step: Cache, frame: Frame) -> list[Any]:
    """Return the wrapped step, and every agent and import that it may use."""
    reach = find_reach([step.wrapped_step], frame.blueprint)
    used: list[dict[str, Any]] = [{**reach.agents}, {**reach.imports}]
    dumped = [{name: _dump(part) for name, part in sorted(named.items())} for named in used]
    return [_dump(step.wrapped_step), *dumped]


def _dump(part: Part) -> dict[str, Any]:
    return part.model_dump(mode="json", exclude_defaults=True)


def _read(wrapped: AnyStep, frame: Frame) -> list[Any]:
    """Return the values of all names that the wrapped step and its agents read."""
    reach = find_reach([wrapped], frame.blueprint)
    paths = list_reads(wrapped) | names_in([agent.instructions for agent in reach.agents.values()])
    if frame.conversing or any(step.sees_context() for step in steps_within([wrapped])):
        paths |= {("context",)}
    seen = {"history": read_history(frame.store.value), **frame.collect_names()}
    return [(path, _value(seen, path)) for path in sorted(paths)]


def _value(seen: dict[str, Any], path: Path) -> list[Any]:
    """Return the value at the path in a list; empty if there is none. A path into what is no object ends there."""
    value: Any = seen
    for name in path:
        if not isinstance(value, dict):
            break
        if name not in value:
            return []
        value = value[name]
    return [value]
