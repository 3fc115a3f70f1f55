"""The commands that go on from another run (`retry` at its failure, `fork` at any place in it), or compare two."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.load import parse_file
from holdfast.cli.attendance import answer_sources
from holdfast.cli.command import perform
from holdfast.cli.control import read_change
from holdfast.cli.flags import AnswersFile, AsJson, By, Id, RunName
from holdfast.cli.output import DONE, FAILED, print_json, print_text, say
from holdfast.cli.run import Attendant, attend
from holdfast.cli.session import Session, open_session
from holdfast.client.differences import compare_runs
from holdfast.client.reading import person
from holdfast.client.texts import place, preview
from holdfast.runtime.embedded import Startup

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint
    from holdfast.client.forks import Forked
    from holdfast.client.retries import Retried

app = typer.Typer(rich_markup_mode=None)
SHORT = "none"
"""Stands for a value that one of two runs does not have."""

Changed = Annotated[
    Path | None,
    typer.Option("--blueprint", metavar="FILE", help="A changed blueprint; up to the place it must do the same."),
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Attend the new run, as `run` does, or only start it.")]


@app.command()
def retry(
    run: RunName,
    blueprint: Changed = None,
    answers: AnswersFile = None,
    wait: Wait = True,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a run that has failed, or was ended, once the cause is mended.

    A new run begins with all that the other had done: nothing is called, paid or asked again that had ended. What
    failed is done again, and then what comes after it. The same retry twice is one run.
    """
    perform(_retry(run, blueprint, wait, Attendant(answers, by, as_json)), as_json)


@app.command()
def fork(
    run: RunName,
    at: Annotated[
        str, typer.Option("--at", metavar="ADDRESS", help="A step's name, or the address of a step, iteration or item.")
    ],
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=JSON",
            help="A path in the context, or below `input`, and its value as JSON, else text; repeatable.",
        ),
    ] = None,
    blueprint: Changed = None,
    id: Id = None,
    answers: AnswersFile = None,
    wait: Wait = True,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Begin a new run in the middle of another one, which is not changed.

    What the other run did before that place, and in branches and items beside it, is met. From there the new run calls,
    pays and asks.
    """
    request = (at, changes or [], blueprint, id)
    perform(_fork(run, request, wait, Attendant(answers, by, as_json)), as_json)


@app.command()
def diff(run: RunName, other: RunName, as_json: AsJson = False) -> None:
    """Compare two runs, step by step: status, answers, output and error. Exit code 0 if they are alike, else 1."""
    perform(_diff(run, other, as_json), as_json)


async def _diff(run: str, other: str, as_json: bool) -> int:
    runs = (await open_session(Startup.NOTHING)).runs
    one, two = [await runs.watch.view(await runs.resolve(name)) for name in (run, other)]
    if (silence := one.silence or two.silence) is not None:
        raise silence
    compared = compare_runs(one, two)
    if as_json:
        print_json(compared.to_json())
    else:
        for difference in compared.differences:
            values = [SHORT if value is None else preview(value) for value in (difference.one, difference.other)]
            where = place(difference.address) if difference.address else "the run"
            print_text(f"{where}  {difference.what}: {values[0]} → {values[1]}")
        say(f"{say_count(len(compared.differences), 'difference')}; {say_count(compared.alike, 'step')} alike")
    return FAILED if compared.differences else DONE


async def _retry(run: str, file: Path | None, wait: bool, attendant: Attendant) -> int:
    blueprint = _read(file)
    session = await open_session(Startup.ALL)
    run = await session.runs.resolve(run)
    retried = await session.runs.retry(run, person(attendant.by), blueprint=blueprint)
    at = f", at {place(retried.at)}" if retried.at else ""
    text = f"goes on from {run}{at}" if retried.is_new else f"has gone on from {run} before"
    return await _go_on(session, retried, text, wait, attendant, is_new=retried.is_new)


async def _fork(
    run: str, request: tuple[str, list[str], Path | None, str | None], wait: bool, attendant: Attendant
) -> int:
    at, changes, file, id_ = request
    values, blueprint = dict(map(read_change, changes)), _read(file)
    session = await open_session(Startup.ALL)
    run = await session.runs.resolve(run)
    by = person(attendant.by)
    forked = await session.runs.fork(run, at, by, changes=values, blueprint=blueprint, id=id_)
    text = f"begins in {run}, at {place(forked.at)}"
    return await _go_on(session, forked, text, wait, attendant, is_new=True)


def _read(file: Path | None) -> Blueprint | None:
    return None if file is None else parse_file(file).valid()


async def _go_on(
    session: Session, started: Retried | Forked, text: str, wait: bool, attendant: Attendant, *, is_new: bool
) -> int:
    """Attend the new run, or print its id. `is_new`: it was started just now."""
    sources = answer_sources(attendant.answers) if wait else []
    await session.say_if_nobody_works()
    say(f"run {started.run} {text}")
    if wait:
        return await attend(session, started.run, sources, attendant, is_new=is_new, tell_past=False)
    print_json(started.to_json()) if attendant.as_json else print_text(started.run)
    return DONE
