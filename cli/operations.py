"""The commands for operating: `dev`, `worker`, `setup`, `gc`, `down`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from holdfast.blueprint.durations import read_duration
from holdfast.cli.command import perform
from holdfast.cli.flags import AsJson
from holdfast.cli.output import DONE, print_json, report, say
from holdfast.cli.session import open_session
from holdfast.client.reading import BadUsage, person
from holdfast.runtime import embedded
from holdfast.runtime.config import load_config
from holdfast.runtime.config.sections import MOST_PROCESSES
from holdfast.runtime.connection import ensure_search_attributes, explain_registration_errors, find_payload_place
from holdfast.runtime.distribution import WORKER
from holdfast.runtime.embedded import Startup
from holdfast.runtime.namespace import RETENTION, extend_retention, find_missing_search_attributes, read_retention
from holdfast.runtime.payloads import find_folder
from holdfast.runtime.payloads.collection import StoredAmount, collect_garbage
from holdfast.server.web.addresses import once_link

app = typer.Typer(rich_markup_mode=None)

SHORTEST = 60.0
"""Seconds: the smallest --older-than, as a payload is stored before the event that refers to it is written."""


@app.command()
def dev(
    db: Annotated[Path | None, typer.Option("--db", metavar="FILE", help="Database file of the server.")] = None,
    ui_port: Annotated[
        int | None, typer.Option("--ui-port", metavar="N", min=1, max=65535, help="Port of the UI.")
    ] = None,
) -> None:
    """Run a local Temporal, its UI, a worker and the inbox in the foreground; restart what dies. Ctrl-C stops them."""
    perform(_dev(db, ui_port))


@app.command()
def worker(
    make_current: Annotated[
        bool, typer.Option("--make-current", help="Make this worker's version, HOLDFAST_BUILD_ID, the current one.")
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            metavar="N",
            min=1,
            max=MOST_PROCESSES,
            help="Number of worker processes; default: [worker] processes, else 1.",
        ),
    ] = None,
) -> None:
    """Run a worker in the foreground for the server that TEMPORAL_ADDRESS names, as python worker.py does."""
    sys.stdout.flush()
    sys.stderr.flush()
    options = ["--make-current"] if make_current else []
    options += [] if processes is None else ["--processes", str(processes)]
    # In place of this process, so that the signals of whoever started the command reach the worker itself.
    os.execv(sys.executable, [sys.executable, *WORKER, *options])


@app.command()
def setup(as_json: AsJson = False) -> None:
    """Prepare a namespace: register the search attributes, keep closed runs for 90 days. Can be repeated."""
    perform(_setup(as_json), as_json)


@app.command()
def gc(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Remove only values older than this.")
    ] = "1h",
    as_json: AsJson = False,
) -> None:
    """Remove the large values in the payloads folder that no history of the namespace refers to any more."""
    perform(_gc(older_than, as_json), as_json)


@app.command()
def down(as_json: AsJson = False) -> None:
    """Stop the embedded server, its worker and its inbox. Runs are kept and go on when a command starts it again."""
    perform(_down(as_json), as_json)


async def _dev(db: Path | None, ui_port: int | None) -> int:
    config = load_config()
    user = config.serve.user or person(None)
    await embedded.run_in_foreground(config, db, ui_port, lambda url: once_link(config, url, user))
    return DONE


async def _down(as_json: bool) -> int:
    stopped = await embedded.stop_all(load_config())
    if as_json:
        print_json({"stopped": stopped})
    else:
        say(
            "stopped; runs are kept, and go on with holdfast dev, or the next command that answers or starts one"
            if stopped
            else "The embedded server was not running."
        )
    return DONE


async def _setup(as_json: bool) -> int:
    session = await open_session(Startup.ALL)
    client = session.connection.client
    with explain_registration_errors(client.namespace):
        missing = await find_missing_search_attributes(client, client.namespace)
        await ensure_search_attributes(client, client.namespace)
    days, trouble = await _keep_closed_runs(client)
    if as_json:
        done = {"namespace": client.namespace, "registered": missing, "retention_days": days, "trouble": trouble}
        print_json(done)
    else:
        say(f"namespace {client.namespace} at {client.service_client.config.target_host}")
        say(f"search attributes: {'registered ' + ', '.join(missing) if missing else 'already registered'}")
        say(f"closed runs are kept for {days} days" + (f" ({trouble})" if trouble else ""))
    return DONE


async def _keep_closed_runs(client: Client) -> tuple[int | None, str | None]:
    """Raise the namespace's retention if that is permitted; return its days now, and the reason if it was not."""
    days: int | None = None
    try:
        days = (await read_retention(client, client.namespace)).days
        if days >= RETENTION.days:
            return days, None
        await extend_retention(client, client.namespace)
    except RPCError as error:
        if error.status not in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED):
            raise
        return days, f"{RETENTION.days} were requested, but this is not permitted: {error.message}"
    return RETENTION.days, None


async def _gc(older_than: str, as_json: bool) -> int:
    folder, age = _folder_to_clear(), _age(older_than)
    session = await open_session()
    done = await collect_garbage(session.connection.client, folder, age)
    return report(
        {"folder": str(folder), "removed": vars(done.removed), "kept": vars(done.kept)},
        f"{folder}: removed {_format_amount(done.removed)}, kept {_format_amount(done.kept)}",
        as_json,
    )


def _folder_to_clear() -> Path:
    """Return the payloads folder. Raises `BadUsage` if payloads are not kept in one."""
    place = find_payload_place(load_config())
    folder = find_folder(place)
    if folder is None and place:
        raise BadUsage(
            f"gc clears folders only; for {place} use a lifecycle rule of the bucket: let it remove objects that "
            "are older than your longest run, the namespace's retention and 30 days together"
        )
    if folder is None:
        raise BadUsage(
            "nothing to remove: every value is kept in Temporal, as neither external in [payloads] of "
            "holdfast.toml nor HOLDFAST_PAYLOADS names a folder"
        )
    return folder


def _age(text: str) -> float:
    try:
        age = read_duration(text)
    except ValueError as error:
        raise BadUsage(f"--older-than: {error}") from None
    if age < SHORTEST:
        raise BadUsage(
            f"--older-than {text}: must be a minute or more: a value is stored before its history refers to it"
        )
    return age


def _format_amount(amount: StoredAmount) -> str:
    return f"{amount.files} file{'' if amount.files == 1 else 's'} ({amount.bytes / 1000:,.1f} kB)"
