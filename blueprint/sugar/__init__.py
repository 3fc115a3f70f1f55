"""Expand short forms into core forms before validation; values keep their positions. Used by `load`."""

from __future__ import annotations

from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.source import PlacedDict
from holdfast.blueprint.sugar.expansion import DocumentExpansion

__all__ = ["DocumentExpansion", "core_form"]


def core_form(document: PlacedDict, expansion: DocumentExpansion, name: str, path: str = "") -> PlacedDict:
    """Return the document with every short form spelled out, without those of imports; core form stays as it is."""
    core = expansion.correct_keys(document, Blueprint, path)
    if core.get("version") == 0.1:  # written without quotes
        core["version"] = "0.1"
    if "name" not in core:
        core.put("name", name, core.place)
    if isinstance(core.get("agents"), PlacedDict):
        core["agents"] = _agents(core["agents"], expansion, _below(path, "agents"))
    if "steps" in core:
        core["steps"] = expansion.steps(core["steps"], core.value_place("steps"), _below(path, "steps"))
    return core


def _agents(definitions: PlacedDict, expansion: DocumentExpansion, path: str) -> PlacedDict:
    agents = definitions.copy()
    for name, agent in definitions.items():
        agents[name] = expansion.agent(agent, f"{path}.{name}")
    return agents


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
