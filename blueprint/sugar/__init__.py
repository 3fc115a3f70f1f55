"""Expand short forms into core forms before validation; values keep their positions. Used by `load`."""

from __future__ import annotations

from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.source import PlacedDict
from holdfast.blueprint.sugar.agents import agent_core
from holdfast.blueprint.sugar.report import ExpansionReport
from holdfast.blueprint.sugar.steps import steps_core

__all__ = ["ExpansionReport", "core_form"]


def core_form(document: PlacedDict, report: ExpansionReport, name: str, path: str = "") -> PlacedDict:
    """Return the document with every short form spelled out, without those of imports; core form stays as it is."""
    core = report.correct_keys(document, Blueprint, path)
    if core.get("version") == 0.1:  # written without quotes
        core["version"] = "0.1"
    if "name" not in core:
        core.put("name", name, core.place)
    if isinstance(core.get("agents"), PlacedDict):
        core["agents"] = _agents(core["agents"], report, _below(path, "agents"))
    if "steps" in core:
        core["steps"] = steps_core(core["steps"], core.value_place("steps"), _below(path, "steps"), report)
    return core


def _agents(definitions: PlacedDict, report: ExpansionReport, path: str) -> PlacedDict:
    agents = definitions.copy()
    for name, agent in definitions.items():
        agents[name] = agent_core(agent, report, f"{path}.{name}")
    return agents


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
