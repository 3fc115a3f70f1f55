"""The `agentic_loop` kind: a planner that runs agents, asks people, and finishes, a command a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds.agent_checks import check_tools
from holdfast.blueprint.kinds.agents import Agent, AgentReference, AgentTool
from holdfast.blueprint.kinds.asking import AskingStep
from holdfast.blueprint.kinds.base import Block
from holdfast.blueprint.kinds.description import Cost, Drawing, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.kinds.knowledge import Knowledge
from holdfast.blueprint.kinds.phrases import agent_phrase, attempts, result_sentences
from holdfast.blueprint.kinds.references import model, tool_name
from holdfast.blueprint.kinds.schema_forms import (
    TOOLS,
    Schema,
    set_form,
)
from holdfast.blueprint.parts import Retry, Seconds, Template
from holdfast.blueprint.shape import UNKNOWN, Shape
from holdfast.blueprint.source import PlacedDict, PlacedList
from holdfast.blueprint.words.text import Vocabulary, enumerate_words, say_template


class AgenticLoop(AskingStep):
    """A planner whose turns are commands: run an agent or a tool, ask a person, finish."""

    kind: Literal["agentic_loop"]
    planner: str | Agent = Field(
        description="The agent that decides: a named one, or one written here.",
        examples=["director", {"model": "openai:gpt-5.2", "instructions": "Plan a trip."}],
    )
    registry: list[AgentTool] = Field(
        [],
        description="What its `run_agent` may run: agents, tools, imports.",
        examples=[["agent:searcher", "reserve_seat"]],
    )
    max_loops: int = Field(20, ge=1, le=10_000, description="Turns of the planner at most.", examples=[10])
    output_template: str | None = Field(
        None,
        description="The output, from `output` (what it finished with) and `log` (its commands).",
        examples=["{{ output }}, in {{ log | length }} commands"],
    )
    timeout: Seconds | None = Field(None, description="How long one request of the planner may take.")
    retry: Retry | None = Field(None, description="How often a failed request of the planner is tried.")

    def reads(self) -> Mapping[str, Template]:
        instructions = {"planner.instructions": self.planner.instructions} if isinstance(self.planner, Agent) else {}
        return {**super().reads(), **instructions}

    def blocks(self) -> Mapping[str, Block]:
        return {"finish": Block((), frozenset({"log"}), reads={"output_template": self.output_template})}

    def output_shape(self, knowledge: Knowledge) -> Shape:
        return UNKNOWN if self.output_template is None else knowledge.render("finish", self.output_template, UNKNOWN)

    def agents(self) -> Sequence[AgentReference]:
        return (AgentReference(self.planner, "planner", "planner"),)

    def tools(self) -> Sequence[AgentTool]:
        return self.registry

    @property
    def segment(self) -> str:
        return "agent"

    @classmethod
    def expand(cls, step: PlacedDict, path: str, expansion: Expansion) -> None:
        expansion.expand_agent(step, "planner", path)
        if isinstance(step.get("registry"), PlacedList):
            step["registry"] = expansion.tools(step["registry"])

    @classmethod
    def allow_short_forms(cls, definitions: Schema) -> None:
        set_form(definitions[cls.__name__], "registry", TOOLS)

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        planner = blueprint.agents.get(self.planner) if isinstance(self.planner, str) else self.planner
        if planner is not None and planner.tools:
            message = "a planner has no tools of its own: its turns are commands"
            findings.add_key(f"{path}.planner", "conflict", message, "list them in `registry`")
        if planner is not None and planner.human:
            message = "a planner has no `human`: it asks with its command ask_human"
            hint = "leave `human` out; who must agree to a tool is said in `registry` (approve) and `permissions`"
            findings.add_key(f"{path}.planner", "conflict", message, hint)
        check_tools(self.registry, f"{path}.registry", blueprint, findings)

    def describe(self, names: Vocabulary) -> StepDescription:
        runs = (
            f"run {enumerate_words([tool_name(tool.name) for tool in self.registry], 'or')}, " if self.registry else ""
        )
        work = f"{agent_phrase(self.planner)} directs the work on {say_template(self.input, names)}"
        sentences = [f"{work}: in each turn it may {runs}ask a person, or finish."]
        sentences.append(f"{say_count(self.max_loops, 'turn')} at most; if that is not enough, it fails.")
        end = names.after("what it finished with").with_roots(log="the log of its commands")
        sentences += result_sentences(self.output_template, None, None, end)
        text = " ".join(sentences) + attempts(self.timeout, self.retry) + self.asked_sentence(names)
        return StepDescription(text)

    def draw(self, names: Vocabulary) -> Drawing:
        planner = self.planner
        label = f"planner {planner}" if isinstance(planner, str) else f"planner: {model(planner.model)}"
        return Drawing("agent", [label, f"at most {say_count(self.max_loops, 'turn')}", *self.people_line(names)])

    def cost(self) -> Cost:
        return Cost(turns=self.max_loops)
