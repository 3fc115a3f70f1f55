"""Tools that plans of the tests call: each notes its calls in a file, and fails as its arguments say."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from holdfast.activities import tool


class HttpError(Exception):
    """An error as HTTP libraries raise it."""

    def __init__(self, status_code: int, text: str) -> None:
        super().__init__(text)
        self.status_code = status_code


def note(log: str, **told: Any) -> int:
    """Write a line; gives how many there are by now."""
    path = Path(log)
    with path.open("a") as file:
        file.write(json.dumps(told) + "\n")
    return len(path.read_text().splitlines())


@tool(name="plan_list", idempotent=True)
def list_events(log: str, events: list[Any]) -> dict[str, Any]:
    """Lists calendar events."""
    note(log, tool="list", events=events)
    return {"events_count": len(events), "events": events}


@tool(name="plan_read", reads_only=True)
def read_event(log: str) -> dict[str, Any]:
    """Reads one calendar event."""
    return {"read": note(log, tool="read")}


@tool(name="plan_update")
def update_event(log: str, event: Any) -> dict[str, Any]:
    """Updates one calendar event."""
    note(log, tool="update", event=event)
    return {"updated": event}


@tool(name="plan_send")
def send_mail(log: str, to: Any, fail: list[int] | None = None, words: str = "") -> dict[str, Any]:
    """Sends a mail; `fail` are the statuses of the first calls, 0 for success, 200 for `success: false`."""
    calls = note(log, tool="send", to=to)
    failing = (fail or [])[calls - 1 : calls]
    if failing == [200]:
        return {"success": False, "error": words or "the mailbox is full"}
    if failing and failing[0]:
        raise HttpError(failing[0], words or f"status {failing[0]}")
    return {"success": True, "data": {"message_id": f"m{calls}", "to": to}}


@tool(name="plan_wait")
async def wait(log: str) -> None:
    """Waits until the call is cancelled."""
    note(log, tool="wait")
    await asyncio.Event().wait()


@tool(name="plan_send_safely", idempotent=True)
def send_safely(log: str, to: Any, words: str) -> dict[str, Any]:
    """Sends a mail that may be sent twice, and never succeeds."""
    note(log, tool="send_safely", to=to)
    raise RuntimeError(words)
