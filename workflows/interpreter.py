"""The interpreter: runs steps in order, and alone records their outputs, context writes and failures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.fields import CONDITION_FALSE
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import misfit
from holdfast.blueprint.kinds import (
    AnyStep,
    Fallback,
)
from holdfast.blueprint.kinds.needs import has_needs
from holdfast.blueprint.questions import brief
from holdfast.protocol.context import BadWrite, update_keys
from holdfast.protocol.events import StepCompleted, StepFailed, StepSkipped, StepStarted
from holdfast.protocol.runs import Failure
from holdfast.protocol.usage import Usage
from holdfast.workflows.assignees import render_reviewers
from holdfast.workflows.checkpoints import stop
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.dependent_steps import DependentSteps
from holdfast.workflows.failure_review import FailureDecision, ask_decision
from holdfast.workflows.failures import (
    HANDLED,
    Skip,
    StepFailure,
    describe_failure,
    failure,
    find_context,
    find_failure,
    read_traceback,
)
from holdfast.workflows.frame import Frame
from holdfast.workflows.steps import EXECUTORS

Execute = Callable[[Any, Frame], Awaitable[Any]]
"""Does what a step says, in its frame, and returns its output."""


async def run_steps(steps: Sequence[AnyStep], frame: Frame, value: object, max_parallel: int | None = None) -> JSON:
    """Run the steps, the first on `value`; return the last one's output.

    They run in written order, unless they say what they need: then at most `max_parallel` at once.
    """
    if has_needs(steps):
        return await DependentSteps(steps, frame, value, max_parallel, run_step).run()
    stop_before_next = False
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if stop_before_next or step.interrupt_before:
            await stop(frame, "before", step, previous=value, following=following)
        value = await run_step(step, frame, value)
        stop_before_next = step.interrupt_after
    if stop_before_next:
        await stop(frame, "after", steps[-1])
    return value


async def run_step(step: AnyStep, frame: Frame, previous: object, execute: Execute | None = None) -> JSON:
    """Run a step in the frame of its list, and return its output.

    Args:
        step: The step.
        frame: The frame of the list; the end of the step is recorded in its scope.
        previous: The output of the step before.
        execute: Does what the step says; None: as its kind does it. A plan's steps also record more than an output.
    """
    await frame.host.until_resumed()
    inner = frame.at(step.segment, step.name).after(previous)
    for path, value in frame.host.earlier.take_changes(inner.address).items():
        inner.apply("set", path, value)
    if frame.host.earlier.next_input and frame.reads_run_input and step is frame.blueprint.steps[0]:
        inner = inner.after(inner.input)  # the first step of a run gets its input
    while True:
        outcome = await _attempt(step, frame, inner, execute or EXECUTORS[step.kind])
        if not isinstance(outcome, _RetryRequested):
            return outcome
        inner = replace(inner, new_input=outcome.input)


class _RetryRequested(NamedTuple):
    """A person's request to run the step again; `input` holds another input, if there is one."""

    input: tuple[JSON] | None


async def _attempt(step: AnyStep, frame: Frame, inner: Frame, execute: Execute) -> JSON:
    """Run the step; return its output, or a person's request to run it again."""
    previous = inner.previous
    try:
        if step.when is not None and not inner.holds(step.when)[0]:
            inner.note(StepSkipped(name=step.name, kind=step.kind, when=step.when))
            inner.scope.remember(step.name, None, "skipped", reason=CONDITION_FALSE)
            return previous
        await begin_step(step, inner)
        output = await execute(step, inner)
        _record(step, inner, output)
    except Skip as skip:
        inner.note(StepSkipped(name=step.name, kind=step.kind, reason=skip.reason))
        inner.scope.remember(step.name, None, "skipped", reason=skip.reason)
        return previous
    except HANDLED as error:
        # A cancelled wait for a child raises `ChildWorkflowError`: `on_error` would swallow it, and the run complete.
        if is_cancelled(error):
            raise
        return await _handle_failure(step, frame, inner, error)
    inner.note(StepCompleted(name=step.name, kind=step.kind, output=output))
    return output


async def begin_step(step: AnyStep, inner: Frame) -> None:
    """Note that a step begins, and count it, if the limits allow one more; for a plan's driver, too."""
    inner.note(StepStarted(name=step.name, kind=step.kind, title=step.shown_title))
    inner.scope.replies.pop(step.name, None)  # of an attempt before
    await inner.within_limits()
    inner.meter.count(Usage(steps=1))
    inner.host.count(Usage(steps=1))


def _record(step: AnyStep, inner: Frame, output: object) -> None:
    """Check the output, and write it where the step says."""
    if step.output_schema is not None and (wrong := misfit(step.output_schema, output)):
        raise failure("output_invalid", f"the output of {step.name} does not fit: {wrong}", inner.address)
    if step.sink_to is not None:
        inner.apply("set", step.sink_to, output)
    if step.updates_context and output is not None:
        inner.write(_update_context(step, inner, output))
    if step.name == inner.turn_source:
        inner.turn("Assistant", output)
    inner.scope.remember(step.name, output, "completed")


def _update_context(step: AnyStep, inner: Frame, output: object) -> JSONObject:
    try:
        return update_keys(inner.store.value, output)
    except BadWrite as error:
        message = f"updates_context needs an object: the output of {step.name} is {brief(output)}; {error}"
        raise failure("bad_write", message, inner.address) from None


async def _handle_failure(step: AnyStep, frame: Frame, inner: Frame, error: BaseException) -> JSON:
    """Handle a failed step by its `on_error`: raise, go on with null, run the fallback, or ask a person."""
    # The context travels on the exception: in the failure, each error around it would write it into the history again.
    cause = find_failure(error, inner.address).model_copy(update={"reached": None})
    # An import, an agent or a plan has a context of its own, which is not what this one had reached.
    inside = find_context(error, inner.address) if _shares_context(step) else None
    failed = StepFailure(cause, inner.store.value if inside is None else inside)
    trace = read_traceback(error)
    # A failure of something inside says there where it was raised.
    place = cause.raised_at if trace is None and cause.address == inner.address else None
    named = {"name": step.name, "kind": step.kind, "error": cause.type, "message": cause.message}
    inner.note(StepFailed(**named, traceback=trace, raised_at=place))
    if cause.final or step.on_error == "fail":
        raise failed from error
    if step.on_error == "ask":
        value = _input_for_review(step, inner)
        try:
            people = render_reviewers(step, inner.after(value))
        except HANDLED:  # they are what failed, or are unknown: nobody else may decide in their place
            raise failed from error
        verdict = await ask_decision(cause, value, inner, people=people)
        if verdict.action == "abort":
            raise failed from error
        return _apply_decision(verdict, step, inner, describe_failure(cause))
    description = describe_failure(cause)
    _keep_partial_context(step, inner, cause)
    inner.scope.remember(step.name, None, "failed", description)
    if not isinstance(step.on_error, Fallback):
        return None
    output = await run_step(step.on_error.fallback, frame.with_names(error=description), inner.previous)
    _record(step, inner, output)
    inner.scope.remember(step.name, output, "completed", description)
    return output


def _apply_decision(verdict: FailureDecision, step: AnyStep, inner: Frame, error: JSONObject) -> JSON:
    """Return the output that a person gives in place of the step's, or a request to run the step again."""
    match verdict.action:
        case "retry":
            # The input of an earlier edit holds: a plain retry repeats the attempt that has just failed.
            return _RetryRequested(inner.new_input)
        case "edit":
            return _RetryRequested((verdict.content,))
    _record(step, inner, verdict.content)
    inner.scope.remember(step.name, verdict.content, "completed", error)
    return verdict.content


def _shares_context(step: AnyStep) -> bool:
    """Return whether the steps inside the step work on this very context, or a fork of it."""
    return any(block.steps for block in step.blocks().values())


def _input_for_review(step: AnyStep, inner: Frame) -> JSON:
    """Return the step's input for a person who reviews the failure; None if its template is what failed."""
    try:
        return inner.render_input(step)
    except ExpressionError:
        return None


def _keep_partial_context(step: AnyStep, inner: Frame, cause: Failure) -> None:
    if step.keeps_partial_context and cause.context is not None:
        inner.write(cause.context)
