"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(metavar="FILE", help="A blueprint.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or the beginning of one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
By = Annotated[
    str | None, typer.Option("--by", metavar="USER", help="Who answers; default: HOLDFAST_USER, else your login.")
]
Given = Annotated[
    str | None,
    typer.Option("--input", metavar="JSON|@FILE|TEXT", help="The run's input; @FILE is read (.json, .yaml, text)."),
]
Id = Annotated[str | None, typer.Option("--id", metavar="ID", help="The run's id; default: a new one.")]
Model = Annotated[
    str | None, typer.Option("--model", metavar="M", help="Every agent asks this model instead of its own.")
]
Before = Annotated[
    list[str] | None, typer.Option("--interrupt-before", metavar="STEP", help="Stop before this step; repeatable.")
]
After = Annotated[
    list[str] | None, typer.Option("--interrupt-after", metavar="STEP", help="Stop after this step; repeatable.")
]
AnswersFile = Annotated[
    Path | None,
    typer.Option(
        "--answers", metavar="FILE", help="YAML list of {question: NAME|GLOB, content|decline: true, times: 1}."
    ),
]
