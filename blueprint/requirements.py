"""The names in a blueprint that a worker resolves: tools, models, MCP servers, groups. Looked up before a start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from holdfast.blueprint.dependencies import find_reach, reach_of_tools
from holdfast.blueprint.kinds import AgentTool, Blueprint
from holdfast.blueprint.kinds.references import AGENT, IMPORT
from holdfast.blueprint.parts import Part, Requirement
from holdfast.blueprint.positions import Parts

_OF_THE_BLUEPRINT = (AGENT, IMPORT, "agents.")
_MARK = "{{"


def list_requirements(blueprint: Blueprint) -> list[Requirement]:
    """Return the requirements of the steps, agents and imports that are used, each with its path in the blueprint.

    >>> from holdfast.blueprint.load import loads
    >>> [(need.kind, need.name, need.path) for need in list_requirements(loads("steps: [{name: a, uses: pay}]"))]
    [('tool', 'pay', ('steps', 0, 'uses'))]
    """
    return [
        requirement
        for requirement in _iterate_used(blueprint, ())
        if not requirement.name.startswith(_OF_THE_BLUEPRINT) and _MARK not in requirement.name
    ]


def tools_behind(tool: str, blueprint: Blueprint) -> list[str]:
    """Return the tools that a call of an agent or of an import may call in its turn, however deep; else none."""
    reach = reach_of_tools([AgentTool(name=tool)], blueprint)
    names = [entry.name for agent in reach.agents.values() for entry in agent.tools]
    for imported in reach.imports.values():
        names += [need.name for need in list_requirements(imported) if need.kind == "tool"]
    return list(dict.fromkeys(names))


def _iterate_used(blueprint: Blueprint, path: Parts) -> Iterator[Requirement]:
    dependencies = find_reach(blueprint.steps, blueprint)
    for name, agent in dependencies.agents.items():
        yield from _within(agent, (*path, "agents", name))
    for alias, imported in dependencies.imports.items():
        yield from _iterate_used(imported, (*path, "imports", alias))
    yield from _within(blueprint.steps, (*path, "steps"))


def _within(value: object, path: Parts) -> Iterator[Requirement]:
    match value:
        case Part():
            for requirement in value.requires():
                yield replace(requirement, path=(*path, *requirement.path))
            for key in value.looks_up_inside:
                yield from _within(value.__dict__[key], (*path, type(value).model_fields[key].alias or key))
        case dict():
            for key, inner in value.items():
                yield from _within(inner, (*path, key))
        case list():
            for index, inner in enumerate(value):
                yield from _within(inner, (*path, index))
