"""The keys of the `hitl` kind: the question, its options, its people, its deadline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds.agents import Agent, AgentReference
from holdfast.blueprint.kinds.attachments import AttachmentSource
from holdfast.blueprint.kinds.base import Step
from holdfast.blueprint.kinds.people_lists import groups_in
from holdfast.blueprint.kinds.question_times import QuestionTimes
from holdfast.blueprint.kinds.template_values import (
    DURATION,
    PEOPLE,
    QUORUM,
    RISK,
    DurationTemplate,
    QuorumTemplate,
    RiskTemplate,
    TemplateForm,
    find_constant,
)
from holdfast.blueprint.parts import Name, Option, Part, Requirement, Template
from holdfast.blueprint.questions import Asked, Draft, KindDefinition, list_kinds_for_steps


def _check_kind(name: str) -> str:
    if name not in (kinds := list_kinds_for_steps()):
        raise ValueError(f"must be one of {', '.join(kinds)}, or a kind of a package")
    return name


class Escalation(Part):
    """One rung of the ladder."""

    after: DurationTemplate = Field(
        description="From the moment of asking: a duration, or a template of one.", examples=["1d"]
    )
    assignees: list[str] | str = Field(
        description="Who may answer from then on: `user:x`, `group:y`, or a template of a list.",
        examples=[["group:leads"]],
    )

    def requires(self) -> Iterator[Requirement]:
        yield from groups_in(self.assignees, "assignees")


class Verification(Part):
    """An agent that looks at an accepted answer before the run goes on with it."""

    text_stands_for_it: ClassVar[bool] = True

    agent: str | Agent = Field(
        description="The agent: a name of `agents`, or a definition in place.",
        examples=["editor", {"model": "openai:gpt-5.2", "instructions": "An address must be complete."}],
    )
    rounds: int = Field(
        2,
        ge=1,
        le=5,
        description="How often an answer may be given back; after that it stands, and is marked.",
        examples=[3],
    )


class HitlFields(Step):
    """The keys of `hitl`, apart from what the kind does with them."""

    kind: Literal["hitl"]
    message: Template = Field(
        "{{ previous_step }}",
        description="The question; default: the previous output.",
        examples=["Is this right? {{ steps.draft.output }}"],
    )
    ask: Annotated[str, AfterValidator(_check_kind)] | KindDefinition = Field(
        "input",
        description="; ".join(f"{name}: {kind.in_steps}" for name, kind in list_kinds_for_steps().items())
        + "; or a kind of a package of yours, with its settings as keys beside `ask`.",
    )
    options: list[Option] | str = Field(
        [],
        description="Texts or objects with id and label, or a template of a list.",
        examples=[
            ["warm", "cool"],
            [{"id": "pay", "label": "Pay it", "risk": "The money is gone"}],
            "{{ steps.find.output }}",
        ],
    )
    allow_custom: bool | None = Field(None, description="May a person answer in their own words beside the options?")
    multiple: bool | int = Field(
        False, description="Several options at once; a number is the most of them.", examples=[True, 2]
    )
    default: Template | None = Field(
        None, description="The answer if nobody answers by the deadline.", examples=["refuse"]
    )
    timeout: DurationTemplate | None = Field(
        None,
        description="The deadline, from the moment of asking: a duration, or a template of one. None: no deadline.",
        examples=["2d", "{{ input.days }}d"],
    )
    on_timeout: Literal["fail", "default", "skip", "escalate"] | None = Field(
        None,
        description="At the deadline: fail, take the default, or go on with null; escalate: ask other people in steps.",
    )
    risk: RiskTemplate | None = Field(
        None,
        description="For `ask: permission`: how much may go wrong if it is granted, or a template of it.",
        examples=["high", "{{ 'high' if input.amount > 1000 else 'low' }}"],
    )
    action: Template | None = Field(
        None,
        description="For `ask: permission`: what will be done if it is granted.",
        examples=["Pay {{ input.amount }} EUR"],
    )
    details: Template | None = Field(
        None,
        description="For `ask: permission`: what else a person should see, text or a mapping; default: the input.",
        examples=[{"to": "{{ input.payee }}", "account": "{{ input.iban }}"}],
    )
    assignees: list[str] | str = Field(
        [],
        description="Who may answer: `user:x`, `group:y`, or a template of a list; default: anyone.",
        examples=[["user:ana", "group:editors"], "{{ context.owners }}"],
    )
    quorum: QuorumTemplate = Field(
        1,
        description="How many different people must accept, from 1 to 100, or a template of it.",
        examples=[2, "{{ 2 if input.amount > 1000 else 1 }}"],
    )
    not_by: list[str] | str = Field(
        [],
        description="Who may not answer: `requester` (who started the run), `user:x`, `group:y`, or a template.",
        examples=[["requester"], ["user:ana"]],
    )
    proof: Literal["person"] | None = Field(
        None,
        description="`person`: only answers of people who have signed in are taken, as in the inbox; default: any.",
    )
    remind_every: DurationTemplate | None = Field(
        None,
        description="Reminders while nobody answers, at least 15m apart: a duration, or a template of one.",
        examples=["1d"],
    )
    escalate: list[Escalation] = Field(
        [],
        description="The steps of escalation: who is asked instead, and when.",
        examples=[[{"after": "1d", "assignees": ["group:leads"]}]],
    )
    attachments: list[AttachmentSource] = Field(
        [],
        max_length=20,
        description="Files and data that people see beside the question.",
        examples=[[{"name": "draft.md", "text": "{{ steps.draft.output }}"}, {"name": "a.pdf", "file": "in/a.pdf"}]],
    )
    verify: Verification | None = Field(
        None,
        description="An agent that checks the answer, and may return it with a reason; also its name alone.",
        examples=["editor", {"agent": "editor", "rounds": 3}],
    )
    notify: list[Name] | bool = Field(
        True,
        description="The channels (`[notify.NAME]` of holdfast.toml) that announce this question, instead of the "
        "configured ones; false: none.",
        examples=[["ops"], False],
    )
    on_decline: Literal["fail", "continue", "abort"] | None = Field(
        None,
        description="If declined: fail the step, go on without an answer, or fail the run whatever `on_error` says; "
        "default: fail, but a permission goes on with false, and a review with null.",
    )

    def make_question(
        self,
        message: str,
        default: JSON,
        options: Sequence[Option],
        value: JSON = None,
        weights: JSONObject | None = None,
    ) -> Asked:
        """Return the question of its kind.

        Args:
            message: The message, rendered.
            default: The default, rendered.
            options: The options, rendered.
            value: What it is about: the input of the step.
            weights: Of an action to be permitted: its `action`, `risk` and `details`, as far as they are given.
        """
        kind = self.ask if isinstance(self.ask, KindDefinition) else list_kinds_for_steps()[self.ask]
        most = len(options) if self.multiple is True else int(self.multiple)
        form, own = self.input_schema, self.allow_custom
        return kind.of(Draft(message, default, value, form, options, own, max(most, 1), weights or {}))

    @property
    def question(self) -> Asked:
        """The question as it is known before the run: templates stand in it as they are written."""
        # What a template gives may be one option, or several.
        options = [Option(id="…"), Option(id="……")] if isinstance(self.options, str) else self.options
        return self.make_question(str(self.message), self.default, options)

    @property
    def answer_schema(self) -> JSONObject | None:
        """JSON Schema of the answer; None: text, one of the options, or as the kind has it."""
        return self.ask.answer if isinstance(self.ask, KindDefinition) else self.input_schema

    @property
    def known_times(self) -> QuestionTimes:
        """The times that are constants; those of templates are known when the question is asked."""
        timeout, every = find_constant(self.timeout), find_constant(self.remind_every)
        return QuestionTimes(timeout, every, [find_constant(rung.after) for rung in self.escalate])

    @property
    def takes_own_words(self) -> bool:
        """True if a person may answer in their own words beside the options."""
        return self.question.takes_own_words

    @property
    def takes_proof(self) -> bool:
        """See base class."""
        return self.proof is not None

    def get_assignees(self) -> Sequence[str] | str:
        """See base class."""
        return self.assignees

    def requires(self) -> Iterator[Requirement]:
        yield from groups_in(self.assignees, "assignees")
        yield from groups_in(self.not_by, "not_by")

    def reads(self) -> Mapping[str, Template]:
        people: dict[str, Template] = {"assignees": self.assignees, "not_by": self.not_by, "quorum": self.quorum}
        for index, rung in enumerate(self.escalate):
            people |= {f"escalate[{index}].after": rung.after, f"escalate[{index}].assignees": rung.assignees}
        asked = {"message": self.message, "options": self._option_texts(), "default": self.default}
        asked |= {"timeout": self.timeout, "remind_every": self.remind_every}
        asked |= {"risk": self.risk, "action": self.action, "details": self.details}
        asked["attachments"] = [source.model_dump(exclude={"type"}) for source in self.attachments]
        if self.verify is not None and isinstance(self.verify.agent, Agent):
            asked["verify.agent.instructions"] = self.verify.agent.instructions
        return {**super().reads(), **asked, **people}

    def template_forms(self) -> Mapping[str, TemplateForm]:
        rungs = {f"escalate[{index}]": rung for index, rung in enumerate(self.escalate)}
        return {
            **({"options": TemplateForm({"type": "array"})} if isinstance(self.options, str) else {}),
            "quorum": QUORUM,
            "risk": RISK,
            **dict.fromkeys(["timeout", "remind_every", *(f"{key}.after" for key in rungs)], DURATION),
            **dict.fromkeys(["assignees", "not_by", *(f"{key}.assignees" for key in rungs)], PEOPLE),
        }

    def schemas(self) -> Mapping[str, JSONObject | None]:
        own = {"ask.answer": self.ask.answer} if isinstance(self.ask, KindDefinition) else {}
        return {**super().schemas(), **own}

    def agents(self) -> Sequence[AgentReference]:
        return () if self.verify is None else (AgentReference(self.verify.agent, "verify.agent", "verifier"),)

    def _option_texts(self) -> Template:
        return self.options if isinstance(self.options, str) else [option.model_dump() for option in self.options]
