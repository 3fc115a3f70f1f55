"""The command `replay`. It replays in a separate process, as a client must not import workflows."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.json_values import JSONObject
from holdfast.cli.command import perform
from holdfast.cli.flags import AsJson
from holdfast.cli.output import DONE, FAILED, USAGE, print_json, print_text, say
from holdfast.cli.session import open_session
from holdfast.client.history import histories
from holdfast.client.listing import open_workflows
from holdfast.client.reading import BadUsage, from_json, text_of_file
from holdfast.client.visibility import ListedExecution
from holdfast.runtime.distribution import WORKER
from holdfast.runtime.embedded import Startup
from holdfast.runtime.errors import is_missing

app = typer.Typer(rich_markup_mode=None)

AT_ONCE = 50
"""Histories that one process replays: so many are held in memory."""


@app.command()
def replay(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN|HISTORY.json", help="A run, or a file of histories.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Every run of the deployment that has not ended.")] = False,
    workflows: Annotated[
        list[str] | None,
        typer.Option("--workflows", metavar="MODULE", help="A module with workflows of your own; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay recorded histories on the current code: exit code 0 if all replay, 1 if one does not.

    A file holds one history, as Temporal's UI and CLI save it, or {"histories": [{"workflow": ID, "events": […]}, …]}.
    With --open: before a roll-out, with the new version installed, to see which runs it would break. Workflows of types
    that are not known here, and those that are pinned to a build, are counted and not replayed.
    """
    if (run is None) != open_:
        raise typer.BadParameter("name a run or a file, or give --open")
    options = [word for module in workflows or () for word in ("--workflows", module)]
    perform(_replay_open(options, as_json) if run is None else _replay(run, options, as_json), as_json)


async def _replay(run: str, options: Sequence[str], as_json: bool) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(run)
        if path.suffix == ".json" or path.is_file():
            _check_histories(path)
        else:
            path = await _save(run, Path(folder))
        options = [*options, "--json"] if as_json else options
        process = await asyncio.create_subprocess_exec(sys.executable, *WORKER, "--replay", str(path), *options)
        return await process.wait()


def _check_histories(path: Path) -> None:
    """Raise `BadUsage` if the file holds no histories, before a process is started for it."""
    try:
        value = from_json(text_of_file(path))
    except ValueError as error:
        raise error if isinstance(error, BadUsage) else BadUsage(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict) or not ({"events", "histories"} & value.keys()):
        raise BadUsage(f'{path} holds no histories: expected {{"events": […]}} or {{"histories": […]}}')


async def _save(run: str, folder: Path) -> Path:
    """Write the histories of a run to a file and return its path."""
    session = await open_session(Startup.NOTHING)
    run = await session.runs.resolve(run)
    return _write([history async for history in histories(session.connection.client, run)], folder)


def _write(recorded: Sequence[WorkflowHistory], folder: Path) -> Path:
    path = folder / "histories.json"
    entries = [{"workflow": history.workflow_id, **history.to_json_dict()} for history in recorded]
    path.write_text(json.dumps({"histories": entries}))
    return path


async def _replay_open(options: Sequence[str], as_json: bool) -> int:
    session = await open_session(Startup.NOTHING)
    rows: list[JSONObject] = []
    pinned: list[JSONObject] = []
    async for some in _open_histories(session.connection.client, pinned):
        results = await _rows(some, options)
        if results is None:
            return USAGE
        rows += results
        if not as_json:
            _print_broken(results)
    rows += pinned
    if not as_json:
        _print_broken(pinned)
    broken = sum(row["ok"] is False for row in rows)
    if as_json:
        print_json(rows)
    else:
        skipped = sum(row["ok"] is None for row in rows)
        rest = f", {skipped} not replayed" if skipped else ""
        say(f"{say_count(len(rows), 'open workflow')}: {broken or 'none'} would break{rest}")
    return FAILED if broken else DONE


async def _open_histories(client: Client, pinned: list[JSONObject]) -> AsyncIterator[list[WorkflowHistory]]:
    """Yield the histories of all open workflows, some at a time; of a chain that of its last run, which goes on.

    Those that are pinned to a build are noted in `pinned` instead: no new version gets them.
    """
    some: list[WorkflowHistory] = []
    async for execution in open_workflows(client):
        if (build := _pinned_to(execution)) is not None:
            pinned.append(_not_replayed(execution, f"pinned to {build}, whose workers must stay"))
            continue
        try:
            some.append(await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history())
        except RPCError as error:
            if not is_missing(error):  # it has ended since, and was deleted
                raise
        if len(some) == AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def _pinned_to(execution: ListedExecution) -> str | None:
    """Return the version of workers that a workflow is pinned to, as `deployment:build`; None if it moves on."""
    if execution.read_word("TemporalWorkflowVersioningBehavior") != "Pinned":
        return None
    return execution.read_word("TemporalWorkerDeploymentVersion")


def _not_replayed(execution: ListedExecution, reason: str) -> JSONObject:
    """Return a row like those of a worker that replays."""
    return {
        "workflow": execution.id,
        "run": execution.run_id,
        "ok": None,
        "events": execution.info.history_length,
        "error": reason,
    }


async def _rows(some: Sequence[WorkflowHistory], options: Sequence[str]) -> list[JSONObject] | None:
    """Replay some histories and return what became of each; None if that could not begin, which has been told."""
    with tempfile.TemporaryDirectory() as folder:
        command = (*WORKER, "--replay", str(_write(some, Path(folder))), "--json", *options)
        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=PIPE)
        output, _ = await process.communicate()
    if process.returncode not in (DONE, FAILED):
        return None
    rows: list[JSONObject] = json.loads(output)
    return rows


def _print_broken(rows: Sequence[JSONObject]) -> None:
    for row in rows:
        if not row["ok"]:
            verdict = "is NOT followed" if row["ok"] is False else "is not replayed"
            print_text(f"{row['workflow']} ({row['run']}, {row['events']} events) {verdict}: {row['error']}")
