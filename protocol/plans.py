"""Arguments, states, results and views of the workflows that run a plan. Used by those workflows and by clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Agent, PlanBody
from holdfast.blueprint.parts import Retry
from holdfast.blueprint.questions import Asked, InvalidAnswer, Review
from holdfast.blueprint.questions.kind import join_paths
from holdfast.protocol.address import Address
from holdfast.protocol.agents import MadeCall, name_tools
from holdfast.protocol.children import AgentDefinition, AgentState, Carried, ChildDefinition, ChildResult
from holdfast.protocol.values import Value

ITEMS_FAILED = "items_failed"
"""Error type of a loop that failed because its items failed, and of the steps in it."""

LONGEST_KEPT = 100_000
"""Largest number of characters of a plan's output that a failure carries."""
LONGEST_BARE = 1_000_000
"""Largest number of characters of a loop's result without its values that a failure carries."""
UNFINISHED = "unfinished"
"""Error type of a step or a loop that was running when its plan failed or was cancelled."""

UnitStatus = Literal[
    "pending", "running", "waiting_input", "completed", "completed_with_errors", "skipped", "failed", "cancelled"
]
IterationStatus = Literal["completed", "failed", "skipped", "cancelled"]
PlanStatus = Literal["completed", "completed_with_errors", "failed", "cancelled"]
OVER = ("completed", "completed_with_errors", "skipped", "failed", "cancelled")
"""The states in which a step, a loop or a plan has ended."""


class UnitResult(Value):
    """The state of a step or a loop of a plan, and its result."""

    status: UnitStatus
    response: JSON = None
    """Text for a person or a model."""
    data: JSON = None
    """Value of a tool, or of a person's answer."""
    error: JSONObject | None = None
    """`type` and `message`; `raised_at`, as a `Failure` has it, if an author's code raised it."""
    reason: str | None = None
    """Why it was skipped, or why a loop had no items."""
    tool_results: list[JSONObject] = []
    """For a step that calls tools, one object a call: `tool`, `parameters` and `data`; at its end without `parameters`,
    and of a single call without its `data`, which is the step's."""
    made: list[MadeCall] = []
    """The calls of its tools, also those by an agent that is a tool."""
    tries: dict[str, int] = {}
    """For a running step: number of retries, by kind of error."""
    iterations: list[Iteration] | None = None
    """For a loop: its items that are done; None for a step."""

    @property
    def called(self) -> list[str]:
        """The tools that were called; in the output where the results do not say it."""
        return name_tools(self.made)

    @property
    def is_over(self) -> bool:
        return self.status in OVER

    @property
    def succeeded(self) -> bool:
        return self.status in ("completed", "completed_with_errors")

    @property
    def value(self) -> JSON:
        """The value of a reference: of a loop its items, of a step its data, else its response; None if it failed."""
        if self.iterations is not None:
            return [iteration.to_output() for iteration in self.iterations]
        if not self.succeeded:
            return None
        return self.response if self.data is None else self.data

    def to_output(self) -> JSONObject:
        """Return the step or loop as the output of the plan has it."""
        reason = {} if self.reason is None else {"reason": self.reason}
        error = {} if self.error is None else {"error": self.error}
        if self.iterations is not None:
            return {"status": self.status, "iteration_results": self.value, **error, **reason}
        always = {"status": self.status, "response": self.response, "data": self.data, "error": self.error}
        return {**always, **reason, **self._tool_fields()}

    def _tool_fields(self) -> JSONObject:
        returned = {call["tool"] for call in self.tool_results}
        are_told = self.succeeded and returned.issuperset(self.called)
        fields: JSONObject = {} if are_told or not self.called else {"called": self.called}
        if len(self.tool_results) > (1 if self.succeeded else 0):
            fields["tool_results"] = self.tool_results
        return fields


class Iteration(Value):
    """The result of one iteration of a loop."""

    index: int
    """From 0."""
    item: JSON = None
    status: IterationStatus
    """`skipped`: it failed, and a person chose to go on without it."""
    results: dict[str, UnitResult] = {}

    def to_output(self) -> JSONObject:
        """Return the iteration as the output of the plan has it."""
        own = {"index": self.index, "item": self.item, "status": self.status}
        steps, loops = outputs(self.results)
        return {**own, "steps": steps, **({"loops": loops} if loops else {})}


def outputs(results: Mapping[str, UnitResult]) -> tuple[JSONObject, JSONObject]:
    """Return the outputs of the steps, and of the loops."""
    steps = {id_: result.to_output() for id_, result in results.items() if result.iterations is None}
    loops = {id_: result.to_output() for id_, result in results.items() if result.iterations is not None}
    return steps, loops


class ItemOf(Value):
    """The current item of an enclosing loop."""

    loop: str
    item: JSON = None
    index: int


class ActiveLoop(Value):
    """A loop that an agent has started, and its progress."""

    items: list[JSON]
    """The items as they were at the start."""
    index: int = 0
    """Index of the current item."""
    done: list[Iteration] = []
    results: dict[str, UnitResult] = {}
    """Results of the current iteration, by id."""
    made_before: dict[str, list[MadeCall]] = {}
    """By id, the calls that were made before the current iteration was begun anew."""


class Revision(Value):
    """A change of a plan while it runs."""

    revision: int
    """Number of the plan's version; the first plan is 1."""
    by: str | None = None
    reason: str = ""


class PlanProgress(Value):
    """The state of a plan, as one workflow hands it to the next: by continue-as-new, or to and from an active loop."""

    plan: PlanBody | None = None
    """None before it is read and approved."""
    approved: dict[str, list[str]] = {}
    """The tools of each step of the plan that was approved."""
    reply: JSONObject | None = None
    """Of the person who approved it, as expressions read it."""
    revisions: list[Revision] = []
    results: dict[str, UnitResult] = {}
    """By id, of the steps and loops that have begun outside every loop."""
    active: dict[str, ActiveLoop] = {}
    """The loops that an agent has started, in that order."""
    vars: JSONObject = {}
    """Values that an agent has stored for itself."""
    replacements: dict[str, list[str]] = {}
    """By address, of the steps that lack a tool: the tools that they may use in its place, as far as they are found."""


class PlannerCall(Value):
    """The call of the agent that wrote a plan; repeated when the plan is invalid or a person sends it back."""

    agent: Agent
    name: str | None = None
    """Name of the agent in the blueprint, if it has one."""
    step: str
    instructions: str = ""
    input: JSON = None
    timeout: float | None = None
    """Seconds."""
    retry: Retry | None = None


class FailedPlan(Value):
    """A plan that has failed, for its planner."""

    plan: JSONObject
    why: str


class PlanOrigin(Value):
    """The value that a plan is read from, if its step does not hold it, and the input of that step."""

    given: JSON = None
    """The value."""
    planner: PlannerCall | None = None
    """The agent that wrote the value."""
    task: JSON = None
    """The input; every step of the plan sees it."""
    failed: FailedPlan | None = None
    """The plan before, where the planner is to plan what is left of it."""


class PlanDefinition(ChildDefinition):
    """A plan that the scheduler drives. The only step of its blueprint holds the plan, unless `origin` does."""

    origin: PlanOrigin = PlanOrigin.model_construct()  # builds no model at import
    context: JSONObject = {}
    previous: JSON = None
    """Output of the step before the plan."""
    place: str = ""
    """Place for a person, such as `clarify 2 · review`."""
    iteration: int | None = None

    @property
    def author(self) -> PlanBody:
        """The plan as its step holds it; for a plan that is read, the step's settings for it."""
        [plan] = (step.plan_body for step in self.blueprint.steps if step.plan_body is not None)
        return plan


class ScheduledState(Carried):
    """The state of a scheduler-driven plan between two steps; continue-as-new passes it on."""

    progress: PlanProgress = PlanProgress.model_construct()  # builds no model at import


class PlanLoopDefinition(PlanDefinition):
    """A loop of a plan that the scheduler drives."""

    plan: PlanBody | None = None
    """None for the plan as its author wrote it."""
    approved: dict[str, list[str]] = {}
    """The tools of each step of the plan that was approved."""
    loop: str
    """Id of the loop in the plan."""
    items: list[JSON] = []
    known: dict[str, UnitResult] = {}
    """Results of the steps outside that the loop refers to, by id."""
    around: list[ItemOf] = []
    """The enclosing loops, outermost first."""


class PlanLoopState(Carried):
    """The state of a loop between two items; continue-as-new passes it on."""

    done: list[Iteration] = []


class PlanLoopResult(ChildResult):
    """The result of a loop."""

    result: UnitResult


class DrivenDefinition(AgentDefinition):
    """A plan that an agent drives by control tools, or one of its active loops."""

    author: PlanBody
    """The plan as its step holds it; for a plan that is read, the step's settings for it."""
    origin: PlanOrigin = PlanOrigin.model_construct()  # builds no model at import
    plan_address: Address
    """Address of the plan. The workflow of an active loop has the loop's address as its own."""
    loop: str | None = None
    """Id of the loop, if this is the workflow of one."""


class DrivenState(AgentState):
    """The state of an agent-driven plan between two turns: the conversation and the plan."""

    progress: PlanProgress = PlanProgress.model_construct()  # builds no model at import


class PlanResult(ChildResult):
    """The result of a plan, or the state in which a loop that an agent drives hands back to its plan."""

    status: PlanStatus = "completed"
    output: JSONObject = {}
    plan: JSONObject = {}
    """The plan as it was at its end."""
    reply: JSONObject | None = None
    """Of the person who approved it, as expressions read it."""
    state: DrivenState | None = None
    """For such a loop only."""


class PlanReview(Review):
    """The review of a plan before it runs. An edited plan must be a valid one."""

    author: PlanBody
    agents: dict[str, Agent] = {}
    faults: list[str] = []
    """Why the plan cannot be run as it is, after an edit: then nobody can agree to it."""

    def for_clients(self) -> Asked:
        """Return the review without the author's part, which only the workflow checks an edited plan by."""
        return Review(**{name: value for name, value in self if name in Review.model_fields})

    def accept(self, content: JSON) -> JSON:
        """Return the verdict with the plan to use. Raises `InvalidAnswer` with all problems of an edited plan."""
        content = self.read_short(content)
        if isinstance(content, dict) and content.get("verdict") == "revise":
            self._check_revision(content)
        content = super().accept(content)
        if content["verdict"] == "unchanged" and self.faults:
            raise InvalidAnswer("\n".join(["the plan cannot be run; change it or reject it:", *self.faults]), "verdict")
        if content["verdict"] == "edited":
            from holdfast.blueprint.load.plans import read_plan  # noqa: PLC0415  it loads the loader and all checks

            try:
                read_plan(content["payload"], self.author, self.agents)
            except BlueprintError as error:
                wrong = InvalidAnswer("\n".join(map(str, error.problems)), "payload")
                wrong.problems = [(join_paths("payload", problem.path), problem.reason) for problem in error.problems]
                raise wrong from None
        return content

    def _check_revision(self, content: JSONObject) -> None:
        """Refuse to send back a plan that has no planner, or to send one back without a reason."""
        if not self.revisable:
            text = "no planner can revise it: answer unchanged, edited (with the plan as payload) or rejected"
            raise InvalidAnswer(text, "verdict")
        if not str(content.get("reason") or "").strip():
            raise InvalidAnswer("write what the planner should change", "reason")


class PlanSnapshot(Value):
    """The answer of a workflow to the query `plan`."""

    workflow: str
    address: Address
    revision: int
    goal: str
    driver: str
    plan: JSONObject
    steps: dict[str, UnitResult]
    """By id, large values by their beginning."""
    loops: dict[str, UnitResult] = {}
    """By id, without their items: the trace has those."""
    revisions: list[Revision] = []
    status: str = "running"
    note: str | None = None
    """The remark on a plan that ended and did nothing."""
    holds: bool = True
    """True if this workflow holds the plan now, and takes changes of it; False while an active loop does."""


def count_progress(steps: Mapping[str, UnitResult]) -> JSONObject:
    """Return the numbers of ended and of all steps, as `completed_steps` and `total_steps`."""
    ended = [result for result in steps.values() if result.is_over]
    return {"completed_steps": len(ended), "total_steps": len(steps)}


def fit_output(output: JSONObject) -> JSONObject:
    """Return a plan's output for its failure; of a large one only how the steps ended, without their results."""
    if len(write_text(output)) <= LONGEST_KEPT:
        return output
    kept = ("status", "error", "called")
    ends = {id_: {key: step[key] for key in kept if key in step} for id_, step in output["steps"].items()}
    ledger = {"ledger": output["ledger"]} if "ledger" in output else {}
    return {"status": output["status"], "steps": ends, "loops": {}, **ledger}


def text_of_result(value: JSON) -> str:
    """Return the result of a tool as text; None is empty."""
    return "" if value is None else write_text(value)


UnitResult.model_rebuild()
