"""A frame: where a step stands, which names it sees, and what it may do there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, Protocol

from temporalio import workflow
from temporalio.exceptions import ChildWorkflowError

from blueprint.expressions import evaluate, holds, render, text_of
from blueprint.grammar import AnyStep, Blueprint, Step
from blueprint.jsonschemas import misfit
from protocol.address import Address, within
from protocol.agents import (
    CacheEntry,
    CacheHit,
    FindTool,
    ModelReply,
    ModelRequest,
    ToolOutcome,
    ToolRequest,
    ToolSpec,
    Usage,
)
from protocol.context import BadWrite, applied, read
from protocol.people import EVERYBODY, People
from protocol.questions import Asked, Decision
from protocol.runs import AgentDefinition, ChildDefinition
from protocol.values import Value
from workflows.failures import HANDLED, failure, failure_of
from workflows.limits import Before, Meter, limits_of
from workflows.questions import Reply

HISTORY = "context.scratchpad.history"
_OWN_LIMITS = "limits-stop-what-spends-them"


class Host(Protocol):
    """What a frame needs of the workflow that it runs in."""

    run_id: str
    blueprint_name: str
    guarded: bool
    started_by: str | None
    paused: bool
    permits: list[str]
    """Tools that a person allowed for the rest of the run."""

    def note(self, address: Address, type_: str, **data: Any) -> None: ...
    def count(self, usage: Usage) -> None: ...
    def permit(self, *tools: str) -> None: ...
    async def until_resumed(self) -> None: ...
    async def ask(
        self,
        address: Address,
        asked: Asked,
        *,
        iteration: int | None,
        timeout: float | None,
        takes_default: bool = False,
        parents: Sequence[dict[str, Any]] = (),
        people: People = EVERYBODY,
    ) -> Reply: ...
    def change_question(self, address: Address, asked: Asked, parents: Sequence[dict[str, Any]]) -> None: ...
    async def call_model(self, request: ModelRequest, **how: Any) -> ModelReply: ...
    async def call_tool(self, request: ToolRequest, **how: Any) -> ToolOutcome: ...
    async def look_up(self, key: str) -> CacheHit: ...
    async def keep(self, entry: CacheEntry) -> None: ...
    async def describe_tools(self, tools: Sequence[str]) -> list[ToolSpec]: ...
    async def find_tool(self, wanted: FindTool) -> str | None: ...
    async def run_child(self, definition: ChildDefinition | AgentDefinition, state: Value) -> Any: ...


class Store:
    """The context: an immutable JSON value in a cell that one line of steps shares. A fork is another cell."""

    def __init__(self, value: dict[str, Any], schema: dict[str, Any] | None = None) -> None:
        self.value, self.schema = value, schema

    def fork(self) -> Store:
        return Store(self.value, self.schema)

    def take(self, value: dict[str, Any], address: Address) -> None:
        """Replace the value; one that breaks the context's schema fails the step that wrote it."""
        if self.schema is not None and (wrong := misfit(self.schema, value)):
            raise failure("context_invalid", f"the context does not fit its schema: {wrong}", address)
        self.value = value


@dataclass
class Scope:
    """The steps that ran in one list and in the lists around it, and the last human answer there."""

    steps: dict[str, Any] = field(default_factory=dict)
    outer: Scope | None = None
    resume_input: Any = None
    heard: bool = False
    """Whether somebody answered here, or in a list inside."""

    def inner(self) -> Scope:
        return Scope(outer=self, resume_input=self.resume_input)

    def seen(self) -> dict[str, Any]:
        return {**self.outer.seen(), **self.steps} if self.outer else self.steps

    def answered(self, content: Any) -> None:
        scope: Scope | None = self
        while scope is not None:
            scope.resume_input, scope.heard, scope = content, True, scope.outer


RunSteps = Callable[[Sequence[AnyStep], "Frame", Any], Awaitable[Any]]


@dataclass(frozen=True)
class Frame:
    """`previous` is what the step before gave; `n` counts the enclosing iterations, for scripted models."""

    host: Host
    address: Address
    blueprint: Blueprint
    store: Store
    scope: Scope
    run_steps: RunSteps
    names: dict[str, Any]
    """Names beside those every step sees: `input`, `iteration`, `error`."""
    previous: Any = None
    n: int = 1
    iteration: int | None = None
    turn_source: str | None = None
    """In a conversation: the step whose output is the assistant's turn."""
    conversing: bool = False
    place: str = ""
    """How a person calls the place: `clarify 2`."""
    meter: Meter = field(default_factory=Meter)
    given: tuple[Any] | None = None
    """What a person gave as this step's input, after it had failed."""

    async def spend(self, work: Awaitable[Any]) -> Any:
        """The work's result; the time that it took counts."""
        begun = workflow.now()
        try:
            result = await work
        except HANDLED:
            self.meter.count(_seconds_since(begun))
            raise
        self.meter.count(_seconds_since(begun))
        return result

    async def within_limits(self, before: Before = "step") -> None:
        """Begin only if nothing that it may spend is used up; where the author says so, a person is asked for more."""
        while (reached := self._reached(before)) is not None:
            index, name = reached
            budget, told = self.meter.budgets[index], self.meter.told(index, name)
            self.note("limit.reached", limit=name, message=told)
            if budget.limits.on_limit == "fail":
                raise failure("limit_reached", told, self.address, final=budget.whole_run)
            amount = limits_of(budget.limits)[name]
            more = [{"id": "more", "label": f"{amount:g} more"}, {"id": "fail"}]
            asked = Decision.model_validate({"message": f"{told}. Go on?", "options": more})
            reply = await self.at("hitl", "limit").ask(asked)
            if reply.content != "more":
                raise failure("limit_reached", f"{told}; ended by {reply.by or 'somebody'}", self.address, final=True)
            self.meter.grant(index, name, amount)

    def _reached(self, before: Before) -> tuple[int, str] | None:
        """Which limit stops what is about to begin; in runs of old, any limit stopped anything."""
        reached = self.meter.reached()
        return self.meter.reached(before) if reached is not None and workflow.patched(_OWN_LIMITS) else reached

    async def run_child(self, definition: ChildDefinition | AgentDefinition, state: Value) -> Any:
        """A child's result; what it spends counts here, too."""
        try:
            result = await self.host.run_child(definition, state)
        except ChildWorkflowError as error:
            self.meter.count(failure_of(error, self.address).usage)
            raise
        self.meter.count(result.usage)
        self.meter.adopt(result.budgets)
        return result

    def at(self, type_: str, id_: str, sub: object = None) -> Frame:
        """The same names, one segment deeper."""
        return replace(self, address=within(self.address, type_, id_, sub), given=None)

    def inside(self, type_: str, id_: str) -> Frame:
        """One segment deeper, in a scope of its own: what runs there is not seen outside."""
        return replace(self.at(type_, id_), scope=self.scope.inner())

    def after(self, previous: Any) -> Frame:
        return replace(self, previous=previous)

    def with_names(self, **names: Any) -> Frame:
        return replace(self, names={**self.names, **names})

    def visible(self) -> dict[str, Any]:
        """Every name that an expression sees here."""
        return {
            **self.names,
            **({"history": history_of(self.store.value)} if self.iteration is not None else {}),
            "context": self.store.value,
            "steps": self.scope.seen(),
            "previous_step": self.previous,
            "output": self.previous,
            "resume_input": self.scope.resume_input,
        }

    def evaluate(self, expression: str) -> Any:
        return evaluate(expression, self.visible())

    def holds(self, expression: str) -> tuple[bool, Any]:
        return holds(expression, self.visible())

    def render(self, template: Any) -> Any:
        return render(template, self.visible())

    def input_of(self, step: Step) -> Any:
        """What the step gets, if it fits the step's `input_schema`."""
        value = self.raw_input_of(step)
        if step.input_schema is not None and (wrong := misfit(step.input_schema, value)):
            raise failure("input_invalid", f"the input of {step.name} does not fit: {wrong}", self.address)
        return value

    def raw_input_of(self, step: Step) -> Any:
        """What the step would get: what a person gave in its place, else what its template gives."""
        return self.render(step.input) if self.given is None else self.given[0]

    def note(self, type_: str, **data: Any) -> None:
        self.host.note(self.address, type_, **data)

    def write(self, value: dict[str, Any]) -> None:
        self.store.take(value, self.address)

    def apply(self, verb: Literal["set", "append", "merge"], path: str, value: Any) -> None:
        """One operation on the context; one that does not fit what is there fails the step."""
        try:
            self.write(applied(self.store.value, verb, path, value))
        except BadWrite as error:
            raise failure("bad_write", str(error), self.address) from None

    def summary(self, label: str) -> str:
        """What the activity's row says in Temporal's UI."""
        return f"{self.place} · {label}" if self.place else label

    def turn(self, who: str, content: Any) -> None:
        """In a conversation, what somebody said becomes its next turn."""
        if self.conversing:
            self.apply("append", HISTORY, f"{who}: {text_of(content)}")

    async def ask(
        self,
        asked: Asked,
        timeout: float | None = None,
        *,
        takes_default: bool = False,
        parents: Sequence[dict[str, Any]] = (),
        people: People = EVERYBODY,
    ) -> Reply:
        reply = await self.host.ask(
            self.address,
            asked,
            iteration=self.iteration,
            timeout=timeout,
            takes_default=takes_default,
            parents=parents,
            people=people,
        )
        if reply.status == "answered":
            self.scope.answered(reply.content)
        return reply


def history_of(context: dict[str, Any]) -> Any:
    """The conversation that a loop keeps, or an empty list."""
    return read(context, HISTORY, [])


def _seconds_since(begun: datetime) -> Usage:
    return Usage(seconds=(workflow.now() - begun).total_seconds())
