"""A plan that a person is to approve, in the words of its language: terminals, pages and assistants show it.

Each step is told by what it does, its tools and their effects, and what it depends on. What differs from the proposal
before is marked. The last lines sum up effects, approvals, and what is not known before the plan runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from holdfast.blueprint.explain.outline import WIDTH, Line, render
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.plan.answers import ACCEPT, REFUSE, asks, list_options, question_text, read_meaning
from holdfast.blueprint.plan.compile import compile_plan
from holdfast.blueprint.plan.layout import LoopUnit, StepUnit, Unit, in_running_order
from holdfast.blueprint.plan.references import Reference, replace_references
from holdfast.blueprint.words.proposals import TABLES, ProposalWords
from holdfast.blueprint.words.text import constant, one_line

LONGEST_ITEMS = 200
_ITEM_RULES = {"continue": "next_item", "fail": "loop_fails", "ask": "person_decides"}


@dataclass(frozen=True)
class ProposalLine:
    """One paragraph of a proposal."""

    text: str
    label: str = ""
    """The id of the step or loop that it begins; empty for a remark on it."""
    depth: int = 0
    """The number of loops around it."""
    change: str = ""
    """`new`, `changed` or `left_out`: how it differs from the proposal before."""


@dataclass(frozen=True)
class Proposal:
    """A plan in words."""

    language: str
    steps: Sequence[ProposalLine]
    summary: Sequence[str]

    def to_text(self, width: int = WIDTH) -> str:
        """Return it as text of this width."""
        lines = []
        for line in self.steps:
            mark = {"new": "+ ", "changed": "~ ", "left_out": "- "}.get(line.change, "")
            label, depth = (f"{mark}{line.label}." if line.label else mark), line.depth + (not line.label)
            lines.append(Line(line.text, label.strip(), depth))
        return render([*lines, Line(""), *map(Line, self.summary)], width)


def describe_plan(value: JSON, about: Mapping[str, Any]) -> Proposal | None:
    """Return a plan in the words of its language.

    Args:
        value: The plan, as its review has it.
        about: What the review says of it: `tools`, by the step's id, and `changes`.

    Returns:
        The steps in running order, and the summary; None for a value that is no plan that can be run.

    >>> step = {"id": "1", "instruction": "Write to Ana", "tools": ["send"]}
    >>> about = {"tools": {"1": [{"tool": "send", "effect": "acts", "approval": "ask"}]}}
    >>> print(describe_plan({"goal": "Write", "steps": [step]}, about).to_text(), end="")
    1. Write to Ana
       Tool send: may have an effect; needs approval; the agent chooses the arguments
    <BLANKLINE>
    Effects: send (1).
    Approval before the call: send (1).
    Not known before it runs: the arguments of send in 1.
    """
    try:
        plan = PlanBody.model_validate(value)
    except ValidationError:
        return None
    layout, faults = compile_plan(plan)
    if faults:
        return None
    language = plan.spoken_language
    told = _Teller(plan, TABLES[language], _read_tools(about), _read_changes(about))
    steps = list(told.tell_units(layout.units, 0))
    return Proposal(language, [*steps, *told.tell_left_out()], told.summarize())


def _read_tools(about: Mapping[str, Any]) -> dict[str, list[JSONObject]]:
    tools = about.get("tools")
    if not isinstance(tools, dict):
        return {}
    return {
        id_: [one for one in told if isinstance(one, dict)] for id_, told in tools.items() if isinstance(told, list)
    }


def _read_changes(about: Mapping[str, Any]) -> dict[str, JSONObject]:
    changes = about.get("changes")
    if not isinstance(changes, list):
        return {}
    return {str(one["id"]): one for one in changes if isinstance(one, dict) and "id" in one}


@dataclass
class _Teller:
    """Tells the units of one plan, and collects what its summary says."""

    plan: PlanBody
    words: ProposalWords
    tools: Mapping[str, list[JSONObject]]
    changes: Mapping[str, JSONObject]
    effects: dict[str, list[str]] = field(default_factory=dict)
    """By tool the steps that call it, of the tools that may have an effect."""
    approvals: dict[str, list[str]] = field(default_factory=dict)
    not_known: list[str] = field(default_factory=list)
    calls: int = 0

    def tell_units(self, units: Sequence[Unit], depth: int) -> Iterator[ProposalLine]:
        for unit in in_running_order(units):
            if isinstance(unit, LoopUnit):
                yield from self._tell_loop(unit, depth)
            elif isinstance(unit, StepUnit):
                yield from self._tell_step(unit, depth)

    def tell_left_out(self) -> Iterator[ProposalLine]:
        gone = [str(one["id"]) for one in self.changes.values() if one.get("change") == "left_out"]
        if gone:
            yield ProposalLine(self.words.left_out.format(", ".join(gone)), change="left_out", depth=-1)

    def summarize(self) -> list[str]:
        words = self.words
        lines = [] if self.calls else [words.no_effects]
        for template, tools in ((words.effects, self.effects), (words.approvals, self.approvals)):
            if tools:
                lines.append(template.format(", ".join(f"{tool} ({', '.join(ids)})" for tool, ids in tools.items())))
        if self.not_known:
            lines.append(words.not_known.format("; ".join(self.not_known)))
        return lines

    # Units

    def _tell_step(self, unit: StepUnit, depth: int) -> Iterator[ProposalLine]:
        step, words = unit.step, self.words
        text = self._fill(question_text(step.instruction) if asks(step) else step.instruction.strip())
        if asks(step):
            text = words.question.format(text)
        if step.title:
            text = f"{one_line(step.title)}: {text}" if text else one_line(step.title)
        yield self._head(unit, text or ", ".join(step.tools), depth)
        details = [*self._tell_question(unit), *self._tell_tools(unit), *self._tell_order(unit)]
        details += [words.expected.format(self._fill(step.expected_result))] if step.expected_result else []
        details += [words.agent.format(step.agent)] if isinstance(step.agent, str) else []
        details += [words.asked.format(", ".join(step.assignees))] if step.assignees else []
        details += [words.optional] if step.optional else []
        yield from (ProposalLine(text, depth=depth) for text in details)

    def _tell_loop(self, unit: LoopUnit, depth: int) -> Iterator[ProposalLine]:
        block, words = unit.block, self.words
        over = block.over if isinstance(block.over, str) else ", ".join(map(self._tell_value, block.over))
        head = words.each.format(self._fill(over)[:LONGEST_ITEMS])
        pace = [words.at_once.format(block.max_parallel)] if block.max_parallel > 1 else []
        yield self._head(unit, "; ".join([head, *pace, getattr(words, _ITEM_RULES[block.on_item_error])]), depth)
        if isinstance(block.over, str):
            self.not_known.append(words.how_many.format(unit.id))
        yield from (ProposalLine(text, depth=depth) for text in self._tell_order(unit))
        yield from self.tell_units(unit.body, depth + 1)

    def _head(self, unit: Unit, text: str, depth: int) -> ProposalLine:
        change = self.changes.get(unit.id, {})
        kind = str(change.get("change", ""))
        if kind == "new":
            text = f"{text} ({self.words.new})"
        elif kind == "changed":
            text = f"{text} ({self.words.changed.format(self._fill(str(change.get('was', ''))))})"
        return ProposalLine(text, unit.id, depth, kind)

    def _tell_question(self, unit: StepUnit) -> Iterator[str]:
        if not asks(unit.step):
            return
        means: dict[object, str] = {ACCEPT: self.words.yes, REFUSE: self.words.no}
        options = list_options(unit.step, self.plan.spoken_language)
        if options:
            choices = (means.get(read_meaning(one), "{}").format(self._fill(one.text)) for one in options)
            yield self.words.choices.format(", ".join(choices))

    def _tell_tools(self, unit: StepUnit) -> Iterator[str]:
        known = {str(one.get("tool")): one for one in self.tools.get(unit.id, [])}
        for tool in unit.step.tools:
            self.calls += 1
            yield self.words.tool.format(tool, "; ".join(self._tell_tool(tool, known.get(tool, {}), unit)))

    def _tell_tool(self, tool: str, known: JSONObject, unit: StepUnit) -> Iterator[str]:
        words, given = self.words, unit.step.arguments
        if "problem" in known:
            yield words.problem.format(known["problem"])
            return
        effect = str(known.get("effect", "unknown"))
        yield getattr(words, effect)
        if effect != "reads":
            self.effects.setdefault(tool, []).append(unit.id)
        match known.get("approval"):
            case "ask":
                yield words.approval
                self.approvals.setdefault(tool, []).append(unit.id)
            case "depends":
                yield words.may_need_approval
                self.approvals.setdefault(tool, []).append(unit.id)
            case "deny":
                yield words.not_permitted
        if isinstance(known.get("may_call"), list):
            yield words.may_call.format(", ".join(map(str, known["may_call"])))
        if given is None:
            self.not_known.append(words.which_arguments.format(tool, unit.id))
            yield words.chosen
        elif given:
            yield words.arguments.format(", ".join(f"{key}: {self._tell_value(value)}" for key, value in given.items()))

    def _tell_order(self, unit: Unit) -> Iterator[str]:
        if unit.condition is not None:
            self.not_known.append(self.words.whether.format(unit.id))
            yield self.words.only_if.format(self._fill(unit.condition.text))
        elif unit.waits:
            yield self.words.after.format(", ".join(unit.waits))

    # Texts

    def _tell_value(self, value: JSON) -> str:
        return self._fill(value) if isinstance(value, str) else constant(value)

    def _fill(self, text: str) -> str:
        """Return a text of the plan with its references in words, between brackets."""
        return one_line(replace_references(text, lambda reference: f"[{self._name(reference)}]"), len(text) + 1_000)

    def _name(self, reference: Reference) -> str:
        words, name = self.words, reference.name
        named: dict[str, Callable[[], str]] = {
            "result": lambda: words.result.format(name),
            "item": lambda: words.item if name is None else words.item_of.format(name),
            "index": lambda: words.number,
        }
        return named[reference.kind]()
