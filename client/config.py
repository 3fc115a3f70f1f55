"""What `holdfast.toml` says, with the environment's word over it.

The file is found in the current folder or a parent. Environment variables win over it; an empty one counts as unset:

`HOLDFAST_HOME`        the embedded server's state folder
`HOLDFAST_TASK_QUEUE`  `[worker] task_queue`
`HOLDFAST_IMPORTS`     `[worker] imports`, separated by commas
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

FILE_NAME = "holdfast.toml"
LATER = ("mcp", "payloads")
"""Sections the protocol knows and this version does not serve."""

Text = Annotated[str, StringConstraints(min_length=1)]
Module = Annotated[str, StringConstraints(pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*$")]


class ConfigError(ValueError):
    """The configuration cannot be used; the message names place, key and way out, a line each problem."""


class Section(BaseModel):
    """A table of the file: immutable, and strict about its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WorkerSection(Section):
    """`[worker]`: what the worker imports, and where it listens."""

    imports: list[Module] = []
    task_queue: Text = "holdfast"


class ModelSection(Section):
    """`[models.NAME]`: what an agent means by a model's name."""

    model: Text
    api_key_env: Text | None = None


class AnswersSection(Section):
    """`[answers]`: with a key, every answer needs a token."""

    key_env: Text | None = None


class File(Section):
    """The whole file."""

    worker: WorkerSection = WorkerSection()
    models: dict[str, ModelSection] = {}
    groups: dict[str, list[Text]] = {}
    answers: AnswersSection = AnswersSection()


@dataclass(frozen=True)
class Config:
    """The configuration in force: file, environment and defaults together."""

    home: Path
    """The embedded server's state folder, absolute."""
    folder: Path
    """The project's folder, where the worker runs: that of the file, else the current one."""
    path: Path | None = None
    worker: WorkerSection = WorkerSection()
    models: Mapping[str, ModelSection] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    answers: AnswersSection = AnswersSection()

    def answer_key(self) -> str | None:
        """The key that signs answer tokens; None when answers need none."""
        name = self.answers.key_env
        if name is None:
            return None
        key = os.environ.get(name)
        if not key:
            raise ConfigError(f"{self.path or FILE_NAME}: answers.key_env: {name} is not set; export {name}=…")
        return key


def load_config(start: Path | None = None) -> Config:
    """The configuration for a folder (default: the current one). Raises ConfigError."""
    start = (start or Path.cwd()).resolve()
    path = next((p for folder in (start, *start.parents) if (p := folder / FILE_NAME).is_file()), None)
    file = _read(path) if path else File()
    folder = path.parent if path else start
    home = os.environ.get("HOLDFAST_HOME")
    return Config(
        home=Path(home).expanduser().resolve() if home else folder / ".holdfast",
        folder=folder,
        path=path,
        worker=_with_environment(file.worker),
        models=file.models,
        groups=file.groups,
        answers=file.answers,
    )


def _with_environment(worker: WorkerSection) -> WorkerSection:
    """The worker's section with the environment's values over it."""
    values = worker.model_dump()
    if queue := os.environ.get("HOLDFAST_TASK_QUEUE"):
        values["task_queue"] = queue
    if imports := os.environ.get("HOLDFAST_IMPORTS"):
        values["imports"] = [name.strip() for name in imports.split(",") if name.strip()]
    try:
        return WorkerSection.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"HOLDFAST_IMPORTS={imports}: must be module names separated by commas") from error


def _read(path: Path) -> File:
    """Parse and check one file, telling every problem at once."""
    try:
        text = path.read_text(encoding="utf-8")
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_syntax(path, error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}; make it a readable UTF-8 file") from error
    problems = [
        f"{path}:{_line(text, [name])}: {name}: [{name}] is not part of this version; remove the section"
        for name in LATER
        if name in raw
    ]
    try:
        file = File.model_validate({key: value for key, value in raw.items() if key not in LATER})
    except ValidationError as error:
        problems += [_problem(path, text, detail) for detail in error.errors()]
    if problems:
        raise ConfigError("\n".join(problems))
    return file


def _syntax(path: Path, error: tomllib.TOMLDecodeError) -> str:
    """A TOML error with its place in front."""
    message, _, place = str(error).partition(" (at ")
    numbers = re.findall(r"\d+", place)
    where = ":".join([str(path), *numbers])
    return f"{where}: not valid TOML: {message[:1].lower()}{message[1:]}; text needs quotes, a list needs brackets"


def _problem(path: Path, text: str, detail: ErrorDetails) -> str:
    """One problem in one line: place, key, what is wrong, way out."""
    key = [str(part) for part in detail["loc"]]
    return f"{path}:{_line(text, key)}: {'.'.join(key)}: {_wrong(key, detail)}"


def _wrong(key: list[str], detail: ErrorDetails) -> str:
    """What is wrong with a value, and what to do."""
    if detail["type"] == "missing":
        return f'missing; add {key[-1]} = "…"'
    if detail["type"] != "extra_forbidden":
        return f"{detail['msg'][:1].lower()}{detail['msg'][1:]}, not {detail['input']!r}"
    known = _known(key)
    near = difflib.get_close_matches(key[-1], known, 1)
    return "unknown key" + (f" (did you mean '{near[0]}'?)" if near else f"; known here: {', '.join(known)}")


def _known(key: list[str]) -> list[str]:
    """The keys that may stand where this one does."""
    tables: dict[str, type[Section]] = {"worker": WorkerSection, "models": ModelSection, "answers": AnswersSection}
    return list((File if len(key) == 1 else tables[key[0]]).model_fields)


def _line(text: str, key: list[str]) -> int:
    """The line, from 1, of the key's own text or of its nearest table: tomllib tells no positions."""
    best, line = 0, 1
    for number, written in _written_keys(text):
        common = len(os.path.commonprefix([key, written]))
        if common > best:
            best, line = common, number
    return line


def _written_keys(text: str) -> Iterator[tuple[int, list[str]]]:
    """Every table header and key of the file, as full paths, with their lines."""
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+([^\[\]]+)\]", line):
            table = _parts(header[1])
            yield number, table
        elif name := re.match(r"""\s*([\w."'-]+)\s*=""", line):
            yield number, table + _parts(name[1])


def _parts(dotted: str) -> list[Any]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]
