"""The `cache` kind: a step that is not run again for the same key; a hit writes to the context like a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError

from blueprint.expressions import names_in
from blueprint.grammar import AnyStep, Cache, Conditional, Loop, Map, PlainStep, Plan
from blueprint.grammar.base import Part
from blueprint.reach import reach_of, steps_within
from protocol.address import parts
from protocol.agents import CacheEntry
from protocol.context import GONE, Path, changes, keys_of, read, with_changes
from protocol.values import digest_of
from workflows.alone import reads_of
from workflows.failures import failure_of
from workflows.frame import Frame, history_of
from workflows.together import is_cancelled

FORMAT = 2
"""Of what is kept; another one does not meet values of this one."""


async def run_cache(step: Cache, frame: Frame) -> Any:
    value = frame.input_of(step)
    key = _key(step, frame.after(value))
    hit = await frame.host.look_up(key)
    if hit.found:
        return _given_again(hit.value, key, frame)
    before = frame.store.value
    inside = replace(frame, scope=frame.scope.inner())
    output = await frame.run_steps([step.wrapped_step], inside, value)
    if _has_failed(step.wrapped_step, inside) and workflow.patched("what-has-failed-is-not-kept"):
        return output
    changed = _changed(step.wrapped_step, before, inside)
    kept = {"output": output, "changes": _written(changed), "answer": _answer(inside)}
    try:
        await frame.host.keep(CacheEntry(key=key, value=kept, ttl=step.ttl))
    except ActivityError as error:
        if is_cancelled(error):
            raise
        # What has been done and paid for is not lost because it cannot be kept.
        frame.note("cache.failed", message=failure_of(error, frame.address).message)
    return output


def _given_again(kept: dict[str, Any], key: str, frame: Frame) -> Any:
    """What the step gave before, with all that it did to the world around it."""
    frame.note("cache.hit", key=key)
    changed = {tuple(path): GONE if gone else new for path, new, gone in kept["changes"]}
    frame.write(with_changes(frame.store.value, changed))
    for content in kept["answer"]:
        frame.scope.answered(content)
    return kept["output"]


def _has_failed(wrapped: AnyStep, inside: Frame) -> bool:
    """Whether `on_error` went on after a failure."""
    return inside.scope.steps[wrapped.name]["error"] is not None


def _changed(wrapped: AnyStep, before: dict[str, Any], inside: Frame) -> dict[Path, Any]:
    """What is other than before; and what the step wrote, though it stood there before."""
    after = inside.store.value
    record = inside.scope.steps[wrapped.name]
    changed = changes(before, after)
    if record["status"] != "completed":
        return changed
    if wrapped.updates_context and isinstance(record["output"], dict):
        changed |= {(name,): after[name] for name in record["output"] if name in after and name != "scratchpad"}
    if wrapped.sink_to is not None:
        changed[tuple(keys_of(wrapped.sink_to))] = read(after, wrapped.sink_to)
    return changed


def _answer(inside: Frame) -> list[Any]:
    """The last answer that was given in the step, if one was."""
    return [inside.scope.resume_input] if inside.scope.heard else []


def _key(step: Cache, frame: Frame) -> str:
    """What the wrapped step is and where it stands, with the author's key; by default with all that it reads."""
    if step.key is not None:
        return digest_of(FORMAT, _place(frame), *_what(step, frame), frame.render(step.key))
    return digest_of(FORMAT, _place(frame), *_what(step, frame), *_read(step.wrapped_step, frame))


def _place(frame: Frame) -> list[tuple[str, str]]:
    """The address, the same in every run, iteration and item."""
    return [(type_, id_) for type_, id_, _ in parts(frame.address)]


def _what(step: Cache, frame: Frame) -> list[Any]:
    """The wrapped step, and every agent and import that it may use."""
    reach = reach_of([step.wrapped_step], frame.blueprint)
    used: list[dict[str, Any]] = [{**reach.agents}, {**reach.imports}]
    written = [{name: _dumped(one) for name, one in sorted(named.items())} for named in used]
    return [_dumped(step.wrapped_step), *written]


def _dumped(part: Part) -> dict[str, Any]:
    return part.model_dump(mode="json", exclude_defaults=True)


def _read(wrapped: AnyStep, frame: Frame) -> list[Any]:
    """The values of all names that the wrapped step and its agents read."""
    reach = reach_of([wrapped], frame.blueprint)
    paths = reads_of(wrapped) | names_in([agent.instructions for agent in reach.agents.values()])
    if frame.conversing or any(_sees_context(one) for one in steps_within([wrapped])):
        paths |= {("context",)}
    seen = {"history": history_of(frame.store.value), **frame.visible()}
    return [(path, _value(seen, path)) for path in sorted(paths)]


def _value(seen: dict[str, Any], path: Path) -> list[Any]:
    """What stands there, in a list; nothing if nothing does. What is no object is looked into no further."""
    value: Any = seen
    for name in path:
        if not isinstance(value, dict):
            break
        if name not in value:
            return []
        value = value[name]
    return [value]


def _sees_context(step: AnyStep) -> bool:
    """Whether the step reads the context beside what its templates and expressions name."""
    if step.interrupt_before or step.interrupt_after:
        return True
    match step:
        case PlainStep(uses="context_get" | "context_merge") | Conditional(condition=str()) | Plan():
            return True
        case Map():
            return any(one.verb != "set" for one in step.map.init)
        case Loop():
            block = step.loop
            mappers = block.initial_input_mapper, block.iteration_input_mapper, block.loop_output_mapper
            functions = any(one is not None for one in (*mappers, block.exit_condition))
            grows = any(one.verb != "set" for one in (*block.init, *block.state))
            return functions or grows or block.conversation or block.propagation.next_input == "context"
    return False


def _written(changed: dict[Path, Any]) -> list[Any]:
    return [[list(path), None if value is GONE else value, value is GONE] for path, value in changed.items()]
