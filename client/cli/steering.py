"""`pause`, `resume`, `cancel`, `tell`, `edit`: how a run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from client.cli.flags import AsJson, By, RunName
from client.cli.output import DONE, print_json, say
from client.cli.perform import perform
from client.cli.session import open_session
from client.reading import BadUsage, person, value_of
from client.render import place
from client.runs import STATUSES, Runs
from protocol.answers import Refusal

app = typer.Typer(rich_markup_mode=None)
CANCEL_PATIENCE = 5.0
"""Seconds that `cancel` waits to see the run end."""


@app.command()
def pause(run: RunName, as_json: AsJson = False) -> None:
    """Start no further step or activity of a run; answers are still taken, deadlines still run."""
    perform(_steer(run, _pause, as_json), as_json)


@app.command()
def resume(run: RunName, as_json: AsJson = False) -> None:
    """Go on after a pause, a hold or a stop, and where a tool waits for no answer in particular; never an approval."""
    perform(_steer(run, _resume, as_json), as_json)


@app.command()
def tell(
    run: RunName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the agent is to know.")],
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent", metavar="STEP", help="Which one, if several are at work: its step's name, or its address."
        ),
    ] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Say something to an agent of a run, for its next turn."""
    perform(_tell(run, text, agent, person(by), as_json), as_json)


@app.command()
def edit(
    run: RunName,
    changes: Annotated[
        list[str], typer.Option("--set", metavar="PATH=JSON", help="A path of the context, and its value; repeatable.")
    ],
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Change the context of a run that has stopped before or after a step, and let it go on."""
    perform(_edit(run, changes, person(by), as_json), as_json)


@app.command()
def cancel(run: RunName, as_json: AsJson = False) -> None:
    """End a run; its questions close. Cancelling twice is fine."""
    perform(_steer(run, _cancel, as_json), as_json)


async def _steer(run: str, deed: Callable[[Runs, str], Awaitable[tuple[str, str]]], as_json: bool) -> int:
    session = await open_session()
    run = await session.runs.resolve(run)
    status, text = await deed(session.runs, run)
    if as_json:
        print_json({"run": run, "status": status})
    else:
        say(text)
    return DONE


async def _pause(runs: Runs, run: str) -> tuple[str, str]:
    await _check_open(runs, run)
    await runs.pause(run)
    return "paused", f"run {run} is paused; it goes on with: holdfast resume {run}"


async def _resume(runs: Runs, run: str) -> tuple[str, str]:
    await _check_open(runs, run)
    resumed = await runs.resume(run, person(None))
    status = (await runs.standing(run)).status
    if isinstance(resumed, list):
        places = ", ".join(place(question.address) for question in resumed)
        return status, f"goes on: {places}" if resumed else f"run {run} was not held; it is {status}"
    return status, f"run {run} goes on"


async def _tell(run: str, text: str, agent: str | None, by: str, as_json: bool) -> int:
    if not text.strip():
        raise BadUsage("there is nothing to tell: TEXT is blank")
    session = await open_session()
    run = await session.runs.resolve(run)
    await _check_open(session.runs, run)
    address = await session.runs.tell(run, text, agent=agent, by=by)
    if as_json:
        print_json({"run": run, "agent": address})
    else:
        say(f"{place(address)} hears it in its next turn")
    return DONE


async def _edit(run: str, changes: list[str], by: str, as_json: bool) -> int:
    values = dict(map(_change, changes))
    session = await open_session()
    run = await session.runs.resolve(run)
    await _check_open(session.runs, run)
    receipts = await session.runs.edit(run, values, by)
    if as_json:
        print_json([receipt.model_dump(mode="json") for receipt in receipts])
    else:
        say(f"run {run} goes on with {', '.join(values)} changed")
    return DONE


def _change(text: str) -> tuple[str, Any]:
    """A path and its value; what is no JSON is text."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise BadUsage(f"--set {text}: write PATH=JSON, such as --set stats.total=3")
    return path.strip(), value_of(value, None)


async def _check_open(runs: Runs, run: str) -> None:
    status = (await runs.handle(run).describe()).status
    if status in STATUSES:
        raise Refusal("run_closed", f"run {run} is {STATUSES[status]}; nothing of it can go on")


async def _cancel(runs: Runs, run: str) -> tuple[str, str]:
    """Ask it to end, and wait a little for that: what it has begun to do may take longer."""
    await runs.cancel(run)
    try:
        async with asyncio.timeout(CANCEL_PATIENCE):
            outcome = await runs.result(run)
    except TimeoutError:
        return "running", f"run {run} was asked to end, and will once a worker has seen to it"
    return outcome.status, f"run {run} is {outcome.status}"
