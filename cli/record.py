"""The commands that read and change the record: `history` with a record, `comment`, `erase`."""

from __future__ import annotations

import asyncio
import csv
import json
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.exc import DBAPIError

from holdfast.blueprint.questions.secret import DIRECTORY, SecretReference
from holdfast.cli.command import perform
from holdfast.cli.completion import complete_question
from holdfast.cli.flags import AsJson, By, RunName
from holdfast.cli.output import DONE, FAILED, print_json, print_text, report, say
from holdfast.cli.session import Session, open_session
from holdfast.cli.tables import cell, print_table
from holdfast.client.open_questions import find_question, match_named
from holdfast.client.reading import BadUsage, from_json, person, text_of_file
from holdfast.client.successors import find_successors
from holdfast.client.tree import UnknownRun
from holdfast.runtime.config import Config
from holdfast.runtime.encryption import load_key_ring
from holdfast.runtime.errors import BadInput
from holdfast.runtime.namespace import match_workflows
from holdfast.runtime.workers import NoWorker
from holdfast.server.record.checkpoints import RecordCheckpoint, find_signing_key, read_last_checkpoint
from holdfast.server.record.entries import GAP, Recorded
from holdfast.server.record.jobs import describe_reason
from holdfast.server.record.record import ErasureRefused, Record
from holdfast.server.record.store import RecordStore, read_store
from holdfast.server.record.story import StoryRow, story
from holdfast.server.record.verification import verify

app = typer.Typer(rich_markup_mode=None)

STORED = re.compile(re.escape(str(SecretReference(DIRECTORY, ""))) + "[0-9a-f]{32}")
"""The reference of a secret that somebody has entered."""
COLUMNS = ("id", "at", "run", "n", "workflow", "offset", "type", "address", "question", "content")
"""The columns of an export as CSV."""


@app.command()
def comment(
    run: RunName,
    question: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION", help="Its id, address, step or a prefix of the id.", autocompletion=complete_question
        ),
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What you want to add.")],
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Add a comment to a question, open or closed. It goes to the record; the run does not see it."""
    perform(_comment(run, question, text, person(by), as_json), as_json)


@app.command()
def erase(
    run: RunName,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Erase the contents of a run that has ended from the record: questions, answers, names, values.

    That something happened, and when, is kept, so that `history --verify` still finds no fault. Temporal's own
    history of the run is not changed: what to delete there is printed, and which runs go on from this one.
    """
    perform(_erase(run, person(by), as_json), as_json)


async def _comment(run: str, question: str, text: str, by: str, as_json: bool) -> int:
    session = await open_session()
    run = await session.runs.resolve(run)
    record = Record.open(session.config, session.connection.client)
    id_, owner = await _question(session, record, run, question)
    try:
        await record.comment(run, id_, text, by, owner=owner)
    except ValueError as error:
        raise BadInput(str(error)) from None
    return report(
        {"run": run, "question": id_, "by": by, "comment": text}, f"comment on question {id_} recorded", as_json
    )


async def _question(session: Session, record: Record, run: str, name: str) -> tuple[str, str]:
    """Return id and owner of a question of a run, open or recorded. Raises `BadInput`."""
    with suppress(NoWorker, UnknownRun):
        if (question := find_question(await session.runs.questions(run), name)) is not None:
            return question.id, question.owner
    entries = [entry for entry in await record.entries(run) if entry.question is not None and entry.address]
    recorded = {entry.question: entry for entry in reversed(entries) if entry.question is not None}
    ids = match_named({id_: entry.address for id_, entry in recorded.items()}, name)
    if len(ids) > 1:
        raise BadInput(f"{name!r} could be any of {', '.join(ids)} of {run}; give an id")
    if not ids:
        raise BadInput(f"no question {name!r} of {run} is open or recorded; see: holdfast history {shlex.quote(run)}")
    return ids[0], recorded[ids[0]].workflow


async def _erase(run: str, by: str, as_json: bool) -> int:
    session = await open_session()
    run = await session.runs.resolve(run)
    client = session.connection.client
    record = Record.open(session.config, client)
    secrets = await asyncio.to_thread(_list_secrets, record.store, client.namespace, run)
    try:
        count = await record.erase(run, by)
    except ErasureRefused as error:
        raise BadInput(str(error)) from None
    session.runs.answering.memory.forget(run)
    query, successors = match_workflows(run), await find_successors(client, run)
    if as_json:
        told = {"workflows": query, "successors": [*successors], "secrets": secrets}
        print_json({"run": run, "erased": count, **told})
        return DONE
    where = f"--address {client.service_client.config.target_host} --namespace {shlex.quote(client.namespace)}"
    say(f"Erased {count} entries of {run}. Delete its workflows in Temporal, too, then run holdfast gc:")
    say(f"  temporal workflow delete --yes {where} --query {shlex.quote(query)}")
    if successors:
        say(f"Its retries and forks repeat its values; erase and delete them, too: {', '.join(successors)}")
    if secrets:
        say("Secrets that people have entered in it are kept. Remove those that no other run needs:")
    for secret in secrets:
        say(f"  holdfast secret remove {secret}")
    return DONE


def _list_secrets(store: RecordStore, namespace: str, run: str) -> list[str]:
    """Return the references of the stored secrets that answers in the runs of this id have, in their order. Blocks."""
    entries = (entry for each in store.runs(namespace, run) for entry in store.entries(first_run=each.first_run))
    texts = (json.dumps(entry.content) for entry in entries if entry.content is not None)
    return list(dict.fromkeys(reference for text in texts for reference in STORED.findall(text)))


async def show_story(session: Session, run: str, as_json: bool) -> int:
    """Print what people did in a run."""
    run = await session.runs.resolve(run)
    record = Record.open(session.config, session.connection.client)
    return print_story(await _entries(session, record, run), as_json)


def print_story(entries: Sequence[Recorded], as_json: bool) -> int:
    """Print what people did, as these entries tell it."""
    rows = story(entries)
    for entry in entries:
        if entry.type == GAP:
            after = entry.data.get("first", 0)
            say(f"{entry.workflow}: what came after its event {after} was deleted before it was recorded")
    if as_json:
        print_json([row.to_json() for row in rows])
    elif rows:
        titles = ("WHEN", "WHO", "PROVED BY", "STEP", "QUESTION", "ACTION", "COMMENT", "CONTENT")
        print_table(titles, [_cells(row) for row in rows])
    else:
        say("No answers yet.")
    return DONE


def _cells(row: StoryRow) -> tuple[str, ...]:
    content = "(erased)" if row.is_erased else "" if row.content is None else cell(row.content)
    when = f"{row.at.astimezone():%Y-%m-%d %H:%M}"
    return (
        when,
        row.by or "",
        row.proved_by or "",
        row.step,
        cell(row.message),
        row.action,
        row.comment or "",
        content,
    )


async def _entries(session: Session, record: Record, run: str) -> list[Recorded]:
    """Return the entries of a run, after the record was brought up to date; says so where it could not be."""
    try:
        await record.recorder(session.runs.tree).catch_up(run)
    except (NoWorker, UnknownRun) as error:
        say(f"from the record only, which may be behind: {error}")
    except DBAPIError as error:
        say(f"from the record only, which is behind: {record.store.place} cannot be written: {describe_reason(error)}")
    if warning := (await record.lag()).warning:
        say(warning)
    return await record.entries(run)


async def export(session: Session, run: str, as_csv: bool) -> int:
    """Print every entry of a run, as CSV or as JSON lines."""
    record = Record.open(session.config, session.connection.client)
    return print_entries(await _entries(session, record, await session.runs.resolve(run)), as_csv)


async def export_all(config: Config, as_csv: bool) -> int:
    """Print every entry of the record, as CSV or as JSON lines. Temporal is not asked."""
    return print_entries(await asyncio.to_thread(lambda: list(_open_store(config).entries())), as_csv)


async def read_entries(session: Session, run: str) -> list[Recorded]:
    """Return what the record has of a run."""
    return await Record(_open_store(session.config), session.connection.client).entries(run)


def print_entries(entries: Sequence[Recorded], as_csv: bool) -> int:
    """Print entries, as CSV or as JSON lines."""
    if as_csv:
        _print_csv(entries)
    else:
        for entry in entries:
            print_json(entry.to_json(), indent=None)
    return DONE


def _print_csv(entries: Sequence[Recorded]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry in entries:
        values = entry.to_json() | {"content": json.dumps(entry.content, ensure_ascii=False)}
        writer.writerow(_harmless(values[name]) for name in COLUMNS)


def _harmless(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


async def check(config: Config, against: Path | None, as_json: bool) -> int:
    """Verify the record and print what is wrong; the exit code is 1 if anything is. Temporal is not asked."""
    store = _open_store(config)
    own = find_signing_key(config)
    trusted = [*config.record.public_keys, *([] if own is None else [own.public])]
    exported = None if against is None else _checkpoint(against)
    result = await asyncio.to_thread(verify, store, trusted, exported)
    if as_json:
        print_json(result.to_json())
    else:
        for fault in result.faults:
            print_text(f"{fault.fault}: {fault.message}")
        say(
            f"entries: {result.entries:,}, checkpoints: {result.checkpoints:,}, faults: {len(result.faults):,}; "
            f"entries since the last checkpoint: {result.uncovered:,}"
        )
    return FAILED if result.faults else DONE


def _checkpoint(path: Path) -> RecordCheckpoint:
    match from_json(text_of_file(path)):
        case {"body": str() as body, "signature": str() as signature}:
            checkpoint = RecordCheckpoint(body, signature)
            with suppress(ValueError):
                checkpoint.content  # noqa: B018  it raises
                return checkpoint
    raise BadUsage(f"{path} contains no checkpoint; holdfast history --checkpoint prints one")


def _open_store(config: Config) -> RecordStore:
    """Return the configured record. Raises `BadUsage` where nothing has been recorded, and `RecordError`."""
    store = read_store(config.record_place(), load_key_ring(config))
    if store is None:
        raise BadUsage(f"there is no record at {config.record_place()}: name it with --record, or in [record]")
    return store


async def show_checkpoint(config: Config) -> int:
    """Print the newest checkpoint, to be kept elsewhere."""
    checkpoint = await asyncio.to_thread(read_last_checkpoint, _open_store(config))
    if checkpoint is None:
        raise BadUsage("the record has no checkpoint yet: it gets one when a run ends, or every ten minutes")
    print_json(checkpoint.to_json())
    return DONE
