"""The `plan` kind: work off a plan, written here or read from a value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from holdfast.blueprint.findings import Findings
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds.agents import Agent, AgentReference, AgentTool
from holdfast.blueprint.kinds.asking import AskingStep
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.kinds.knowledge import Knowledge
from holdfast.blueprint.kinds.plan_body import PlanBody
from holdfast.blueprint.kinds.schema_forms import (
    TEXT,
    Schema,
    set_form,
)
from holdfast.blueprint.kinds.template_values import TemplateForm
from holdfast.blueprint.parts import Template
from holdfast.blueprint.questions import Review
from holdfast.blueprint.shape import Shape
from holdfast.blueprint.source import PlacedDict, PlacedList, Position

_IDS = ("dependencies", "steps")
_KEPT = ("id", "goal", "over", "from")
"""Keys whose emptiness is a mistake of the author."""
_GIVEN = TemplateForm({"type": ["object", "array", "string"]}, keys=("steps", "plan"))
"""The plan that is read from a value: an object, its steps alone, or a text with JSON or a list in it."""


class Plan(AskingStep):
    """Work off a plan: steps in the order of their dependencies, loops over lists, questions to people."""

    renders_agents: ClassVar[bool] = False

    kind: Literal["plan"]
    plan: PlanBody = Field(
        description="The plan, and who drives it.", examples=[{"from": "{{ steps.planner.output }}", "confirm": True}]
    )

    def reads(self) -> Mapping[str, Template]:
        agent = self.plan.agent
        instructions = {"plan.agent.instructions": agent.instructions} if isinstance(agent, Agent) else {}
        return {**super().reads(), "plan.from": self.plan.source, "plan.done": self.plan.done, **instructions}

    def template_forms(self) -> Mapping[str, TemplateForm]:
        return {**super().template_forms(), "plan.from": _GIVEN}

    def agents(self) -> Sequence[AgentReference]:
        named = {"plan.agent": self.plan.agent}
        named |= {f"plan.steps[{index}].agent": step.agent for index, step in enumerate(self.plan.steps)}
        return [AgentReference(agent, path) for path, agent in named.items() if agent is not None]

    def tools(self) -> Sequence[AgentTool]:
        return [AgentTool(name=tool) for step in self.plan.steps for tool in step.tools]

    @property
    def gives_reply(self) -> bool:
        return self.plan.confirm

    @property
    def reply_remarks(self) -> Mapping[str, JSONObject]:
        return Review(message="", revisable=True).remarks if self.plan.confirm else {}

    def output_shape(self, knowledge: Knowledge) -> Shape:
        return Shape(describe_output(self.plan), is_told=False)

    @property
    def uses_any_agent(self) -> bool:
        return self.plan.source is not None

    def sees_context(self) -> bool:
        return True

    @property
    def plan_body(self) -> PlanBody:
        return self.plan

    @classmethod
    def expand(cls, step: PlacedDict, path: str, expansion: Expansion) -> None:
        if isinstance(step.get("plan"), PlacedDict):
            step["plan"] = _expanded_plan(step["plan"], f"{path}.plan", expansion)

    @classmethod
    def allow_short_forms(cls, definitions: Schema) -> None:
        """Allow a number as an id and a text as an option."""
        step, loop = definitions["PlanStep"], definitions["PlanLoop"]
        id_: Schema = {"type": ["string", "integer"]}
        ids: Schema = {"type": "array", "items": id_}
        for holder, key in ((step, "id"), (step, "start_step"), (loop, "id")):
            set_form(holder, key, id_)
        for holder, key in ((step, "dependencies"), (loop, "dependencies"), (loop, "steps")):
            set_form(holder, key, ids)
        set_form(step, "options", {"type": "array", "items": {"anyOf": [TEXT, {"$ref": "#/$defs/PlanOption"}]}})

    def advise(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        """Warn of `max_revisions` without `confirm`, as only a person sends a plan back, and of `max_replans` alone."""
        if "max_revisions" in self.plan.model_fields_set and not self.plan.confirm:
            message = "nobody is asked whether the plan may run, so that it is never sent back"
            findings.add_key(
                f"{path}.plan.max_revisions", "unused_revisions", message, "add confirm: true, or remove it"
            )
        if self.plan.max_replans and self.plan.source is None:
            message = "the plan is written here, and no planner can plan what is left of it"
            findings.add_key(f"{path}.plan.max_replans", "unused_replans", message, "give it `from`, or remove it")


# Short forms


def _expanded_plan(definition: PlacedDict, path: str, expansion: Expansion) -> PlacedDict:
    """Return the plan in core form. A `null` or an empty text counts as no key."""
    plan = _without_empty(definition)
    expansion.expand_agent(plan, "agent", path)
    if isinstance(plan.get("steps"), PlacedList):
        plan["steps"] = plan["steps"].each(lambda step, _, n: _step(step, f"{path}.steps[{n}]", expansion))
    if isinstance(plan.get("loop_blocks"), PlacedDict):
        blocks = plan["loop_blocks"] = plan["loop_blocks"].copy()
        for key, block in blocks.items():
            blocks[key] = _with_ids(_without_empty(block)) if isinstance(block, PlacedDict) else block
    return plan


def _step(definition: object, path: str, expansion: Expansion) -> JSON:
    if not isinstance(definition, PlacedDict):
        return definition
    step = _with_ids(_without_empty(definition))
    expansion.expand_agent(step, "agent", path)
    if isinstance(step.get("options"), PlacedList):
        step["options"] = step["options"].each(_option)
    return step


def _option(value: object, place: Position, _: int) -> JSON:
    return PlacedDict.at(place, text=value) if isinstance(value, str) else value


def _with_ids(holder: PlacedDict) -> PlacedDict:
    """Replace numbers by texts where an id is expected."""
    for key in ("id", "start_step"):
        if key in holder:
            holder[key] = _id(holder[key])
    for key in _IDS:
        if isinstance(holder.get(key), PlacedList):
            holder[key] = holder[key].each(lambda item, *_: _id(item))
    return holder


def _id(value: object) -> JSON:
    return json.dumps(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _without_empty(mapping: PlacedDict) -> PlacedDict:
    core = mapping.copy()
    for key, value in mapping.items():
        if key not in _KEPT and (value is None or value == ""):
            core.take(key)
    return core


_ENDED = ("completed", "completed_with_errors")
"""How a plan may end that does not fail its step."""
_ENDS: JSONObject = {"enum": [*_ENDED, "skipped", "failed", "cancelled"]}
_ERROR: JSONObject = {"type": ["object", "null"], "required": ["type", "message"]}
_STEP: JSONObject = {
    "type": "object",
    "required": ["status", "response", "data", "error"],
    "properties": {
        "status": _ENDS,
        "response": {},
        "data": {},
        "error": _ERROR,
        "reason": {"type": "string"},
        "called": {"type": "array", "items": {"type": "string"}},
        "tool_results": {"type": "array", "items": {"type": "object"}},
    },
    "additionalProperties": False,
}
_ITEM: JSONObject = {
    "type": "object",
    "required": ["index", "item", "status", "steps"],
    "properties": {
        "index": {"type": "integer", "minimum": 0},
        "item": {},
        "status": _ENDS,
        "steps": {"type": "object", "additionalProperties": _STEP},
        "loops": {"type": "object"},
    },
    "additionalProperties": False,
}
_LOOP: JSONObject = {
    "type": "object",
    "required": ["status", "iteration_results"],
    "properties": {
        "status": _ENDS,
        "iteration_results": {"type": "array", "items": _ITEM},
        "error": _ERROR,
        "reason": {"type": "string"},
    },
    "additionalProperties": False,
}


def describe_output(plan: PlanBody) -> JSONObject:
    """Return the JSON Schema of the output of a plan; of one that is read from a value no step is known before.

    A person may add steps while the plan runs, so that none is surely not there.
    """
    return {
        "type": "object",
        "required": ["status", "steps", "loops"],
        "properties": {
            "status": {"enum": list(_ENDED)},
            "steps": _list(_STEP, (step.id for step in plan.steps)),
            "loops": _list(_LOOP, () if any(step.loopover for step in plan.steps) else plan.loop_blocks),
            "note": {"type": "string"},
            "ledger": {"type": "array", "items": {"type": "object"}},
        },
        "additionalProperties": False,
    }


def _list(part: JSONObject, ids: Iterable[str]) -> JSONObject:
    return {"type": "object", "properties": dict.fromkeys(ids, part)}
