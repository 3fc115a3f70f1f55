"""What steps write to the context, judged before the run: whether it fits what stands there, and what then does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from holdfast.blueprint.findings import is_literal
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import AnyStep, Fallback, Operation
from holdfast.blueprint.reducers import split_keys
from holdfast.blueprint.shape import UNKNOWN, Shape
from holdfast.blueprint.shapes.context import SCRATCHPAD, Context, find_targets, is_changed
from holdfast.blueprint.shapes.fitting import find_misfit
from holdfast.blueprint.shapes.place import LatestWrites
from holdfast.blueprint.shapes.report import Report, describe_types, quote, suggest_key

_HOLDERS = {"append": "list", "merge": "object"}
"""What a write of each verb needs at its target."""
_WRITE = re.compile(r"\.(set|append|merge)\.value")


def check_write(target: str, verb: str, value: Shape, context: Shape, path: str, report: Report) -> None:
    """Report a write to a context of a known shape that would fail the step.

    Args:
        target: The context path that is written to.
        verb: `set`, `append` or `merge`.
        value: What is written.
        context: What the author's schema says of the context.
        path: The path in the document of the target.
        report: Where a mistake goes.
    """
    keys, here = split_keys(target), context
    for index, key in enumerate(keys):
        name = ".".join(["context", *keys[:index]])
        found = here.find_key(key)
        if found is None and here.may_be("object"):
            hint = suggest_key(key, here)
            return report.add(path, "unknown_field", f"{name} may not have {key!r}", hint, rf"\b({re.escape(key)})\b")
        if found is None:
            return report.add(
                path, "bad_shape", f"{name} is {describe_types(here)}, and holds no keys", "write beside it"
            )
        here = found
    whole = ".".join(["context", *keys])
    holder = _HOLDERS.get(verb)
    if holder is not None and not here.may_be(holder, "null"):
        change = {"append": "appended to it", "merge": "merged into it"}[verb]
        message = f"{whole} is {describe_types(here)}: nothing can be {change}"
        return report.add(path, "bad_shape", message, "write set: instead, or change context_schema")
    wanted, done = (
        (here.element, "appended") if verb == "append" and here.types <= {"list", "null"} else (here, "written")
    )
    if verb in ("set", "append") and (wrong := find_misfit(value, wanted)) is not None:
        hint = "write a value that fits context_schema"
        report.add(path, "bad_shape", f"what is {done} to {whole} does not fit: {wrong}", hint)
    return None


def _check_holder(target: str, verb: str, context: Context, path: str, report: Report) -> None:
    """Report a write to, or below, a value that the context begins with, and that cannot take it."""
    if (holder := context.find_holder(target, verb)) is None:
        return
    name, value = holder
    last, begins = name.rpartition(".")[2], _describe_beginning(value)
    if verb == "append" and split_keys(target) == split_keys(name):
        message, hint = "and nothing can be appended to it", f"let it begin as a list: {last}: []"
    else:
        message, hint = "and holds no keys", f"write beside it, or let it begin as an object: {last}: {{}}"
    report.add(path, "bad_shape", f"context.{name} begins as {begins}, {message}", hint)


def _describe_beginning(value: JSON) -> str:
    match value:
        case list():
            return "a list"
        case dict():
            return "an object"
    return quote(value)


def check_writes(
    step: AnyStep, output: Shape, context: Context, latest: LatestWrites, path: str, report: Report
) -> None:
    """Report what of a step's output cannot be written where the step says."""
    if step.sink_to is not None:
        _check_latest(step.sink_to, "set", latest, f"{path}.sink_to", report)
        check_write(step.sink_to, "set", output, context.declared_shape, f"{path}.sink_to", report)
        _check_holder(step.sink_to, "set", context, f"{path}.sink_to", report)
    if step.updates_context and output.types == {"object"}:
        for key in sorted(output.required):
            if (value := output.find_key(key)) is not None:
                check_write(key, "set", value, context.declared_shape, f"{path}.updates_context", report)


def check_operation(
    step: AnyStep, key: str, value: Shape, context: Context, latest: LatestWrites, path: str, report: Report
) -> None:
    """Report a write before, between or after iterations that would fail.

    Args:
        key: The path in the step of a value that is rendered there, such as `loop.init[0].set.value`.
        latest: What is surely written last before all writes of that list.
        path: The path of the step.
    """
    if (match := _WRITE.search(key)) is None or key.endswith("]"):
        return
    place = key.removesuffix(".value") + ".target"
    target = str(_find_at(step, place))
    before = report.mistakes
    check_write(target, match[1], value, context.declared_shape, f"{path}.{place}", report)
    if match[1] == "merge" and not is_literal(_find_at(step, key)) and not value.may_be("object", "text"):
        message = f"what is merged into {target} is {describe_types(value)}, and no object"
        report.add(f"{path}.{key}", "bad_shape", message, "write a mapping, such as value: {count: 1}")
    if report.mistakes > before:
        return
    listed, index = re.findall(r"(.+)\[(\d+)\]\.\w+\.value", key)[0]
    begun = context.begin_in(step, int(index) if listed.endswith(".init") else None)
    _check_holder(target, match[1], begun, f"{path}.{place}", report)
    if report.mistakes == before:
        for one in _find_list(step, listed)[: int(index)]:
            latest = _drop_written(latest, split_keys(one.write.target))
        _check_latest(target, match[1], latest, f"{path}.{place}", report)


def follow_writes(step: AnyStep, output: Shape, latest: LatestWrites) -> LatestWrites:
    """Return what is surely written last after a step, which may have ended in any way.

    Args:
        latest: The same before it.
    """
    writes_more = step.blocks() or step.updates_context or is_changed(step) or list(find_targets(step))
    if writes_more or isinstance(step.on_error, Fallback):
        return {}
    if step.sink_to is None:
        return latest
    keys = split_keys(step.sink_to)
    kept = _drop_written(latest, keys)
    is_sure = step.when is None and step.on_error == "fail" and step.null_cause is None and keys[0] != SCRATCHPAD
    return {**kept, keys: (step.name, output)} if is_sure else kept


def _drop_written(latest: LatestWrites, keys: tuple[str, ...]) -> LatestWrites:
    """Return what stays as it was where something is written to a path."""
    return {path: write for path, write in latest.items() if path[: len(keys)] != keys and keys[: len(path)] != path}


def _check_latest(target: str, verb: str, latest: LatestWrites, path: str, report: Report) -> None:
    """Report a write to, or below, what a step before has written, if that cannot take it."""
    keys = split_keys(target)
    for count in range(1, len(keys) + (verb in _HOLDERS)):
        name, written = latest.get(keys[:count], ("", UNKNOWN))
        if not written.may_be(_HOLDERS[verb] if count == len(keys) else "object", "null"):
            cannot = "nothing can be appended to that" if verb == "append" and count == len(keys) else "holds no keys"
            message = f"{name} writes {describe_types(written)} to context.{'.'.join(keys[:count])}, and {cannot}"
            return report.add(path, "bad_shape", message, "write to another path, or leave that sink_to out")
    return None


def _find_list(step: AnyStep, place: str) -> Sequence[Operation]:
    found = _find_at(step, place)
    return [one for one in found if isinstance(one, Operation)] if isinstance(found, list) else []


def _find_at(step: AnyStep, place: str) -> object:
    """Return what stands at a path of a step, such as `loop.init[0].set.target`."""
    found: Any = step
    for name, index in re.findall(r"(\w+)(?:\[(\d+)\])?", place):
        found = getattr(found, name)
        found = found[int(index)] if index else found
    return found
