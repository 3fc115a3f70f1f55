"""The `loop` kind: run a body again until an exit holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from holdfast.blueprint.kinds.agents import AgentReference
from holdfast.blueprint.kinds.base import Block, Step
from holdfast.blueprint.kinds.parts import Name, Part, Requirement, Template

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep


MOST_IDLE_ROUNDS = 100
"""Consecutive iterations without a question, hold or timer that a loop without `max_loops` may make."""


class Write(Part):
    """A write: the path it goes to, and the value."""

    target: str = Field(
        description="A context path, such as `context.scratchpad.history`.", examples=["context.scratchpad.history"]
    )
    value: Template = Field(description="A template, or a mapping of them.", examples=["User: {{ input }}"])


class Operation(Part):
    """One write to the context: set a value, append to a list, merge into an object."""

    set: Write | None = Field(
        None, description="The target gets the value.", examples=[{"target": "context.tries", "value": 0}]
    )
    append: Write | None = Field(
        None,
        description="The value is added to the list at the target.",
        examples=[{"target": "context.drafts", "value": "{{ previous_step }}"}],
    )
    merge: Write | None = Field(
        None,
        description="The value's keys are written into the object at the target; a text that is a JSON object is one.",
        examples=[{"target": "context.facts", "value": {"topic": "{{ input.topic }}"}}],
    )

    @model_validator(mode="after")
    def _one_of_three(self) -> Operation:
        if sum(write is not None for write in (self.set, self.append, self.merge)) != 1:
            raise ValueError("an operation is exactly one of set, append, merge")
        return self

    @property
    def verb(self) -> Literal["set", "append", "merge"]:
        return "set" if self.set else "append" if self.append else "merge"

    @property
    def write(self) -> Write:
        write = self.set or self.append or self.merge
        assert write is not None
        return write


class Propagation(Part):
    """The input of the next iteration."""

    next_input: Template = Field(
        "previous_output", description="`context`, `previous_output`, `auto`, or a template.", examples=["context"]
    )


class HistoryManagement(Part):
    """The rule that keeps the conversation short."""

    strategy: Literal["truncate_turns", "truncate_tokens", "summarize"] = Field(
        description="Keep the last `max_turns` turns or `max_tokens` tokens, or summarise what is before them."
    )
    max_turns: int | None = Field(None, ge=1, description="Turns that are kept.", examples=[20])
    max_tokens: int | None = Field(
        None, ge=10, description="Tokens (four characters each) that are kept.", examples=[8_000]
    )
    agent: Name | None = Field(None, description="The agent that summarises.", examples=["editor"])


class LoopBlock(Part):
    """The body of a loop, its start, what it passes on, and its end."""

    body: list[AnyStep] = Field(
        min_length=1, description="The steps of one iteration.", examples=[[{"name": "improve", "agent": "editor"}]]
    )
    max_loops: int | None = Field(
        None,
        ge=1,
        description="Iterations in all; required unless an exit is given. Without it the loop ends after "
        f"{MOST_IDLE_ROUNDS} iterations in a row in which nobody was asked.",
        examples=[5],
    )
    exit_expression: str | None = Field(
        None,
        description="Tested after each iteration on its output and its context.",
        examples=["output == 'stop'", "context.score >= 8"],
    )
    exit_condition: str | None = Field(
        None, description="`pkg.mod:function(output, context)` instead of an expression.", examples=["my_tools:is_done"]
    )
    on_max_loops: Literal["fail", "finish", "ask"] | None = Field(
        None,
        description="At `max_loops`, or at the ceiling of a loop without it: fail (default when there is an exit), "
        "finish (default when there is none) or ask.",
    )
    init: list[Operation] = Field(
        [],
        description="Writes to the context, once, before iteration 1, in order.",
        examples=[
            [{"set": {"target": "context.tries", "value": 0}}],
            {"history": {"start_with": {"from_step": "get_goal"}}},
        ],
    )
    state: list[Operation] = Field(
        [],
        description="Writes to the context between iterations, in order.",
        examples=[[{"append": {"target": "context.drafts", "value": "{{ output }}"}}]],
    )
    propagation: Propagation = Field(
        Propagation(),
        description="What the next iteration gets: context, previous_output, auto or {next_input: …}.",
        examples=["context", {"next_input": "{{ output.draft }}"}],
    )
    output_template: str | None = Field(
        None,
        description="The loop's output, rendered at its end.",
        examples=["{{ context.scratchpad.history | join('\\n') }}"],
    )
    output: Template | None = Field(
        None,
        description="The loop's output as a mapping of templates.",
        examples=[{"text": "conversation_history"}, {"draft": "{{ output }}", "rounds": "{{ iteration }}"}],
    )
    conversation: bool = Field(
        False, description="Keep turns in `context.scratchpad.history`; agents of the body get them as messages."
    )
    ai_turn_source: Name | None = Field(
        None, description="The step whose output is the assistant's turn.", examples=["clarify", "last"]
    )
    history_management: HistoryManagement | None = Field(
        None,
        description="How the conversation is kept short.",
        examples=[{"strategy": "truncate_turns", "max_turns": 20}],
    )
    checkpoint_every: int = Field(50, ge=1, le=1000, description="Iterations in one history at most.", examples=[20])
    initial_input_mapper: str | None = Field(
        None, description="`pkg.mod:function(input, context)`.", examples=["mappers:start"]
    )
    iteration_input_mapper: str | None = Field(
        None, description="`pkg.mod:function(output, context, iteration)`.", examples=["mappers:again"]
    )
    loop_output_mapper: str | None = Field(
        None, description="`pkg.mod:function(output, context)`.", examples=["mappers:result"]
    )

    def requires(self) -> Iterator[Requirement]:
        for key, function in self.functions().items():
            yield Requirement("tool", function, (key,))

    def functions(self) -> Mapping[str, str]:
        """Return the functions in place of expressions and templates, by their keys."""
        keys = ("exit_condition", "initial_input_mapper", "iteration_input_mapper", "loop_output_mapper")
        return {key: self.__dict__[key] for key in keys if self.__dict__[key] is not None}

    @property
    def has_exit(self) -> bool:
        return self.exit_expression is not None or self.exit_condition is not None

    @property
    def at_the_limit(self) -> Literal["fail", "finish", "ask"]:
        """Return the action when `max_loops`, or the ceiling of a loop without it, is reached."""
        return self.on_max_loops or ("fail" if self.has_exit else "finish")


class Loop(Step):
    """Repeat the body in a history of its own; the output is the last iteration's unless `output` says otherwise."""

    keeps_partial_context: ClassVar[bool] = True

    kind: Literal["loop"]
    loop: LoopBlock = Field(
        description="What is repeated, and until when.",
        examples=[{"body": [{"name": "improve", "agent": "editor"}], "max_loops": 5, "exit_expression": "output.done"}],
    )

    def blocks(self) -> Mapping[str, Block]:
        block = self.loop
        writes = {
            f"loop.{key}[{index}].{operation.verb}.value": operation.write.value
            for key, operations in (("init", block.init), ("state", block.state))
            for index, operation in enumerate(operations)
        }
        reads: dict[str, Any] = {"loop.output_template": block.output_template, "loop.output": block.output}
        reads["loop.propagation.next_input"] = block.propagation.next_input
        exits = {} if block.exit_expression is None else {"loop.exit_expression": block.exit_expression}
        inside = Block(tuple(block.body), frozenset({"iteration", "history"}), True, {**writes, **reads}, exits)
        return {"loop.body": inside}

    def agents(self) -> Sequence[AgentReference]:
        rule = self.loop.history_management
        if rule is None or rule.agent is None:
            return ()
        return (AgentReference(rule.agent, "loop.history_management.agent", "summarizer"),)

    def sees_context(self) -> bool:
        block = self.loop
        grows = any(operation.verb != "set" for operation in (*block.init, *block.state))
        reads = block.conversation or block.propagation.next_input == "context"
        return super().sees_context() or grows or reads or bool(block.functions())
