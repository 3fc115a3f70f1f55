"""A question of a plan as the ordinary `hitl` step that asks it, and the kind of its question.

The interpreter runs the step in a frame that has the names in its templates (`Layout.write_template`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from holdfast.blueprint.expressions.texts import fold
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Hitl
from holdfast.blueprint.kinds.plan_body import PlanBody, PlanOption
from holdfast.blueprint.parts import Option
from holdfast.blueprint.plan.answers import (
    OUTCOMES,
    REFUSE,
    informs,
    list_options,
    question_text,
    read_plan_answer,
    wants_a_yes,
)
from holdfast.blueprint.plan.layout import Layout, StepUnit
from holdfast.blueprint.plan.references import escape_template
from holdfast.blueprint.questions import Asked, Choice, Decision, Input
from holdfast.blueprint.questions.agreement import choose_words

LONGEST_QUOTED = 200
"""Most characters of an answer that the question after it repeats."""


class OutcomeQuestion(Asked):
    """A question whose output says how the answer came out: `response`, `outcome`, `option_index`, `option_type`.

    To people and clients it is an ordinary input or decision.
    """

    kind = "outcome"
    declined_as = "denied"
    declining = "Declining is a no."
    skipping = "the step is skipped"

    answers: list[PlanOption] = []
    takes_others: bool = False
    """True if people may answer in their own words beside the options."""
    informs: bool = False
    """True if it asks for something that is not known: words are then neither a yes nor a no."""
    unclear: str = ""
    """Why it is asked once more after words that are neither a yes nor a no, with `{}` for them; "": they stand."""
    counts_unclear: bool = False
    """True if such words count as a no."""

    @property
    def _plain(self) -> Input | Choice | Decision:
        """The question of ours that takes the same content."""
        if not self.answers:
            return Input(message=self.message, info=self.info, default=self.default)
        return (Choice if self.informs else Decision)(
            message=self.message,
            options=[Option(id=answer.text, label=answer.text) for answer in self.answers],
            info=self.info,
            default=self.default,
            by_index=True,
            allow_custom=self.takes_others,
        )

    @property
    def shown_kind(self) -> str:
        return self._plain.shown_kind

    @property
    def consents(self) -> bool:
        return self._plain.consents

    @property
    def choices(self) -> Sequence[Option]:
        return self._plain.choices

    @property
    def takes_own_words(self) -> bool:
        return self.takes_others

    @property
    def lacks_options(self) -> bool:
        return not self.answers and not self.takes_others

    def for_clients(self) -> Asked:
        return self._plain

    def schema(self) -> JSONObject:
        return self._plain.schema()

    def accept(self, content: object) -> JSON:
        return self._plain.accept(content)

    def read_output(self, content: JSON) -> JSON:
        """Return the words, how they came out, and which option they are."""
        answer = self._read_answer(content)
        if self.counts_unclear and _is_unclear(answer):
            answer |= {"outcome": OUTCOMES[REFUSE], "option_type": REFUSE}
        return answer

    def read_refusal(self, reason: str | None) -> JSON:
        return {
            "response": reason or "declined",
            "outcome": OUTCOMES[REFUSE],
            "option_index": None,
            "option_type": REFUSE,
        }

    def ask_again(self, content: JSON) -> Asked | None:
        """Return the same question with the reason, after words that are neither a yes nor a no."""
        if not self.unclear or not _is_unclear(self._read_answer(content)):
            return None
        text = write_text(content)
        reason = self.unclear.format(text if len(text) <= LONGEST_QUOTED else f"{text[:LONGEST_QUOTED]}…")
        changes = {"message": f"{self.message}\n\n{reason}", "unclear": "", "counts_unclear": True}
        return self.model_copy(update=changes)

    def _read_answer(self, content: JSON) -> JSONObject:
        return read_plan_answer(write_text(content), self.answers, by_words=not self.informs)


def _is_unclear(answer: JSONObject) -> bool:
    """Return whether a person answered in words of their own that are neither a yes nor a no."""
    return bool(answer["outcome"] == "other" and answer["option_index"] is None)


class PlanQuestion(Hitl):
    """The step that asks a plan's question."""

    kind: Literal["hitl"] = "hitl"
    title: str
    meanings: list[Literal[0, 1, 2] | None]
    """What each of its options means, where the plan says it."""
    suggestions: list[str]
    """Answers that a model suggests."""
    note: str
    """What a model says beside the question."""
    is_closed: bool
    """True if the plan itself says how it may be answered."""
    informs: bool
    needs_yes: bool
    """True if something depends on a yes or a no: what it is for, and how it is said, are then the plan's alone."""
    unclear: str

    @property
    def shown_title(self) -> str:
        return self.title

    def make_question(
        self,
        message: str,
        default: JSON,
        options: Sequence[Option],
        value: JSON = None,
        weights: JSONObject | None = None,
    ) -> Asked:
        """See base class: without options that are blank or appear twice."""
        text, note = message.strip(), self.note.strip()
        answers = [
            PlanOption(text=option.label, type=meaning)
            for option, meaning in zip(options, self.meanings, strict=True)
            if option.label and option.label.strip()
        ]
        info = {**(weights or {}).get("details", {})}
        if self.needs_yes and note and note not in text:
            info["agent_says"] = note
        if not self.needs_yes:
            text = text if note in text else f"{text}\n\n{note}"
            if not self.is_closed:
                answers = [PlanOption(text=text) for text in self.suggestions if text.strip()]
        different: dict[str, PlanOption] = {}
        for answer in answers:
            different.setdefault(fold(answer.text), answer)
        return OutcomeQuestion(
            message=text,
            info=info,
            default=_find_option(default, different),
            answers=list(different.values()),
            takes_others=not self.is_closed,
            informs=self.informs,
            unclear=self.unclear,
        )


def _find_option(default: JSON, answers: Mapping[str, PlanOption]) -> JSON:
    """Return the text of the option that a default names; the default itself if there is none."""
    option = answers.get(fold(default)) if isinstance(default, str) else None
    return default if option is None else option.text


def compile_question(
    unit: StepUnit,
    plan: PlanBody,
    layout: Layout,
    *,
    assignees: Sequence[str] = (),
    note: str = "",
    suggestions: Sequence[str] = (),
) -> PlanQuestion:
    """Return the ordinary step that asks a step's question.

    Args:
        unit: The step.
        plan: Its plan.
        layout: The same, compiled.
        assignees: Who may answer.
        note: What a model says beside the question.
        suggestions: Answers that a model suggests where the plan names none, and no yes is needed.
    """
    step, options = unit.step, list_options(unit.step, plan.spoken_language)
    needs_yes = wants_a_yes(step) or _decides(unit, layout)
    item = {"item": "{{ item }}", "index": "{{ index }}"} if unit.around else {}
    return PlanQuestion.model_construct(  # its parts were checked with the plan
        name=unit.id,
        title=unit.description,
        on_error="continue",
        message=layout.write_template(question_text(step.instruction), unit),
        options=[
            Option(id=str(index), label=layout.write_template(option.text, unit))
            for index, option in enumerate(options)
        ],
        default=None if step.default is None else escape_template(step.default),
        details={"goal": escape_template(plan.goal), **item},
        timeout=step.timeout,
        on_timeout=step.on_timeout,
        assignees=[escape_template(name) for name in assignees],
        on_decline="continue",
        meanings=[option.type for option in options],
        suggestions=list(suggestions),
        note=note,
        is_closed=bool(step.options),
        informs=informs(step),
        needs_yes=needs_yes,
        unclear=choose_words(plan.spoken_language).unclear if needs_yes and not informs(step) else "",
    )


def _decides(unit: StepUnit, layout: Layout) -> bool:
    """Return whether another step depends on a yes or a no here."""
    conditions = (other.condition for other in layout.units_by_id.values() if other.condition is not None)
    return any(condition.left.name == unit.id and condition.asks_outcome for condition in conditions)
