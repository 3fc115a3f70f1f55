"""A calendar for the plans of this folder: it lists, changes and tells, and leaves the world as it is."""

from __future__ import annotations

from typing import Any

from holdfast import tool

EVENTS = [
    {"id": "evt_1", "summary": "Meeting", "status": "confirmed", "guest": "ana@example.org"},
    {"id": "evt_2", "summary": "Review", "status": "confirmed", "guest": "ben@example.org"},
]


@tool(idempotent=True)
def calendar_list_events(day: str) -> dict[str, Any]:
    """Lists the calendar events of a day."""
    return {"day": day, "events_count": len(EVENTS), "events": EVENTS}


@tool
def calendar_update_event(event_id: str, title: str) -> dict[str, Any]:
    """Gives a calendar event another title."""
    return {"success": True, "data": {"event_id": event_id, "title": title}}


@tool
def mail_send(to: str, text: str) -> dict[str, Any]:
    """Sends a mail."""
    return {"success": True, "data": {"sent_to": to, "text": text}}
