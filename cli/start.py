"""The command that starts a run and leaves it to its worker: `start`. What it shares with `run` is here, too.

It attends nothing, so that it loads neither prompts nor events: they would be a tenth of what it costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from holdfast.blueprint.changes import UnknownStep, with_model, with_stops
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.load import Parsed, parse_file
from holdfast.cli.command import perform
from holdfast.cli.flags import After, AsJson, Before, By, Check, File, Id, Input, Model
from holdfast.cli.output import DONE, print_json, print_text, say
from holdfast.cli.session import Session, open_session
from holdfast.client.reading import BadUsage, parse_input, person
from holdfast.runtime.config import load_config_for
from holdfast.runtime.embedded import Startup

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint

app = typer.Typer(rich_markup_mode=None)


@app.command()
def start(
    file: File,
    input: Input = None,
    id: Id = None,
    model: Model = None,
    before: Before = None,
    after: After = None,
    by: By = None,
    check: Check = True,
    as_json: AsJson = False,
) -> None:
    """Start a run and print its id."""
    arguments = StartArguments(file, input, id, model, before or [], after or [], check)
    perform(_start(arguments, by, as_json), as_json)


@dataclass(frozen=True)
class StartArguments:
    """The arguments of a command that starts a run."""

    file: Path
    input: str | None
    id: str | None
    model: str | None
    before: list[str]
    after: list[str]
    check: bool

    def read(self) -> Beginning:
        """Return what is to be started. Raises `BlueprintError` or `BadUsage`; prints the warnings of the file."""
        parsed = parse_file(self.file)
        blueprint = parsed.valid()
        for warning in parsed.warnings:
            say(str(warning))
        blueprint = self._apply_options(blueprint)
        return Beginning(self, blueprint, parsed, parse_input(self.input, blueprint.inputs))

    def _apply_options(self, blueprint: Blueprint) -> Blueprint:
        """Return the blueprint with the model and the stops of the command line. Raises `BadUsage`."""
        if self.model is not None:
            blueprint = with_model(blueprint, _model(self.model))
        try:
            return with_stops(blueprint, self.before, self.after)
        except UnknownStep as error:
            raise BadUsage(str(error)) from None


@dataclass(frozen=True)
class Beginning:
    """A run before it starts."""

    arguments: StartArguments
    blueprint: Blueprint
    """As the options have changed it."""
    parsed: Parsed
    """Its source."""
    input: JSON

    async def start(self, by: str) -> tuple[Session, str]:
        """Start the run; return the connection that it was started by, and its id."""
        arguments = self.arguments
        session = await open_session(Startup.ALL, load_config_for(arguments.file, say))
        if arguments.check:
            await session.look_up(self.blueprint, self.parsed.problem)
        run = await session.runs.start(self.blueprint, self.input, run=arguments.id, started_by=by)
        session.say_who_sees(self.blueprint, by)
        await session.say_if_nobody_works()
        return session, run


def _model(name: str) -> str:
    """Return the model's name; a script's path is made absolute, as it is relative to the working directory."""
    kind, colon, file = name.partition(":")
    return f"{kind}:{Path(file).absolute()}" if kind == "scripted" and colon else name


async def _start(arguments: StartArguments, by: str | None, as_json: bool) -> int:
    _, run = await arguments.read().start(person(by))
    print_json({"run": run}) if as_json else print_text(run)
    return DONE
