"""The `map` and `parallel` kinds: the same steps for every item; different steps at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from holdfast.blueprint.grammar.base import Block, Part, Step, Template
from holdfast.blueprint.grammar.loops import Operation

if TYPE_CHECKING:
    from holdfast.blueprint.grammar import AnyStep

MOST_AT_ONCE = 50

MergeStrategy = Literal["context_update", "overwrite", "keep_first", "error_on_conflict", "no_merge"]
Reducer = Literal["keys", "values", "union", "concat", "dedupe", "first", "last", "majority_vote"]


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


class Parallel(Step):
    """Run branches at once, each on its own fork of the context; the output is an object of theirs."""

    kind: Literal["parallel"]
    branches: dict[str, list[AnyStep]] = Field(
        min_length=1,
        max_length=MOST_AT_ONCE,
        description="Branch name -> steps; at most 50 branches.",
        examples=[{"facts": [{"name": "search", "uses": "search"}], "tone": [{"name": "ask", "kind": "hitl"}]}],
    )
    merge_strategy: MergeStrategy = Field(
        "context_update",
        description="How the branches' contexts are joined: context_update (a path that two change differently is an "
        "error), overwrite (later wins), keep_first, error_on_conflict (no path may be changed twice), no_merge.",
    )
    reduce: Reducer | None = Field(
        None, description="One value from the outputs, in declared order, instead of an object of them."
    )
    on_branch_failure: Literal["propagate", "ignore"] = Field(
        "propagate", description="A failing branch cancels the others and fails the step; or its output is null."
    )
    field_mapping: dict[str, list[str]] | None = Field(
        None,
        description="Branch name -> context paths: of that branch only these are taken over.",
        examples=[{"facts": ["context.facts"]}],
    )
    context_include_keys: list[str] | None = Field(
        None, description="The context keys that branches see; default: all.", examples=[["topic", "audience"]]
    )

    def blocks(self) -> Mapping[str, Block]:
        return {f"branches.{name}": Block(tuple(steps)) for name, steps in self.branches.items()}
