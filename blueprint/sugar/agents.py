"""Short forms of agents: `system_prompt`, instructions from a file, a scripted model beside the blueprint."""

from __future__ import annotations

from typing import Any

from blueprint.source import PlacedDict
from blueprint.sugar.notes import Notes


def agent_core(written: Any, notes: Notes, path: str) -> Any:
    if not isinstance(written, PlacedDict):
        return written
    agent = written.copy()
    _rename_prompt(agent, notes, path)
    _read_instructions(agent, notes, path)
    model = agent.get("model")
    if isinstance(model, str) and model.startswith("scripted:"):
        agent["model"] = "scripted:" + notes.absolute(model.removeprefix("scripted:"))
    return agent


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
