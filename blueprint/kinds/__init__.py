"""Every step kind as data, one file a kind. Read them and you know the language.

A kind says of itself what the rest of the code needs to know (`base.py`): nothing else names one.
It is registered by its place in the union `AnyStep`. What a view of a run asks of it is in `step_traits.py`.
"""

from __future__ import annotations

import sys
from typing import Annotated, get_args

from pydantic import Field

from holdfast.blueprint.kinds.agentic_loop import AgenticLoop
from holdfast.blueprint.kinds.agents import Agent, AgentHistory, AgentTool, Rule
from holdfast.blueprint.kinds.asking import AskingStep
from holdfast.blueprint.kinds.attachments import AttachmentSource, ModelAttachment
from holdfast.blueprint.kinds.base import Block, Fallback, Step
from holdfast.blueprint.kinds.block import BlockStep
from holdfast.blueprint.kinds.cache import Cache
from holdfast.blueprint.kinds.clarify import Clarify
from holdfast.blueprint.kinds.conditional import Conditional
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.hitl import Hitl
from holdfast.blueprint.kinds.hitl_fields import Escalation, Verification
from holdfast.blueprint.kinds.loop import Loop
from holdfast.blueprint.kinds.loop_block import HistoryManagement, LoopBlock
from holdfast.blueprint.kinds.map import Finalize, Map, MapBlock
from holdfast.blueprint.kinds.operations import Operation, Write
from holdfast.blueprint.kinds.parallel import Parallel
from holdfast.blueprint.kinds.plan import Plan
from holdfast.blueprint.kinds.plan_body import PlanBody, PlanLoop, PlanOption, PlanStep
from holdfast.blueprint.kinds.states import MachineState, NextState, States
from holdfast.blueprint.kinds.step import ImportConfig, PlainStep
from holdfast.blueprint.kinds.timer import Timer
from holdfast.blueprint.kinds.undo import Undo
from holdfast.blueprint.kinds.wait import Wait
from holdfast.blueprint.kinds.workflow import OwnWorkflow, WorkflowBlock
from holdfast.blueprint.parts import Part

AnyStep = Annotated[
    PlainStep
    | Hitl
    | Conditional
    | Loop
    | Map
    | Parallel
    | BlockStep
    | Clarify
    | Cache
    | AgenticLoop
    | Plan
    | Timer
    | OwnWorkflow
    | Wait
    | States,
    Field(discriminator="kind"),
]
DEFAULT_KIND = "step"
"""The kind of a step that names none."""
KINDS: dict[str, type[Step]] = {
    get_args(kind.model_fields["kind"].annotation)[0]: kind for kind in get_args(get_args(AnyStep)[0])
}


# A step holds steps: each module of a model that does gets the name here, where every kind is known. The models are
# built when they are first used, as it takes a tenth of a second that a command which lists runs does not have.
_HOLDERS: tuple[type[Part], ...] = (Fallback, LoopBlock, MapBlock, MachineState, *KINDS.values(), Blueprint)
for _model in _HOLDERS:
    vars(sys.modules[_model.__module__])["AnyStep"] = AnyStep

__all__ = [
    "KINDS",
    "Agent",
    "AgentHistory",
    "AgentTool",
    "AgenticLoop",
    "AnyStep",
    "AskingStep",
    "AttachmentSource",
    "Block",
    "Blueprint",
    "Cache",
    "MachineState",
    "Clarify",
    "Conditional",
    "Escalation",
    "Fallback",
    "Finalize",
    "HistoryManagement",
    "Hitl",
    "ImportConfig",
    "Loop",
    "LoopBlock",
    "Map",
    "ModelAttachment",
    "MapBlock",
    "Operation",
    "OwnWorkflow",
    "Parallel",
    "PlainStep",
    "Plan",
    "PlanBody",
    "PlanLoop",
    "PlanOption",
    "PlanStep",
    "Rule",
    "Step",
    "NextState",
    "States",
    "BlockStep",
    "Timer",
    "Undo",
    "Verification",
    "Wait",
    "WorkflowBlock",
    "Write",
]
