"""Short forms of agents: `system_prompt`, instructions from a file, a scripted model beside the blueprint."""

from __future__ import annotations

from typing import Any

from blueprint.source import Place, PlacedDict, PlacedList
from blueprint.sugar.notes import Notes


def agent_at(holder: PlacedDict, key: str, path: str, notes: Notes) -> None:
    """An agent under a key: by name, as `agents.<name>` too, or written in place."""
    match holder.get(key):
        case str(name):
            holder[key] = name.removeprefix("agents.")
        case PlacedDict() as written:
            holder[key] = agent_core(written, notes, f"{path}.{key}")


def agent_core(written: Any, notes: Notes, path: str) -> Any:
    if not isinstance(written, PlacedDict):
        return written
    agent = written.copy()
    _rename_prompt(agent, notes, path)
    _read_instructions(agent, notes, path)
    if isinstance(agent.get("tools"), PlacedList):
        agent["tools"] = tools_core(agent["tools"])
    model = agent.get("model")
    if isinstance(model, str) and model.startswith("scripted:"):
        agent["model"] = "scripted:" + notes.absolute(model.removeprefix("scripted:"))
    return agent


def tools_core(written: PlacedList) -> PlacedList:
    """`search` is `{name: search}`; `agents.x` and `agent: x` are `agent:x`."""
    tools = PlacedList(written.place)
    for tool, place in zip(written, written.places, strict=True):
        tools.add(_tool(tool, place), place)
    return tools


def _tool(written: Any, place: Place) -> Any:
    if isinstance(written, str):
        tool = PlacedDict(place)
        tool.put("name", written, place)
    elif isinstance(written, PlacedDict):
        tool = written.copy()
    else:
        return written
    name = tool.get("name")
    if isinstance(name, str) and name.startswith("agents."):
        tool["name"] = f"agent:{name.removeprefix('agents.')}"
    if isinstance(tool.get("approve"), bool):
        tool["approve"] = "always" if tool["approve"] else "never"
    return tool


def _rename_prompt(agent: PlacedDict, notes: Notes, path: str) -> None:
    if "system_prompt" not in agent:
        return
    value, places = agent.take("system_prompt")
    if "instructions" in agent:
        told = "'instructions' and 'system_prompt' say the same thing"
        notes.add(places[0], f"{path}.system_prompt", "conflict", told, "keep one of them")
    else:
        agent.put("instructions", value, places)


def _read_instructions(agent: PlacedDict, notes: Notes, path: str) -> None:
    written = agent.get("instructions")
    if isinstance(written, PlacedDict) and "from_file" in written:
        notes.only(written, ("from_file",), f"{path}.instructions")
        place = written.value_place("from_file")
        agent["instructions"] = notes.text_of(written["from_file"], place, f"{path}.instructions.from_file")
