"""Runs steps: decide, run, record. A step returns its output; only this file writes it down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from blueprint.expressions import ExpressionError
from blueprint.grammar import (
    AgenticLoop,
    AnyStep,
    Cache,
    Clarify,
    Conditional,
    Fallback,
    Hitl,
    Loop,
    Map,
    Parallel,
    PlainStep,
    Plan,
    Step,
)
from blueprint.jsonschemas import misfit
from protocol.agents import Usage
from protocol.context import updated
from protocol.questions import brief
from protocol.runs import Failure
from workflows.failures import HANDLED, failure, failure_of, raised
from workflows.frame import Frame
from workflows.judging import judged
from workflows.steps import STEPS
from workflows.stops import stop
from workflows.together import is_cancelled


async def run_steps(steps: Sequence[AnyStep], frame: Frame, value: Any) -> Any:
    """Run the steps in order, the first on `value`; gives the last one's output."""
    stop_before_next = False
    for step in steps:
        if stop_before_next or step.interrupt_before:
            await stop(frame, f"before {step.name}")
        value = await run_step(step, frame, value)
        stop_before_next = step.interrupt_after
    if stop_before_next:
        await stop(frame, f"after {steps[-1].name}")
    return value


async def run_step(step: AnyStep, frame: Frame, previous: Any) -> Any:
    await frame.host.until_resumed()
    here = frame.at(segment_type(step), step.name).after(previous)
    while True:
        outcome = await _attempt(step, frame, here)
        if not isinstance(outcome, _Again):
            return outcome
        here = replace(here, given=outcome.given)


class _Again(NamedTuple):
    """A person wants the step to be run again; `given` holds another input, if there is one."""

    given: tuple[Any] | None


async def _attempt(step: AnyStep, frame: Frame, here: Frame) -> Any:
    """Run the step; gives its output, or what a person wants to be tried in its place."""
    previous = here.previous
    try:
        if step.when is not None and not here.holds(step.when)[0]:
            here.note("step.skipped", name=step.name, kind=step.kind, when=step.when)
            _remember(step, here, None, "skipped")
            return previous
        here.note("step.started", name=step.name, kind=step.kind)
        await here.within_limits()
        here.meter.count(Usage(steps=1))
        frame.host.count(Usage(steps=1))
        output = await STEPS[type(step)](step, here)
        _record(step, here, output)
    except HANDLED as error:
        if is_cancelled(error):
            raise
        return await _failed(step, frame, here, error)
    here.note("step.completed", name=step.name, kind=step.kind, output=output)
    return output


def segment_type(step: Step) -> str:
    """What an address calls the step."""
    match step:
        case PlainStep() if step.agent is not None:
            return "agent"
        case PlainStep(uses=str() as uses) if uses.startswith("imports."):
            return "import"
        case PlainStep():
            return "step"
        case AgenticLoop():
            return "agent"
        case Hitl() | Conditional() | Loop() | Map() | Parallel() | Cache() | Clarify() | Plan():
            return step.kind
        case _:
            raise TypeError(f"no segment for {type(step).__name__}")


def _record(step: AnyStep, here: Frame, output: Any) -> None:
    """Check the output, and write it where the step says."""
    if step.output_schema is not None and (wrong := misfit(step.output_schema, output)):
        raise failure("output_invalid", f"the output of {step.name} does not fit: {wrong}", here.address)
    if step.sink_to is not None:
        here.apply("set", step.sink_to, output)
    if step.updates_context and output is not None:
        if not isinstance(output, dict):
            what = f"updates_context needs an object, but the output of {step.name} is {brief(output)}"
            raise failure("bad_write", what, here.address)
        here.write(updated(here.store.value, output))
    if step.name == here.turn_source:
        here.turn("Assistant", output)
    _remember(step, here, output, "completed")


def _remember(step: AnyStep, here: Frame, output: Any, status: str, error: Any = None) -> None:
    here.scope.steps[step.name] = {"output": output, "status": status, "error": error}


async def _failed(step: AnyStep, frame: Frame, here: Frame, error: BaseException) -> Any:
    """What `on_error` says: raise, go on with null, or run the fallback."""
    what = failure_of(error, here.address)
    here.note("step.failed", name=step.name, kind=step.kind, error=what.type, message=what.message)
    if what.final or step.on_error == "fail":
        raise raised(what) from error
    told = {"type": what.type, "message": what.message, "address": what.address}
    if step.on_error == "ask":
        verdict = await judged(what, _shown_input(step, here), here)
        match verdict.action:
            case "retry":
                return _Again(here.given)
            case "edit":
                return _Again((verdict.content,))
            case "abort":
                raise raised(what) from error
            case _:
                _record(step, here, verdict.content)
                return verdict.content
    _keep_completed_iterations(step, here, what)
    _remember(step, here, None, "failed", told)
    if not isinstance(step.on_error, Fallback):
        return None
    output = await run_step(step.on_error.fallback, frame.with_names(error=told), here.previous)
    _record(step, here, output)
    _remember(step, here, output, "completed", told)
    return output


def _shown_input(step: AnyStep, here: Frame) -> Any:
    """What the step got, for a person to judge; its template may be what failed."""
    try:
        return here.raw_input_of(step)
    except ExpressionError:
        return None


def _keep_completed_iterations(step: AnyStep, here: Frame, what: Failure) -> None:
    if isinstance(step, Loop) and what.context is not None:
        here.write(what.context)
