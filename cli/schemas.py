"""JSON Schemas for editors, of blueprints, their tests, answers and `holdfast.toml`; and the command that prints them.

Files that `create` writes name their schema in the first line; the schemas stand in a folder beside them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.packages import import_packages
from holdfast.blueprint.parts import Option
from holdfast.blueprint.questions.custom import known_kinds
from holdfast.blueprint.schema import language_schema
from holdfast.blueprint.text_files import TEST_SUFFIX
from holdfast.cli.output import print_json, say
from holdfast.protocol.answers import REFUSALS
from holdfast.runtime.config.key_texts import find_sections, read_key_texts
from holdfast.runtime.config.sections import File

app = typer.Typer(rich_markup_mode=None)

FOLDER = ".holdfast-schemas"
"""Beside the files whose first lines name it."""
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REPLIES: JSONObject = {
    "type": "object",
    "description": "Replies by the name of a step, an agent or a tool; the last one repeats.",
    "additionalProperties": {"type": "array", "minItems": 1},
}
_DURATION: JSONObject = {"description": "A duration, such as 2d.", "type": ["string", "number", "null"]}
_CONTAINED: JSONObject = {
    "type": "object",
    "properties": {"contains": {}},
    "required": ["contains"],
    "additionalProperties": False,
}


class FileKind(StrEnum):
    """What a file is, for an editor."""

    BLUEPRINT = "blueprint"
    TEST = "test"
    ANSWERS = "answers"
    CONFIG = "config"


@app.command()
def schema(
    kind: Annotated[FileKind, typer.Argument(help="What the files are that it describes.")] = FileKind.BLUEPRINT,
    write: Annotated[
        bool, typer.Option("--write", help=f"Write all of them into {FOLDER}, and print the lines that name them.")
    ] = False,
) -> None:
    """Print a JSON Schema for editors: of blueprints, their tests, answers, or holdfast.toml."""
    import_packages(None)
    if not write:
        print_json(SCHEMAS[kind]())
        return
    write_schemas(Path(), FileKind)
    for one in FileKind:
        say(f"{FOLDER}/{one}.json: {_write_line(one)}")


def make_answer_schema() -> JSONObject:
    """Return the schema of a file of answers."""
    return {"$schema": _DIALECT, "title": "Holdfast answers", "type": "array", "items": _make_entry({})}


def make_test_schema() -> JSONObject:
    """Return the schema of a file of tests."""
    replies = {"description": "Replies of models, or a file of them.", "anyOf": [{"type": "string"}, _REPLIES]}
    shared = {"model": replies, "tools": _REPLIES}
    answer = {
        "by": {"type": "string", "description": "Who answers, such as user:ana."},
        "after": {**_DURATION, "description": "How long after the question was asked; default: at once."},
        "refused": {"enum": list(REFUSALS), "description": "The code with which it is refused; the run goes on."},
    }
    case = {
        "name": {"type": "string", "description": "What is tested, in a sentence; unique in its file."},
        "by": {"type": "string", "description": "Who starts the run, such as user:ana; default: user:tester."},
        "input": {"description": "The run's input."},
        **shared,
        "answers": {"type": "array", "items": _make_entry(answer)},
        "expect": _make_expectation(),
    }
    keys = {
        "blueprint": {"type": "string", "description": "The path of the blueprint; default: this name without .test."},
        **shared,
        "tests": {"type": "array", "minItems": 1, "items": _make_object(case, ["name"])},
    }
    return {"$schema": _DIALECT, "title": "Holdfast tests", **_make_object(keys, ["tests"])}


def _make_entry(more: JSONObject) -> JSONObject:
    keys = {
        "question": {"type": "string", "description": "The step, the id, or a glob over addresses."},
        "content": {"description": "The answer."},
        "decline": {"const": True},
        "times": {"type": "integer", "minimum": 1},
        **more,
    }
    return {**_make_object(keys, ["question"]), "oneOf": [{"required": ["content"]}, {"required": ["decline"]}]}


def _make_expectation() -> JSONObject:
    spans: JSONObject = dict.fromkeys(("status", "times", "iterations", "items", "exit", "branch", "output"), {})
    keys = {
        "status": {"enum": ["completed", "failed", "cancelled", "waiting"]},
        "output": {"description": "The output, or {contains: a part of it}."},
        "context": {"type": "object", "description": "Values by their paths in the context."},
        "questions": _make_list(_make_question()),
        "events": _make_list(_make_event()),
        "trace": {"type": "object", "additionalProperties": _make_object(spans, [])},
        "calls": {"type": "object", "description": "Tools, each with what it was called with."},
        "error": _make_object(dict.fromkeys(("type", "message", "address", "reason"), {}), []),
    }
    return {**_make_object(keys, []), "description": "What is expected; default: that the run completes."}


def _make_question() -> JSONObject:
    keys: JSONObject = dict.fromkeys(
        ("kind", "message", "default", "info", "risk", "assignees", "not_by", "quorum", "proof", "notify"), {}
    )
    options = _make_list(dict.fromkeys(Option.model_fields, {}))
    return {**_make_asked(), **keys, "options": options, "remind_every": _DURATION}


def _make_event() -> JSONObject:
    return {**_make_asked(), "name": {}, "key": {}}


def _make_asked() -> JSONObject:
    """Return the keys that a question and an event have."""
    history: JSONObject = dict.fromkeys(("type", "by", "content", "comment", "assignees", "reason"), {})
    history["after"] = _DURATION
    return {**dict.fromkeys(("step", "address", "iteration"), {}), "timeout": _DURATION, "history": _make_list(history)}


def _make_list(item: JSONObject) -> JSONObject:
    """Return the schema of a list of texts, or of objects with some of these keys; `contains` asks for a part of it."""
    items = {"anyOf": [{"type": "string"}, _make_object(item, []), _CONTAINED]}
    return {"anyOf": [{"type": "array", "items": items}, _CONTAINED]}


def _make_object(properties: Mapping[str, object], required: Iterable[str]) -> JSONObject:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def make_config_schema() -> JSONObject:
    """Return the schema of `holdfast.toml`, which says of each key what it means."""
    schema = File.model_json_schema()
    for model in find_sections(File):
        form = schema if model is File else schema["$defs"][model.__name__]
        for key, text in read_key_texts(model).items():
            form["properties"][key]["description"] = text
    return {"$schema": _DIALECT, **schema, "title": "holdfast.toml"}


SCHEMAS: Mapping[FileKind, Callable[[], JSONObject]] = {
    FileKind.BLUEPRINT: lambda: language_schema(known_kinds()),
    FileKind.TEST: make_test_schema,
    FileKind.ANSWERS: make_answer_schema,
    FileKind.CONFIG: make_config_schema,
}


# Files that name their schema


def find_file_kind(path: Path, text: str) -> FileKind | None:
    """Return what a file that is created is; None for one without a schema: a module, a plan, replies of models."""
    if path.suffix == ".toml":
        return FileKind.CONFIG
    if path.suffix != ".yaml":
        return None
    if path.name.endswith(TEST_SUFFIX):
        return FileKind.TEST
    return FileKind.BLUEPRINT if "\nsteps:" in f"\n{text}" else None


def name_schema(path: Path, text: str) -> str:
    """Return the text of a file with the line that names its schema to an editor."""
    kind = find_file_kind(path, text)
    return text if kind is None else f"{_write_line(kind)}\n{text}"


def _write_line(kind: FileKind) -> str:
    """Return the first line of a file of this kind, as YAML's and TOML's language servers read it."""
    mark = "#:schema " if kind is FileKind.CONFIG else "# yaml-language-server: $schema="
    return f"{mark}{FOLDER}/{kind}.json"


def write_schemas(folder: Path, kinds: Iterable[FileKind]) -> None:
    """Write the schemas of these kinds below a folder, over older ones. Raises `OSError`."""
    (folder / FOLDER).mkdir(exist_ok=True)
    for kind in kinds:
        text = json.dumps(SCHEMAS[kind](), ensure_ascii=False, indent=1)
        (folder / FOLDER / f"{kind}.json").write_text(f"{text}\n", encoding="utf-8")
