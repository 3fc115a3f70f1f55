"""Pause and resume of a workflow of a run, by update and by signal; its children are paused with it."""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from holdfast.protocol import guard
from holdfast.protocol.events import RunPaused, RunResumed
from holdfast.protocol.names import PAUSE, PAUSED_MEMO, RESUME
from holdfast.workflows.children import Children
from holdfast.workflows.concurrency import end_if_cancelled, is_cleaning_up, was_cancelled
from holdfast.workflows.door import NOTHING, Door, read_value
from holdfast.workflows.journal import Journal


class Steering:
    """Pauses and resumes one workflow of a run."""

    def __init__(self, door: Door, journal: Journal, children: Children, *, paused: bool) -> None:
        self.door, self.paused = door, paused
        self._journal, self._children = journal, children

    @property
    def next_state(self) -> dict[str, Any]:
        """The fields of the state that the next history begins with."""
        return {"paused": self.paused}

    async def until_resumed(self) -> None:
        """Wait while the run is paused; raise `CancelledError` if it was cancelled; what is done in any case waits on.

        Every activity, child and step starts behind this call, so a cancelled run starts nothing more.
        """
        if self.paused:
            holds = is_cleaning_up()  # here: a condition is looked at outside of the task
            await workflow.wait_condition(lambda: not self.paused or (was_cancelled() and not holds))
        await end_if_cancelled()

    # Not Temporal's own pause of a workflow: with one paused, list, describe and query of SDK 1.35 raised.
    @workflow.update(name=PAUSE, description="Start no further step; answers are still accepted, deadlines still run.")
    async def pause(self, payload: RawValue = NOTHING) -> None:
        await self._take(PAUSE, payload)

    @pause.validator
    def check_pause(self, payload: RawValue = NOTHING) -> None:
        self._check(PAUSE, payload)

    @workflow.update(name=RESUME, description="Go on after a pause.")
    async def resume(self, payload: RawValue = NOTHING) -> None:
        await self._take(RESUME, payload)

    @resume.validator
    def check_resume(self, payload: RawValue = NOTHING) -> None:
        self._check(RESUME, payload)

    @workflow.signal(name=PAUSE)
    async def pause_signal(self, payload: RawValue = NOTHING) -> None:
        self.door.check_signal()
        await self._set_paused(True)

    @workflow.signal(name=RESUME)
    async def resume_signal(self, payload: RawValue = NOTHING) -> None:
        self.door.check_signal()
        await self._set_paused(False)

    def _check(self, command: str, raw: RawValue) -> None:
        self.door.check_steering(command, read_value(raw, guard.DEPLOYMENT.limits.answer))

    async def _take(self, command: str, raw: RawValue) -> None:
        payload = read_value(raw, None)
        if not self.door.was_taken(command, payload):
            self.door.remember(command, payload)
            await self._set_paused(command == PAUSE)
        if not self.door.takes_signals:  # the client sends it to the children next, so each must be listed
            await workflow.wait_condition(lambda: self._children.starting == 0)

    async def _set_paused(self, paused: bool) -> None:
        if paused == self.paused:
            return
        self.paused = paused
        # Children are paused with the run, and tell nothing of it: one pause is one event of the record.
        if workflow.info().workflow_id == self.door.identity.run:
            self._journal.note(self.door.identity.address, RunPaused() if paused else RunResumed())
            workflow.upsert_memo({PAUSED_MEMO: True if paused else None})
        # In a guarded run the client sends each child an update of its own: a signal of ours has no token to be
        # checked.
        if self.door.takes_signals:
            await self._children.tell_pause()
