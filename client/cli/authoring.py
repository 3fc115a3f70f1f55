"""`validate`, `schema`: for those who write blueprints. Nothing here needs a server."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from blueprint import BlueprintError, expand, load
from blueprint.schema import language_schema
from client.cli.flags import AsJson, File
from client.cli.output import DONE, USAGE, print_json, say

app = typer.Typer(rich_markup_mode=None)


@app.command()
def validate(
    file: File,
    expanded: Annotated[bool, typer.Option("--expand", help="Print it with every short form spelled out.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a blueprint and what it imports. Every problem is told, with its place and a way out; exit code 2."""
    try:
        blueprint = load(file)
    except BlueprintError as error:
        if as_json:
            print_json({"ok": False, "problems": [problem.to_json() for problem in error.problems]})
        say(str(error))
        raise typer.Exit(USAGE) from None
    if as_json:
        shown: dict[str, Any] = {"ok": True, "problems": []}
        print_json(shown | {"expanded": expand(blueprint)} if expanded else shown)
    elif expanded:
        print(expand(blueprint), end="")
    else:
        say(f"{file}: {blueprint.name} is fine")
    raise typer.Exit(DONE)


@app.command()
def schema() -> None:
    """The language's JSON Schema, for editors."""
    print_json(language_schema())
