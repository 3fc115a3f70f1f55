"""The `hitl` kind: ask a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from blueprint.grammar.base import Part, Seconds, Step, Template


class Option(Part):
    """One of the answers offered."""

    id: str = Field(min_length=1)
    label: str = ""
    description: str | None = None
    recommended: bool = False
    risk: str | None = None
    cost: str | None = None
    time: str | None = None
    risks: list[str] = []


class Escalation(Part):
    """One rung of the ladder."""

    after: Seconds = Field(description="From the moment of asking.")
    assignees: list[str] = Field(description="Who may answer from then on.")


class Hitl(Step):
    """Ask a person; the output is the answer. `input_schema` and `timeout` describe the answer and its deadline."""

    kind: Literal["hitl"]
    message: Template = Field("{{ previous_step }}", description="The question; default: the previous output.")
    ask: Literal["input", "clarification", "decision", "permission", "review", "hold"] = Field(
        "input",
        description="input: text or a form; clarification: suggestions; decision: a choice with weight; "
        "permission: an explicit yes; review: look at the input, change it; hold: a pause without a question.",
    )
    options: list[Option] | str = Field([], description="Texts or objects with id and label, or a template of a list.")
    allow_custom: bool | None = Field(None, description="May a person answer in their own words beside the options?")
    multiple: bool | int = Field(False, description="Several options at once; a number is the most of them.")
    default: Template | None = Field(None, description="The answer if nobody answers by the deadline.")
    timeout: Seconds | None = Field(None, description="The deadline, from the moment of asking. None: no deadline.")
    on_timeout: Literal["fail", "default", "skip", "escalate"] | None = Field(
        None,
        description="At the deadline: fail, take the default, or go on with null; escalate: ask others, rung by rung.",
    )
    assignees: list[str] | str = Field(
        [], description="Who may answer: `user:x`, `group:y`, or a template of a list; default: anyone."
    )
    quorum: int = Field(1, ge=1, le=100, description="How many different people must accept.")
    not_by: list[str] | str = Field(
        [], description="Who may not answer: `requester` (who started the run), `user:x`, `group:y`, or a template."
    )
    remind_every: Seconds | None = Field(None, description="Reminders while nobody answers; at least 15m apart.")
    escalate: list[Escalation] = Field([], description="The ladder: who is asked instead, after how long.")
    on_decline: Literal["fail", "continue", "abort"] = Field(
        "fail", description="If declined: fail the step, go on with null, or fail the run whatever `on_error` says."
    )

    def reads(self) -> Mapping[str, Template]:
        rungs = [{"assignees": rung.assignees} for rung in self.escalate]
        people = {"assignees": self.assignees, "not_by": self.not_by, "escalate": rungs}
        asked = {"message": self.message, "options": self._option_texts(), "default": self.default}
        return {**super().reads(), **asked, **people}

    def _option_texts(self) -> Template:
        return self.options if isinstance(self.options, str) else [option.model_dump() for option in self.options]
