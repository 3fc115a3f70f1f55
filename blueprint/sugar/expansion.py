"""The expansion of one document: steps by their kinds, agents, and the files that both may name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import DEFAULT_KIND, KINDS, Fallback
from holdfast.blueprint.kinds.expansion import Expansion, expand_condition
from holdfast.blueprint.kinds.keys import nearest
from holdfast.blueprint.plan.output import PLAN_OUTPUT
from holdfast.blueprint.source import PlacedDict, PlacedList, Position

_MAX_TEXT = 256 * 1024


@dataclass
class DocumentExpansion(Expansion):
    """The expansion of a document in a folder; None: it was not read from a file."""

    folder: Path | None

    def steps(self, definition: object, place: Position, path: str) -> JSON:
        match definition:
            case PlacedList():
                steps = PlacedList(definition.place)
                for index, (step, item_place) in enumerate(zip(definition, definition.places, strict=True)):
                    steps.add(self.step(step, f"{path}[{index}]"), item_place)
                return steps
            case PlacedDict() if "steps" in definition and not {"kind", "name"} & set(definition):
                self.refuse_other_keys(definition, ("steps",), path)
                return self.steps(definition["steps"], definition.value_place("steps"), f"{path}.steps")
            case PlacedDict():
                steps = PlacedList(definition.place)
                steps.add(self.step(definition, f"{path}[0]"), place)
                return steps
        return definition

    def step(self, definition: object, path: str) -> JSON:
        if not isinstance(definition, PlacedDict):
            return definition
        name = self._kind(definition, path)
        intended = nearest(name, KINDS) if isinstance(name, str) and name not in KINDS else name
        if not isinstance(intended, str):
            return definition
        kind = KINDS[intended]
        step = self.correct_keys(kind.gather(definition, path, self), kind, path)
        if "kind" not in step:
            step.put("kind", intended, step.place)
        expand_condition(step, "when")
        self._expand_fallback(step, path)
        kind.expand(step, path, self)
        return step

    def _kind(self, definition: PlacedDict, path: str) -> JSON:
        """Return the kind; if it is missing or its key is misspelt, the one that has all the keys."""
        if "kind" in definition:
            return definition["kind"]
        others = [key for key in definition if key not in KINDS[DEFAULT_KIND].model_fields]
        for key in others:
            if nearest(key, ["kind"]) and definition[key] in list(KINDS):
                return definition[key]
        kinds = [kind for kind, model in KINDS.items() if others and set(definition) <= set(model.model_fields)]
        if len(kinds) != 1:
            return DEFAULT_KIND
        message = f"'kind' is missing: only {kinds[0]} steps have {', '.join(map(repr, others))}"
        self.add(definition.place, f"{path}.kind", "missing_key", message, f"add kind: {kinds[0]}")
        return kinds[0]

    def _expand_fallback(self, step: PlacedDict, path: str) -> None:
        definition = step.get("on_error")
        if isinstance(definition, PlacedDict):
            corrected = step["on_error"] = self.correct_keys(definition, Fallback, f"{path}.on_error")
            if "fallback" in corrected:
                corrected["fallback"] = self.step(corrected["fallback"], f"{path}.on_error.fallback")

    def expand_agent(self, holder: PlacedDict, key: str, path: str) -> None:
        match holder.get(key):
            case str(name):
                holder[key] = name.removeprefix("agents.")
            case PlacedDict() as definition:
                holder[key] = self.agent(definition, f"{path}.{key}")

    def agent(self, definition: object, path: str) -> JSON:
        """Return an agent in core form."""
        return _expanded_agent(definition, self, path)

    def tools(self, definitions: PlacedList) -> PlacedList:
        return _expanded_tools(definitions)

    def absolute(self, file: str) -> str:
        """Return a file's absolute path, or the path as written if there is no folder."""
        return file if self.folder is None else os.path.abspath(self.folder / file)

    def text_of(self, file: object, place: Position, path: str) -> str:
        """Return the content of a text file beside the blueprint, or "" with a problem reported."""
        if not isinstance(file, str) or not file:
            self.add(place, path, "bad_value", "'from_file' must be the path of a text file")
            return ""
        if self.folder is None:
            hint = "write the text here, or read the blueprint from a file"
            self.add(place, path, "unreadable_file", f"cannot read {file!r}: this blueprint has no folder", hint)
            return ""
        try:
            raw = Path(self.absolute(file)).read_bytes()
            if len(raw) > _MAX_TEXT:
                raise ValueError(f"it has more than {_MAX_TEXT // 1024} KiB")
            return raw.decode("utf-8-sig")
        except (OSError, ValueError) as error:
            reason = error.strerror or str(error) if isinstance(error, OSError) else _reason_of(error)
            hint = "the path is relative to the blueprint's folder"
            self.add(place, path, "unreadable_file", f"cannot read {file!r}: {reason}", hint)
            return ""


def _reason_of(error: ValueError) -> str:
    return "it is no UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)


def _expanded_agent(definition: object, expansion: DocumentExpansion, path: str) -> JSON:
    if not isinstance(definition, PlacedDict):
        return definition
    agent = definition.copy()
    _rename_prompt(agent, expansion, path)
    _read_instructions(agent, expansion, path)
    if agent.get("output_schema") == "plan":
        agent["output_schema"] = PLAN_OUTPUT
    if isinstance(agent.get("tools"), PlacedList):
        agent["tools"] = _expanded_tools(agent["tools"])
    model = agent.get("model")
    if isinstance(model, str) and model.startswith("scripted:"):
        agent["model"] = "scripted:" + expansion.absolute(model.removeprefix("scripted:"))
    return agent


def _expanded_tools(definitions: PlacedList) -> PlacedList:
    """Expand tools: `search` is `{name: search}`; `agents.x` and `agent: x` are `agent:x`."""
    tools = PlacedList(definitions.place)
    for tool, place in zip(definitions, definitions.places, strict=True):
        tools.add(_tool(tool, place), place)
    return tools


def _tool(definition: object, place: Position) -> JSON:
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


def _rename_prompt(agent: PlacedDict, expansion: DocumentExpansion, path: str) -> None:
    if "system_prompt" not in agent:
        return
    value, places = agent.take("system_prompt")
    if "instructions" in agent:
        message = "'instructions' and 'system_prompt' say the same thing"
        expansion.add(places[0], f"{path}.system_prompt", "conflict", message, "keep one of them")
    else:
        agent.put("instructions", value, places)


def _read_instructions(agent: PlacedDict, expansion: DocumentExpansion, path: str) -> None:
    instructions = agent.get("instructions")
    if isinstance(instructions, PlacedDict) and "from_file" in instructions:
        expansion.refuse_other_keys(instructions, ("from_file",), f"{path}.instructions")
        place = instructions.value_place("from_file")
        agent["instructions"] = expansion.text_of(instructions["from_file"], place, f"{path}.instructions.from_file")
