"""The `states` kind: a machine, whose states say what follows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from pydantic import ConfigDict, Field

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds.base import Block, Step
from holdfast.blueprint.kinds.description import Cost, Drawing, NestedSteps, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.kinds.knowledge import Branching, Knowledge
from holdfast.blueprint.kinds.loop_block import LoopBlock
from holdfast.blueprint.parts import Name, Part
from holdfast.blueprint.shape import Shape, join_shapes, make_number, make_object, make_shape
from holdfast.blueprint.source import PlacedDict
from holdfast.blueprint.words.amounts import Amount
from holdfast.blueprint.words.text import Vocabulary, constant, enumerate_words, say_template, value

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep


class NextState(Part):
    """What follows a state, by a value."""

    # `else` is a word of Python's.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, populate_by_name=True)

    value: str = Field(
        description="An expression, evaluated where the state's steps have run; its value, as text, is the key.",
        examples=["steps.judge.output"],
    )
    to: dict[str, Name] = Field(
        description="Value -> the state or the end that follows.", examples=[{"good": "paid", "bad": "refused"}]
    )
    other: Name | None = Field(
        None,
        alias="else",
        description="What follows any other value; without it, such a value fails the step.",
        examples=["draft"],
    )


class Way(NamedTuple):
    """A way out of a state."""

    target: str
    """The state or the end that follows."""
    path: str
    """Of the key that names it, in the state."""
    label: str
    """In a drawing."""


class MachineState(Part):
    """One state of a machine: its steps, and what follows them."""

    steps: list[AnyStep] = Field(
        min_length=1, description="What is done in this state.", examples=[[{"name": "judge", "agent": "editor"}]]
    )
    next: Name | NextState = Field(
        description="The state or the end that follows, or how a value chooses it.",
        examples=["check", {"value": "steps.judge.output", "to": {"good": "paid"}, "else": "draft"}],
    )
    max_visits: int | None = Field(
        None, ge=1, description="Visits at most; one more fails the step with `max_visits`.", examples=[5]
    )

    @property
    def ways(self) -> Iterator[Way]:
        """The ways out of the state."""
        match self.next:
            case NextState(to=to, other=other):
                yield from (Way(name, f"next.to.{key}", key) for key, name in to.items())
                if other is not None:
                    yield Way(other, "next.else", "otherwise")
            case name:
                yield Way(name, "next", "")


class States(Step):
    """Go from state to state until an end is reached; each visit is an iteration of a loop in a history of its own."""

    other_names: ClassVar[tuple[str, ...]] = ("statemachine", "state_machine", "machine", "fsm")
    keeps_partial_context: ClassVar[bool] = True

    kind: Literal["states"]
    start: Name = Field(description="The state of the first visit.", examples=["draft"])
    ends: list[Name] = Field(
        min_length=1, description="Names that end the machine; an end has no steps.", examples=[["paid", "refused"]]
    )
    states: dict[str, MachineState] = Field(
        description="State -> its steps and what follows it.",
        examples=[{"draft": {"steps": [{"name": "write", "agent": "editor"}], "next": "paid"}}],
    )
    checkpoint_every: int = Field(50, ge=1, le=1000, description="Visits in one history at most.", examples=[20])

    @property
    def loop(self) -> LoopBlock:
        """The loop whose iterations are the visits: what one does is in `states`, and only an end ends them."""
        return LoopBlock.model_construct(body=[], checkpoint_every=self.checkpoint_every, on_max_loops="fail")

    def blocks(self) -> Mapping[str, Block]:
        return {f"states.{name}.steps": _make_block(name, state) for name, state in self.states.items()}

    @property
    def segment(self) -> str:
        return "loop"

    def inner_shapes(self, key: str, input: Shape, read: Callable[[str], Shape]) -> Mapping[str, Shape]:
        return {"iteration": make_number(1)}

    def output_shape(self, knowledge: Knowledge) -> Shape:
        ending = [name for name, state in self.states.items() if any(way.target in self.ends for way in state.ways)]
        output = join_shapes([knowledge.last[f"states.{name}.steps"] for name in ending])
        return make_object({"end": make_shape("text", values=self.ends), "output": output})

    @classmethod
    def expand(cls, step: PlacedDict, path: str, expansion: Expansion) -> None:
        states = step.get("states")
        if not isinstance(states, PlacedDict):
            return
        step["states"] = states.copy()
        for name, state in states.items():
            if not isinstance(state, PlacedDict):
                continue
            place = f"{path}.states.{name}"
            step["states"][name] = expanded = expansion.correct_keys(state, MachineState, place)
            if "steps" in expanded:
                expanded["steps"] = expansion.steps(expanded["steps"], state.value_place("steps"), f"{place}.steps")
            if isinstance(expanded.get("next"), PlacedDict):
                expanded["next"] = expansion.correct_keys(expanded["next"], NextState, f"{place}.next")

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        known = [*self.states, *self.ends]
        unknown = [way.target for state in self.states.values() for way in state.ways if way.target not in known]
        if self.start not in self.states:
            self._report_unknown(f"{path}.start", self.start, list(self.states), findings)
        for end in [end for end in self.ends if end in self.states]:
            message = f"{end!r} is a state and an end: an end has no steps"
            findings.add_key(f"{path}.states.{end}", "conflict", message, "give one of them another name")
        for name, state in self.states.items():
            for way in state.ways:
                if way.target not in known:
                    self._report_unknown(f"{path}.states.{name}.{way.path}", way.target, known, findings)
        if not unknown and self.start in self.states and not findings.is_repaired_within(f"{path}.states"):
            self._check_reach(path, findings)

    def _report_unknown(self, path: str, name: str, known: list[str], findings: Findings) -> None:
        hint = did_you_mean(name, known) or f"there are: {', '.join(known)}"
        findings.add(path, "unknown_name", f"no state {name!r} in {self.name}", hint)

    def _check_reach(self, path: str, findings: Findings) -> None:
        """Report states and ends to which nothing leads, and states that lead to no end."""
        follow = {name: {way.target for way in state.ways} for name, state in self.states.items()}
        reached = _closure({self.start}, follow)
        for name in [name for name in self.states if name not in reached]:
            message = f"nothing leads to the state {name!r}"
            findings.add_key(f"{path}.states.{name}", "unreachable_state", message, "let a state name it, or remove it")
        for index, end in enumerate(self.ends):
            if end not in reached and end not in self.states:
                message = f"nothing leads to the end {end!r}"
                hint = "let a state name it, or remove it"
                findings.add(f"{path}.ends[{index}]", "unreachable_state", message, hint)
        for name in [name for name in self.states if name in reached]:
            if not _closure({name}, follow) & set(self.ends):
                message = f"no end can be reached from the state {name!r}"
                hint = f"let it, or one after it, lead to {enumerate_words(self.ends, 'or')}"
                findings.add_key(f"{path}.states.{name}", "endless_states", message, hint)

    def describe(self, names: Vocabulary) -> StepDescription:
        inside = names.after(say_template(self.input, names))
        later = names.after("the output of the state before")
        blocks = tuple(
            NestedSteps(
                self._title(name, state, inside), state.steps, inside if name == self.start else later, name, name
            )
            for name, state in self.states.items()
        )
        text = f"goes from state to state: begins with {self.start}, ends with {enumerate_words(self.ends, 'or')}."
        return StepDescription(text, blocks)

    def _title(self, name: str, state: MachineState, names: Vocabulary) -> str:
        most = "" if state.max_visits is None else f", at most {say_count(state.max_visits, 'time')}"
        match state.next:
            case NextState(value=expression, to=to, other=other):
                ways = [f"{target} if it is {_key(key)}" for key, target in to.items()]
                ways += [] if other is None else [f"otherwise {other}"]
                follows = f"by {value(expression, names)}: {', '.join(ways)}"
            case target:
                follows = f"then {target}"
        return f"State {name}{most}, {follows}:"

    def draw(self, names: Vocabulary) -> Drawing:
        transitions = {name: [(way.label, way.target) for way in state.ways] for name, state in self.states.items()}
        return Drawing(
            "condition", framed=True, counts="visit", begins=self.start, ends=self.ends, transitions=transitions
        )

    def cost(self) -> Cost:
        visits = [state.max_visits for state in self.states.values()]
        if None in visits:
            return Cost(Amount(), None, f"{self.name} goes on until it comes to an end", alternatives=True)
        return Cost(Amount(), sum(filter(None, visits)), alternatives=True)


def _make_block(name: str, state: MachineState) -> Block:
    choice = state.next
    if not isinstance(choice, NextState):
        return Block(tuple(state.steps), frozenset({"iteration"}))
    path = f"states.{name}.next"
    branching = Branching(choice.value, frozenset(choice.to), choice.other is not None, f"{path}.to", f"{path}.else")
    return Block(
        tuple(state.steps),
        frozenset({"iteration"}),
        reads={f"{path}.value": f"{{{{ {choice.value} }}}}"},
        choices={f"{path}.value": branching},
    )


def _closure(begin: set[str], follow: Mapping[str, set[str]]) -> set[str]:
    """Return all that can be reached, the beginning included."""
    reached, new = set(begin), set(begin)
    while new:
        new = {target for name in new for target in follow.get(name, ())} - reached
        reached |= new
    return reached


def _key(key: str) -> str:
    return key if key in ("true", "false", "null") else constant(key)
