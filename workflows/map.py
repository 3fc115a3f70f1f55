"""The workflow of many items of a map: a page of 50, or pages of pages, each a child; `slots` says which begin when.

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
from holdfast.protocol.children import MapDefinition, MapResult, MapState
from holdfast.protocol.context import Path, changes, changes_by_path, listed_changes
from holdfast.protocol.names import MAP_WORKFLOW
from holdfast.workflows.children import read_address
from holdfast.workflows.concurrency import run_together
from holdfast.workflows.failures import find_context
from holdfast.workflows.frame import ContextStore, Frame, Scope
from holdfast.workflows.handlers import handles
from holdfast.workflows.items import Items, run_at_once, run_items, run_one_by_one, take_items_changes
from holdfast.workflows.run import RunWorkflow
from holdfast.workflows.slots import Slots


@workflow.defn(name=MAP_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
@handles(Slots)
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
        self._pages = _list_pages(definition, self.host.history.limits.items)
        most, is_page = self.step.map.max_concurrency, definition.pages is not None
        count = len(self._pages or definition.items)
        self.slots = Slots(self.host, most, state.slots or most, count, is_page=is_page)

    def current_context(self) -> JSONObject:
        return self.store.value

    def list_failure_fields(self, error: BaseException) -> dict[str, Any]:
        """Return the completed items, their context if one runs at a time, and that of the failed one."""
        inner = find_context(error, self.address)
        reached = self.store.value if inner is None else inner
        completed = self._items.list_completed()
        return {"context": self.store.value if self._alone else None, "reached": reached, "items": completed}

    @workflow.run
    async def run(self, definition: MapDefinition, state: MapState) -> MapResult:
        # A page is cancelled as another one fails, and the failure of the map tells what all have done.
        run = self.run_to_undos if definition.pages is None else self.run_to_result
        result = await run(self._work(self._frame(state)), self._make_result)
        if result is not None:
            return result
        return MapResult(outputs=[], items=self._items.list_completed(), **self.collect_result())

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
        if self._pages:
            return await self._run_pages(frame)
        if self._alone:
            return await run_one_by_one(self.step.map, self._items, frame)
        outputs, self.changed = await run_at_once(self.step.map, self._items, frame, self.slots)
        return outputs

    @property
    def _alone(self) -> bool:
        """Return whether one item runs at a time, and sees what the others wrote."""
        return self.step.map.max_concurrency == 1

    async def _run_pages(self, frame: Frame) -> list[JSON]:
        """Run the pages: one begins once all items of those before have begun, and fewer than may be are under way."""
        fork = frame.request_counts.make_fork()

        async def run(nth: int, page: MapDefinition) -> MapResult:
            async with self.slots.hold_for_page(read_address(page), nth) as slots:
                counts, meter = fork(), frame.meter.with_spent(self.slots.spent_in_pages)
                state = MapState(context=self.store.value, resume_input=frame.scope.resume_input, slots=slots)
                result = await run_items(page, state, replace(frame, request_counts=counts, meter=meter), self._items)
                self._items.outputs.update(enumerate(result.outputs, page.first))
                self._items.failures.update(result.failures)
                if self._alone:
                    frame.write(result.context)
                return result

        results = await run_together(run(nth, page) for nth, page in enumerate(self._pages))
        if not self._alone:
            for page, result in zip(self._pages, results, strict=True):
                items = f"items {page.first} to {page.first + len(page.items) - 1}"
                self.changed[items] = changes_by_path(result.changes)
        return [output for result in results for output in result.outputs]

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


def _list_pages(definition: MapDefinition, most: int) -> list[MapDefinition]:
    """Return what the pages of a map, or of a page, do; none where it has so few items that it runs them itself."""
    items, first, size = definition.items, definition.first, most
    if len(items) <= most:
        return []
    while size * most < len(items):
        size *= most
    pages = []
    for start in range(0, len(items), size):
        page, begin = items[start : start + size], first + start
        place = within(definition.address, "page", f"{begin}-{begin + len(page) - 1}")
        pages.append(definition.model_copy(update={"items": page, "first": begin, "pages": place}))
    return pages
