"""Events of other systems, for steps of kind `wait`: `runs.external_events`."""

from __future__ import annotations

import secrets
from contextlib import suppress

from holdfast.blueprint.json_values import JSON
from holdfast.client.answering import Answering, TakenByAnother
from holdfast.client.listing import runs_waiting_for
from holdfast.client.outcomes import read_state
from holdfast.client.question_reader import QuestionReader
from holdfast.client.tree import Tree
from holdfast.protocol.answers import Refusal
from holdfast.protocol.incoming import EventReceipt, read_event
from holdfast.runtime.errors import raise_server_errors
from holdfast.runtime.workers import Busy, NoWorker

EVENT_LOOKS = 5
"""How often a run is looked at for the step that waits for an event."""


@raise_server_errors
class ExternalEvents:
    """Events that other systems send to runs."""

    def __init__(self, tree: Tree, answering: Answering, reader: QuestionReader) -> None:
        self._tree, self._answering, self._reader = tree, answering, reader

    async def send(
        self,
        run: str,
        name: str,
        key: str,
        payload: JSON = None,
        *,
        id: str | None = None,
        by: str | None = None,
        keep: bool = True,
    ) -> EventReceipt:
        """Send an event of another system to a run, for its step of kind `wait` that waits for this name and key.

        An event that no step waits for yet is kept by the run: at most 100 of them, for a day. Where no worker answers,
        it is sent as a signal.

        Args:
            run: The id of the run.
            name: The event's name.
            key: What tells it from others of its name.
            payload: A JSON value.
            id: The event's id: the same event under the same id counts once. By default a random one.
            by: The system that sends it, such as `user:billing`.
            keep: Whether the run may keep it. If not, it is for a step that waits now, and needs a worker.

        Raises:
            Refusal: The event was refused; its `code` says why.
            NoWorker: No worker answers, and the run may not keep it.
            NothingSent: No worker answers, and it cannot be sent as a signal.
            UnknownRun: There is no such run.
        """
        event = read_event(
            {"name": name, "key": key, "payload": payload, "id": id or secrets.token_hex(8)}
            | {"by": self._answering.find_sender(by)}
        )
        for look in range(EVENT_LOOKS):
            try:
                state = await read_state(self._tree, self._answering, run)
            except NoWorker as error:
                if not keep or (isinstance(error, Busy) and error.is_alive):
                    raise
                return await self._answering.signal_event(self._tree, run, event)
            with suppress(TakenByAnother):
                is_new = id is None and look == 0  # nothing can have come under an id that was just made
                return await self._answering.send_event(self._tree, state.views, event, keep=keep, is_new=is_new)
        raise Refusal("busy", f"the steps of {run} that wait for {name} come and go; send the event again")

    async def find_runs(self, name: str, key: str) -> list[str]:
        """Return the ids of the runs with a step that waits for an event.

        Visibility finds them, which learns of a step a moment after it begins to wait.

        Args:
            name: The name of the event, as in `for` of the step.
            key: The key of the event.
        """
        return await runs_waiting_for(self._reader, name, key)
