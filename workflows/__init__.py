"""The workflows: what happens next in a run. Deterministic, as a replay must give the same commands.

- `pipeline`, `loop`, `map`, `clarify`, `agent/`, `plan/`, `human`: the workflow classes; `run` is their base.
- `handlers/`: what the classes do with updates, signals and queries; `door` checks what comes in.
- `interpreter` runs steps, `steps/<kind>` those of one kind, in a `frame`; `calls` starts activities.

May import `protocol` and `blueprint`, and nothing of the world: no clock, chance, I/O, or configuration outside the
validators of updates. Trap: the number and order of commands must follow from events alone; see `activation`, `rest`.
"""

from holdfast.blueprint.parts import Part
from holdfast.blueprint.questions import Asked
from holdfast.protocol.values import Value, build_models
from holdfast.workflows.agent import AgentWorkflow
from holdfast.workflows.clarify import ClarifyWorkflow
from holdfast.workflows.human import HumanInTheLoop
from holdfast.workflows.lookup import LookUpWorkflow
from holdfast.workflows.loop import LoopWorkflow
from holdfast.workflows.map import MapWorkflow
from holdfast.workflows.pipeline import PipelineWorkflow
from holdfast.workflows.plan import DrivenPlanWorkflow, PlanLoopWorkflow, PlanWorkflow
from holdfast.workflows.runner import OWN_RUNNER, PASSED_THROUGH, RUNNER, Runner

WORKFLOWS: list[type] = [
    PipelineWorkflow,
    LoopWorkflow,
    AgentWorkflow,
    MapWorkflow,
    ClarifyWorkflow,
    PlanWorkflow,
    PlanLoopWorkflow,
    DrivenPlanWorkflow,
    LookUpWorkflow,
]

build_models(Part)
build_models(Asked)
build_models(Value)

__all__ = ["OWN_RUNNER", "PASSED_THROUGH", "RUNNER", "WORKFLOWS", "HumanInTheLoop", "Runner"]
