"""`validate`, `explain`, `schema`: for those who write blueprints. Nothing here needs a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from blueprint import Blueprint, expand
from blueprint.explain import explain as explanation
from blueprint.load import Parsed, examine
from blueprint.schema import language_schema
from client.cli.flags import AsJson, File
from client.cli.output import DONE, USAGE, print_json, say
from client.cli.sarif import sarif_log

app = typer.Typer(rich_markup_mode=None)


@app.command()
def validate(
    file: File,
    expanded: Annotated[bool, typer.Option("--expand", help="Print it with every short form spelled out.")] = False,
    as_sarif: Annotated[bool, typer.Option("--sarif", help="Print SARIF 2.1.0, for code hosts and editors.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a blueprint and what it imports. Every problem is told, with its place and a way out.

    The exit code is 2 if the blueprint cannot run. A warning does not change it, and `# holdfast: ignore CODE` at the
    end of its line, or alone above it, silences it.
    """
    if as_sarif and (as_json or expanded):
        say("--sarif is a form of its own: leave out --json and --expand")
        raise typer.Exit(USAGE)
    parsed = examine(file)
    found = parsed.problems or parsed.warnings
    for problem in found:
        say(str(problem))
    if as_sarif:
        print_json(sarif_log(found))
    elif as_json:
        problems = [problem.to_json() for problem in found]
        print_json({"ok": not parsed.problems, "problems": problems, **_expanded(parsed, expanded)})
    elif parsed.blueprint is not None and not parsed.problems:
        _print_sound(file, parsed, expanded)
    raise typer.Exit(USAGE if parsed.problems else DONE)


def _expanded(parsed: Parsed, wanted: bool) -> dict[str, Any]:
    if not wanted or parsed.blueprint is None or parsed.problems:
        return {}
    return {"expanded": expand(parsed.blueprint)}


def _print_sound(file: Path, parsed: Parsed, expanded: bool) -> None:
    assert parsed.blueprint is not None
    if expanded:
        print(expand(parsed.blueprint), end="")
    else:
        count = len(parsed.warnings)
        told = f", with {count} warning{'' if count == 1 else 's'}" if count else ""
        say(f"{file}: {parsed.blueprint.name} is fine{told}")


@app.command()
def explain(file: File, as_json: AsJson = False) -> None:
    """What a blueprint will do, in plain words: step by step, who is asked what, what it may cost, what comes out."""
    told = explanation(_sound(file, as_json))
    if as_json:
        print_json(told.to_json())
    else:
        print(told.text, end="")


def _sound(file: Path, as_json: bool) -> Blueprint:
    """The blueprint; one that is none is told as by every command, with exit code 2."""
    parsed = examine(file)
    if parsed.blueprint is not None and not parsed.problems:
        return parsed.blueprint
    told = "\n".join(map(str, parsed.problems))
    if as_json:
        problems = [problem.to_json() for problem in parsed.problems]
        print_json({"error": {"type": "blueprint_invalid", "message": told, "problems": problems}})
    say(told)
    raise typer.Exit(USAGE)


@app.command()
def schema() -> None:
    """The language's JSON Schema, for editors."""
    print_json(language_schema())
