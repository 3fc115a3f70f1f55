"""`create --template`: copy one of the tested examples into a folder of its own, where it runs as it is."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.source import plain, read
from holdfast.cli.new_files import check_free, print_command, write_all
from holdfast.cli.output import DONE, say
from holdfast.client.reading import BadUsage
from holdfast.runtime.distribution import find_install_command

EXAMPLES = Path(__file__).parent / "templates"
"""A link to examples/ in the repository; the wheel holds the files."""
SUFFIXES = (".yaml", ".py", ".md", ".toml")
CONFIGURATION = "holdfast.toml"
_IMPORT = re.compile(r"^(?:from|import) (\w+)", re.MULTILINE)
_MODULE = re.compile(r"examples[./](\w+)[./](\w+)(?=\.py|:)")
"""How an example names a module of functions: its path in a comment, or as a function's name begins."""


def template_names() -> list[str]:
    """Return the names of the examples that are templates: those with a blueprint of the folder's name."""
    return sorted(folder.name for folder in EXAMPLES.iterdir() if (folder / f"{folder.name}.yaml").is_file())


async def create_from_template(name: str, folder: Path | None, as_json: bool) -> int:
    """Copy the template into a new folder; print the command that runs it. Raises `BadUsage`."""
    folder = folder or Path(name)
    if folder.suffix in SUFFIXES:
        raise BadUsage(f"a template is a folder of files: name one, such as {folder.stem}, and not {folder.name}")
    texts = template_files(name)
    check_free(folder)
    folder.mkdir()
    files = {folder / file: text for file, text in texts.items()}
    write_all(files)
    for needed in _list_missing(texts):
        say(f"first: {needed}")
    command = ["holdfast", "run", f"{name}.yaml", *_first_input(texts.get(f"{name}.test.yaml"))]
    text = f"cd {shlex.quote(str(folder))} && {shlex.join(command)}"
    print_command(text, as_json, files=list(map(str, files)))
    return DONE


def _list_missing(texts: Mapping[str, str]) -> list[str]:
    """Return the commands that install what the modules of a template import and what is not there."""
    modules = {module for text in texts.values() for module in _IMPORT.findall(text)}
    needed = {command: module for module in sorted(modules) if (command := find_install_command(module)) is not None}
    return [command for command, module in needed.items() if importlib.util.find_spec(module) is None]


def template_files(name: str) -> dict[str, str]:
    """Return the texts of a template by file name, with a configuration that names its tools. Raises `BadUsage`."""
    if name not in template_names():
        hint = did_you_mean(name, template_names())
        raise BadUsage(f"no template {name!r}; {f'{hint} ' if hint else ''}there are: {', '.join(template_names())}")
    texts = {path.name: path.read_text(encoding="utf-8") for path in _files(EXAMPLES / name)}
    for folder, module in sorted({match for text in texts.values() for match in _MODULE.findall(text)}):
        texts[f"{module}.py"] = (EXAMPLES / folder / f"{module}.py").read_text(encoding="utf-8")
    texts = {file: _rename(text, name) for file, text in texts.items()}
    if modules := [Path(file).stem for file in texts if file.endswith(".py")]:
        texts.setdefault(CONFIGURATION, f"[worker]\nimports = {json.dumps(modules)}\n")
    return texts


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES)


def _rename(text: str, name: str) -> str:
    """Return the text with the names of modules and files as they are in a folder of the template's own."""
    text = _MODULE.sub(r"\2", text)
    return text.replace(f"holdfast test examples/{name}", "holdfast test .")


def _first_input(tests: str | None) -> list[str]:
    """Return the options for the input of the template's first test."""
    case = {} if tests is None else plain(read(tests, "tests")[0])["tests"][0]
    if "input" not in case:
        return []
    value = case["input"]
    return ["--input", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]
