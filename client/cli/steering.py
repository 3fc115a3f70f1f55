"""`pause`, `resume`, `cancel`: how a run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import typer

from client.cli.flags import AsJson, RunName
from client.cli.output import DONE, print_json, say
from client.cli.perform import perform
from client.cli.session import open_session
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
    """Go on after a pause."""
    perform(_steer(run, _resume, as_json), as_json)


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
    resumed = await runs.resume(run)
    status = (await runs.standing(run)).status
    return status, f"run {run} goes on" if resumed else f"run {run} was not paused; it is {status}"


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
