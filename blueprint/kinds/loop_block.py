"""The keys under `loop:`: the body, its exits, its conversation, and their rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.findings import Findings, check_function
from holdfast.blueprint.kinds.base import Fallback, Step
from holdfast.blueprint.kinds.conditional import Conditional
from holdfast.blueprint.kinds.deadlines import Deadline, OnDeadline, check_deadline
from holdfast.blueprint.kinds.needs import check_most
from holdfast.blueprint.kinds.operations import Operation
from holdfast.blueprint.parts import MaxParallel, Name, Part, Requirement, Template

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep

MOST_IDLE_ITERATIONS = 100
"""Consecutive iterations without a question, hold or timer that a loop without `max_loops` may make."""

_MAPPERS = {
    "initial_input_mapper": ("init",),
    "iteration_input_mapper": ("propagation",),
    "loop_output_mapper": ("output_template", "output"),
}


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

    short_keys: ClassVar[tuple[str, ...]] = ("stop_when",)
    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("exit", "until", "exit_when", "break"), "exit_expression"),
        **dict.fromkeys(("max_iterations", "iterations", "limit", "times"), "max_loops"),
        **dict.fromkeys(("steps", "do"), "body"),
    }

    body: list[AnyStep] = Field(
        min_length=1, description="The steps of one iteration.", examples=[[{"name": "improve", "agent": "editor"}]]
    )
    max_loops: int | None = Field(
        None,
        ge=1,
        description="Iterations in all; required unless an exit is given. Without it the loop ends after "
        f"{MOST_IDLE_ITERATIONS} iterations in a row in which nobody was asked and no timer ran.",
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
        Propagation.model_construct(),  # builds no model, as the import of a file should not
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
    max_parallel: MaxParallel = None
    deadline: Deadline = None
    on_deadline: OnDeadline = "fail"
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
        return {key: function for key in keys if (function := getattr(self, key)) is not None}

    @classmethod
    def hint_for(cls, key: str) -> str | None:
        return "it belongs to the step, beside `loop:`" if key in ("kind", "loop", *Step.model_fields) else None

    @property
    def has_exit(self) -> bool:
        return self.exit_expression is not None or self.exit_condition is not None

    @property
    def at_the_limit(self) -> Literal["fail", "finish", "ask"]:
        """Return the action when `max_loops`, or the ceiling of a loop without it, is reached."""
        return self.on_max_loops or ("fail" if self.has_exit else "finish")


# Checks


def check_block(block: LoopBlock, path: str, findings: Findings) -> None:
    if block.max_loops is None and not block.has_exit:
        message = "'max_loops' is missing: it is required unless an exit is given"
        findings.add(f"{path}.max_loops", "missing_key", message, "add max_loops, exit_expression or stop_when")
    _exclusive(block, path, findings)
    check_most(block.max_parallel, [block.body], f"{path}.", findings)
    check_deadline(block.deadline, block.on_deadline, f"{path}.", findings)
    for key in ("exit_condition", *_MAPPERS):
        function = getattr(block, key)
        if function is not None:
            check_function(function, f"{path}.{key}", findings)
    for key, operations in (("init", block.init), ("state", block.state)):
        for index, operation in enumerate(operations):
            operation.check(f"{path}.{key}[{index}]", findings)
    if block.output is not None and not isinstance(block.output, dict):
        message = "'output' must be an object of templates"
        findings.add(f"{path}.output", "bad_value", message, "a single template is `output_template`")
    _check_conversation(block, path, findings)
    if block.history_management is not None:
        _check_shortening(block.history_management, f"{path}.history_management", findings)


def _exclusive(block: LoopBlock, path: str, findings: Findings) -> None:
    present = {key for key in block.model_fields_set if getattr(block, key) is not None}
    if {"output", "output_template"} <= present:
        message = "'output' and 'output_template' both say what the loop gives"
        findings.add_key(f"{path}.output", "conflict", message, "keep one of them")
    if {"exit_expression", "exit_condition"} <= present:
        message = "'exit_expression' and 'exit_condition' both say when the loop ends"
        findings.add_key(f"{path}.exit_condition", "conflict", message, "keep one of them")
    for mapper, keys in _MAPPERS.items():
        for key in keys:
            if {mapper, key} <= present:
                message = f"{key!r} and {mapper!r} say the same thing"
                findings.add_key(f"{path}.{mapper}", "conflict", message, "keep one of them")


def _check_conversation(block: LoopBlock, path: str, findings: Findings) -> None:
    if block.ai_turn_source is not None:
        names = _body_names(block.body)
        if block.ai_turn_source not in names:
            hint = did_you_mean(block.ai_turn_source, names) or f"known here: last, {', '.join(names)}"
            message = f"no step {block.ai_turn_source!r} in the loop's body"
            findings.add(f"{path}.ai_turn_source", "unknown_name", message, hint)
    if block.conversation:
        return
    for key, value in (("ai_turn_source", block.ai_turn_source), ("history_management", block.history_management)):
        if value is not None:
            message = f"{key!r} belongs to loops with a conversation"
            findings.add_key(f"{path}.{key}", "conflict", message, "add conversation: true, or remove it")


def _check_shortening(rule: HistoryManagement, path: str, findings: Findings) -> None:
    wanted = {"truncate_turns": ("max_turns",), "truncate_tokens": ("max_tokens",)}.get(rule.strategy)
    if not any(getattr(rule, key) for key in wanted or ("max_turns", "max_tokens")):
        message = f"{rule.strategy} needs {' or '.join(map(repr, wanted or ('max_turns', 'max_tokens')))}"
        findings.add(f"{path}.strategy", "missing_key", message, "it says how much is kept")
    if rule.strategy == "summarize" and rule.agent is None:
        findings.add(f"{path}.agent", "missing_key", "'agent' is missing: it writes the summary", "name an agent")


def _body_names(steps: Iterable[AnyStep]) -> list[str]:
    """Return the names of a body's steps, those inside conditionals too, but not those of inner loops."""
    names = []
    for step in steps:
        names.append(step.name)
        if isinstance(step, Conditional):
            for block in step.blocks().values():
                names += _body_names(block.steps)
        if isinstance(step.on_error, Fallback):
            names += _body_names([step.on_error.fallback])
    return names
