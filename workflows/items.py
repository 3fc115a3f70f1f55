"""The items of a map, or of a page of it: run one by one, or several at once. For `map` steps and `MapWorkflow`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from temporalio.exceptions import ChildWorkflowError

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import MapBlock
from holdfast.protocol.address import Address, name_at, segment
from holdfast.protocol.children import Failure, ItemFailure, MapDefinition, MapResult, MapState
from holdfast.protocol.context import Conflict, Path, changes, join_forks
from holdfast.protocol.display import one_line
from holdfast.protocol.events import ItemCompleted, ItemStarted
from holdfast.workflows.concurrency import CancelledWithFailure, CancelledWithResult, is_cancelled, run_together
from holdfast.workflows.failure_review import ask_decision
from holdfast.workflows.failures import HANDLED, StepFailure, describe_failure, failure, find_context, find_failure
from holdfast.workflows.frame import Frame

LONGEST_LABEL = 80
"""Characters."""
LONGEST_COMPLETED = 100_000
"""Characters of the outputs that the failure of a map carries."""


@dataclass(frozen=True)
class Items:
    """Items of a map, with the index of the first, and the number of all."""

    items: list[JSON]
    first: int = 0
    total: int | None = None
    outputs: dict[int, JSON] = field(default_factory=dict)
    """Those of the items that have completed, by index."""
    failures: dict[int, ItemFailure] = field(default_factory=dict)
    """The items that failed, and after which the map went on, by index."""
    in_pages: list[JSONObject] = field(default_factory=list)
    """`index` and `output` of the items that have completed in pages which have not."""

    def pairs(self) -> list[tuple[int, JSON]]:
        return list(enumerate(self.items, self.first))

    def list_completed(self) -> list[JSONObject]:
        """Return `index` and `output` of the completed items.

        Of many outputs only the indices are told, as a failure has a bound.
        """
        own = ({"index": index, "output": output} for index, output in self.outputs.items())
        completed = sorted([*own, *self.in_pages], key=lambda item: int(item["index"]))
        if len(write_text(completed)) <= LONGEST_COMPLETED:
            return completed
        return [{"index": item["index"]} for item in completed]


def describe_excess(name: str, count: int, most: int | None) -> str | None:
    """Return the message about a list with more items than its author allows (`max_items`); None if it has not."""
    if most is None or count <= most:
        return None
    return f"{name} has {count:,} items, and at most {most:,} are allowed (max_items)"


async def run_one_by_one(block: MapBlock, items: Items, frame: Frame) -> list[JSON]:
    """Run the items in order and return the outputs; each sees what those before it wrote to the context."""
    outputs = []
    counts = frame.request_counts.make_fork()
    for index, item in items.pairs():
        fork = frame.store.fork()
        inside = replace(frame, store=fork, request_counts=counts())
        items.outputs[index] = await _run_item(block, items, index, item, inside)
        outputs.append(items.outputs[index])
        frame.write(fork.value)
    return outputs


async def run_at_once(
    block: MapBlock, items: Items, frame: Frame, free: AbstractAsyncContextManager[None]
) -> tuple[list[JSON], dict[str, dict[Path, JSON]]]:
    """Run the items at once; return the outputs, and what each changed in its own fork of the context.

    `free` is a semaphore: an item is under way inside it.
    """
    base = frame.store.value
    counts = frame.request_counts.make_fork()

    async def run(index: int, item: object) -> tuple[JSON, dict[Path, JSON]]:
        async with free:
            fork = frame.store.fork()
            inside = replace(frame, store=fork, request_counts=counts())
            output = items.outputs[index] = await _run_item(block, items, index, item, inside)
            return output, changes(base, fork.value)

    done = await run_together(run(index, item) for index, item in items.pairs())
    changed = {f"item {index}": change for (index, _), (_, change) in zip(items.pairs(), done, strict=True)}
    return [output for output, _ in done], changed


@contextmanager
def keep_completed(items: Items, address: Address) -> Iterator[None]:
    """Let a failure of the map tell which items have completed, unless what failed says itself what it had done."""
    try:
        yield
    except HANDLED as error:
        cause = find_failure(error, address)
        if is_cancelled(error) or cause.output is not None:
            raise
        told = cause.model_copy(update={"output": items.list_completed(), "items": None})
        raise StepFailure(told, find_context(error, address)) from error


async def run_items(definition: MapDefinition, state: MapState, frame: Frame, known: Items) -> MapResult:
    """Run items in a child workflow; if it fails or is cancelled, keep what the completed ones gave and wrote."""
    try:
        result: MapResult = await frame.run_child(definition, state)
    except CancelledWithResult as cancelled:
        known.in_pages.extend(cancelled.result.items)
        raise
    except CancelledWithFailure as cancelled:
        known.in_pages.extend(find_failure(cancelled.error, frame.address).items or [])
        raise
    except ChildWorkflowError as error:
        ended = find_failure(error, frame.address)
        known.in_pages.extend(ended.items or [])
        if ended.context is not None and not is_cancelled(error):
            frame.write(ended.context)
        raise
    return result


def take_items_changes(frame: Frame, changed: dict[str, dict[Path, JSON]]) -> None:
    """Join the forks of items that ran at once. Raises a failure if two change one path differently."""
    try:
        frame.write(join_forks(frame.store.value, changed, "context_update", frame.store.reducers))
    except Conflict as error:
        message = f"{error.one} and {error.other} both change {error.path}, to different values"
        hint = "concurrent items (max_concurrency) must write different paths, or paths with a reducer"
        raise failure("context_conflict", f"{message}; {hint}", frame.address) from None


def take_changes(frame: Frame, changed: dict[str, dict[Path, JSON]], strategy: str, began: JSONObject) -> None:
    """Join the forks of branches into the frame's context, in their order; `began` is the context they began with."""
    try:
        frame.write(
            join_forks(frame.store.value, changed, strategy, frame.store.reducers, dict.fromkeys(changed, began))
        )
    except Conflict as error:
        raise failure("context_conflict", str(error), frame.address) from None


async def _run_item(block: MapBlock, items: Items, index: int, item: object, frame: Frame) -> JSON:
    """Run one item and return its output, or what stands in its place if it fails and the map goes on."""
    while True:
        inner, label = _add_label(block, _enter_item(frame, index, item))
        before = inner.store.value
        inner.note(ItemStarted(index=index, total=items.total, label=label))
        try:
            output = await inner.run_steps(block.body, inner, item, block.max_parallel)
        except HANDLED as error:
            cause = find_failure(error, inner.address)
            if is_cancelled(error) or cause.final or block.on_item_error == "fail":
                raise
            inner.note(ItemCompleted(index=index, error=cause.type, message=cause.message))
            # What the item wrote before it failed is taken back: it leaves nothing half-written.
            inner.store.value = before
            if block.on_item_error == "continue":
                items.failures[index] = _tell_failure("failed", cause)
                return None
            decision = await ask_decision(cause, item, inner)
            match decision.action:
                case "abort":
                    raise
                case "skip":
                    items.failures[index] = _tell_failure("skipped", cause)
                    return decision.content
                case "edit":
                    item = decision.content
        else:
            inner.note(ItemCompleted(index=index, output=output))
            return output


def _tell_failure(status: Literal["failed", "skipped"], cause: Failure) -> ItemFailure:
    """Return what is told of a failed item: without its output, as there may be many."""
    error = {key: value for key, value in describe_failure(cause).items() if key != "output"}
    return ItemFailure(status=status, error=error)


def _add_label(block: MapBlock, frame: Frame) -> tuple[Frame, str | None]:
    """Return the frame of an item with the label that people read of it, and the label, if the author says one."""
    if block.label is None:
        return frame, None
    label = one_line(write_text(frame.render(block.label)))[:LONGEST_LABEL].strip() or str(frame.names["index"])
    name = name_at(frame.address)
    around = label if frame.label is None else f"{frame.label} · {label}"
    return replace(frame, label=around, place=f"{name} {label}"), label


def _enter_item(frame: Frame, index: int, item: object) -> Frame:
    """Return the frame of one item, at `…;map:<name>:<index>`."""
    parent, _, _ = frame.address.rpartition(";")
    name = name_at(frame.address)
    return replace(
        frame,
        address=Address(f"{parent};{segment('map', name, index)}"),
        scope=frame.scope.isolate(),
        names={**frame.names, "item": item, "index": index},
        previous=item,
        sends_previous=True,
        place=f"{name} {index}",
    )
