"""The interpreter: runs steps in order, and alone records their outputs, context writes and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.fields import CONDITION_FALSE
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import misfit
from holdfast.blueprint.kinds import AnyStep, Fallback
from holdfast.blueprint.kinds.needs import find_needs, has_needs
from holdfast.blueprint.parts import MOST_AT_ONCE
from holdfast.blueprint.questions import brief
from holdfast.protocol.children import Failure
from holdfast.protocol.context import BadWrite, Conflict, changes, join_forks, update_keys
from holdfast.protocol.events import StepCompleted, StepFailed, StepSkipped, StepStarted
from holdfast.protocol.usage import Usage
from holdfast.workflows.assignees import render_reviewers
from holdfast.workflows.checkpoints import stop
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.dependents import find_skip_reason, run_dependents
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
from holdfast.workflows.frame import Frame, Scope
from holdfast.workflows.steps import EXECUTORS

Execute = Callable[[Any, Frame], Awaitable[Any]]
"""Does what a step says, in its frame, and returns its output."""


async def run_steps(steps: Sequence[AnyStep], frame: Frame, value: object, max_parallel: int | None = None) -> JSON:
    """Run the steps, the first on `value`; return the last one's output.

    They run in written order, unless they say what they need: then at most `max_parallel` at once.
    """
    if has_needs(steps):
        return await DependentSteps(steps, frame, value, max_parallel).run()
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


async def _attempt(step: AnyStep, frame: Frame, inner: Frame, execute: Execute) -> JSON | _RetryRequested:
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


def _apply_decision(verdict: FailureDecision, step: AnyStep, inner: Frame, error: JSONObject) -> JSON | _RetryRequested:
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


@dataclass(frozen=True)
class _StepFork:
    """What one step of the list works on: its own fork of the context, and a scope of what it needs."""

    frame: Frame
    began: JSONObject
    """Its context when it started."""
    known: frozenset[str]
    """The names in its scope when it started."""

    def entries(self) -> JSONObject:
        """Return what the step, or the one that ran in its place, has left in its scope."""
        return {name: entry for name, entry in self.frame.scope.steps.items() if name not in self.known}


class DependentSteps:
    """A list of steps with `needs`, while it runs.

    What steps that were under way together wrote is joined in written order, when the last of them has ended. A step
    that starts before that sees what those that it needs have written.

    Args:
        frame: The frame of the list.
        value: The list's input.
        most: Steps at once; None: as many as can run.
    """

    def __init__(self, steps: Sequence[AnyStep], frame: Frame, value: object, most: int | None) -> None:
        self._steps, self._frame, self._value = steps, frame, value
        self._most = most or MOST_AT_ONCE
        self._needs = find_needs(steps)
        self._together: dict[str, _StepFork] = {}
        """The steps that were started since none was under way, by name."""
        self._outputs: JSONObject = {}
        """Of the steps that have ended; a skipped one passes on what was before it."""
        self._entries: dict[str, JSONObject] = {}
        self._fork_counts = frame.request_counts.make_fork()

    async def run(self) -> JSON:
        """Run the steps; return the output of the last one that is written."""
        await run_dependents(self)
        return self._outputs[self._steps[-1].name]

    async def prepare(self) -> None:
        """See `Dependents`."""

    def start(self, running: dict[str, asyncio.Task[JSON]]) -> Iterator[tuple[str, Coroutine[Any, Any, JSON]]]:
        """See `Dependents`."""
        for step in self._steps:
            if step.name in self._outputs or step.name in running:
                continue
            if not all(name in self._outputs for name in step.needs):
                continue
            previous = self._outputs[step.needs[0]] if step.needs else self._value
            reason = find_skip_reason(self._frame.scope.steps[name]["status"] for name in step.needs)
            if reason is not None:
                self._skip(step, previous, reason)
            elif len(running) < self._most:
                line = self._together[step.name] = self._begin(step)
                yield step.name, self._run(step, line.frame, previous)

    def _skip(self, step: AnyStep, previous: JSON, reason: str) -> None:
        self._frame.at(step.segment, step.name).note(StepSkipped(name=step.name, kind=step.kind, reason=reason))
        self._frame.scope.remember(step.name, None, "skipped", reason=reason)
        self._entries[step.name] = {step.name: self._frame.scope.steps[step.name]}
        self._outputs[step.name] = previous

    def _begin(self, step: AnyStep) -> _StepFork:
        needed = [name for name in self._entries if name in self._needs[step.name]]
        together = [name for name in self._sort_names(self._together) if name in needed]
        store = self._frame.store.fork()
        store.value = self._join_contexts(together)
        known = {name: entry for need in needed for name, entry in self._entries[need].items()}
        answered = [scope for name in together if (scope := self._together[name].frame.scope).was_answered]
        heard = (answered[-1] if answered else self._frame.scope).resume_input
        counts = self._fork_counts()
        for name in together:
            counts.take(self._together[name].frame.request_counts.counted)
        scope = Scope(dict(known), outer=self._frame.scope.outer, resume_input=heard)
        return _StepFork(
            replace(self._frame, store=store, scope=scope, request_counts=counts), store.value, frozenset(known)
        )

    async def _run(self, step: AnyStep, frame: Frame, previous: JSON) -> JSON:
        if step.interrupt_before:
            await stop(frame, "before", step, previous=previous, is_at_once=True)
        output = await run_step(step, frame, previous)
        if step.interrupt_after:
            await stop(frame, "after", step, is_at_once=True)
        return output

    async def collect(self, running: dict[str, asyncio.Task[JSON]]) -> None:
        """See `Dependents`: join what the steps wrote if none is under way any more."""
        for name in [name for name in self._sort_names(running) if running[name].done()]:
            self._outputs[name] = running.pop(name).result()
            self._entries[name] = self._together[name].entries()
            self._frame.scope.steps |= self._entries[name]
        if running:
            return
        together = self._sort_names(self._together)
        self._frame.write(self._join_contexts(together))
        for scope in [self._together[name].frame.scope for name in together]:
            if scope.was_answered:
                self._frame.scope.take_answer(scope.resume_input)
        self._together.clear()
        self._fork_counts = self._frame.request_counts.make_fork()

    def _sort_names(self, names: Container[str]) -> list[str]:
        """Return the names in the order of the list."""
        return [step.name for step in self._steps if step.name in names]

    def _join_contexts(self, names: list[str]) -> JSONObject:
        """Return the list's context with what these steps wrote; one that needs another comes after it."""
        lines = {name: self._together[name] for name in names}
        changed = {name: changes(line.began, line.frame.store.value) for name, line in lines.items()}
        began = {name: line.began for name, line in lines.items()}
        store = self._frame.store
        try:
            return join_forks(store.value, changed, "context_update", store.reducers, began, self._needs)
        except Conflict as error:
            message = f"the steps {error.one} and {error.other} both change {error.path}, to different values"
            hint = (
                "steps that may run at once must write different paths, or paths with a reducer; or one needs the other"
            )
            raise failure("context_conflict", f"{message}; {hint}", self._frame.address) from None
