"""A question whose answer an agent verifies."""

from __future__ import annotations

from typing import Any

PASSED = {"output": {"passed": True, "reason": ""}}
BACK = {"output": {"passed": False, "reason": "The city is missing."}}
AGENTS = {"editor": {"model": "scripted:replies.yaml", "instructions": "An address is complete."}}


def ask(**more: Any) -> dict[str, Any]:
    return {"kind": "hitl", "name": "ask", "message": "Where to?", "verify": {"agent": "editor", "rounds": 1}, **more}
