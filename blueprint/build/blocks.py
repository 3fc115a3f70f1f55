"""Blocks from Python: steps inside a step, each in a `with`: loops, items of a list, branches, choices, machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, Unpack

from holdfast.blueprint.build.pipeline import BlockKeys, add_step, find_open
from holdfast.blueprint.build.places import find_place, to_placed
from holdfast.blueprint.build.references import StepResult, ValueReference, read_expression, read_template
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.positions import Parts
from holdfast.blueprint.source import PlacedDict, PlacedList


class StepBlock(StepResult):
    """A step with others inside."""

    def __init__(self, keys: Mapping[str, object]) -> None:
        super().__init__(str(keys["name"]))
        self._keys = keys
        self._step: PlacedDict
        self._path: Parts

    def __enter__(self) -> Self:
        self._step, self._path = add_step(self._keys)
        self._begin()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
        if error is None:
            find_open().judge(self._path)

    def _begin(self) -> None:
        """Begin what is inside."""

    def _end(self) -> None:
        """End what is inside."""

    def _begin_list(self, holder: PlacedDict, key: str, path: Parts) -> None:
        place = find_place()
        steps = PlacedList(place)
        holder.put(key, steps, place)
        find_open().begin(steps, (*path, key))

    def _put(self, holder: PlacedDict, key: str, value: JSON) -> None:
        place = find_place()
        holder.put(key, to_placed(value, place), place)


class _Repeated(StepBlock):
    """A block whose steps stand in the `body` of a nested object."""

    _key: str

    def _begin(self) -> None:
        block = self._step[self._key]
        self._begin_list(block, "body", (*self._path, self._key))

    def _end(self) -> None:
        find_open().end()

    @property
    def _block(self) -> PlacedDict:
        block: PlacedDict = self._step[self._key]
        return block


class LoopStep(_Repeated):
    """A loop; its names are known inside it."""

    _key = "loop"
    iteration = ValueReference("iteration")
    """The number of the iteration, from 1."""
    history = ValueReference("history")
    resume_input = ValueReference("resume_input")
    """The last answer of a person."""

    def until(self, condition: ValueReference | str) -> None:
        """Set the exit, which is tested after each iteration."""
        self._put(self._block, "exit_expression", read_expression(condition))

    def gives(self, value: object) -> None:
        """Set the output: a template, or a mapping of templates; by default that of the last iteration."""
        template = read_template(value)
        self._put(self._block, "output" if isinstance(template, dict) else "output_template", template)


class EachStep(_Repeated):
    """The steps for each item of a list."""

    _key = "map"
    item = ValueReference("item")
    index = ValueReference("index")
    """The number of the item, from 0."""

    def gives(self, value: object) -> None:
        """Set the output: a template, or a mapping of templates over `previous`, the list of the items' outputs."""
        template = read_template(value)
        self._put(self._block, "finalize", {"output" if isinstance(template, dict) else "output_template": template})


class BranchList:
    """The steps of one branch."""

    def __init__(self, block: Branches, holder: PlacedDict, key: str, path: Parts) -> None:
        self._block, self._holder, self._key, self._path = block, holder, key, path

    def __enter__(self) -> None:
        self._block._begin_list(self._holder, self._key, self._path)

    def __exit__(self, *_: object) -> None:
        find_open().end()


class Branches(StepBlock):
    """A step with branches."""

    def _begin(self) -> None:
        self._put(self._step, "branches", {})

    def branch(self, key: str | bool) -> BranchList:
        """Begin a branch: `with NAME.branch("a"):`."""
        name = read_expression(key) if isinstance(key, bool) else key
        return BranchList(self, self._step["branches"], name, (*self._path, "branches"))


class ChoiceStep(Branches):
    """A choice among branches."""

    def otherwise(self) -> BranchList:
        """Begin the branch for every other value."""
        return BranchList(self, self._step, "default_branch", self._path)


class FinalSteps:
    """What a block does in any case."""

    error = ValueReference("error")
    """The `type` and `message` of what has ended the block; null if nothing has."""

    def __init__(self, block: SeveralSteps, holder: PlacedDict, path: Parts) -> None:
        self._block, self._holder, self._path = block, holder, path

    def __enter__(self) -> Self:
        self._block._begin_list(self._holder, "finally", self._path)
        return self

    def __exit__(self, *_: object) -> None:
        find_open().end()


class SeveralSteps(StepBlock):
    """Several steps as one."""

    def _begin(self) -> None:
        self._begin_list(self._step, "steps", self._path)

    def _end(self) -> None:
        find_open().end()

    def in_any_case(self) -> FinalSteps:
        """Begin the steps that run at the end in any case: `with NAME.in_any_case() as last:`, with `last.error`."""
        return FinalSteps(self, self._step, self._path)


class StateSteps:
    """The steps of a state, and what follows them."""

    def __init__(self, block: StatesStep, name: str, path: Parts) -> None:
        self._block, self._name, self._path = block, name, path

    def __enter__(self) -> Self:
        self._block._begin_list(self._state, "steps", self._path)
        return self

    def __exit__(self, *_: object) -> None:
        find_open().end()

    def goes_to(
        self, following: str | Mapping[str, str], *, by: ValueReference | str = "", otherwise: str | None = None
    ) -> None:
        """Set what follows: a state or an end; or those by the value of `by`, as text, and another for all else."""
        choice: JSON = following
        if not isinstance(following, str):
            choice = _drop_none({"value": read_expression(by), "to": dict(following), "else": otherwise})
        self._block._put(self._state, "next", choice)

    @property
    def _state(self) -> PlacedDict:
        state: PlacedDict = self._block._step["states"][self._name]
        return state


class StatesStep(StepBlock):
    """A machine: each state has steps, and says what follows them."""

    iteration = ValueReference("iteration")
    """The number of the visit, from 1."""

    def _begin(self) -> None:
        self._put(self._step, "states", {})

    def state(self, name: str, *, max_visits: int | None = None) -> StateSteps:
        """Begin a state: `with claim.state("draft") as draft:`; it ends with `draft.goes_to(…)`."""
        self._put(self._step["states"], name, _drop_none({"max_visits": max_visits}))
        return StateSteps(self, name, (*self._path, "states", name))


class ChoiceKeys(BlockKeys, total=False):
    """The keys of a choice, beside those that `choose` names; see docs/blueprint.md."""

    max_parallel: int


class StatesKeys(BlockKeys, total=False):
    """The keys of a machine, beside those that `states` names; see docs/blueprint.md."""

    checkpoint_every: int


class SeveralKeys(BlockKeys, total=False):
    """The keys of a block, beside those that `block` names; see docs/blueprint.md."""

    deadline: str | float | ValueReference
    on_deadline: Literal["fail", "finish", "ask"]
    on_undo_error: Literal["ask", "continue"]
    max_parallel: int


class LoopKeys(BlockKeys, total=False):
    """The keys of a loop, beside those that `loop` names; see docs/loops.md."""

    init: list[JSONObject] | JSONObject
    state: list[JSONObject] | JSONObject
    propagation: object
    conversation: bool
    ai_turn_source: str
    history_management: JSONObject
    checkpoint_every: int
    deadline: str | float | ValueReference
    on_deadline: Literal["fail", "finish", "ask"]
    max_parallel: int


class EachKeys(BlockKeys, total=False):
    """The keys of a map, beside those that `each` names; see docs/blueprint.md."""

    init: list[JSONObject] | JSONObject
    label: object
    max_items: int
    on_item_error: Literal["fail", "continue", "ask"]
    max_parallel: int


class ParallelKeys(BlockKeys, total=False):
    """The keys of a parallel, beside those that `parallel` names; see docs/blueprint.md."""

    choose: object
    merge_strategy: str
    reduce: str
    on_branch_failure: Literal["propagate", "ignore"]
    field_mapping: JSONObject
    context_include_keys: list[str]
    max_parallel: int


def loop(
    name: str,
    *,
    max_loops: int | None = None,
    on_max_loops: Literal["fail", "finish", "ask"] | None = None,
    **keys: Unpack[LoopKeys],
) -> LoopStep:
    """Begin a loop: `with loop("revise", max_loops=10) as revise:`; it ends as `revise.until(…)` says."""
    block = {"max_loops": max_loops, "on_max_loops": on_max_loops, **_take(keys, LoopKeys)}
    return LoopStep({"kind": "loop", "name": name, **keys, "loop": _drop_none(block)})


def each(
    name: str, items: ValueReference | str | Sequence[JSON], *, max_concurrency: int = 1, **keys: Unpack[EachKeys]
) -> EachStep:
    """Begin the steps for each item of a list: `with each("letters", context.people) as letters:`."""
    listed = read_expression(items) if isinstance(items, ValueReference) else items
    block = {"iterable_input": listed, **_take(keys, EachKeys)}
    if max_concurrency != 1:
        block["max_concurrency"] = max_concurrency
    return EachStep({"kind": "map", "name": name, **keys, "map": block})


def parallel(name: str, *, until: ValueReference | int | str | None = None, **keys: Unpack[ParallelKeys]) -> Branches:
    """Begin branches that run at once: `with parallel("look") as look:`; each is a `with look.branch("a"):`."""
    written = {"until": read_expression(until) if isinstance(until, ValueReference) else until}
    return Branches({"kind": "parallel", "name": name, **_drop_none(written), **keys})


def block(name: str, **keys: Unpack[SeveralKeys]) -> SeveralSteps:
    """Begin several steps as one: `with block("booking", deadline="3d") as booking:`; a step of it may have `undo`."""
    return SeveralSteps({"kind": "block", "name": name, **keys})


def states(name: str, *, start: str, ends: Sequence[str], **keys: Unpack[StatesKeys]) -> StatesStep:
    """Begin a machine: `with states("claim", start="draft", ends=["paid"]) as claim:`."""
    return StatesStep({"kind": "states", "name": name, **keys, "start": start, "ends": ends})


def choose(name: str, value: ValueReference | str, **keys: Unpack[ChoiceKeys]) -> ChoiceStep:
    """Begin a choice by a value, whose text is the name of a branch: `with choose("outcome", ok) as outcome:`."""
    return ChoiceStep({"kind": "conditional", "name": name, "condition_expression": value, **keys})


def _take(keys: Any, own: type[TypedDict]) -> dict[str, object]:  # type: ignore[valid-type]
    """Take the keys of a kind out of those of its step."""
    names = set(own.__annotations__) - set(BlockKeys.__annotations__)
    return {key: keys.pop(key) for key in list(keys) if key in names}


def _drop_none(keys: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in keys.items() if value is not None}
