"""Blocks and steps that say how they are undone, for tests: each step writes down what it does."""

from __future__ import annotations

from typing import Any

from tests.conftest import Harness

BOOM = {"name": "boom", "input": "{{ 1 / 0 }}"}
ASK = {"kind": "hitl", "name": "ask", "message": "Go on?"}


def do(house: Harness, what: str, undo: str = "does", **more: Any) -> dict[str, Any]:
    arguments = {"folder": str(house.folder), "what": "un{{ output.what }}"}
    given = {"folder": str(house.folder), "what": what}
    return {"name": what, "uses": "does", "arguments": given, "undo": {"uses": undo, "arguments": arguments}, **more}


def plain(house: Harness, what: str) -> dict[str, Any]:
    return {"name": what, "uses": "does", "arguments": {"folder": str(house.folder), "what": what}}


def block(*steps: dict[str, Any], name: str = "all", **more: Any) -> dict[str, Any]:
    return {"kind": "block", "name": name, "steps": list(steps), **more}
