"""The command `history`: from the record where there is one, else from Temporal's histories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.command import perform
from holdfast.cli.flags import AsJson
from holdfast.cli.output import DONE, print_json, say
from holdfast.cli.session import can_record, open_recorded, open_session
from holdfast.cli.tables import cell, print_table
from holdfast.client.archive import is_record_installed
from holdfast.client.history import AnswerRecord, add_returns, answers_given
from holdfast.client.reading import BadUsage
from holdfast.client.runs import Runs
from holdfast.client.texts import place
from holdfast.client.tree import UnknownRun
from holdfast.protocol.events import Event, QuestionEvent
from holdfast.runtime.config import load_config
from holdfast.runtime.embedded import Startup
from holdfast.runtime.errors import RecordError, ServerUnreachable
from holdfast.runtime.workers import NoWorker

app = typer.Typer(rich_markup_mode=None)


@dataclass(frozen=True)
class HistoryOptions:
    """The options of `history`."""

    run: str | None
    csv: bool
    jsonl: bool
    verify: bool
    against: Path | None
    checkpoint: bool
    record: str | None
    as_json: bool

    @property
    def is_of_all(self) -> bool:
        """True if it is about the whole record: then nobody but its database is asked."""
        return self.verify or self.checkpoint or (self.run is None and (self.csv or self.jsonl))


@app.command()
def history(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A run's id, or the beginning of one.", show_default=False)
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Export every entry; without RUN of the whole record.")] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="The same as lines of JSON.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the whole record; exit code 1 if it has faults.")
    ] = False,
    against: Annotated[
        Path | None, typer.Option("--against", metavar="FILE", help="With --verify: a checkpoint kept elsewhere.")
    ] = None,
    checkpoint: Annotated[
        bool, typer.Option("--checkpoint", help="Print the newest signed checkpoint, to keep it elsewhere.")
    ] = False,
    record: Annotated[
        str | None,
        typer.Option("--record", metavar="DATABASE", help="With these: sqlite:PATH or postgresql://… to read instead."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List what people did in a run: who, what, when, to which question.

    It is read from the record if there is one, else from Temporal's histories. Those show answers only, also those
    that were given back, and those by signal that were refused. What is about the whole record asks its database
    alone, not Temporal.
    """
    perform(_history(HistoryOptions(run, csv, jsonl, verify, against, checkpoint, record, as_json)), as_json)


async def _history(wanted: HistoryOptions) -> int:
    if wanted.record is not None and not wanted.is_of_all:
        raise BadUsage("--record goes with --verify, --checkpoint, or --csv and --jsonl without RUN")
    if wanted.is_of_all:
        return await _of_all(wanted)
    if wanted.run is None:
        raise BadUsage("name a RUN, or use --csv, --jsonl, --verify or --checkpoint, which are for the whole record")
    try:
        session = await open_session(Startup.NOTHING)
    except ServerUnreachable as error:
        return await _from_record_alone(wanted, wanted.run, error)
    if not can_record(session.config, session.connection):
        if wanted.csv or wanted.jsonl:
            raise BadUsage("there is no record here: name its database as store in [record] of holdfast.toml")
        return await _from_temporal(session.runs, wanted.run, wanted.as_json)
    from holdfast.cli.record import export, show_story  # noqa: PLC0415  it loads the database's library

    if wanted.csv or wanted.jsonl:
        return await export(session, wanted.run, wanted.csv)
    try:
        return await show_story(session, wanted.run, wanted.as_json)
    except RecordError as error:
        say(f"from Temporal's histories, which show answers only: {error}")
        return await _from_temporal(session.runs.with_archive(None), wanted.run, wanted.as_json)


async def _from_record_alone(wanted: HistoryOptions, name: str, away: ServerUnreachable) -> int:
    """Print what the record has of a run while Temporal is away. Raises the error where it has nothing."""
    session, run = await open_recorded(name, away, ended=False)
    from holdfast.cli.record import print_entries, print_story, read_entries  # noqa: PLC0415  the database's library

    entries = await read_entries(session, run)
    if wanted.csv or wanted.jsonl:
        return print_entries(entries, wanted.csv)
    return print_story(entries, wanted.as_json)


async def _of_all(wanted: HistoryOptions) -> int:
    if not is_record_installed():
        raise BadUsage("reading a record needs: pip install 'holdfast[serve]'")
    from holdfast.cli.record import check, export_all, show_checkpoint  # noqa: PLC0415  it loads the database's library

    config = load_config()
    if wanted.record is not None:
        config = config.with_record(wanted.record)
    if wanted.verify:
        return await check(config, wanted.against, wanted.as_json)
    if wanted.checkpoint:
        return await show_checkpoint(config)
    return await export_all(config, wanted.csv)


async def _from_temporal(runs: Runs, run: str, as_json: bool) -> int:
    run = await runs.resolve(run)
    events = await _read_events(runs, run)
    answers = add_returns(await answers_given(runs.client, run), events)
    if as_json:
        print_json([answer.to_json() for answer in answers])
    elif answers:
        steps = {event.data.id: place(event.address) for event in events if isinstance(event.data, QuestionEvent)}
        rows = [
            (f"{answer.at.astimezone():%Y-%m-%d %H:%M}", answer.by or _nobody(answer), answer.proved_by)
            + (
                steps.get(answer.question, answer.question),
                answer.action,
                answer.comment or "",
                cell(answer.content),
            )
            for answer in answers
        ]
        print_table(("WHEN", "WHO", "PROVED BY", "QUESTION", "ACTION", "COMMENT", "CONTENT"), rows)
        if signals := sum(answer.via == "signal" for answer in answers):
            # A history holds each signal that came; whether it was taken only a record or the workflow knows.
            say(f"{signals} of these came by signal and may have been refused; a [record] in holdfast.toml tells")
    else:
        say("No answers yet.")
    return DONE


def _nobody(answer: AnswerRecord) -> str:
    return "" if answer.action == "return" else "?"


async def _read_events(runs: Runs, run: str) -> list[Event]:
    """Return the events of a run; none if no worker can be asked."""
    try:
        return await runs.watch.events(run)
    except (NoWorker, UnknownRun):
        return []
