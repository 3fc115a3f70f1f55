"""The steps of a list that say what they need: started once it has ended, several at once. For the interpreter."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import AnyStep
from holdfast.blueprint.kinds.needs import find_needs
from holdfast.blueprint.parts import MOST_AT_ONCE
from holdfast.protocol.context import Conflict, changes, join_forks
from holdfast.protocol.events import StepSkipped
from holdfast.workflows.checkpoints import stop
from holdfast.workflows.dependents import find_skip_reason, run_dependents
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame, Scope

RunStep = Callable[[AnyStep, Frame, object], Awaitable[JSON]]


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
        run_step: Runs one of them.
    """

    def __init__(
        self, steps: Sequence[AnyStep], frame: Frame, value: object, most: int | None, run_step: RunStep
    ) -> None:
        self._steps, self._frame, self._value, self._run_step = steps, frame, value, run_step
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
        output = await self._run_step(step, frame, previous)
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
