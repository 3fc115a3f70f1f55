"""Read `holdfast.toml`: every problem at once, each with its line, its key and a way out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from holdfast.blueprint.errors import Problem
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.parts import EVENT_NAME
from holdfast.runtime.config.sections import HEADER, HTTP_URL, NAME, UNSHOWN, File

if TYPE_CHECKING:
    import tomllib

CODE = "config_invalid"
"""The code of a problem of the configuration, as commands have it in JSON."""
PLAIN_WORDS = {
    "bool_type": "must be true or false",
    "dict_type": "must be a table",
    "float_type": "must be a number",
    "greater_than_equal": "must be {ge} or more",
    "int_type": "must be a whole number",
    "less_than_equal": "must be {le} or less",
    "list_type": "must be a list in brackets",
    "literal_error": "must be {expected}",
    "model_type": "must be a table",
    "string_too_short": "must not be empty",
    "string_type": "must be a text in quotes",
    "too_short": "must not be empty",
}
"""What pydantic's types of errors mean for whoever writes the file: its own messages speak of Python."""


class ConfigError(ValueError):
    """A configuration that cannot be used. The message has a line for each problem: place, key and way out."""

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self._problems = list(problems)

    @property
    def problems(self) -> list[Problem]:
        """The problems as values; those of the environment have no place in a file."""
        lines = str(self).splitlines()
        return self._problems or [Problem("configuration", 0, 0, "", CODE, line) for line in lines]


def read_file(path: Path) -> File:
    """Parse and check a file. Raises ConfigError with every problem."""
    import tomllib  # noqa: PLC0415  most commands find no file

    try:
        text = path.read_text(encoding="utf-8")
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _make_syntax_error(path, error) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}; make it a readable UTF-8 file") from error
    try:
        return File.model_validate(raw)
    except ValidationError as error:
        problems = [_make_problem(path, text, detail) for detail in error.errors()]
        raise ConfigError("\n".join(map(_write_line, problems)), problems) from None


def _make_syntax_error(path: Path, error: tomllib.TOMLDecodeError) -> ConfigError:
    """Return the error of a file that is no TOML, with line and column in front."""
    message, _, position = str(error).partition(" (at ")
    numbers = re.findall(r"\d+", position)
    text = f"not valid TOML: {message[:1].lower()}{message[1:]}; text needs quotes, a list needs brackets"
    line, column = [*map(int, numbers), 0, 0][:2]
    return ConfigError(f"{':'.join([str(path), *numbers])}: {text}", [Problem(str(path), line, column, "", CODE, text)])


def _make_problem(path: Path, text: str, detail: ErrorDetails) -> Problem:
    """Return one problem: place, key, problem, way out."""
    key = [str(part) for part in detail["loc"]]
    return Problem(str(path), _find_line(text, key), 1, ".".join(key), CODE, _explain(key, detail))


def _write_line(problem: Problem) -> str:
    return f"{problem.file}:{problem.line}: {problem.path}: {problem.message}"


def _explain(key: list[str], detail: ErrorDetails) -> str:
    """Return the problem with a value, and the way out."""
    if detail["type"] == "missing":
        return f'missing; add {key[-1]} = "…"'
    if detail["type"] == UNSHOWN:
        return detail["msg"]
    if key[:2] == ["worker", "imports"] and detail["type"] == "string_pattern_mismatch":
        return f"must be a module as Python imports it, such as my_tools, not {_show(detail['input'])}"
    if detail["type"] != "extra_forbidden":
        return f"{_plain_words(detail)}, not {_show(detail['input'])}"
    valid = _list_valid_keys(key)
    hint = did_you_mean(key[-1], valid)
    return f"unknown key ({hint})" if hint else f"unknown key; known here: {', '.join(valid)}"


PATTERNS_IN_WORDS = {
    NAME: "a name of letters, digits, _ and -",
    HEADER: "the name of a header: letters, digits and -",
    HTTP_URL: "an http:// or https:// URL",
    EVENT_NAME: "the name of an event: letters, digits and _ . : / -, not beginning with a sign other than _",
}
"""What the patterns of keys and values allow."""


def _plain_words(detail: ErrorDetails) -> str:
    if detail["type"] == "string_pattern_mismatch":
        pattern = detail.get("ctx", {}).get("pattern", "")
        return f"must be {PATTERNS_IN_WORDS[pattern]}" if pattern in PATTERNS_IN_WORDS else f"must match {pattern}"
    return PLAIN_WORDS.get(detail["type"], detail["msg"]).format_map(detail.get("ctx", {}))


def _show(value: object) -> str:
    """Return a value as the file has it."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _list_valid_keys(key: list[str]) -> list[str]:
    """Return the keys that are valid in the table of this one."""
    kind: Any = File
    for part in key[:-1]:
        is_table = isinstance(kind, type) and issubclass(kind, BaseModel)
        fields = kind.model_fields if is_table else {}
        kind = fields[part].annotation if part in fields else get_args(_open_part(kind))[-1]
    return list(kind.model_fields)


def _open_part(kind: Any) -> Any:
    """Return the type of the names and values that a table takes beside its own keys."""
    return get_type_hints(kind)["__pydantic_extra__"] if isinstance(kind, type) else kind


def _find_line(text: str, key: list[str]) -> int:
    """Return the line, from 1, of a key, or of its nearest table: tomllib reports no positions."""
    best, line = 0, 1
    for number, path in _list_keys(text):
        common = len(os.path.commonprefix([key, path]))
        if common > best:
            best, line = common, number
    return line


def _list_keys(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the full path of every table header and key of a file."""
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+([^\[\]]+)\]", line):
            table = _parts(header[1])
            yield number, table
        elif name := re.match(r"""\s*([\w."'-]+)\s*=""", line):
            yield number, table + _parts(name[1])


def _parts(dotted: str) -> list[JSON]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]
