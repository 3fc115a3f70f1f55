"""The items of a map, or of a page of it: one after the other, or several at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from temporalio.exceptions import ChildWorkflowError

from blueprint.grammar import MapBlock
from protocol.address import Address, parts, segment
from protocol.context import Conflict, Path, changes, joined
from protocol.runs import MapDefinition, MapResult, MapState
from workflows.failures import HANDLED, failure, failure_of, raised
from workflows.frame import Frame
from workflows.judging import judged
from workflows.together import is_cancelled, together


@dataclass(frozen=True)
class Items:
    """The items, and the index of the first of them in the map."""

    items: list[Any]
    first: int = 0

    def pairs(self) -> list[tuple[int, Any]]:
        return list(enumerate(self.items, self.first))


async def one_by_one(block: MapBlock, items: Items, frame: Frame) -> list[Any]:
    """The outputs; each item sees what those before it wrote to the context."""
    outputs = []
    for index, item in items.pairs():
        fork = frame.store.fork()
        outputs.append(await _item(block, index, item, replace(frame, store=fork)))
        frame.write(fork.value)
    return outputs


async def at_once(block: MapBlock, items: Items, frame: Frame) -> tuple[list[Any], dict[str, dict[Path, Any]]]:
    """The outputs, and what each item changed in its own fork of the context."""
    free = asyncio.Semaphore(block.max_concurrency)
    base = frame.store.value

    async def one(index: int, item: Any) -> tuple[Any, dict[Path, Any]]:
        async with free:
            fork = frame.store.fork()
            output = await _item(block, index, item, replace(frame, store=fork, scope=frame.scope.inner()))
            return output, changes(base, fork.value)

    done = await together(one(index, item) for index, item in items.pairs())
    changed = {f"item {index}": change for (index, _), (_, change) in zip(items.pairs(), done, strict=True)}
    return [output for output, _ in done], changed


async def run_items(definition: MapDefinition, state: MapState, frame: Frame) -> MapResult:
    """Items in a history of their own; where they fail, what those that were completed wrote is taken over."""
    try:
        result: MapResult = await frame.run_child(definition, state)
    except ChildWorkflowError as error:
        kept = failure_of(error, frame.address).context
        if kept is not None and not is_cancelled(error):
            frame.write(kept)
        raise
    return result


def take_items_changes(frame: Frame, changed: dict[str, dict[Path, Any]]) -> None:
    """Join the forks of items that ran at once."""
    try:
        frame.write(joined(frame.store.value, changed, "context_update"))
    except Conflict as error:
        told = f"{error.one} and {error.other} both change {error.path}, each in its own way"
        hint = "items that run at once (max_concurrency) may write different paths only"
        raise failure("context_conflict", f"{told}; {hint}", frame.address) from None


def take_changes(frame: Frame, changed: dict[str, dict[Path, Any]], strategy: str) -> None:
    """Join the forks of branches into the frame's context, in their order."""
    try:
        frame.write(joined(frame.store.value, changed, strategy))
    except Conflict as error:
        raise failure("context_conflict", str(error), frame.address) from None


async def _item(block: MapBlock, index: int, item: Any, frame: Frame) -> Any:
    while True:
        here = _at(frame, index, item)
        before = here.store.value
        here.note("item.started", index=index)
        try:
            output = await here.run_steps(block.body, here, item)
        except HANDLED as error:
            what = failure_of(error, here.address)
            if is_cancelled(error) or what.final or block.on_item_error == "fail":
                raise
            here.note("item.completed", index=index, error=what.type, message=what.message)
            here.store.value = before
            if block.on_item_error == "continue":
                return None
            verdict = await judged(what, item, here)
            match verdict.action:
                case "abort":
                    raise raised(what) from error
                case "skip":
                    return verdict.content
                case "edit":
                    item = verdict.content
        else:
            here.note("item.completed", index=index, output=output)
            return output


def _at(frame: Frame, index: int, item: Any) -> Frame:
    """Where the steps of one item stand: `…;map:<name>:<index>`."""
    parent, _, _ = frame.address.rpartition(";")
    name = parts(frame.address)[-1][1]
    return replace(
        frame,
        address=Address(f"{parent};{segment('map', name, index)}"),
        scope=frame.scope.inner(),
        names={**frame.names, "item": item, "index": index},
        previous=item,
        n=index + 1,
        place=f"{name} {index}",
    )
