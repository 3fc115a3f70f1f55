"""The questions of a plan's steps to people: a confirmation, a choice, or plain words. Both drivers ask them here."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds import Option, PlanOption, PlanStep
from holdfast.blueprint.plan import answer_of, informs, options_of, question_text, wants_a_yes
from holdfast.blueprint.plan.answers import OUTCOMES, REFUSE
from holdfast.blueprint.questions import Asked, Choice, Decision, Input
from holdfast.blueprint.questions.agreement import words_of
from holdfast.protocol.plans import UnitResult
from holdfast.workflows.failures import failure
from holdfast.workflows.plan.results import cancelled, failed, skipped
from holdfast.workflows.plan.scope import PlanScope, StepRun
from holdfast.workflows.replies import Reply

DECLINED = "declined"
LONGEST_QUOTED = 200
"""Most characters of an answer that the question after it repeats."""


async def ask(run: StepRun, message: str | None = None, offered: Sequence[str] = ()) -> UnitResult:
    """Ask a step's question; return the step's result.

    A model may add words of its own to the plan's, and suggest answers where the plan names none. Where a yes is
    wanted it may not: what the yes is for, and how it is said, are the plan's. An answer in words that are neither a
    yes nor a no is asked for once more, and then counts as a no. A step with tools is skipped after a no.
    """
    step, scope = run.step, run.scope
    options = _filled_options(run) if step.options else options_of(step, scope.context.plan.language)
    text, note = question_text(text_of(scope.fill(step.instruction))), (message or "").strip()
    yes_wanted = wants_a_yes(step) or _decides(run)
    if not yes_wanted:
        options = options or [PlanOption(text=option) for option in dict.fromkeys(offered) if option.strip()]
        text, note = (text if note in text else f"{text}\n\n{note}"), ""
    asked = _asked(run, text, options, note if note not in text else "")
    reply, result = await _answer(run, asked, options)
    if yes_wanted and not informs(step) and _is_unclear(result, reply):
        again = asked.model_copy(update={"message": f"{text}\n\n{_unclear(result, scope)}"})
        reply, result = await _answer(run, again, options)
        result = _as_refused(result) if _is_unclear(result, reply) else result
    if result.status == "completed" and step.tools and not _lets_tools_run(step, result):
        return skipped(DECLINED, response=result.response)
    return result


async def _answer(run: StepRun, asked: Asked, options: list[PlanOption]) -> tuple[Reply, UnitResult]:
    step, frame = run.step, run.frame
    await frame.host.until_resumed()
    reply = await frame.ask(asked, timeout=step.timeout, takes_default=step.on_timeout == "default")
    return reply, _result(step, reply, options)


def _filled_options(run: StepRun) -> list[PlanOption]:
    """Return the step's options with references filled in, without blank ones and duplicates."""
    texts: dict[str, PlanOption] = {}
    for option in run.step.options:
        text = text_of(run.scope.fill(option.text) or "")
        if text.strip():
            texts.setdefault(text.strip().casefold(), option.model_copy(update={"text": text}))
    if not texts:
        raise failure("bad_options", f"nothing is left of the options of {run.id}", run.scope.frame.address)
    return list(texts.values())


def _decides(run: StepRun) -> bool:
    """Return whether another step depends on a yes or a no here."""
    conditions = (unit.condition for unit in run.scope.layout.units_by_id.values() if unit.condition is not None)
    return any(condition.left.name == run.id and condition.asks_outcome for condition in conditions)


def _asked(run: StepRun, text: str, options: list[PlanOption], note: str) -> Asked:
    step, scope = run.step, run.scope
    info: JSONObject = {"goal": scope.context.plan.goal, **({"agent_says": note} if note else {})}
    if scope.around:
        info |= {"item": scope.around[-1].item, "index": scope.around[-1].index}
    if not options:
        return Input(message=text, info=info, default=step.default)
    kind = Choice if informs(step) else Decision
    return kind(
        message=text,
        options=[Option(id=option.text, label=option.text) for option in options],
        info=info,
        default=_option_meant(step.default, options),
        by_index=True,
        allow_custom=not step.options,
    )


def _option_meant(default: str | None, options: list[PlanOption]) -> str | None:
    """Return the text of the option that a default names; the default itself if there is none."""
    if default is None:
        return None
    texts = [option.text for option in options]
    return next((text for text in texts if text.strip().casefold() == default.strip().casefold()), default)


def _result(step: PlanStep, reply: Reply, options: list[PlanOption]) -> UnitResult:
    match reply.status:
        case "answered":
            return _answered(step, reply.content, options)
        case "expired" if step.on_timeout == "default":
            return _answered(step, _option_meant(step.default, options), options)
        case "expired" if step.on_timeout == "skip":
            return skipped("timeout")
        case "expired":
            return failed("question_expired", f"nobody answered {step.id} in time")
        case "cancelled":
            return cancelled()
    comment = reply.comment or "declined"
    data = {"response": comment, "outcome": "cancelled", "option_index": None, "option_type": REFUSE}
    return UnitResult(status="completed", response=comment, data=data)


def _answered(step: PlanStep, content: object, options: list[PlanOption]) -> UnitResult:
    text = text_of(content)
    data = answer_of(text, options, by_words=not informs(step))
    return UnitResult(status="completed", response=text, data=data)


def _is_unclear(result: UnitResult, reply: Reply) -> bool:
    """Return whether a person answered in words of their own that are neither a yes nor a no."""
    if reply.status != "answered":
        return False
    return bool(result.data["outcome"] == "other" and result.data["option_index"] is None)


def _unclear(result: UnitResult, scope: PlanScope) -> str:
    text = str(result.response)
    quoted = text if len(text) <= LONGEST_QUOTED else f"{text[:LONGEST_QUOTED]}…"
    return words_of(scope.context.plan.language).unclear.format(quoted)


def _as_refused(result: UnitResult) -> UnitResult:
    """Return the answer as a no, in its own words."""
    return result.model_copy(update={"data": {**result.data, "outcome": OUTCOMES[REFUSE], "option_type": REFUSE}})


def _lets_tools_run(step: PlanStep, result: UnitResult) -> bool:
    """Return whether a question's tools may run: after a yes, where it asks for one; else unless it was declined."""
    outcome = result.data["outcome"]
    return bool(outcome == "confirmed" if wants_a_yes(step) else outcome != "cancelled")
