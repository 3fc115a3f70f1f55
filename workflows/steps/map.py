"""The `map` kind: the same steps for every item; more than 50 items go to a child workflow, page by page."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Map
from holdfast.blueprint.questions import brief
from holdfast.protocol.children import MapDefinition, MapState
from holdfast.workflows.children import define_child
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.items import (
    Items,
    describe_excess,
    keep_completed,
    run_at_once,
    run_items,
    run_one_by_one,
    take_items_changes,
)


async def run_map(step: Map, frame: Frame) -> JSON:
    items = _items(step, frame.after(frame.read_input(step)))
    if (excess := describe_excess(step.name, len(items), step.map.max_items)) is not None:
        raise failure("map_too_large", excess, frame.address)
    for operation in step.map.init:
        frame.operate(operation)
    inside = replace(frame, request_counts=frame.request_counts.within(step.name))
    known = Items(items, total=len(items))
    with keep_completed(known, frame.address):
        if len(items) > frame.host.identity.history_limits.items:
            outputs = await _in_pages(step, known, inside)
        elif step.map.max_concurrency == 1:
            outputs = await run_one_by_one(step.map, known, inside)
        else:
            outputs, changed = await run_at_once(step.map, known, inside, asyncio.Semaphore(step.map.max_concurrency))
            take_items_changes(frame, changed)
    return _finalize(step, outputs, frame, known)


async def _in_pages(step: Map, known: Items, frame: Frame) -> list[JSON]:
    # `init` and `finalize` run here, so the pages need not carry what they read, such as the whole list.
    block = step.map.model_copy(update={"iterable_input": "[]", "init": [], "finalize": None})
    bare = step.model_copy(update={"map": block, "input": None, "when": None})
    definition = MapDefinition(
        **define_child(bare, frame),
        items=known.items,
        total=known.total,
        iteration=frame.iteration,
        conversing=frame.conversing,
        history_management=frame.history_management,
        left_out=frame.left_out,
    )
    state = MapState(context=frame.store.value, resume_input=frame.scope.resume_input)
    result = await run_items(definition, state, frame, known)
    frame.write(result.context)
    known.failures.update(result.failures)
    return result.outputs


def _items(step: Map, frame: Frame) -> list[JSON]:
    value = frame.evaluate(step.map.iterable_input)
    if isinstance(value, str):
        with suppress(ValueError):  # reported below, like anything else that is no list
            value = json.loads(value)
    if not isinstance(value, list):
        text = f"{step.name} needs a list, but {step.map.iterable_input} is {brief(value)}"
        raise failure("input_invalid", text, frame.address)
    return value


def _finalize(step: Map, outputs: list[JSON], frame: Frame, known: Items) -> JSON:
    if step.map.finalize is None:
        return outputs
    template = step.map.finalize.output_template
    inside = frame.after(outputs).with_names(report=_report_items(outputs, known))
    return inside.render(step.map.finalize.output if template is None else template)


def _report_items(outputs: list[JSON], known: Items) -> list[JSON]:
    """Return `index`, `item`, `status`, `output` and `error` of each item."""
    report: list[JSON] = []
    for index, (item, output) in enumerate(zip(known.items, outputs, strict=True)):
        failed = known.failures.get(index)
        status, error = ("completed", None) if failed is None else (failed.status, failed.error)
        report.append({"index": index, "item": item, "status": status, "output": output, "error": error})
    return report
