"""Plans: a goal, steps and loops over lists, as a planner writes them in JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

from holdfast.blueprint.findings import is_literal
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds.agents import Agent
from holdfast.blueprint.kinds.fixed import make_fixed
from holdfast.blueprint.kinds.people_lists import groups_in
from holdfast.blueprint.parts import MOST_AT_ONCE, Part, Requirement, Seconds, Template
from holdfast.blueprint.questions.agreement import DEFAULT_LANGUAGE, Language, find_language

ItemRule = Literal["continue", "fail", "ask"]
Driver = Literal["engine", "agent"]

DEFAULT_MODEL = "default"
"""Name in the worker's `[models]` of the model for a plan without an agent."""
_REFERENCES = ("RESULT_FROM", "CURRENT_ITEM", "LOOP_INDEX")
_NOTES = "Kept, but without effect: what a planner writes beside its plan, such as priority or version."


class PlanOption(Part):
    """One answer that a question of a plan offers."""

    text: str = Field(min_length=1, description="What the person chooses.", examples=["Yes, send them"])
    type: Literal[0, 1, 2] | None = Field(
        None,
        description="What choosing it means: 1 accepts, 0 refuses, 2 is something else. Default: by its words.",
        examples=[1],
    )


class PlanStep(Part):
    """One step of a plan: something that an agent does, with or without tools, or a question to a person."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("description", "task", "prompt", "text", "action"), "instruction"),
        **dict.fromkeys(("depends_on", "requires"), "dependencies"),
        **dict.fromkeys(("args", "params", "parameters", "inputs"), "arguments"),
    }

    @classmethod
    def hint_for(cls, key: str) -> str | None:
        """See base class."""
        if key == "type":
            return "a question to a person has pause_for_response: true; a step that calls something has tools"
        if key == "status":
            return "nothing of a plan is done when it begins: leave out the steps that are"
        return None

    id: str = Field(description="Unique in the plan, loops included: letters, digits and _.", examples=["1", "step_2"])
    instruction: str = Field(
        "",
        description="What is to be done. `RESULT_FROM_<id>`, `CURRENT_ITEM` and `LOOP_INDEX` stand for values.",
        examples=["Send the invitation to CURRENT_ITEM", "CONFIRM_ACTION: Send RESULT_FROM_2?"],
    )
    service: str | None = Field(None, description="What a tool belongs to; helps to find one.", examples=["calendar"])
    tools: list[str] = Field([], description="The tools that the step runs, in this order.", examples=[["send_email"]])
    arguments: JSONObject | None = Field(
        None,
        description="The arguments of its only tool, with references; no model is asked for them.",
        examples=[{"to": "CURRENT_ITEM", "text": "RESULT_FROM_1"}],
    )
    dependencies: list[str] = Field(
        [],
        description="Steps and loops that must have ended before; those that are referred to need not be named.",
        examples=[["1", "loop_events"]],
    )
    condition: str | None = Field(
        None,
        description="`RESULT_FROM_<id> operator value`; if it is false, the step is skipped.",
        examples=["RESULT_FROM_1 contains confirmed", "NOT(RESULT_FROM_2 is empty)"],
    )
    pause_for_response: bool = Field(False, description="A person is asked, with the instruction as the question.")
    options: list[PlanOption] = Field([], description="The answers that a question offers.", examples=[["Yes", "No"]])
    title: str | None = Field(None, description="A name for people.", examples=["Send the invitations"])
    expected_result: str | None = Field(
        None, description="What should come out; the agent is told.", examples=["One message id a guest"]
    )
    display_result: bool | str | None = Field(
        None, description="Whether or how an interface shows the result; kept as it is.", examples=[True]
    )
    optional: bool = Field(False, description="Its failure does not make the plan fail.")
    loopover: str | list[JSON] | None = Field(
        None,
        description="A reference to a list, or a list: the step (or, with `start_step`, the steps from there on) runs "
        "once an item.",
        examples=["RESULT_FROM_1", ["Paris", "Lyon"]],
    )
    start_step: str | None = Field(
        None, description="Makes the step a loop: its body is this step and those that depend on it.", examples=["4"]
    )
    agent: str | Agent | None = Field(
        None, description="Who works on it; default: the plan's agent.", examples=["clerk"]
    )
    assignees: list[str] = Field(
        [],
        description="Who may answer what the step asks, `user:x` or `group:y`; default: the `assignees` of the plan.",
        examples=[["user:ana", "group:editors"]],
    )
    timeout: Seconds | None = Field(None, description="How long a question waits for an answer.", examples=["2d"])
    on_timeout: Literal["fail", "skip", "default"] | None = Field(
        None, description="When nobody answers in time: fail (the default), skip the step, or take `default`."
    )
    default: str | None = Field(None, description="The answer that counts when nobody answers.", examples=["No"])
    notes: JSONObject = Field({}, description=_NOTES, examples=[{"priority": "high"}])

    @property
    def needs_agent(self) -> bool:
        """True if the agent of the plan works on it."""
        is_question = self.pause_for_response and not self.tools
        return self.agent is None and self.arguments is None and not is_question

    def requires(self) -> Iterator[Requirement]:
        about = f"{self.service or ''} {self.instruction}".strip()
        for index, tool in enumerate(self.tools):
            yield Requirement("tool", tool, ("tools", index), about, among=())
            for key, value in (self.arguments or {}).items():
                if is_literal(value, _REFERENCES):
                    yield make_fixed(tool, key, value)
        yield from groups_in(self.assignees, "assignees")


class PlanLoop(Part):
    """Steps that run once for every item of a list."""

    id: str | None = Field(None, description="The same as its key.", examples=["loop_events"])
    over: str | list[JSON] = Field(
        description="A reference to a list, or a list.", examples=["RESULT_FROM_1", ["Paris", "Lyon"]]
    )
    steps: list[str] = Field(description="The steps, and loops, that run for every item.", examples=[["4", "5"]])
    dependencies: list[str] = Field([], description="Steps and loops that must have ended before.", examples=[["1"]])
    condition: str | None = Field(
        None,
        description="Evaluated once, before the first item; if it is false, the loop is skipped.",
        examples=["RESULT_FROM_1 is not empty"],
    )
    on_item_error: ItemRule = Field(
        "continue", description="When a step fails for an item: go on with the next, fail, or ask a person."
    )
    max_items: int = Field(1_000, ge=1, le=100_000, description="A longer list fails the loop.", examples=[200])
    max_parallel: int = Field(1, ge=1, le=MOST_AT_ONCE, description="Items at once.", examples=[5])
    notes: JSONObject = Field({}, description=_NOTES, examples=[{"status": "pending"}])


class PlanBody(Part):
    """A plan: written here, or read from a value when the step runs."""

    # A field named `from` cannot be: authors write `from`, the code says `source`.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, populate_by_name=True)
    synonyms: ClassVar[Mapping[str, str]] = dict.fromkeys(("tasks", "subtasks", "actions", "todos"), "steps")

    goal: str = Field("", description="What it is for; the agent is told.", examples=["Invite the team to the demo"])
    steps: list[PlanStep] = Field(
        [], description="The steps.", examples=[[{"id": "1", "instruction": "List tomorrow's events"}]]
    )
    loop_blocks: dict[str, PlanLoop] = Field(
        {}, description="Loops by their id.", examples=[{"events": {"over": "RESULT_FROM_1", "steps": ["4", "5"]}}]
    )
    source: Template | None = Field(
        None,
        alias="from",
        description="A template that gives a plan, such as a planner's output; in place of `goal` and `steps`.",
        examples=["{{ steps.planner.output }}"],
    )
    confirm: bool = Field(False, description="A person sees the plan, and may change it, before anything runs.")
    agent: str | Agent | None = Field(
        None,
        description="Who works on the steps: a named agent, or one written here; default: the model `default`.",
        examples=["clerk", {"model": "openai:gpt-5.2", "human": ["ask"]}],
    )
    driver: Driver = Field(
        "engine", description="Who picks the next step: the engine, or the agent by control tools whose rules it keeps."
    )
    language: Language | None = Field(
        None,
        description="In which language people are asked; default: that of its goal and its instructions, else English.",
        examples=["fr"],
    )
    max_parallel: int = Field(1, ge=1, le=MOST_AT_ONCE, description="Steps at once.", examples=[3])
    fail_fast: bool = Field(False, description="Start nothing more once a step has failed.")
    max_revisions: int = Field(
        5,
        ge=0,
        le=100,
        description="With `confirm`: how often a person may send the plan back to the planner that it is read from.",
        examples=[2],
    )
    max_replans: int = Field(
        0,
        ge=0,
        le=20,
        description="How often the planner that the plan is read from may plan what is left after the plan has failed.",
        examples=[2],
    )
    done: Template | None = Field(
        None,
        description="What was done before: the output of a plan that failed, or its `ledger`. Such a call is not made "
        "again unless a person agrees.",
        examples=["{{ input.failed }}"],
    )
    notes: JSONObject = Field({}, description=_NOTES, examples=[{"plan_id": "p-7", "version": 1}])

    def requires(self) -> Iterator[Requirement]:
        is_driven = self.source is not None or self.driver == "agent"
        if self.agent is None and (is_driven or any(step.needs_agent for step in self.steps)):
            yield Requirement("model", DEFAULT_MODEL, ("agent",))

    @property
    def spoken_language(self) -> Language:
        """The language in which people are asked: the one that is named, else that of the goal and the instructions."""
        if self.language is not None:
            return self.language
        return find_language(" ".join([self.goal, *(step.instruction for step in self.steps)])) or DEFAULT_LANGUAGE
