"""Blueprints of one agent, and what its scripted model says, turn by turn."""

from __future__ import annotations

from typing import Any

import yaml

import tests.interrupting  # noqa: F401 registers the tools
from tests.conftest import Harness

DONE = "done: {{ messages[-1].content }}"


def agent(house: Harness, turns: list[Any], **agent: Any) -> str:
    """A blueprint of one agent `boss` that says these turns."""
    house.script(yaml.safe_dump({"boss": turns}))
    return document(boss={"model": "scripted:replies.yaml", **agent})


def document(**agents: Any) -> str:
    return yaml.safe_dump({"agents": agents, "steps": [{"name": "boss", "agent": "boss"}]})


def call(name: str, id: str = "", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, **({"id": id} if id else {})}


def turn(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(calls)}


def asking(house: Harness) -> str:
    """An agent that asks once, and at its end repeats what it was told."""
    heard = "{% for m in messages if m.role == 'user' %}<{{ m.content }}>{% endfor %}"
    return agent(house, [turn(call("request_user_info", question="Which?")), heard], human=["ask"])


def team_agent(house: Harness, replies: list[Any], name: str = "support", **more: Any) -> str:
    """A blueprint of one agent `boss` of the team, whose model says these replies."""
    house.script(yaml.safe_dump({"boss": replies}))
    deps = {"deps": "tests.team_agents:bank"} if name == "support" else {}
    boss = {"from": f"tests.team_agents:{name}", "model": "scripted:replies.yaml", **deps, **more}
    return yaml.safe_dump({"agents": {"boss": boss}, "steps": [{"name": "boss", "agent": "boss"}]})
