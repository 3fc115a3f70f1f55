"""The commands for authors of blueprints: `validate`, `explain`, `schema`. None of them starts a server."""

from __future__ import annotations

import asyncio
import importlib
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from holdfast.blueprint.core import expand
from holdfast.blueprint.errors import Problem
from holdfast.blueprint.explain import explain as explanation
from holdfast.blueprint.explain.outline import WIDTH
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.load import Parsed, examine
from holdfast.blueprint.schema import language_schema
from holdfast.cli.flags import AsJson, Check, File
from holdfast.cli.output import DONE, USAGE, print_json, print_text, say
from holdfast.cli.sarif import sarif_log
from holdfast.cli.worker_names import look_up_in, read_demands
from holdfast.client.archive import is_record_installed
from holdfast.client.lookup import Checked
from holdfast.runtime.config import Config, ConfigError, load_config_for
from holdfast.runtime.connection import names_server

app = typer.Typer(rich_markup_mode=None)


_STEPS = re.compile(r"^[\"']?steps[\"']?\s*:", re.MULTILINE)
_IN_BRACES = re.compile(r"\s*\{.*\bsteps[\"']?\s*:", re.DOTALL)


@dataclass(frozen=True)
class _Validation:
    """A file, what was read of it, and what was found outside of it."""

    file: Path
    parsed: Parsed
    checked: Checked

    @property
    def problems(self) -> list[Problem]:
        return [*self.parsed.problems, *self.checked.problems]

    @property
    def listed(self) -> list[Problem]:
        """The problems or, if there are none, the warnings."""
        return self.problems or self.parsed.warnings


@app.command()
def validate(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE …", help="Blueprints, and folders of them: their files with `steps`.")
    ],
    expanded: Annotated[
        bool, typer.Option("--expand", help="Print the blueprint with every short form written out.")
    ] = False,
    as_sarif: Annotated[bool, typer.Option("--sarif", help="Print SARIF 2.1.0, for code hosts and editors.")] = False,
    check: Check = True,
    connect: Annotated[
        bool, typer.Option("--connect", help="Connect to the blueprint's MCP servers and check their tools.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check blueprints and their imports, and list every problem with its place and a way out.

    The tools, functions, models and groups that it names are looked up: on a worker of the server that TEMPORAL_ADDRESS
    names, else in the packages of [worker] imports, in a separate process. Names that could not be checked are listed.

    The exit code is 2 if the blueprint cannot run, also because holdfast.toml or a variable cannot be used; --no-check
    reads neither. Warnings do not change it; `# holdfast: ignore CODE` at the end of
    the line, or on a line of its own above, silences one.
    """
    if as_sarif and (as_json or expanded):
        say("--sarif cannot be combined with --json or --expand")
        raise typer.Exit(USAGE)
    found = [*find_blueprints(files)]
    if expanded and len(found) != 1:
        say(f"--expand takes one blueprint, not {len(found)}")
        raise typer.Exit(USAGE)
    if not found:
        say(f"no blueprint is in {', '.join(map(str, files))}: none of its files has steps")
        raise typer.Exit(USAGE)
    validations = [_validate(file, check, connect) for file in found]
    listed = [problem for validation in validations for problem in validation.listed]
    for problem in listed:
        say(str(problem))
    unchecked = [*dict.fromkeys(one.checked.unchecked for one in validations if one.checked.unchecked is not None)]
    for reason in unchecked:
        say(f"not checked: {reason}")
    is_ok = not any(validation.problems for validation in validations)
    if as_sarif:
        print_json(sarif_log(listed))
    elif as_json:
        report = {"ok": is_ok, "problems": [problem.to_json() for problem in listed]}
        left_out = {"not_checked": "; ".join(unchecked)} if unchecked else {}
        print_json({**report, **left_out, **_expanded(validations[0].parsed, expanded)})
    else:
        for validation in validations:
            _print_valid(validation, expanded)
    raise typer.Exit(DONE if is_ok else USAGE)


def find_blueprints(places: Sequence[Path]) -> Iterator[Path]:
    """Yield the blueprints among files and folders: of a folder the files that have steps, but no hidden ones."""
    for place in places:
        if not place.is_dir():
            yield place
            continue
        for path in sorted(place.rglob("*")):
            hidden = any(part.startswith(".") for part in path.relative_to(place).parts)
            if path.suffix in (".yaml", ".yml", ".json") and not hidden and path.is_file() and _has_steps(path):
                yield path


def _has_steps(path: Path) -> bool:
    text = path.read_text(encoding="utf-8", errors="replace")
    return _STEPS.search(text) is not None or _IN_BRACES.match(text) is not None


def _validate(file: Path, check: bool, connect: bool) -> _Validation:
    parsed = examine(file)
    return _Validation(file, parsed, _checked(file, parsed, connect) if check else Checked())


def _checked(file: Path, parsed: Parsed, connect: bool) -> Checked:
    """Return what is wrong outside of the blueprint: in the configuration, its webhooks, and the names of a worker."""
    try:
        config, on_server = load_config_for(file, say), names_server()
        if config.answers.keys or config.answers.key_env is not None:
            # Whoever answers is vouched for by the key that signs the answer.
            parsed.warnings[:] = [warning for warning in parsed.warnings if warning.code != "unproved_person"]
        if parsed.problems:
            return Checked()
        checked = asyncio.run(look_up_in(config, parsed, connect=connect, on_server=on_server))
    except ConfigError as error:  # no command runs with it, so the blueprint does not either
        return Checked(error.problems)
    return Checked([*checked.problems, *_problems_of_hooks(config, file)], checked.unchecked)


def _problems_of_hooks(config: Config, file: Path) -> list[Problem]:
    """Return what is wrong with the webhooks of the configuration that start the blueprint."""
    if not config.hooks or not is_record_installed():
        return []
    # Imported here, as a machine of authors alone has no library of pages.
    hooks = importlib.import_module("holdfast.server.web.hooks")
    parted: list[tuple[str, str, str]] = [problem.partition(": ") for problem in hooks.problems_with(config, file)]
    return [Problem(str(config.path), 0, 0, f"hooks.{place}", "bad_value", message) for place, _, message in parted]


def _expanded(parsed: Parsed, wanted: bool) -> JSONObject:
    if not wanted or parsed.blueprint is None or parsed.problems:
        return {}
    return {"expanded": expand(parsed.blueprint)}


def _print_valid(validation: _Validation, expanded: bool) -> None:
    """Say of a blueprint without problems that it is fine, or print it with every short form spelled out."""
    parsed = validation.parsed
    if parsed.blueprint is None or validation.problems:
        return
    if expanded:
        print_text(expand(parsed.blueprint), end="")
    else:
        count = len(parsed.warnings)
        warnings = f", with {count} warning{'' if count == 1 else 's'}" if count else ""
        extent = "" if validation.checked.unchecked is None else " as far as it was checked"
        say(f"{validation.file}: {parsed.blueprint.name} is fine{extent}{warnings}")


@app.command()
def explain(file: File, as_json: AsJson = False) -> None:
    """Explain in plain words what a blueprint will do: its steps, its questions to people, its cost, its result."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    parsed = _valid(file, as_json)
    assert parsed.blueprint is not None
    demands = asyncio.run(read_demands(file, parsed))
    description = explanation(parsed.blueprint, min(columns, WIDTH), demands)
    if as_json:
        print_json(description.to_json())
    else:
        print_text(description.text, end="")


def _valid(file: Path, as_json: bool) -> Parsed:
    """Return the parsed blueprint; if it has problems, print them and exit with code 2."""
    parsed = examine(file)
    if parsed.blueprint is not None and not parsed.problems:
        return parsed
    message = "\n".join(map(str, parsed.problems))
    if as_json:
        problems = [problem.to_json() for problem in parsed.problems]
        print_json({"error": {"type": "blueprint_invalid", "message": message, "problems": problems}})
    say(message)
    raise typer.Exit(USAGE)


@app.command()
def schema() -> None:
    """Print the language's JSON Schema, for editors."""
    print_json(language_schema())
