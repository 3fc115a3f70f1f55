"""Questions that a plan asks: a confirmation, a choice, or plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.kinds import Option, PlanOption, PlanStep
from holdfast.blueprint.plan import answer_of, informs, options_of, question_text, wants_a_yes
from holdfast.blueprint.plan.agreement import words_of
from holdfast.blueprint.plan.answers import OUTCOMES, REFUSE
from holdfast.protocol.plans import StepResult
from holdfast.protocol.questions import Asked, Choice, Decision, Input
from holdfast.workflows.failures import failure
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.questions import Reply

DECLINED = "declined"
LONGEST_QUOTED = 200
"""Characters of an answer that the question after it repeats."""


def options_here(step: PlanStep, desk: PlanContext) -> list[PlanOption]:
    """What the step's question offers, with references filled in; what is blank or there twice is left out."""
    texts: dict[str, PlanOption] = {}
    for option in options_of(step, desk.plan.language):
        text = text_of(desk.scope.fill(option.text) or "")
        if text.strip():
            texts.setdefault(text.strip().casefold(), option.model_copy(update={"text": text}))
    if step.options and not texts:
        raise failure("bad_options", f"nothing is left of the options of {step.id}", desk.frame.address)
    return list(texts.values())


async def ask(step: PlanStep, desk: PlanContext, message: str | None = None, offered: Sequence[str] = ()) -> StepResult:
    """The step as a person's answer leaves it.

    A model may add words of its own to the plan's, and suggest answers where the plan names none. Where a yes is asked
    for it may not: what the yes is for, and how it is said, are the plan's. Own words that are neither a yes nor a no
    are asked about once more, and then are a no.
    """
    options = options_here(step, desk) if step.options else options_of(step, desk.plan.language)
    text = question_text(text_of(desk.scope.fill(step.instruction)))
    said = (message or "").strip()
    by_a_yes = wants_a_yes(step) or _decides(step, desk)
    if not by_a_yes:
        options = options or [PlanOption(text=one) for one in dict.fromkeys(offered) if one.strip()]
        text, said = (text if said in text else f"{text}\n\n{said}"), ""
    frame = desk.frame.at("hitl", step.id)
    takes_default = step.on_timeout == "default"
    async with desk.one_question:
        await frame.host.until_resumed()
        asked = _asked(step, text, options, desk, said if said not in text else "")
        reply = await frame.ask(asked, timeout=step.timeout, takes_default=takes_default)
        result = _answered(step, reply, options)
        if by_a_yes and not informs(step) and _is_unclear(result, reply):
            again = asked.model_copy(update={"message": f"{text}\n\n{_unclear(result, desk)}"})
            await frame.host.until_resumed()
            reply = await frame.ask(again, timeout=step.timeout, takes_default=takes_default)
            result = _answered(step, reply, options)
            return _as_refused(result) if _is_unclear(result, reply) else result
    return result


def _is_unclear(result: StepResult, reply: Reply) -> bool:
    """Return whether a person said words of their own that are neither a yes nor a no."""
    if reply.status != "answered":
        return False
    return bool(result.data["outcome"] == "other" and result.data["option_index"] is None)


def _unclear(result: StepResult, desk: PlanContext) -> str:
    said = str(result.response)
    shown = said if len(said) <= LONGEST_QUOTED else f"{said[:LONGEST_QUOTED]}…"
    return words_of(desk.plan.language).unclear.format(shown)


def _as_refused(result: StepResult) -> StepResult:
    """Return the answer as a no; the words stay."""
    data = {**result.data, "outcome": OUTCOMES[REFUSE], "option_type": REFUSE}
    return result.model_copy(update={"data": data})


def _decides(step: PlanStep, desk: PlanContext) -> bool:
    """Whether something is done or left, depending on a yes or a no here."""
    conditions = (unit.condition for unit in desk.scope.layout.units_by_id.values() if unit.condition is not None)
    return any(one.left.name == step.id and one.asks_outcome for one in conditions)


def _asked(step: PlanStep, text: str, options: list[PlanOption], desk: PlanContext, said: str) -> Asked:
    info: dict[str, Any] = {"goal": desk.plan.goal, **({"agent_says": said} if said else {})}
    if desk.scope.around:
        info |= {"item": desk.scope.around[-1].item, "index": desk.scope.around[-1].index}
    if not options:
        return Input(message=text, info=info, default=step.default)
    offered = [Option(id=option.text, label=option.text) for option in options]
    kind = Choice if informs(step) else Decision
    return kind(
        message=text,
        options=offered,
        info=info,
        default=_offered(step.default, options),
        by_index=True,
        allow_custom=not step.options,
    )


def _offered(default: str | None, options: list[PlanOption]) -> str | None:
    """The option that a default means."""
    if default is None:
        return None
    return next((one.text for one in options if one.text.strip().casefold() == default.strip().casefold()), default)


def _answered(step: PlanStep, reply: Reply, options: list[PlanOption]) -> StepResult:
    match reply.status:
        case "answered":
            return answered(step, reply.content, options)
        case "expired" if step.on_timeout == "default":
            return answered(step, _offered(step.default, options), options)
        case "expired" if step.on_timeout == "skip":
            return StepResult(status="skipped", reason="timeout")
        case "expired":
            error = {"type": "question_expired", "message": f"nobody answered {step.id} in time"}
            return StepResult(status="failed", error=error)
        case "cancelled":
            return StepResult(status="cancelled", reason="cancelled")
    said = reply.comment or "declined"
    data = {"response": said, "outcome": "cancelled", "option_index": None, "option_type": REFUSE}
    return StepResult(status="completed", response=said, data=data)


def answered(step: PlanStep, content: Any, options: list[PlanOption]) -> StepResult:
    text = text_of(content)
    data = answer_of(text, options, by_words=not informs(step))
    return StepResult(status="completed", response=text, data=data)


def agreed(step: PlanStep, result: StepResult) -> bool:
    """Whether a question's tools may run: where it asks for a yes, only after one; else unless it was declined."""
    outcome = result.data["outcome"]
    return bool(outcome == "confirmed" if wants_a_yes(step) else outcome != "cancelled")


async def reconnected(tool: str, message: str, desk: PlanContext, step: PlanStep) -> Literal["yes", "no", "cancelled"]:
    """Whether a person has given a tool its access again, so that it may be called once more."""
    options = [Option(id="reconnected", label="Reconnected, try again"), Option(id="fail", label="Give up")]
    text = f"{tool} is not authorised: {message}. Reconnect it, then say so."
    info = {"tool": tool, "step": step.id, "message": message}
    async with desk.one_question:
        reply = await desk.frame.at("hitl", f"{step.id}-reconnect").ask(
            Decision(message=text, options=options, info=info)
        )
    if reply.status == "cancelled":
        return "cancelled"
    return "yes" if reply.content == "reconnected" else "no"
