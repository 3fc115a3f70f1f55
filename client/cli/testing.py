"""`test`: blueprints are tried out as their authors' tests say, on a server of their own."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from client.cli.flags import AsJson
from client.cli.perform import perform
from client.embedded.worker import ROOT

app = typer.Typer(rich_markup_mode=None)


@app.command()
def test(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE|FOLDER", help="Tests (*.test.yaml); default: all below here."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the tests of blueprints: scripted models, written answers, time that is skipped.

    Exit code 0 if all passed, 1 if one failed, 2 if a file cannot be used: then nothing was run.
    """
    perform(_test(files or [], as_json), as_json)


async def _test(files: list[Path], as_json: bool) -> int:
    """In a process of its own: a client knows no workflows."""
    options = ["--json"] if as_json else []
    # Not the current folder, but ours, comes first: a project may have modules of the same names.
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "testkit", *options, *map(str, files)), env={**os.environ, "PYTHONPATH": path}
    )
    return await process.wait()
