"""Turn a document for Flujo: its agents, its imports, its steps, and the names in its expressions."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.blueprint.core import write_yaml
from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.source import PlacedDict, PlacedList, Position, plain, read
from holdfast.cli.flujo.contexts import give_context, list_written
from holdfast.cli.flujo.nesting import find_steps
from holdfast.cli.flujo.notes import Notes
from holdfast.cli.flujo.steps import StepConverter, make_name
from holdfast.cli.flujo.templates import EXPRESSIONS, Templates

FindImport = Callable[[str, str, Notes, Position], Path]
"""Gives the file of an import, from its alias, its path, and where notes about it belong."""
VERSION = "0.1"
PROMPT = "initial_prompt"
_OF_ENGINE = ("pipeline_config", "static_approvals")
"""Keys of the document that set up Flujo's own engine."""
_RETRIES = 3
"""Of an agent of Flujo's that says it otherwise than by a number."""


@dataclass(frozen=True)
class Conversion:
    """A document that was turned: its text as YAML, and what was changed or is left."""

    text: str
    notes: Notes


def convert_file(source: Path, target: Path) -> dict[Path, Conversion]:
    """Turn a file, and the files that it imports.

    Args:
        source: The file.
        target: Where the result will stand. An import that changes stands beside it, as `<its stem>.<alias>.yaml`;
            one that does not stays where it is.

    Returns:
        The conversions by the path to write, those of imports first.

    Raises:
        BlueprintError: A file cannot be read as YAML, or is no blueprint.
        OSError: The file cannot be read. An import that cannot is noted, and its path is kept.
    """
    files: dict[Path, Conversion] = {}
    _convert_into(files, {source.resolve(): target}, source, target)
    return files


def _convert_into(files: dict[Path, Conversion], targets: dict[Path, Path], source: Path, target: Path) -> Conversion:
    """Turn a file and its imports; `targets` has the new paths of files that were begun, which ends a circle."""

    def find_import(alias: str, path: str, notes: Notes, place: Position) -> Path:
        original = source.parent / path
        known = targets.get(original.resolve())
        if known is not None:
            return known
        beside = targets[original.resolve()] = target.with_name(f"{target.stem}.{alias}.yaml")
        try:
            converted = _convert_into(files, targets, original, beside)
        except OSError as error:
            notes.leave(place, f"the import {path} cannot be read: {error.strerror}")
            return original
        if converted.notes.changed or converted.notes.left:
            return beside
        del files[beside]
        targets[original.resolve()] = original
        return original

    files[target] = converted = convert(
        source.read_text(encoding="utf-8"), str(source), source.parent, target, find_import
    )
    return converted


def convert(text: str, file: str, folder: Path, target: Path, find_import: FindImport | None = None) -> Conversion:
    """Turn a document that was written for Flujo.

    Args:
        text: The document.
        file: Its name in notes.
        folder: The folder that its paths are relative to.
        target: The file that will hold the result.
        find_import: Where the file of an import stands; default: where it stood.

    Raises:
        BlueprintError: It cannot be read, or is no blueprint.
    """
    document, place, problems = read(text, file)
    if problems:
        raise BlueprintError(problems)
    if not isinstance(document, PlacedDict) or find_steps(document.get("steps")) is None:
        hint = "a blueprint is an object with a list `steps`"
        raise BlueprintError([place.problem("", "bad_shape", "this is no blueprint", hint)])
    return _Converter(document, folder, target.parent, find_import).convert()


def _list_writers(document: PlacedDict) -> list[str]:
    """Return the agents that give text: no schema says what else."""
    agents = document.get("agents")
    given = agents.items() if isinstance(agents, PlacedDict) else ()
    return [name for name, agent in given if isinstance(agent, PlacedDict) and "output_schema" not in agent]


class _Converter:
    def __init__(self, document: PlacedDict, folder: Path, target: Path, find_import: FindImport | None) -> None:
        self._document, self._folder, self._target, self._find_import = document, folder, target, find_import
        self._notes = Notes()
        self._keeps_prompt = _writes_prompt(document)

    def convert(self) -> Conversion:
        document = self._document
        self._convert_head()
        for agent in _list_objects(document.get("agents")):
            self._convert_agent(agent)
        steps = StepConverter(self._notes, _list_writers(document), self._list_written_in(document.get("imports")))
        self._move_imports()
        listed = find_steps(document["steps"])
        assert listed is not None
        steps.convert_list(listed)
        self._rewrite(document, steps.names, in_map=False)
        give_context(document, listed, self._notes)
        self._notes.sort()
        return Conversion(write_yaml(plain(document)), self._notes)

    def _convert_head(self) -> None:
        document = self._document
        if document.get("version", VERSION) != VERSION:
            self._notes.change(document.value_place("version"), f"the version of the language is {VERSION}")
            document["version"] = VERSION
        if isinstance(name := document.get("name"), str) and make_name(name) != name:
            self._notes.change(document.value_place("name"), f"the name {name!r} became {make_name(name)}")
            document["name"] = make_name(name)
        for key in [key for key in _OF_ENGINE if key in document]:
            self._notes.change(document.key_place(key), f"{key} was left out: it sets up Flujo's own engine")
            document.take(key)

    def _convert_agent(self, agent: PlacedDict) -> None:
        if "id" in agent:
            self._notes.change(agent.key_place("id"), "the id of an agent is its name: left out")
            agent.take("id")
        if "model_settings" in agent and "settings" not in agent:
            value, places = agent.take("model_settings")
            agent.put("settings", value, places)
            self._notes.change(places[0], "model_settings is called settings")
        self._convert_attempts(agent)
        for key in ("instructions", "system_prompt"):
            if isinstance(prompt := agent.get(key), PlacedDict):
                self._convert_prompt(agent, key, prompt)

    def _convert_attempts(self, agent: PlacedDict) -> None:
        """Turn how often and how long an agent is tried, and what Flujo puts in the place of what is no number."""
        if "timeout" in agent and _read_number(agent["timeout"], least=1) is None:
            value, (place, _) = agent.take("timeout")
            self._notes.leave(
                place, f"timeout was left out: {value!r} is no number of seconds, and Flujo has none then"
            )
        if "max_retries" in agent and "retry" not in agent:
            value, places = agent.take("max_retries")
            retries = _read_number(value, least=0)
            if retries is None:
                retries = _RETRIES
                self._notes.leave(places[0], f"max_retries: {value!r} is no number, and Flujo has {retries} then")
            agent.put("retry", PlacedDict.at(places[1], attempts=retries + 1), places)
            self._notes.change(places[0], f"max_retries is retry: {{attempts: {retries + 1}}}")

    def _convert_prompt(self, agent: PlacedDict, key: str, prompt: PlacedDict) -> None:
        """Turn a prompt from a file: its variables are put into its text, else its path is moved."""
        path = prompt.get("from_file")
        if not isinstance(path, str):
            return
        variables = prompt.get("variables")
        if not isinstance(variables, PlacedDict):
            prompt["from_file"] = self._move(self._folder / path)
            return
        place = prompt.key_place("variables")
        try:
            text = (self._folder / path).read_text(encoding="utf-8")
        except OSError as error:
            self._notes.leave(place, f"variables were not put into {path}: {error.strerror}")
            return
        for name, value in variables.items():
            text = _insert(text, name, value)
        agent[key] = text
        self._notes.change(place, f"the variables were put into the text of {path}, which stands here now")

    def _move_imports(self) -> None:
        imports = self._document.get("imports")
        if not isinstance(imports, PlacedDict):
            return
        for alias, path in imports.items():
            if not isinstance(path, str):
                continue
            place = imports.value_place(alias)
            found = self._find_import(alias, path, self._notes, place) if self._find_import else self._folder / path
            imports[alias] = self._move(found)

    def _list_written_in(self, imports: Any) -> dict[str, set[str]]:
        """Return the keys of the context that imports write, by alias, of those that can be read."""
        written: dict[str, set[str]] = {}
        for alias, path in imports.items() if isinstance(imports, PlacedDict) else ():
            with suppress(OSError, UnicodeDecodeError):  # told where they are turned
                child, _, _ = read((self._folder / str(path)).read_text(encoding="utf-8"), str(path))
                written[alias] = list_written(child) if isinstance(child, PlacedDict) else set()
        return written

    def _move(self, path: Path) -> str:
        """Return a path as one that is relative to the target's folder; an absolute one as it is."""
        return (
            str(path) if path.is_absolute() and not self._target.is_absolute() else os.path.relpath(path, self._target)
        )

    def _rewrite(self, holder: Any, names: dict[str, str], *, in_map: bool) -> None:
        """Rewrite the expressions in a value, and the names of steps that stand by themselves."""
        places: dict[Any, Position]
        if isinstance(holder, PlacedDict):
            places = {key: holder.value_place(key) for key in holder}
        elif isinstance(holder, PlacedList):
            places = dict(enumerate(holder.places))
        else:
            return
        for key, place in places.items():
            value = holder[key]
            if not isinstance(value, str):
                self._rewrite(value, names, in_map=in_map or key == "map")
                continue
            templates = Templates(
                names, partial(self._notes.change, place), partial(self._notes.leave, place), self._keeps_prompt
            )
            value = templates.rewrite(value, bare=key in EXPRESSIONS, in_map=in_map)
            holder[key] = names.get(value, value) if key in ("ai_turn_source", "from_step") else value


def _writes_prompt(value: Any) -> bool:
    """Return whether something in a document writes `context.initial_prompt`, or begins with it."""
    if isinstance(value, PlacedList):
        return any(map(_writes_prompt, value))
    if not isinstance(value, PlacedDict):
        return False
    targets = (value.get("sink_to"), value.get("path"))
    return (
        PROMPT in value
        or any(isinstance(one, str) and one.strip().removeprefix("context.") == PROMPT for one in targets)
        or any(map(_writes_prompt, value.values()))
    )


def _list_objects(value: Any) -> list[PlacedDict]:
    return [each for each in value.values() if isinstance(each, PlacedDict)] if isinstance(value, PlacedDict) else []


def _read_number(value: Any, *, least: int) -> int | None:
    """Return a whole number, also from its text; None for anything else, and below the least."""
    try:
        number = int(value) if isinstance(value, int | str) else None
    except ValueError:
        return None
    return number if number is not None and number >= least else None


def _insert(text: str, name: str, value: Any) -> str:
    """Return a template with a variable's value in the place of its name."""
    whole = value if isinstance(value, str) else str(value)
    return text.replace(f"{{{{ {name} }}}}", whole).replace(f"{{{{{name}}}}}", whole)
