"""The command `create`: write a first blueprint from an example, answers, a plan, or one for Flujo.

Each way is imported where it is taken: the others would load the prompts with Temporal's client, and the language.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.command import perform
from holdfast.cli.flags import AnswersFile, AsJson
from holdfast.cli.output import USAGE, say

app = typer.Typer(rich_markup_mode=None)
WAYS = """\
holdfast create [FOLDER] --template NAME   copy an example with its tools and tests: {templates}
holdfast create [FILE] --wizard            answer some questions and get a blueprint that runs
holdfast create [FILE] --from PLAN         make one from a plan in JSON, or a list of texts
holdfast create [FILE] --from-flujo FILE   turn a blueprint that was written for Flujo
the language: holdfast schema prints it; the examples of --template show it"""


_Target = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]",
        help="The file to write; default: NAME.yaml. With --template a folder; default: NAME. Never overwritten.",
    ),
]
_Template = Annotated[
    str | None, typer.Option("--template", metavar="NAME", help="Copy an example, with its tools and tests.")
]
_Wizard = Annotated[bool, typer.Option("--wizard", help="Ask some questions and write a blueprint from the answers.")]
_Plan = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="PLAN",
        help="Make the blueprint from a plan in JSON, or a list of texts; - reads standard input.",
    ),
]
_Flujo = Annotated[
    Path | None,
    typer.Option("--from-flujo", metavar="FILE", help="Turn a blueprint that was written for Flujo, with its imports."),
]
_Goal = Annotated[
    str | None, typer.Option("--goal", metavar="TEXT", help="The goal of the plan, if it names none itself.")
]


@app.command()
def create(
    file: _Target = None,
    template: _Template = None,
    wizard: _Wizard = False,
    plan: _Plan = None,
    flujo: _Flujo = None,
    goal: _Goal = None,
    answers: AnswersFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a blueprint from an example, your answers, a plan or Flujo; print the command that runs it.

    --template copies one of the tested examples into a folder of its own; it asks nothing and needs no server. Without
    any option the names of the examples are listed.

    --wizard takes the answers from --answers first, then from the terminal, or from piped input, one line each. It
    writes nothing before all are given.

    --from asks nothing and needs no server. A FILE that ends in .json gets the plan itself.

    --from-flujo writes NAME.holdfast.yaml and tells, line by line, what it has turned and what is left for you.
    """
    _check_one_way({"--template": template, "--from": plan, "--from-flujo": flujo, "--wizard": wizard or answers})
    if goal is not None and plan is None:
        raise _misuse("--goal needs --from")
    if template is not None:
        from holdfast.cli.from_template import create_from_template  # noqa: PLC0415  see the head of this file

        perform(create_from_template(template, file, as_json), as_json)
    if plan is not None:
        from holdfast.cli.from_plan import Origin, create_from  # noqa: PLC0415  see the head of this file

        perform(create_from(Origin(plan, goal), file, as_json), as_json)
    if flujo is not None:
        from holdfast.cli.from_flujo import create_from_flujo  # noqa: PLC0415  see the head of this file

        perform(create_from_flujo(flujo, file, as_json), as_json)
    if not wizard:
        from holdfast.cli.from_template import template_names  # noqa: PLC0415  see the head of this file

        raise _misuse(WAYS.format(templates=", ".join(template_names())))
    from holdfast.cli.from_wizard import Dialog, create_by_wizard  # noqa: PLC0415  see the head of this file

    perform(create_by_wizard(Dialog(file, answers, as_json)), as_json)


def _check_one_way(ways: Mapping[str, object]) -> None:
    """Leave with exit code 2 if more than one way is given."""
    chosen = [option for option, value in ways.items() if value]
    if len(chosen) > 1:
        raise _misuse(f"{chosen[0]} cannot be combined with {' or '.join(chosen[1:])}, or its options")


def _misuse(text: str) -> typer.Exit:
    say(text)
    return typer.Exit(USAGE)
