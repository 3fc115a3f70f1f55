"""What workflows of one plan hand each other: where it stands, what came out, what to go on with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from blueprint.errors import BlueprintError
from blueprint.expressions import text_of
from blueprint.grammar import PlanBody
from blueprint.plan.reading import read_plan
from protocol.address import Address
from protocol.agents import Usage
from protocol.questions import InvalidAnswer, Review
from protocol.runs import AgentDefinition, AgentState, Budget, Carried, ChildDefinition
from protocol.values import Value, digest_of

PLAN_WORKFLOW = "Plan"
PLAN_LOOP_WORKFLOW = "PlanLoop"
DRIVEN_PLAN_WORKFLOW = "DrivenPlan"
PLAN = "plan"
"""The query that tells where a plan stands, and the update that changes what is left of it."""

ITEMS_FAILED = "items_failed"
"""The error of a loop, or of a step in it, that failed for its items."""

StepStatus = Literal["pending", "running", "waiting_input", "completed", "skipped", "failed", "cancelled"]
LoopStatus = Literal["completed", "completed_with_errors", "failed", "skipped", "cancelled"]
IterationStatus = Literal["completed", "failed", "skipped", "cancelled"]
PlanStatus = Literal["completed", "completed_with_errors", "failed", "cancelled"]
OVER = ("completed", "completed_with_errors", "skipped", "failed", "cancelled")


class StepResult(Value):
    """How a step stands or ended: what was said (`response`), and what a tool or a person gave (`data`)."""

    status: StepStatus
    response: Any = None
    data: Any = None
    error: dict[str, Any] | None = None
    """`type` and `message`."""
    reason: str | None = None
    """Why it was skipped."""
    tool_results: list[dict[str, Any]] = []
    """Of a step with several tools: what each gave."""
    tries: dict[str, int] = {}
    """Of a step under way: how often it was tried again, by the kind of the error."""

    @property
    def value(self) -> Any:
        """What a reference to the step gives."""
        if self.status != "completed":
            return None
        return self.response if self.data is None else self.data

    def told(self) -> dict[str, Any]:
        """As the plan's result has it."""
        four = {"status": self.status, "response": self.response, "data": self.data, "error": self.error}
        several = {"tool_results": self.tool_results} if len(self.tool_results) > 1 else {}
        return {**four, **({} if self.reason is None else {"reason": self.reason}), **several}


class Iteration(Value):
    """What one item of a loop gave."""

    index: int
    item: Any = None
    status: IterationStatus
    """`skipped`: it failed, and a person let it pass."""
    steps: dict[str, StepResult] = {}
    loops: dict[str, LoopOutcome] = {}

    def told(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "item": self.item,
            "status": self.status,
            "steps": {id_: result.told() for id_, result in self.steps.items()},
            **({"loops": {id_: outcome.told() for id_, outcome in self.loops.items()}} if self.loops else {}),
        }


class LoopOutcome(Value):
    """How a loop ended."""

    status: LoopStatus
    iterations: list[Iteration] = []
    error: dict[str, Any] | None = None
    reason: str | None = None

    def told(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "iteration_results": [iteration.told() for iteration in self.iterations],
            **({} if self.error is None else {"error": self.error}),
            **({} if self.reason is None else {"reason": self.reason}),
        }


class Known(Value):
    """What a loop's steps may know of a step outside: how it ended, and what it gave."""

    status: StepStatus
    value: Any = None


class ItemOf(Value):
    """Where a loop around stands."""

    loop: str
    item: Any = None
    index: int


class ActiveLoop(Value):
    """A loop that an agent has started: the items as they were then, and where it stands."""

    items: list[Any]
    index: int = 0
    done: list[Iteration] = []
    steps: dict[str, StepResult] = {}
    """Of the current iteration; and its loops that are over."""
    loops: dict[str, LoopOutcome] = {}


class Standing(Value):
    """Where a plan, or one iteration of a loop, stands."""

    steps: dict[str, StepResult] = {}
    loops: dict[str, LoopOutcome] = {}
    active: dict[str, ActiveLoop] = {}
    """Of the whole plan: the loops that an agent has started, in the order in which it did."""
    vars: dict[str, Any] = {}
    """What an agent keeps for itself."""
    found: list[str] = []
    """Tools that were found in the place of others, behind the address of the step that may use them."""
    missing: list[str] = []
    """Steps, by their address, that lack a tool, and may use what was found."""


class Revision(Value):
    """A change of a plan while it runs."""

    revision: int
    by: str | None = None
    reason: str = ""


class PlanDefinition(ChildDefinition):
    """A plan that the engine drives; the blueprint's only step holds it, unless it is read from a value."""

    given: Any = None
    """The value that the plan is read from."""
    task: Any = None
    """The step's input: every step of the plan is told."""
    context: dict[str, Any] = {}
    previous: Any = None
    place: str = ""
    n: int = 1
    iteration: int | None = None


class PlanState(Carried):
    """Where a plan stands between two of its steps."""

    plan: PlanBody | None = None
    """None before it is read."""
    revision: int = 1
    revisions: list[Revision] = []
    standing: Standing = Standing()
    stopped: str = ""
    """Why nothing more is started."""


class PlanResult(Value):
    """How a plan ended."""

    status: PlanStatus
    output: dict[str, Any]
    usage: Usage = Usage()
    permits: list[str] = []
    budgets: list[Budget] = []


class PlanLoopDefinition(PlanDefinition):
    """A loop of a plan that the engine drives."""

    plan: PlanBody
    loop: str
    items: list[Any] = []
    known: dict[str, Known] = {}
    around: list[ItemOf] = []


class PlanLoopState(Carried):
    """Where a loop stands between two items."""

    done: list[Iteration] = []
    ended: Literal["", "failed", "cancelled"] = ""
    """How an item has ended the whole loop."""


class PlanLoopResult(Value):
    """How a loop ended."""

    outcome: LoopOutcome
    usage: Usage = Usage()
    permits: list[str] = []
    budgets: list[Budget] = []


class DrivenDefinition(AgentDefinition):
    """A plan that an agent drives by control tools, or one of its loops for as long as it is active."""

    author: PlanBody
    """The plan as its step holds it, or what the step says of one that is read."""
    given: Any = None
    """The value that the plan is read from."""
    task: Any = None
    """The step's input."""
    plan_address: Address
    """Where the plan stands; the workflow's own address is that of a loop, if it lives as long as that is active."""
    loop: str | None = None


class DrivenState(AgentState):
    """Where a driven plan stands between two turns: the conversation, and the plan."""

    plan: PlanBody | None = None
    revision: int = 1
    revisions: list[Revision] = []
    standing: Standing = Standing()


class DrivenResult(Value):
    """How a driven plan ended; of a loop: the conversation and the plan to go on with."""

    status: PlanStatus = "completed"
    output: dict[str, Any] = {}
    state: DrivenState | None = None
    usage: Usage = Usage()
    permits: list[str] = []
    budgets: list[Budget] = []


class PlanReview(Review):
    """May this plan be run? One that a person has edited must be a plan that can be."""

    author: PlanBody
    agents: list[str] = []

    def accept(self, content: Any) -> Any:
        """The verdict with the plan that counts; everything that is wrong with an edited one."""
        content = super().accept(content)
        if content["verdict"] == "edited":
            try:
                read_plan(content["payload"], self.author, self.agents)
            except BlueprintError as error:
                raise InvalidAnswer("\n".join(map(str, error.problems)), "payload") from None
        return content


class PlanView(Value):
    """What a workflow tells of its plan."""

    workflow: str
    address: Address
    revision: int
    goal: str
    driver: str
    plan: dict[str, Any]
    steps: dict[str, dict[str, Any]]
    """By id: `status`, and where they are: `response`, `data`, `error`, `reason`."""
    loops: dict[str, dict[str, Any]] = {}
    revisions: list[Revision] = []
    status: str = "running"
    holds: bool = True
    """Whether changes are to be sent here."""


def change_id(plan: Any) -> str:
    """What a token for a change of a plan is made for: this very plan."""
    return f"{PLAN}:{digest_of(plan)}"


def progress_of(steps: Mapping[str, StepResult]) -> dict[str, Any]:
    """How far it is: every step that has come to its end counts."""
    over = [result for result in steps.values() if result.status in OVER]
    return {"completed_steps": len(over), "total_steps": len(steps)}


def said(value: Any) -> str:
    """A tool's result in words."""
    return "" if value is None else text_of(value)


Iteration.model_rebuild()
