"""The workflow of many items of a map: a page of 50, or pages of pages, each a child.

No history grows with the number of items: a page holds 50 of them, whatever is above holds at most 50 children
(`HistoryLimits.items`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from temporalio import workflow

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Map
from holdfast.protocol.address import within
from holdfast.protocol.context import Path, changes, changes_by_path, listed_changes
from holdfast.protocol.names import MAP_WORKFLOW
from holdfast.protocol.runs import MapDefinition, MapResult, MapState
from holdfast.workflows.failures import find_context
from holdfast.workflows.frame import ContextStore, Frame, Scope
from holdfast.workflows.items import Items, run_at_once, run_items, run_one_by_one, take_items_changes
from holdfast.workflows.run import RunWorkflow


@workflow.defn(name=MAP_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
class MapWorkflow(RunWorkflow):
    """A workflow that runs the items of one map, or a page of them."""

    definition: MapDefinition
    state: MapState

    @workflow.init
    def __init__(self, definition: MapDefinition, state: MapState) -> None:
        super().__init__(definition, state)
        (self.step,) = (step for step in definition.blueprint.steps if isinstance(step, Map))
        self.store = ContextStore(state.context, definition.blueprint.context_schema)
        self.changed: dict[str, dict[Path, JSON]] = {}
        self._items = Items(definition.items, definition.first, definition.total)

    def current_context(self) -> JSONObject:
        return self.store.value

    def list_failure_fields(self, error: BaseException) -> dict[str, Any]:
        """Return the completed items, their context if one runs at a time, and that of the failed one."""
        inner = find_context(error, self.address)
        reached = self.store.value if inner is None else inner
        completed = self._items.list_completed(error, self.address)
        return {"context": self.store.value if self._alone else None, "reached": reached, "items": completed}

    @workflow.run
    async def run(self, definition: MapDefinition, state: MapState) -> MapResult:
        result = await self.run_to_undos(self._work(self._frame(state)), self._make_result)
        return MapResult(outputs=[], **self.collect_result()) if result is None else result

    def _frame(self, state: MapState) -> Frame:
        definition = self.definition
        return self.frame(
            self.store,
            Scope(outer=Scope(dict(definition.steps)), resume_input=state.resume_input),
            {**definition.names, "input": definition.input},
            address=definition.address,
            iteration=definition.iteration,
            conversing=definition.conversing,
            history_management=definition.history_management,
            left_out=definition.left_out,
        )

    async def _work(self, frame: Frame) -> list[JSON]:
        if len(self.definition.items) > self.host.history.limits.items:
            return await self._run_pages(frame)
        if self._alone:
            return await run_one_by_one(self.step.map, self._items, frame)
        outputs, self.changed = await run_at_once(self.step.map, self._items, frame)
        return outputs

    @property
    def _alone(self) -> bool:
        """Return whether one item runs at a time, and sees what the others wrote."""
        return self.step.map.max_concurrency == 1

    async def _run_pages(self, frame: Frame) -> list[JSON]:
        """Run one page after the other; the items of a page may still run several at once."""
        outputs: list[JSON] = []
        items, first = self.definition.items, self.definition.first
        size = _choose_page_size(len(items), self.host.history.limits.items)
        fork = frame.request_counts.make_fork()
        for start in range(0, len(items), size):
            page = items[start : start + size]
            begin = first + start
            place = within(self.definition.address, "page", f"{begin}-{begin + len(page) - 1}")
            definition = self.definition.model_copy(update={"items": page, "first": begin, "pages": place})
            inside = replace(frame, request_counts=fork())
            state = MapState(context=self.store.value, resume_input=frame.scope.resume_input)
            result: MapResult = await run_items(definition, state, inside)
            outputs += result.outputs
            self._items.outputs.update(enumerate(result.outputs, begin))
            self._items.failures.update(result.failures)
            if self._alone:
                frame.write(result.context)
            else:
                self.changed[f"items {begin} to {begin + len(page) - 1}"] = changes_by_path(result.changes)
        return outputs

    def _make_result(self, outputs: list[JSON]) -> MapResult:
        is_page = self.definition.pages is not None
        joint: dict[Path, JSON] = {}
        if not self._alone:
            # Joined here, so that a conflict names the two items that change one path.
            base = self.store.value
            take_items_changes(self._frame(MapState()), self.changed)
            joint = changes(base, self.store.value)
            if is_page:
                self.store.value = base
        return MapResult(
            outputs=outputs,
            failures=self._items.failures,
            context={} if is_page and not self._alone else self.store.value,
            changes=listed_changes(joint) if is_page else [],
            **self.collect_spending(),
        )


def _choose_page_size(items: int, most: int) -> int:
    """Return `most`, or the power of it with which at most so many pages are needed.

    >>> [_choose_page_size(items, 50) for items in (51, 2_500, 2_501, 100_000)]
    [50, 50, 2500, 2500]
    """
    size = most
    while size * most < items:
        size *= most
    return size
