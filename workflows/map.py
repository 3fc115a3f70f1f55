"""Many items of a map, in a history of its own: a page of 50, or pages of pages, each a child.

No history grows with the number of items: a page holds 50 of them, whatever is above holds at most 50 children.
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from blueprint.expressions import ExpressionError
from blueprint.grammar import Map
from protocol.address import within
from protocol.context import GONE, Path
from protocol.runs import MAP_WORKFLOW, Change, MapDefinition, MapResult, MapState
from workflows.frame import Frame, Scope, Store
from workflows.host import Host, inherited
from workflows.interpreter import run_steps
from workflows.items import Items, at_once, one_by_one, run_items, take_items_changes
from workflows.limits import Meter

PAGE = 50


@workflow.defn(name=MAP_WORKFLOW, failure_exception_types=[ExpressionError])
class MapWorkflow(Host):
    """The items of one map, or some of them."""

    @workflow.init
    def __init__(self, definition: MapDefinition, state: MapState) -> None:
        super().__init__(**inherited(definition, state))
        self.definition = definition
        (self.step,) = (step for step in definition.blueprint.steps if isinstance(step, Map))
        self.store = Store(state.context, definition.blueprint.context_schema)
        self.meter = Meter(state.budgets)
        self.changed: dict[str, dict[Path, Any]] = {}

    def current_context(self) -> dict[str, Any]:
        return self.store.value

    def kept_of_a_failure(self) -> dict[str, Any]:
        """What the completed items wrote, if they wrote one after the other."""
        return {"context": self.store.value if self._alone else None}

    @workflow.run
    async def run(self, definition: MapDefinition, state: MapState) -> MapResult:
        outputs = await self.live(self._work(self._frame(state)))
        return self._result(outputs)

    def _frame(self, state: MapState) -> Frame:
        definition = self.definition
        return Frame(
            host=self,
            address=definition.address,
            blueprint=definition.blueprint,
            store=self.store,
            scope=Scope(outer=Scope(dict(definition.steps)), resume_input=state.resume_input),
            run_steps=run_steps,
            names={**definition.names, "input": definition.input},
            n=definition.n,
            iteration=definition.iteration,
            meter=self.meter,
        )

    async def _work(self, frame: Frame) -> list[Any]:
        items, first = self.definition.items, self.definition.first
        if len(items) > PAGE:
            return await self._pages(frame)
        if self._alone:
            return await one_by_one(self.step.map, Items(items, first), frame)
        outputs, self.changed = await at_once(self.step.map, Items(items, first), frame)
        return outputs

    @property
    def _alone(self) -> bool:
        """Whether one item runs at a time, and sees what the others wrote."""
        return self.step.map.max_concurrency == 1

    async def _pages(self, frame: Frame) -> list[Any]:
        """One page after the other: their items may still run several at once."""
        outputs: list[Any] = []
        items, first, size = self.definition.items, self.definition.first, _size_of_a_page(len(self.definition.items))
        for start in range(0, len(items), size):
            page = items[start : start + size]
            begin = first + start
            place = within(self.definition.address, "page", f"{begin}-{begin + len(page) - 1}")
            definition = self.definition.model_copy(update={"items": page, "first": begin, "pages": place})
            result: MapResult = await run_items(definition, self._state(frame), frame)
            outputs += result.outputs
            if self._alone:
                frame.write(result.context)
            else:
                self.changed[f"items {begin} to {begin + len(page) - 1}"] = _changes(result.changes)
        return outputs

    def _state(self, frame: Frame) -> MapState:
        return MapState(
            context=self.store.value,
            resume_input=frame.scope.resume_input,
            paused=self.paused,
            permits=self.permits,
            budgets=self.meter.budgets,
        )

    def _result(self, outputs: list[Any]) -> MapResult:
        is_page = self.definition.pages is not None
        if not self._alone:
            # Joined here, so that two items that change one path are told apart by their names.
            base = self.store.value
            take_items_changes(self._frame(MapState()), self.changed)
            if is_page:
                self.store.value = base
        return MapResult(
            outputs=outputs,
            context={} if is_page and not self._alone else self.store.value,
            changes=_written(self.changed) if is_page and not self._alone else [],
            usage=self.usage,
            permits=self.permits,
            budgets=self.meter.budgets,
        )


def _size_of_a_page(items: int) -> int:
    """Pages of 50, or as many times 50 that at most 50 pages are needed.

    >>> _size_of_a_page(51), _size_of_a_page(2_500), _size_of_a_page(2_501), _size_of_a_page(100_000)
    (50, 50, 2500, 2500)
    """
    size = PAGE
    while size * PAGE < items:
        size *= PAGE
    return size


def _written(changed: dict[str, dict[Path, Any]]) -> list[Change]:
    return [
        Change(path=list(path), gone=True) if value is GONE else Change(path=list(path), value=value)
        for change in changed.values()
        for path, value in change.items()
    ]


def _changes(written: list[Change]) -> dict[Path, Any]:
    return {tuple(one.path): GONE if one.gone else one.value for one in written}
