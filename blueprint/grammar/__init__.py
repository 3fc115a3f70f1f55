"""The grammar: every step kind as data, one file for each family. Read them and you know the language.

A kind says of itself what the checks need to know: the templates and conditions it reads,
the blocks it holds and the names these see.
"""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field

from holdfast.blueprint.grammar.agents import Agent, AgentHistory, AgentTool, Rule
from holdfast.blueprint.grammar.base import Access, Block, Fallback, Limits, Retry, Step
from holdfast.blueprint.grammar.branching import Conditional
from holdfast.blueprint.grammar.caching import Cache
from holdfast.blueprint.grammar.clarifying import Clarify
from holdfast.blueprint.grammar.document import Blueprint
from holdfast.blueprint.grammar.human import Escalation, Hitl, Option
from holdfast.blueprint.grammar.loops import HistoryManagement, Loop, LoopBlock, Operation, Write
from holdfast.blueprint.grammar.planner import AgenticLoop
from holdfast.blueprint.grammar.plans import Plan, PlanBody, PlanLoop, PlanOption, PlanStep
from holdfast.blueprint.grammar.several import Finalize, Map, MapBlock, Parallel
from holdfast.blueprint.grammar.steps import ImportConfig, PlainStep

AnyStep = Annotated[
    PlainStep | Hitl | Conditional | Loop | Map | Parallel | Clarify | Cache | AgenticLoop | Plan,
    Field(discriminator="kind"),
]
KINDS: dict[str, type[Step]] = {
    get_args(kind.model_fields["kind"].annotation)[0]: kind for kind in get_args(get_args(AnyStep)[0])
}

# A step holds steps: the models that do are finished here, where every kind is known.
for _model in (
    Fallback,
    PlainStep,
    Hitl,
    Conditional,
    LoopBlock,
    Loop,
    MapBlock,
    Map,
    Parallel,
    Clarify,
    Cache,
    AgenticLoop,
    Plan,
    Blueprint,
):
    _model.model_rebuild(_types_namespace={"AnyStep": AnyStep})

__all__ = [
    "KINDS",
    "Agent",
    "AgentHistory",
    "AgentTool",
    "AgenticLoop",
    "AnyStep",
    "Block",
    "Blueprint",
    "Cache",
    "Clarify",
    "Conditional",
    "Escalation",
    "Fallback",
    "Finalize",
    "HistoryManagement",
    "Hitl",
    "ImportConfig",
    "Access",
    "Limits",
    "Loop",
    "LoopBlock",
    "Map",
    "MapBlock",
    "Operation",
    "Option",
    "Parallel",
    "PlainStep",
    "Plan",
    "PlanBody",
    "PlanLoop",
    "PlanOption",
    "PlanStep",
    "Retry",
    "Rule",
    "Step",
    "Write",
]
