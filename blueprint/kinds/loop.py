"""The `loop` kind: run a body again until an exit holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.findings import Findings
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds.agents import AgentReference
from holdfast.blueprint.kinds.base import Block, Step
from holdfast.blueprint.kinds.deadlines import DEADLINE, deadline_asks, deadline_null_cause, deadline_sentence
from holdfast.blueprint.kinds.description import MORE, PREVIOUS, Ask, Cost, Drawing, NestedSteps, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.kinds.keys import hint_of_block
from holdfast.blueprint.kinds.knowledge import Knowledge
from holdfast.blueprint.kinds.loop_block import MOST_IDLE_ITERATIONS, LoopBlock, check_block
from holdfast.blueprint.kinds.loop_forms import expanded_block
from holdfast.blueprint.kinds.operations import Operation
from holdfast.blueprint.kinds.phrases import AT_MOST, agent_phrase, result_sentences, writes_sentences
from holdfast.blueprint.kinds.schema_forms import (
    CONDITION,
    Schema,
    set_form,
    short_writes,
)
from holdfast.blueprint.kinds.template_values import TemplateForm
from holdfast.blueprint.kinds.walk import steps_within
from holdfast.blueprint.parts import Template
from holdfast.blueprint.shape import LIST, UNKNOWN, Shape, make_number
from holdfast.blueprint.source import PlacedDict
from holdfast.blueprint.words.amounts import Amount
from holdfast.blueprint.words.text import Vocabulary, as_sentence, condition, enumerate_words, say_template

MOST_ITERATIONS_KEPT = 50
"""Rounds of a conversation whose turns are few enough to keep them all."""


class Loop(Step):
    """Repeat the body in a history of its own; the output is the last iteration's unless `output` says otherwise."""

    other_names: ClassVar[tuple[str, ...]] = ("while", "until", "repeat", "for")
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
        reads: JSONObject = {"loop.output_template": block.output_template, "loop.output": block.output}
        reads["loop.propagation.next_input"] = block.propagation.next_input
        exits = {} if block.exit_expression is None else {"loop.exit_expression": block.exit_expression}
        inside = Block(tuple(block.body), frozenset({"iteration", "history"}), True, {**writes, **reads}, exits)
        return {"loop.body": inside}

    def reads(self) -> Mapping[str, Template]:
        return {**super().reads(), "loop.deadline": self.loop.deadline}

    def template_forms(self) -> Mapping[str, TemplateForm]:
        return {"loop.deadline": DEADLINE}

    def inner_shapes(self, key: str, input: Shape, read: Callable[[str], Shape]) -> Mapping[str, Shape]:
        # A person may add iterations.
        most = None if self.loop.at_the_limit == "ask" else self.loop.max_loops
        return {"iteration": make_number(1, most), "history": LIST}

    @property
    def null_cause(self) -> str | None:
        return deadline_null_cause(self.name, self.loop.on_deadline) or super().null_cause

    def output_shape(self, knowledge: Knowledge) -> Shape:
        block, last = self.loop, knowledge.last["loop.body"]
        if block.loop_output_mapper is not None:
            return UNKNOWN
        if block.on_deadline != "fail":
            return UNKNOWN
        template = block.output if block.output_template is None else block.output_template
        return last if template is None else knowledge.render("loop.body", template, last)

    @property
    def first_writes(self) -> Sequence[Operation]:
        return self.loop.init

    @property
    def growing_lists(self) -> Mapping[str, str]:
        return {
            f"loop.state[{index}].append.target": operation.append.target
            for index, operation in enumerate(self.loop.state)
            if operation.append is not None
        }

    @property
    def output_templates(self) -> Template:
        return [self.loop.output_template, self.loop.output]

    def agents(self) -> Sequence[AgentReference]:
        rule = self.loop.history_management
        if rule is None or rule.agent is None:
            return ()
        return (AgentReference(rule.agent, "loop.history_management.agent", "summarizer"),)

    @property
    def most_at_once(self) -> int | None:
        return self.loop.max_parallel

    def sees_context(self) -> bool:
        block = self.loop
        grows = any(operation.verb != "set" for operation in (*block.init, *block.state))
        reads = block.conversation or block.propagation.next_input == "context"
        return super().sees_context() or grows or reads or bool(block.functions())

    @classmethod
    def hint_for(cls, key: str) -> str | None:
        return hint_of_block("loop", LoopBlock, key)

    @classmethod
    def gather(cls, definition: PlacedDict, path: str, expansion: Expansion) -> PlacedDict:
        """See base class; moves keys of the loop that stand beside `name` under `loop:`."""
        return expansion.gather(definition, cls, "loop", LoopBlock, path)

    @classmethod
    def expand(cls, step: PlacedDict, path: str, expansion: Expansion) -> None:
        if isinstance(step.get("loop"), PlacedDict):
            step["loop"] = expanded_block(step["loop"], f"{path}.loop", expansion)

    @classmethod
    def allow_short_forms(cls, definitions: Schema) -> None:
        block = definitions["LoopBlock"]
        inputs = {"enum": ["context", "previous_output", "auto"]}
        set_form(block, "exit_expression", CONDITION)
        set_form(block, "propagation", {"anyOf": [inputs, {"$ref": "#/$defs/Propagation"}]})
        set_form(
            block, "stop_when", {"const": "agent_finished", "description": "The exit that an agent's command gives."}
        )
        set_form(block, "init", short_writes("FirstWrites"))
        set_form(block, "state", short_writes("Writes"))
        set_form(block, "output", {"type": ["object", "null"]})

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        check_block(self.loop, f"{path}.loop", findings)

    def advise(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        _limit(self, path, blueprint, findings)
        _warn_of_growth(self, path, findings)

    def describe(self, names: Vocabulary) -> StepDescription:
        block = self.loop
        input_text = say_template(self.input, names)
        inside = names.after(names.previous if self.input == PREVIOUS else input_text)
        until = self._until(names)
        sentences = [
            f"repeats these steps {until}",
            *writes_sentences(block.init, "Before the first iteration", inside),
        ]
        if self.input != PREVIOUS:
            sentences.append(as_sentence(f"The first iteration begins with {input_text}"))
        if block.initial_input_mapper is not None:
            sentences.append(
                f"The first iteration begins with the result of the function {block.initial_input_mapper}."
            )
        if block.conversation:
            sentences.append(conversation_sentence(block))
        after = self._after_iteration(names)
        sentences += writes_sentences(block.state, "Between two iterations", after)
        sentences += next_input_sentences(block, after)
        sentences += result_sentences(block.output_template, block.output, block.loop_output_mapper, after)
        if until_when := deadline_sentence(block.deadline, block.on_deadline, inside):
            sentences.append(until_when.strip())
        inner = replace(names.after("the input of the iteration"), conversing=block.conversation)
        body = NestedSteps("", block.body, inner)
        ask = Ask("decision", f"{self.name} has not reached its exit. Go on?", MORE)
        more: tuple[Ask, ...] = (ask,) if block.at_the_limit == "ask" else ()
        more = (*more, *deadline_asks(self.name, block.deadline, block.on_deadline))
        return StepDescription(" ".join(sentences), (body,), more)

    def draw(self, names: Vocabulary) -> Drawing:
        return Drawing(
            "condition",
            self._ends(names),
            framed=True,
            counts="iteration",
            repeats="body",
            enters="again",
            skips="done",
        )

    def cost(self) -> Cost:
        block = self.loop
        shortened = block.history_management is not None and block.history_management.strategy == "summarize"
        own = Amount(1 if shortened else 0)
        if block.max_loops is None:
            return Cost(own, None, f"{self.name} goes on until its exit is met")
        if block.at_the_limit == "ask":
            return Cost(own, None, f"{self.name} goes on for as long as a person wants")
        return Cost(own, block.max_loops)

    def _after_iteration(self, names: Vocabulary) -> Vocabulary:
        """Return the vocabulary after an iteration."""
        last = self.loop.body[-1]
        seen = names.after(last.result(names))
        plain = last.when is None and last.gives_plain_answer
        return seen.with_roots(output="the answer", previous_step="the answer") if plain else seen

    def _ends(self, names: Vocabulary) -> list[str]:
        """Return the clauses about the end of a loop: its exit, its limit, what happens at the limit."""
        block = self.loop
        exits: list[str] = []
        if block.exit_expression is not None:
            exits = [f"until {condition(block.exit_expression, self._after_iteration(names))}"]
        elif block.exit_condition is not None:
            exits = [f"until the function {block.exit_condition} returns true"]
        if block.max_loops is None:
            idle = f"at most {MOST_IDLE_ITERATIONS} iterations in a row without asking anybody"
            return [*exits, idle, AT_MOST[block.at_the_limit]]
        if not exits and block.at_the_limit == "finish":
            return [say_count(block.max_loops, "time")]
        return [*exits, f"at most {say_count(block.max_loops, 'time')}", AT_MOST[block.at_the_limit]]

    def _until(self, names: Vocabulary) -> str:
        match self._ends(names):
            case [*others, limit, then]:
                return f"{', '.join([*others, limit])}; {then}."
            case limits:
                return f"{', '.join(limits)}."


def _limit(step: Loop, path: str, blueprint: Blueprint, findings: Findings) -> None:
    """Warn of a loop that only the default ceiling ends if its exit never holds."""
    if (
        step.loop.max_loops is None
        and blueprint.limits is None
        and not any(inner.stops for inner in steps_within(step.loop.body))
    ):
        then = {"fail": "fails", "finish": "finishes", "ask": "asks"}[step.loop.at_the_limit]
        idle = f"{MOST_IDLE_ITERATIONS} iterations in which nobody was asked"
        message = f"if its exit never holds, this loop {then} after {idle}"
        findings.add_key(f"{path}.loop", "unlimited_loop", message, "add max_loops, or limits to the blueprint")


def _warn_of_growth(step: Loop, path: str, findings: Findings) -> None:
    """Warn of a conversation that keeps all its turns, over many iterations."""
    block = step.loop
    most = block.max_loops
    if block.conversation and block.history_management is None and (most is None or most > MOST_ITERATIONS_KEPT):
        message = "the list of turns grows with every iteration, and all of it goes to the model"
        hint = f"add history_management, or a max_loops of at most {MOST_ITERATIONS_KEPT}"
        findings.add_key(f"{path}.loop.conversation", "unlimited_history", message, hint)


def conversation_sentence(block: LoopBlock) -> str:
    """Return the sentence about the conversation a loop keeps."""
    source = f" and of {block.ai_turn_source}" if block.ai_turn_source is not None else ""
    kept = f"It keeps the conversation: the turns of the person{source}"
    shorter = block.history_management
    if shorter is None:
        return f"{kept}."
    amounts = [say_count(shorter.max_turns, "turn")] if shorter.max_turns is not None else []
    amounts += [say_count(shorter.max_tokens, "token")] if shorter.max_tokens is not None else []
    summary = f"{agent_phrase(shorter.agent or '')} summarises older turns"
    rest = summary if shorter.strategy == "summarize" else "older turns are dropped"
    return f"{kept}; above {enumerate_words(amounts, 'or')}, {rest}."


def next_input_sentences(block: LoopBlock, names: Vocabulary) -> list[str]:
    """Return the sentence about the input of later iterations, unless it is the previous result."""
    if block.iteration_input_mapper is not None:
        return [f"Each further iteration begins with the result of the function {block.iteration_input_mapper}."]
    match block.propagation.next_input:
        case "previous_output":
            return []
        case "context":
            return ["Each further iteration begins with the context."]
        case "auto":
            return ["Each further iteration begins with the context if a step writes it, else with the last result."]
        case template:
            return [f"Each further iteration begins with {say_template(template, names)}."]
