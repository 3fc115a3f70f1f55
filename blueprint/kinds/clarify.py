"""The `clarify` kind: talk with a person until a goal is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import ConfigDict, Field

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.findings import Findings
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds import flujo
from holdfast.blueprint.kinds.agents import Agent, AgentReference
from holdfast.blueprint.kinds.asking import AskingStep
from holdfast.blueprint.kinds.description import MORE, Ask, Cost, Drawing, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.kinds.knowledge import Knowledge
from holdfast.blueprint.kinds.phrases import AT_MOST, agent_phrase, capitalize
from holdfast.blueprint.kinds.template_values import TemplateForm
from holdfast.blueprint.parts import Schema, Template
from holdfast.blueprint.questions import Review
from holdfast.blueprint.shape import Shape
from holdfast.blueprint.source import PlacedDict
from holdfast.blueprint.words.amounts import Amount
from holdfast.blueprint.words.schemas import fields, shape
from holdfast.blueprint.words.text import Vocabulary, say_template, say_unquoted

READINGS = 3
"""The most requests for one answer."""
FEWEST = 8
"""Questions that may be put where the author gives no number."""


class Clarify(AskingStep):
    """Ask a person for what is not known yet, until an object fits its schema; the output is the object."""

    # A field named `schema` would hide one of pydantic's own: authors write `schema`, the code says `facts`.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, populate_by_name=True)

    kind: Literal["clarify"]
    goal: Template = Field(
        description="What is to be made clear; people and the agent see it.", examples=["A brief for {{ input.topic }}"]
    )
    facts: Schema = Field(
        alias="schema",
        description="JSON Schema of the object that is to be known.",
        examples=[{"type": "object", "required": ["audience"], "properties": {"audience": {"type": "string"}}}],
    )
    agent: str | Agent | None = Field(
        None,
        description="Words the questions, reads free text, offers options, proposes a summary. Default: none.",
        examples=["editor", {"model": "openai:gpt-5.2", "instructions": "Ask kindly."}],
    )
    known: Template | None = Field(
        None,
        description="An object of facts that are known already; they are not asked.",
        examples=[{"audience": "{{ input.audience }}"}],
    )
    max_questions: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Questions at most, the confirmation not counted; default: two a fact, at least 8.",
        examples=[5],
    )
    on_max_questions: Literal["fail", "finish", "ask"] = Field(
        "fail", description="At the limit: fail, finish with what is known, or ask whether to go on."
    )
    confirm: bool = Field(False, description="Show what was understood, and let the person correct it, at the end.")

    def template_forms(self) -> Mapping[str, TemplateForm]:
        return {**super().template_forms(), "known": TemplateForm({"type": "object"})}

    def reads(self) -> Mapping[str, Template]:
        instructions = {"agent.instructions": self.agent.instructions} if isinstance(self.agent, Agent) else {}
        return {**super().reads(), "goal": self.goal, "known": self.known, **instructions}

    def agents(self) -> Sequence[AgentReference]:
        return () if self.agent is None else (AgentReference(self.agent, "agent"),)

    def properties(self) -> JSONObject:
        """Return the facts by name, in the schema's order."""
        properties: JSONObject = self.facts.get("properties", {})
        return properties

    def list_wanted(self) -> list[str]:
        """Return the facts that are asked for, in the schema's order: the required ones, or all if none is."""
        required = self.facts.get("required", list(self.properties()))
        return [name for name in self.properties() if name in required]

    @property
    def most_questions(self) -> int:
        return max(FEWEST, 2 * len(self.list_wanted())) if self.max_questions is None else self.max_questions

    def schemas(self) -> Mapping[str, Schema | None]:
        return {**super().schemas(), "schema": self.facts}

    @property
    def stops(self) -> bool:
        return True

    @classmethod
    def expand(cls, step: PlacedDict, path: str, expansion: Expansion) -> None:
        if isinstance(step.get("agent"), str | PlacedDict):
            flujo.expand_agent_or_tool(step, path, expansion)

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        properties = self.facts.get("properties")
        if not isinstance(properties, dict) or not properties:
            message = "the schema names no facts: it needs `properties`"
            hint = "schema: {type: object, required: [audience], properties: {audience: {type: string}}}"
            findings.add(f"{path}.schema", "bad_value", message, hint)
            return
        required = self.facts.get("required")
        for name in required if isinstance(required, list) else []:
            if isinstance(name, str) and name not in properties:
                message = f"{name!r} is required, but is not among the properties: it could never be asked"
                hint = did_you_mean(name, properties) or f"known facts: {', '.join(properties)}"
                findings.add(f"{path}.schema.required", "bad_value", message, hint)

    def advise(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        """Warn of known facts that are none, and of fewer questions than facts, which are asked one by one."""
        properties = self.facts.get("properties")
        if isinstance(self.known, dict) and isinstance(properties, dict):
            for name in sorted(self.known.keys() - properties.keys()):
                hint = did_you_mean(name, properties) or f"it lists {', '.join(properties)}"
                findings.add_key(f"{path}.known.{name}", "unlisted_key", f"the schema lists no {name!r}", hint)
        facts = len(self.list_wanted())
        if self.agent is None and self.known is None and self.most_questions < facts:
            message = f"{self.most_questions} questions for {facts} facts, which are asked one by one"
            findings.add(f"{path}.max_questions", "few_questions", message, f"write {facts} or more, or remove it")

    @property
    def gives_reply(self) -> bool:
        return True

    @property
    def reply_remarks(self) -> Mapping[str, JSONObject]:
        return Review(message="").remarks if self.confirm else {}

    def output_shape(self, knowledge: Knowledge) -> Shape:
        known = [] if self.on_max_questions == "finish" else self.list_wanted()
        return Shape({**self.facts, "required": known})

    def describe(self, names: Vocabulary) -> StepDescription:
        facts = fields({**self.facts, "required": self.list_wanted()}) or shape(self.facts)
        person = self.people(names) or "a person"
        sentences = [f"asks {person} about {say_template(self.goal, names)} until it knows {facts}."]
        if self.known is not None:
            sentences.append(f"It does not ask for facts that are known: {say_template(self.known, names)}.")
        sentences.append(f"{say_count(self.most_questions, 'question')} at most; {AT_MOST[self.on_max_questions]}.")
        if self.confirm:
            sentences.append("At the end the person sees what was understood, and may correct or reject it.")
        if self.agent is not None:
            sentences.append(f"{capitalize(agent_phrase(self.agent))} words the questions and reads the answers.")
        asks = [Ask("input" if self.agent is None else "clarification", "what is not known yet")]
        asks += [Ask("review", "what was understood", on_decline="rejected")] if self.confirm else []
        asks += [Ask("decision", "Go on asking?", MORE)] if self.on_max_questions == "ask" else []
        return StepDescription(" ".join(sentences), asks=tuple(asks))

    def draw(self, names: Vocabulary) -> Drawing:
        facts = f"asks for {', '.join(self.properties())}" if self.properties() else ""
        lines = [say_unquoted(self.goal, names), facts, *self.people_line(names)]
        return Drawing("question", lines, helper="words and reads")

    def cost(self) -> Cost:
        return Cost(self._requests(), includes_agents=True)

    def _requests(self) -> Amount:
        if self.agent is None:
            return Amount()
        if self.on_max_questions == "ask":
            return Amount(None, (f"{self.name} asks as long as a person wants",))
        if self.confirm:
            return Amount(None, (f"{self.name} begins again as often as a person rejects what was understood",))
        return Amount((self.most_questions + 1) * READINGS)
