"""The `map` kind: the same steps for every item of a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from holdfast.blueprint.kinds.base import Block, Step
from holdfast.blueprint.kinds.loop import Operation
from holdfast.blueprint.kinds.parts import MOST_AT_ONCE, Part, Template

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep


class Finalize(Part):
    """The output of a map, from the list of its items' outputs, which is `previous_step` here."""

    output_template: str | None = Field(
        None, description="The map's output, rendered once, at its end.", examples=["{{ previous_step | join(', ') }}"]
    )
    output: Template | None = Field(
        None,
        description="The map's output as a mapping of templates.",
        examples=[{"total": "{{ context.total }}", "each": "{{ previous_step }}"}],
    )


class MapBlock(Part):
    """The steps for every item."""

    iterable_input: str = Field(
        description="An expression that gives the list (or JSON text of one), or the name of a context key.",
        examples=["context.events", "input.items", "events"],
    )
    body: list[AnyStep] = Field(
        min_length=1,
        description="The steps for one item; the first one's input is `item`.",
        examples=[[{"name": "look", "uses": "exchange_rate"}]],
    )
    init: list[Operation] = Field(
        [],
        description="Writes to the context, once, before the first item.",
        examples=[[{"set": {"target": "context.refused", "value": []}}]],
    )
    finalize: Finalize | None = Field(
        None,
        description="The map's output, once, after the last item.",
        examples=[{"output": {"total": "{{ context.total }}"}}],
    )
    max_concurrency: int = Field(
        1, ge=1, le=MOST_AT_ONCE, description="Items at once; above 1 each has its own fork.", examples=[5]
    )
    on_item_error: Literal["fail", "continue", "ask"] = Field(
        "fail", description="A failed item: fail the map, give null for it, or ask a person."
    )


class Map(Step):
    """Run the body for every item of a list; the output is the list of the items' outputs, in their order."""

    kind: Literal["map"]
    map: MapBlock = Field(
        description="The list, and what is done with every item.",
        examples=[{"iterable_input": "input.expenses", "body": [{"name": "look", "uses": "exchange_rate"}]}],
    )

    def conditions(self) -> Mapping[str, str]:
        return {**super().conditions(), "map.iterable_input": self.map.iterable_input}

    def blocks(self) -> Mapping[str, Block]:
        block = self.map
        writes = {
            f"map.init[{n}].{operation.verb}.value": operation.write.value for n, operation in enumerate(block.init)
        }
        ends = {}
        if block.finalize is not None:
            ends["map.finalize.output_template"] = block.finalize.output_template
            ends["map.finalize.output"] = block.finalize.output
        outside = Block((), reads={**writes, **ends})
        return {"map.body": Block(tuple(block.body), frozenset({"item", "index"})), "map": outside}

    def sees_context(self) -> bool:
        return super().sees_context() or any(operation.verb != "set" for operation in self.map.init)
