"""The command `test`: run the authors' tests of blueprints on a test server."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.command import perform
from holdfast.cli.flags import AsJson

app = typer.Typer(rich_markup_mode=None)


@app.command()
def test(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE|FOLDER", help="Tests (*.test.yaml); default: all below the working directory."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the tests of blueprints: scripted models, prepared answers, skipped time.

    Exit code 0 if all passed, 1 if one failed, 2 if a file cannot be used: then no test ran.
    """
    perform(_test(files or [], as_json), as_json)


async def _test(files: list[Path], as_json: bool) -> int:
    """Run the tests in a separate process: the client must not import workflows."""
    options = ["--json"] if as_json else []
    command = [sys.executable, "-P", "-m", "holdfast.testkit", *options, *map(str, files)]
    process = await asyncio.create_subprocess_exec(*command)
    return await process.wait()
