"""The commands for authors of blueprints: `validate`, `explain`, `schema`. None of them starts a server."""

from __future__ import annotations

import asyncio
import importlib
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.blueprint import Blueprint, expand
from holdfast.blueprint.errors import Problem
from holdfast.blueprint.explain import explain as explanation
from holdfast.blueprint.explain.outline import WIDTH
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.load import Parsed, examine
from holdfast.blueprint.requirements import requirements_of
from holdfast.blueprint.schema import language_schema
from holdfast.client.archive import is_record_installed
from holdfast.client.cli.command import quiet_core
from holdfast.client.cli.flags import AsJson, Check, File
from holdfast.client.cli.output import DONE, USAGE, print_json, print_text, say
from holdfast.client.cli.sarif import sarif_log
from holdfast.client.config import Config, ConfigError, load_config_for
from holdfast.client.connection import connect as connected
from holdfast.client.connection import names_server
from holdfast.client.errors import ServerUnreachable
from holdfast.client.lookup import Checked, look_up, look_up_here

app = typer.Typer(rich_markup_mode=None)


@app.command()
def validate(
    file: File,
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
    """Check a blueprint and its imports, and list every problem with its place and a way out.

    The tools, functions, models and groups that it names are looked up: on a worker of the server that TEMPORAL_ADDRESS
    names, else in the packages of [worker] imports, in a separate process. Names that could not be checked are listed.

    The exit code is 2 if the blueprint cannot run, also because holdfast.toml or a variable cannot be used; --no-check
    reads neither. Warnings do not change it; `# holdfast: ignore CODE` at the end of
    the line, or on a line of its own above, silences one.
    """
    if as_sarif and (as_json or expanded):
        say("--sarif cannot be combined with --json or --expand")
        raise typer.Exit(USAGE)
    parsed = examine(file)
    checked = _checked(file, parsed, connect) if check else Checked()
    problems = [*parsed.problems, *checked.problems]
    listed = problems or parsed.warnings
    for problem in listed:
        say(str(problem))
    if checked.unchecked is not None:
        say(f"not checked: {checked.unchecked}")
    if as_sarif:
        print_json(sarif_log(listed))
    elif as_json:
        report = {"ok": not problems, "problems": [problem.to_json() for problem in listed]}
        unchecked = {} if checked.unchecked is None else {"not_checked": checked.unchecked}
        print_json({**report, **unchecked, **_expanded(parsed, expanded)})
    elif parsed.blueprint is not None and not problems:
        _print_valid(file, parsed, expanded, is_complete=checked.unchecked is None)
    raise typer.Exit(USAGE if problems else DONE)


def _checked(file: Path, parsed: Parsed, connect: bool) -> Checked:
    """Return what is wrong outside of the blueprint: in the configuration, its webhooks, and the names of a worker."""
    try:
        config, on_server = load_config_for(file, say), names_server()
        if parsed.problems:
            return Checked()
        checked = asyncio.run(_looked_up(config, parsed, connect, on_server=on_server))
    except ConfigError as error:  # no command runs with it, so the blueprint does not either
        return Checked(error.problems)
    return Checked([*checked.problems, *_problems_of_hooks(config, file)], checked.unchecked)


def _problems_of_hooks(config: Config, file: Path) -> list[Problem]:
    """Return what is wrong with the webhooks of the configuration that start the blueprint."""
    if not config.hooks or not is_record_installed():
        return []
    # Imported here, as a machine of authors alone has no library of pages.
    hooks = importlib.import_module("holdfast.client.serve.hooks")
    parted: list[tuple[str, str, str]] = [problem.partition(": ") for problem in hooks.problems_with(config, file)]
    return [Problem(str(config.path), 0, 0, f"hooks.{place}", "bad_value", message) for place, _, message in parted]


async def _looked_up(config: Config, parsed: Parsed, connect: bool, *, on_server: bool) -> Checked:
    """Look up the names in the blueprint on a worker, else on this machine. Raises `ConfigError`."""
    if parsed.blueprint is None or not requirements_of(parsed.blueprint):
        return Checked()
    by_worker = await _on_worker(config, parsed, connect) if on_server else None
    if by_worker is not None:
        return by_worker
    return await look_up_here(config.folder, config.worker.imports, parsed, connect=connect)


async def _on_worker(config: Config, parsed: Parsed, connect: bool) -> Checked | None:
    """Look the names up on a worker of the configured server; return None if none was reached."""
    quiet_core()
    assert parsed.blueprint is not None
    try:
        connection = await connected(config)
    except ServerUnreachable:
        return None
    checked = await look_up(connection.client, connection.task_queue, parsed.blueprint, parsed.problem, connect=connect)
    return None if checked.unchecked is not None else checked


def _expanded(parsed: Parsed, wanted: bool) -> JSONObject:
    if not wanted or parsed.blueprint is None or parsed.problems:
        return {}
    return {"expanded": expand(parsed.blueprint)}


def _print_valid(file: Path, parsed: Parsed, expanded: bool, *, is_complete: bool) -> None:
    assert parsed.blueprint is not None
    if expanded:
        print_text(expand(parsed.blueprint), end="")
    else:
        count = len(parsed.warnings)
        warnings = f", with {count} warning{'' if count == 1 else 's'}" if count else ""
        extent = "" if is_complete else " as far as it was checked"
        say(f"{file}: {parsed.blueprint.name} is fine{extent}{warnings}")


@app.command()
def explain(file: File, as_json: AsJson = False) -> None:
    """Explain in plain words what a blueprint will do: its steps, its questions to people, its cost, its result."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    description = explanation(_valid(file, as_json), min(columns, WIDTH))
    if as_json:
        print_json(description.to_json())
    else:
        print_text(description.text, end="")


def _valid(file: Path, as_json: bool) -> Blueprint:
    """Return the blueprint; if it has problems, print them and exit with code 2."""
    parsed = examine(file)
    if parsed.blueprint is not None and not parsed.problems:
        return parsed.blueprint
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
