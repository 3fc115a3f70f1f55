"""Short forms of agents: `system_prompt`, `output_schema: plan`, instructions from a file, a script beside it."""

from __future__ import annotations

from typing import Any

from holdfast.blueprint.plan.output import PLAN_OUTPUT
from holdfast.blueprint.source import PlacedDict, PlacedList, Position
from holdfast.blueprint.sugar.report import ExpansionReport


def agent_at(holder: PlacedDict, key: str, path: str, report: ExpansionReport) -> None:
    """Expand the agent under a key: a name, also `agents.<name>`, or a definition in place."""
    match holder.get(key):
        case str(name):
            holder[key] = name.removeprefix("agents.")
        case PlacedDict() as definition:
            holder[key] = agent_core(definition, report, f"{path}.{key}")


def agent_core(definition: Any, report: ExpansionReport, path: str) -> Any:
    if not isinstance(definition, PlacedDict):
        return definition
    agent = definition.copy()
    _rename_prompt(agent, report, path)
    _read_instructions(agent, report, path)
    if agent.get("output_schema") == "plan":
        agent["output_schema"] = PLAN_OUTPUT
    if isinstance(agent.get("tools"), PlacedList):
        agent["tools"] = tools_core(agent["tools"])
    model = agent.get("model")
    if isinstance(model, str) and model.startswith("scripted:"):
        agent["model"] = "scripted:" + report.absolute(model.removeprefix("scripted:"))
    return agent


def tools_core(definitions: PlacedList) -> PlacedList:
    """Expand tools: `search` is `{name: search}`; `agents.x` and `agent: x` are `agent:x`."""
    tools = PlacedList(definitions.place)
    for tool, place in zip(definitions, definitions.places, strict=True):
        tools.add(_tool(tool, place), place)
    return tools


def _tool(definition: Any, place: Position) -> Any:
    if isinstance(definition, str):
        tool = PlacedDict(place)
        tool.put("name", definition, place)
    elif isinstance(definition, PlacedDict):
        tool = definition.copy()
    else:
        return definition
    name = tool.get("name")
    if isinstance(name, str) and name.startswith("agents."):
        tool["name"] = f"agent:{name.removeprefix('agents.')}"
    if isinstance(tool.get("approve"), bool):
        tool["approve"] = "always" if tool["approve"] else "never"
    return tool


def _rename_prompt(agent: PlacedDict, report: ExpansionReport, path: str) -> None:
    if "system_prompt" not in agent:
        return
    value, places = agent.take("system_prompt")
    if "instructions" in agent:
        message = "'instructions' and 'system_prompt' say the same thing"
        report.add(places[0], f"{path}.system_prompt", "conflict", message, "keep one of them")
    else:
        agent.put("instructions", value, places)


def _read_instructions(agent: PlacedDict, report: ExpansionReport, path: str) -> None:
    instructions = agent.get("instructions")
    if isinstance(instructions, PlacedDict) and "from_file" in instructions:
        report.refuse_other_keys(instructions, ("from_file",), f"{path}.instructions")
        place = instructions.value_place("from_file")
        agent["instructions"] = report.text_of(instructions["from_file"], place, f"{path}.instructions.from_file")
