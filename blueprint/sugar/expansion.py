"""The expansion of one document: steps by their kinds, agents, and the files that both may name."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.blueprint.expressions.error import nearest
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import DEFAULT_KIND, KINDS, Fallback
from holdfast.blueprint.kinds.expansion import Expansion, expand_condition
from holdfast.blueprint.kinds.keys import meant_kind
from holdfast.blueprint.plan.output import PLAN_OUTPUT
from holdfast.blueprint.source import PlacedDict, PlacedList, Position
from holdfast.blueprint.text_files import UnreadableFile, text_of_file

_MAX_TEXT = 256 * 1024


class DocumentExpansion(Expansion):
    """The expansion of a document."""

    def steps(self, definition: object, place: Position, path: str) -> JSON:
        match definition:
            case PlacedList():
                return definition.each(lambda step, _, n: self.step(step, f"{path}[{n}]"))
            case PlacedDict() if "steps" in definition and not {"kind", "name"} & set(definition):
                if "max_parallel" in definition:
                    definition = definition.copy()
                    _, places = definition.take("max_parallel")
                    message = "'max_parallel' stands beside the list's own key"
                    hint = "write it beside body, or beside branches, whose lists it holds for"
                    self.add(places[0], f"{path}.max_parallel", "unknown_key", message, hint)
                self.correct_keys(definition, ("steps",), path)
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
        intended = meant_kind(name, KINDS) if isinstance(name, str) and name not in KINDS else name
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
        if not isinstance(definition, PlacedDict):
            return definition
        agent = definition.copy()
        _split_models(agent, self, path)
        _rename_prompt(agent, self, path)
        _read_instructions(agent, self, path)
        if agent.get("output_schema") == "plan":
            agent["output_schema"] = PLAN_OUTPUT
        if isinstance(agent.get("tools"), PlacedList):
            agent["tools"] = self.tools(agent["tools"])
        if "model" in agent:
            agent["model"] = _absolute_script(agent["model"], self)
        if isinstance(others := agent.get("fallback_models"), PlacedList):
            agent["fallback_models"] = others.each(lambda name, *_: _absolute_script(name, self))
        return agent

    def tools(self, definitions: PlacedList) -> PlacedList:
        """Expand tools: `search` is `{name: search}`; `agents.x` and `agent: x` are `agent:x`."""
        return definitions.each(_tool)

    def absolute(self, file: str) -> str:
        """Return a file's absolute path, or the path as written if there is no folder."""
        return file if self.folder is None else os.path.abspath(self.folder / file)

    def read_text_file(self, file: object, place: Position, path: str) -> str:
        """Return the content of a text file beside the blueprint, or "" with a problem reported."""
        if not isinstance(file, str) or not file:
            self.add(place, path, "bad_value", "'from_file' must be the path of a text file")
            return ""
        if self.folder is None:
            hint = "write the text here, or read the blueprint from a file"
            self.add(place, path, "unreadable_file", f"cannot read {file!r}: this blueprint has no folder", hint)
            return ""
        try:
            return text_of_file(Path(self.absolute(file)), _MAX_TEXT)
        except UnreadableFile as error:
            hint = error.hint or "the path is relative to the blueprint's folder"
            self.add(place, path, "unreadable_file", f"cannot read {file!r}: {error}", hint)
            return ""


def _absolute_script(model: JSON, expansion: DocumentExpansion) -> JSON:
    if isinstance(model, str) and model.startswith("scripted:"):
        return "scripted:" + expansion.absolute(model.removeprefix("scripted:"))
    return model


def _split_models(agent: PlacedDict, expansion: DocumentExpansion, path: str) -> None:
    """Read a list of models as one, and those that are asked if it fails."""
    models = agent.get("model")
    if not isinstance(models, PlacedList):
        return
    value, places = agent.take("model")
    if "fallback_models" in agent:
        message = "a list of models and 'fallback_models' say the same thing"
        expansion.add(places[0], f"{path}.model", "conflict", message, "keep one of them")
        del agent["fallback_models"]
    if not models:
        expansion.add(places[0], f"{path}.model", "bad_value", "'model' is an empty list", "name a model")
        models.add("echo", places[0])
    others = PlacedList(models.place)
    for name, place in zip(models[1:], models.places[1:], strict=True):
        others.add(name, place)
    agent.put("model", models[0], (places[0], models.places[0]))
    agent.put("fallback_models", others, places)


def _tool(definition: object, place: Position, _: int) -> JSON:
    if isinstance(definition, str):
        tool = PlacedDict.at(place, name=definition)
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
        expansion.correct_keys(instructions, ("from_file",), f"{path}.instructions")
        place = instructions.value_place("from_file")
        agent["instructions"] = expansion.read_text_file(
            instructions["from_file"], place, f"{path}.instructions.from_file"
        )
