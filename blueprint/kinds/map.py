"""The `map` kind: the same steps for every item of a list."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from jinja2 import nodes
from pydantic import Field

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.parse import parsed_expression
from holdfast.blueprint.findings import Findings
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds.base import Block, Step
from holdfast.blueprint.kinds.description import PREVIOUS, RESCUE, Ask, Cost, Drawing, NestedSteps, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.kinds.keys import hint_of_block
from holdfast.blueprint.kinds.knowledge import Knowledge
from holdfast.blueprint.kinds.needs import check_most
from holdfast.blueprint.kinds.operations import Operation, expand_operations
from holdfast.blueprint.kinds.phrases import result_sentences, writes_sentences
from holdfast.blueprint.kinds.schema_forms import (
    Schema,
    set_form,
    short_writes,
)
from holdfast.blueprint.kinds.walk import placed_steps
from holdfast.blueprint.parts import MOST_AT_ONCE, MaxParallel, Part, Template
from holdfast.blueprint.reducers import Path, find_reducers, is_below, split_keys
from holdfast.blueprint.shape import NULL, TEXT, UNKNOWN, Shape, join_shapes, make_number, make_object, make_shape
from holdfast.blueprint.source import PlacedDict, plain
from holdfast.blueprint.words.text import Vocabulary, json_list, say_template, value

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep


_ROOTS = frozenset({"input", "context", "steps", "previous_step", "output", "resume_input", "item", "history"})
_TEMPLATE = re.compile(r"\s*\{\{((?:(?!\}\}|\{\{).)*)\}\}\s*", re.DOTALL)


class Finalize(Part):
    """The output of a map, from the list of its items' outputs, which is `previous_step` here.

    `report` tells of each item its `index`, `item`, `status` (completed, failed, or skipped by a person), `output` and
    `error`.
    """

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

    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("over", "items", "list", "in", "each", "for_each", "foreach"), "iterable_input"),
        **dict.fromkeys(("concurrency", "parallelism"), "max_concurrency"),
        **dict.fromkeys(("steps", "do"), "body"),
    }

    iterable_input: str = Field(
        description="An expression that gives the list (or JSON text of one), or the name of a context key.",
        examples=["context.events", "input.items", "events"],
    )
    body: list[AnyStep] = Field(
        min_length=1,
        description="The steps for one item; the first one's input is `item`.",
        examples=[[{"name": "look", "uses": "exchange_rate"}]],
    )
    max_items: int | None = Field(None, ge=1, description="A longer list fails the map.", examples=[200])
    init: list[Operation] = Field(
        [],
        description="Writes to the context, once, before the first item.",
        examples=[[{"set": {"target": "context.refused", "value": []}}]],
    )
    label: str | None = Field(
        None,
        description="A name that people see for an item in place of its index; a template.",
        examples=["{{ item.number }}"],
    )
    finalize: Finalize | None = Field(
        None,
        description="The map's output, once, after the last item.",
        examples=[{"output": {"total": "{{ context.total }}"}}],
    )
    max_parallel: MaxParallel = None
    max_concurrency: int = Field(
        1,
        ge=1,
        le=MOST_AT_ONCE,
        description="Concurrent items; above 1 each works on a copy of the context.",
        examples=[5],
    )
    on_item_error: Literal["fail", "continue", "ask"] = Field(
        "fail", description="A failed item: fail the map, use null for it, or ask a person."
    )


class Map(Step):
    """Run the body for every item of a list; the output is the list of the items' outputs, in their order."""

    other_names: ClassVar[tuple[str, ...]] = ("foreach", "for_each", "each")
    failed_item: ClassVar[Mapping[str, str]] = {
        "fail": "if one fails, so does the step",
        "continue": "one that fails returns nothing",
        "ask": "if one fails, a person decides what to do",
    }
    """What a failed item means, in words, by `on_item_error`."""

    @classmethod
    def hint_for(cls, key: str) -> str | None:
        return hint_of_block("map", MapBlock, key)

    kind: Literal["map"]
    map: MapBlock = Field(
        description="The list, and what is done with every item.",
        examples=[{"iterable_input": "input.expenses", "body": [{"name": "look", "uses": "exchange_rate"}]}],
    )

    def conditions(self) -> Mapping[str, str]:
        return {**super().conditions(), "map.iterable_input": self.map.iterable_input}

    @property
    def takes_turns(self) -> bool:
        return self.map.max_concurrency == 1

    def blocks(self) -> Mapping[str, Block]:
        block = self.map
        writes = {
            f"map.init[{n}].{operation.verb}.value": operation.write.value for n, operation in enumerate(block.init)
        }
        ends = {}
        if block.finalize is not None:
            ends["map.finalize.output_template"] = block.finalize.output_template
            ends["map.finalize.output"] = block.finalize.output
        outside = Block((), reads=writes)
        end = Block((), frozenset({"report"}), reads=ends)
        label = {} if block.label is None else {"map.label": block.label}
        items = Block(tuple(block.body), frozenset({"item", "index"}), reads=label)
        return {"map.body": items, "map": outside, "map.finalize": end}

    def inner_shapes(self, key: str, input: Shape, read: Callable[[str], Shape]) -> Mapping[str, Shape]:
        items = read(self.map.iterable_input)
        item = UNKNOWN if items.may_be("text") else items.element  # a text may be a list in JSON
        if key == "map.finalize":
            return {"report": make_shape("list", element=make_object(_describe_report(item)))}
        return {"previous_step": item, "item": item, "index": make_number(0)}

    def output_shape(self, knowledge: Knowledge) -> Shape:
        decided = self.map.on_item_error == "ask"
        outputs = make_shape("list", element=UNKNOWN if decided else knowledge.last["map.body"])
        end = self.map.finalize
        if end is None:
            return outputs
        return knowledge.render(
            "map.finalize", end.output if end.output_template is None else end.output_template, outputs
        )

    @property
    def first_writes(self) -> Sequence[Operation]:
        return self.map.init

    @property
    def most_at_once(self) -> int | None:
        return self.map.max_parallel

    def sees_context(self) -> bool:
        return super().sees_context() or any(operation.verb != "set" for operation in self.map.init)

    @classmethod
    def gather(cls, definition: PlacedDict, path: str, expansion: Expansion) -> PlacedDict:
        """See base class; moves keys of the map that stand beside `name` under `map:`."""
        return expansion.gather(definition, cls, "map", MapBlock, path)

    @classmethod
    def expand(cls, step: PlacedDict, path: str, expansion: Expansion) -> None:
        if isinstance(step.get("map"), PlacedDict):
            step["map"] = _expanded_block(step["map"], f"{path}.map", expansion)

    @classmethod
    def allow_short_forms(cls, definitions: Schema) -> None:
        block = definitions["MapBlock"]
        set_form(block, "iterable_input", {"type": ["string", "array"]})
        set_form(block, "init", short_writes("Writes"))

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        _check_block(self.map, f"{path}.map", findings)

    def advise(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        _shared_writes(self, path, blueprint, findings)

    def describe(self, names: Vocabulary) -> StepDescription:
        block = self.map
        input_text = say_template(self.input, names)
        inside = names.after(names.previous if self.input == PREVIOUS else input_text)
        these, failed = "this step" if len(block.body) == 1 else "these steps", self.failed_item[block.on_item_error]
        sentences = [f"runs {these} for each item of {self._items(inside)}, {self._pace}; {failed}."]
        sentences += writes_sentences(block.init, "Before the first item", inside)
        end = block.finalize or Finalize()
        sentences += result_sentences(end.output_template, end.output, None, names.after("the list of results")) or [
            "It returns the list of results."
        ]
        asks = (Ask("input", "An item has failed. What now?", RESCUE),) if block.on_item_error == "ask" else ()
        return StepDescription(
            " ".join(sentences),
            (NestedSteps("", block.body, replace(names.after("the item"), conversing=False)),),
            asks,
        )

    @property
    def _pace(self) -> str:
        most = self.map.max_concurrency
        return "one after the other" if most == 1 else f"up to {most} at once"

    def draw(self, names: Vocabulary) -> Drawing:
        lines = [f"for each item of {self._items(names)}", self._pace]
        return Drawing("fork", lines, framed=True, enters="item", skips="done", repeats="node")

    def cost(self) -> Cost:
        if self.map.on_item_error == "ask":
            return Cost(times=None, why=f"an item of {self.name} may run again as often as a person wants")
        count = self._item_count()
        if count is None and self.map.max_items is not None:
            return Cost(each=(self.name, self.map.max_items))
        return Cost(times=count, why=f"{self.name} has as many items as its list")

    def _items(self, names: Vocabulary) -> str:
        """Return the words for the list of a map; a bare identifier is a key of the context."""
        expression, number, most = self.map.iterable_input, self._item_count(), self.map.max_items
        if number is not None and not expression.lstrip().startswith("range"):
            return f"a list of {number}: {value(expression, names).removeprefix('the list of ')}"
        is_key = expression.isidentifier() and expression not in names.roots
        words = value(f"context.{expression}" if is_key else expression, names)
        return words if number is not None or most is None else f"{words} (at most {most:,})"

    def _item_count(self) -> int | None:
        """Return the number of items of a map if its list is written in the blueprint, else None."""
        try:
            node = parsed_expression(self.map.iterable_input)
        except ExpressionError:
            return None
        match node:
            case nodes.List() | nodes.Tuple():
                return len(node.items)
            case nodes.Const(value=str(text)):
                listed = json_list(text)
                return None if listed is None else len(listed)
            case nodes.Call(node=nodes.Name(name="range"), args=[nodes.Const(value=int(count))]):
                return max(count, 0)
        return None


def _describe_report(item: Shape) -> dict[str, Shape]:
    """Return what is known of an entry of the report on the items."""
    error = make_object({"type": TEXT, "message": TEXT, "address": TEXT})
    status = make_shape("text", values=("completed", "failed", "skipped"))
    told = {"status": status, "output": UNKNOWN, "error": join_shapes([error, NULL])}
    return {"index": make_number(0), "item": item, **told}


def _check_block(block: MapBlock, path: str, findings: Findings) -> None:
    check_most(block.max_parallel, [block.body], f"{path}.", findings, "write max_concurrency for items at once")
    for index, operation in enumerate(block.init):
        operation.check(f"{path}.init[{index}]", findings)
    match block.finalize:
        case Finalize(output_template=None, output=None):
            message = "'finalize' is empty"
            findings.add(f"{path}.finalize", "bad_value", message, "add output_template or output, or remove it")
        case Finalize(output_template=str(), output=output) if output is not None:
            message = "'output' and 'output_template' both say what the map gives"
            findings.add_key(f"{path}.finalize.output", "conflict", message, "keep one of them")


def _shared_writes(step: Map, path: str, blueprint: Blueprint, findings: Findings) -> None:
    """Warn of parallel items that write one path: forks of the context that differ cannot be joined."""
    if step.map.max_concurrency == 1:
        return
    reducers = find_reducers(blueprint.context_schema)
    for step_path, inner in placed_steps(step.map.body, f"{path}.map.body"):
        if _is_reduced(inner, reducers):
            continue
        key, subject = (
            ("sink_to", inner.sink_to) if inner.sink_to is not None else ("updates_context", "the keys of its output")
        )
        if inner.sink_to is not None or inner.updates_context:
            message = f"items that run at once all write {subject}: the map fails if two of them write different values"
            hint = "collect the items' outputs, which are the map's output, or write max_concurrency: 1"
            findings.add(f"{step_path}.{key}", "shared_write", message, hint)


def _is_reduced(step: AnyStep, reducers: Mapping[Path, str]) -> bool:
    """Return whether a reducer joins what the step writes; with unknown output keys, any reducer counts."""
    if step.sink_to is None:
        return bool(reducers)
    return is_below(split_keys(step.sink_to), reducers)


# Short forms


def _expanded_block(definition: PlacedDict, path: str, expansion: Expansion) -> PlacedDict:
    block = expansion.correct_keys(definition, MapBlock, path)
    if "iterable_input" in block:
        block["iterable_input"] = _expression(block["iterable_input"])
    if "body" in block:
        block["body"] = expansion.steps(block["body"], block.value_place("body"), f"{path}.body")
    if "init" in block:
        block["init"] = expand_operations(block["init"], f"{path}.init", expansion, presets=False)
    if isinstance(block.get("finalize"), PlacedDict):
        block["finalize"] = expansion.correct_keys(block["finalize"], Finalize, f"{path}.finalize")
    return block


def _expression(value: object) -> JSON:
    """Return the expression: `events` is `context.events`; `{{ … }}` is its content; a list is itself."""
    match value:
        case list():
            return json.dumps(plain(value))
        case str() if whole := _TEMPLATE.fullmatch(value):
            return whole[1].strip()
        case str() if re.fullmatch(r"[A-Za-z_]\w*", value.strip()) and value.strip() not in _ROOTS:
            return f"context.{value.strip()}"
    return value
