"""Friendly short forms become core forms here, before validation: values to values that keep their places."""

from __future__ import annotations

from blueprint.grammar import Blueprint
from blueprint.source import PlacedDict
from blueprint.sugar.agents import agent_core
from blueprint.sugar.notes import Notes
from blueprint.sugar.steps import steps_core

__all__ = ["Notes", "core_form"]


def core_form(document: PlacedDict, notes: Notes, name: str, path: str = "") -> PlacedDict:
    """The document with every short form spelled out, but for the imports; core form stays as it is."""
    core = notes.spelled(document, Blueprint, path)
    if core.get("version") == 0.1:  # written without quotes
        core["version"] = "0.1"
    if "name" not in core:
        core.put("name", name, core.place)
    if isinstance(core.get("agents"), PlacedDict):
        core["agents"] = _agents(core["agents"], notes, _below(path, "agents"))
    if "steps" in core:
        core["steps"] = steps_core(core["steps"], core.value_place("steps"), _below(path, "steps"), notes)
    return core


def _agents(written: PlacedDict, notes: Notes, path: str) -> PlacedDict:
    agents = written.copy()
    for name, agent in written.items():
        agents[name] = agent_core(agent, notes, f"{path}.{name}")
    return agents


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
