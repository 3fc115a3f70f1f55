"""Arguments and options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.completion import complete_run

File = Annotated[Path, typer.Argument(metavar="FILE", help="A blueprint: a file, or pkg.mod:name.")]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, or the beginning of one.", autocompletion=complete_run)
]
SomeRun = Annotated[
    str | None, typer.Argument(metavar="RUN", help="A run's id, or the beginning of one.", autocompletion=complete_run)
]
OfBlueprint = Annotated[
    str | None, typer.Option("--blueprint", metavar="NAME", help="Every run of this blueprint that has not ended.")
]
All = Annotated[bool, typer.Option("--all", help="Every run that has not ended.")]
PAGE_ROWS = 50
"""Rows that a command lists at a time."""
PlaceInList = Annotated[
    str | None,
    typer.Option(
        "--after",
        metavar="CURSOR",
        help=f"Go on where a page ended: what it printed. A page has {PAGE_ROWS} rows, and none is read twice.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="USER", help="Who you are; default: HOLDFAST_USER, else your login."),
]
IdempotencyKey = Annotated[str | None, typer.Option("--key", metavar="K", help="Idempotency key.")]
Input = Annotated[
    str | None,
    typer.Option(
        "--input", metavar="JSON|@FILE|TEXT", help="The run's input; @FILE is read from a file (.json, .yaml, text)."
    ),
]
Id = Annotated[str | None, typer.Option("--id", metavar="ID", help="The run's id; default: a new one.")]
Model = Annotated[
    str | None, typer.Option("--model", metavar="M", help="Use this model for every agent, instead of its own.")
]
Before = Annotated[
    list[str] | None, typer.Option("--interrupt-before", metavar="STEP", help="Stop before this step; repeatable.")
]
After = Annotated[
    list[str] | None, typer.Option("--interrupt-after", metavar="STEP", help="Stop after this step; repeatable.")
]
Check = Annotated[
    bool,
    typer.Option(
        "--check/--no-check",
        help="First check on a worker that the tools, models and groups the blueprint names exist.",
    ),
]
AnswersFile = Annotated[
    Path | None,
    typer.Option(
        "--answers", metavar="FILE", help="YAML list of {question: NAME|GLOB, content|decline: true, times: 1}."
    ),
]
