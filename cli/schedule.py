"""The command for runs that start by themselves: `schedule create`, `list`, `pause`, `resume`, `trigger`, `delete`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from holdfast.blueprint.durations import read_duration
from holdfast.blueprint.load import parse_file
from holdfast.cli.command import perform
from holdfast.cli.flags import AsJson, By, Check, File, Input
from holdfast.cli.output import DONE, print_json, report, say
from holdfast.cli.session import open_session
from holdfast.cli.tables import print_table, when
from holdfast.client.reading import BadUsage, parse_input, person
from holdfast.client.schedules import OVERLAPS, Schedules, Times
from holdfast.runtime.config import load_config_for
from holdfast.runtime.embedded import Startup

app = typer.Typer(rich_markup_mode=None)
schedule = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
app.add_typer(schedule, name="schedule", help="Start runs at given times or intervals.")

ScheduleName = Annotated[str, typer.Argument(metavar="NAME", help="The schedule.")]


@schedule.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, which begins the ids of its runs.")],
    file: File,
    cron: Annotated[
        list[str] | None, typer.Option("--cron", metavar="EXPR", help="Times, such as '0 9 * * 1-5'; repeatable.")
    ] = None,
    every: Annotated[str | None, typer.Option("--every", metavar="TIME", help="Interval, such as 1h or 2d.")] = None,
    time_zone: Annotated[
        str | None, typer.Option("--time-zone", metavar="ZONE", help="For --cron, such as Europe/Paris; default: UTC.")
    ] = None,
    jitter: Annotated[
        str | None, typer.Option("--jitter", metavar="TIME", help="Start up to this much later, at random.")
    ] = None,
    overlap: Annotated[
        str,
        typer.Option("--overlap", metavar="RULE", help=f"If the previous run has not ended: {', '.join(OVERLAPS)}."),
    ] = "skip",
    input: Input = None,
    paused: Annotated[bool, typer.Option("--paused", help="Start nothing until it is resumed.")] = False,
    by: By = None,
    check: Check = True,
    as_json: AsJson = False,
) -> None:
    """Create a schedule. It keeps the blueprint as it is now; the names in it are looked up on a worker first."""
    times = _Options(cron or [], every, time_zone, jitter)
    perform(_create(name, file, times, overlap, input, paused, by, check, as_json), as_json)


@schedule.command(name="list")
def list_schedules(as_json: AsJson = False) -> None:
    """List the schedules: when each starts the next run, and which it started last."""
    perform(_list(as_json), as_json)


@schedule.command()
def pause(name: ScheduleName, as_json: AsJson = False) -> None:
    """Start no runs until the schedule is resumed; runs that have started continue."""
    perform(_change(name, Schedules.pause, "paused", as_json), as_json)


@schedule.command()
def resume(name: ScheduleName, as_json: AsJson = False) -> None:
    """Start runs again; starts that were missed are not made up for."""
    perform(_change(name, Schedules.resume, "resumed", as_json), as_json)


@schedule.command()
def trigger(name: ScheduleName, as_json: AsJson = False) -> None:
    """Start a run now."""
    perform(_change(name, Schedules.trigger, "triggered", as_json), as_json)


@schedule.command()
def delete(name: ScheduleName, as_json: AsJson = False) -> None:
    """Delete a schedule; runs that have started continue."""
    perform(_change(name, Schedules.delete, "deleted", as_json), as_json)


@dataclass(frozen=True)
class _Options:
    """The times of a schedule as they are typed."""

    cron: list[str]
    every: str | None
    time_zone: str | None
    jitter: str | None

    def times(self) -> Times:
        """Return the times. Raises `BadUsage`."""
        every, jitter = _seconds("--every", self.every), _seconds("--jitter", self.jitter)
        return Times(tuple(self.cron), every, self.time_zone, jitter)


def _seconds(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return read_duration(text)
    except ValueError as error:
        raise BadUsage(f"{option} {text}: {error}") from None


async def _create(
    name: str,
    file: Path,
    options: _Options,
    overlap: str,
    input: str | None,
    paused: bool,
    by: str | None,
    check: bool,
    as_json: bool,
) -> int:
    rule = next((rule for rule in OVERLAPS if rule == overlap), None)
    if rule is None:
        raise BadUsage(f"--overlap {overlap}: unknown rule; known: {', '.join(OVERLAPS)}")
    parsed, times = parse_file(file), options.times()
    blueprint = parsed.valid()
    value = parse_input(input, blueprint.inputs)
    session = await open_session(Startup.ALL, load_config_for(file, say))
    if check:
        await session.look_up(blueprint, parsed.problem)
    schedules = Schedules(session.runs)
    await schedules.create(name, blueprint, times, value, overlap=rule, paused=paused, started_by=person(by))
    session.say_who_sees(blueprint, person(by))
    return report(
        {"schedule": name},
        f"schedule {name} starts runs of {blueprint.name}; holdfast schedule list shows when",
        as_json,
    )


async def _list(as_json: bool) -> int:
    rows = await Schedules((await open_session(Startup.NOTHING)).runs).list()
    if as_json:
        print_json([row.to_json() for row in rows])
    elif not rows:
        say("No schedules.")
    else:
        titles = ("schedule", "blueprint", "times", "next", "last run")
        print_table(
            titles,
            [
                [
                    row.name,
                    row.blueprint,
                    ", ".join(row.times),
                    "paused" if row.is_paused else when(row.next) if row.next else "",
                    row.last_run or "",
                ]
                for row in rows
            ],
        )
    return DONE


async def _change(name: str, action: Callable[[Schedules, str], Awaitable[None]], status: str, as_json: bool) -> int:
    await action(Schedules((await open_session()).runs), name)
    return report({"schedule": name, "status": status}, f"schedule {name} is {status}", as_json)
