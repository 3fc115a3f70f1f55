"""The recorded histories in their files: written by `record.py`, read by the tests that replay them.

A file holds one flow: the histories of a run and of everything below it, and the points at which they were parked. A
parked history is the beginning of the complete one, so a point is a number of events for each history.
"""

from __future__ import annotations

import base64
import binascii
import json
import lzma
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory

from holdfast.client.states import RunState

FOLDER = Path(__file__).parent / "histories"
SUFFIX = ".json.xz"
PLAIN, ENCODED = "text", "data"


@dataclass(frozen=True)
class Parked:
    """A point at which a run waited: what it waited for, and how many events each of its histories had by then."""

    waits: list[str]
    """Such as `question:permission`, `timer`, `paused`, `Loop`, `Loop continued`."""
    events: dict[str, int]
    """By Temporal's run id."""


@dataclass
class Recording:
    """One run, recorded to its end; `folder` is replaced in it."""

    folder: str = ""
    parked: list[Parked] = field(default_factory=list)
    histories: list[WorkflowHistory] = field(default_factory=list)

    def observe(self, state: RunState, histories: list[WorkflowHistory]) -> None:
        """Keep the histories as they are now, and the point if the run waits for something."""
        self.histories = histories
        waits = [*_awaited(state), *_places(state, histories)]
        point = Parked(sorted(set(waits)), {history.run_id: len(history.events) for history in histories})
        if _awaited(state) and point not in self.parked:
            self.parked.append(point)

    def to_json(self) -> dict[str, Any]:
        return {
            "parked": [asdict(point) for point in self.parked],
            "histories": [
                {"run": history.run_id, **_readable(json.loads(history.to_json()), self.folder)}
                for history in self.histories
            ],
        }


def write(name: str, recordings: Iterable[Recording]) -> None:
    """Write the runs of one flow or example."""
    text = json.dumps([recording.to_json() for recording in recordings])
    # Compressed, as nobody reviews them line by line; with a window over all runs, which share their blueprint.
    (FOLDER / f"{name}{SUFFIX}").write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def names() -> list[str]:
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def read(name: str) -> list[dict[str, Any]]:
    """Return the runs in a file, as they were written."""
    runs: list[dict[str, Any]] = json.loads(lzma.decompress((FOLDER / f"{name}{SUFFIX}").read_bytes()))
    return runs


def parked(name: str) -> Iterator[list[str]]:
    """Yield what the runs in a file waited for, point by point."""
    for run in read(name):
        yield from (point["waits"] for point in run["parked"])


def histories(name: str) -> Iterator[WorkflowHistory]:
    """Yield each history of a file."""
    for run in read(name):
        for recorded in run["histories"]:
            yield _history(_encoded(recorded["events"]))


def parked_histories(name: str) -> Iterator[WorkflowHistory]:
    """Yield each history of a file as it was at each point at which it was parked."""
    for run in read(name):
        for recorded in run["histories"]:
            events = _encoded(recorded["events"])
            for end in sorted(set(_ends(run["parked"], recorded["run"])) - {len(events)}):
                yield _history(events[:end])


def _history(events: list[dict[str, Any]]) -> WorkflowHistory:
    return WorkflowHistory.from_json(
        events[0]["workflowExecutionStartedEventAttributes"]["workflowId"], {"events": events}
    )


def _ends(points: list[dict[str, Any]], run: str) -> Iterator[int]:
    return (point["events"][run] for point in points if run in point["events"])


def _awaited(state: RunState) -> Iterator[str]:
    """Yield what a run waits for."""
    for question in (*state.questions, *state.events):
        yield f"question:{question.asked.kind}"
        if ";tool:" in question.address and "level:" in question.address:
            yield "interrupt"
    if state.timers:
        yield "timer"
    if state.is_paused:
        yield "paused"


def _places(state: RunState, histories: list[WorkflowHistory]) -> Iterator[str]:
    """Yield the types of the workflows that wait, and whether they have continued as new."""
    waiting = {view.workflow for view in state.views if view.questions or view.events or view.timers}
    for history in histories:
        started = history.events[0].workflow_execution_started_event_attributes
        if history.workflow_id in waiting:
            yield started.workflow_type.name
            if started.continued_execution_run_id:
                yield f"{started.workflow_type.name} continued"


def _readable(value: Any, folder: str) -> Any:
    """Return a history with its payloads as text, without what names the machine: replay does not need it."""
    match value:
        case {"metadata": _, "data": str(data)}:
            return {**value, **_payload(base64.b64decode(data).replace(folder.encode() or b"\0\0", b"/project"))}
        case dict():
            kept = {key: part for key, part in value.items() if key not in ("stackTrace", "identity")}
            return {key: _readable(part, folder) for key, part in kept.items()}
        case list():
            return [_readable(part, folder) for part in value]
    return value


def _payload(data: bytes) -> dict[str, Any]:
    """Return a payload's data as text where it is text: encoded, equal texts would not compress."""
    try:
        return {PLAIN: data.decode(), ENCODED: ""}
    except UnicodeDecodeError:
        return {ENCODED: binascii.b2a_base64(data, newline=False).decode()}


def _encoded(value: Any) -> Any:
    """Return a history as Temporal wrote it."""
    match value:
        case {"metadata": _, "text": str(text)}:
            rest = {key: part for key, part in value.items() if key != PLAIN}
            return {**rest, ENCODED: base64.b64encode(text.encode()).decode()}
        case dict():
            return {key: _encoded(part) for key, part in value.items()}
        case list():
            return [_encoded(part) for part in value]
    return value
