"""The session of a command: configuration, connection and runs; most commands open one first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from temporalio.client import Client
from temporalio.runtime import Runtime, TelemetryConfig

from holdfast.blueprint.errors import BlueprintError
from holdfast.cli.output import say
from holdfast.client.answering import Answering
from holdfast.client.archive import Archive, ArchivedEnd, ArchivedEvents, is_record_installed
from holdfast.client.memory import QuestionMemory
from holdfast.client.runs import Runs
from holdfast.client.tree import UnknownRun
from holdfast.protocol.access import RunAccess, is_seen_by_nobody
from holdfast.protocol.answers import AnswerBatch, Refusal
from holdfast.runtime.config import Config, ConfigError, WorkerVariables, has_runs, load_config
from holdfast.runtime.connection import Connection, connect, connect_to_nobody, is_server_named
from holdfast.runtime.embedded import Startup, ensure_inbox
from holdfast.runtime.embedded.inbox_key import inbox_key, inbox_key_file
from holdfast.runtime.embedded.server import find_homes
from holdfast.runtime.encryption import load_key_ring
from holdfast.runtime.errors import RecordError, ServerUnreachable
from holdfast.runtime.secrets import keeper
from holdfast.runtime.workers import describe_queue, explain_no_work

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint
    from holdfast.client.lookup import Placed
    from holdfast.protocol.events import Event
    from holdfast.server.record.record import Record


@dataclass(frozen=True)
class Session:
    """The configuration and connection of a command."""

    config: Config
    connection: Connection
    runs: Runs

    def page(self, run: str) -> str | None:
        """Return the address of the run in Temporal's UI; None if the UI's is not known."""
        from holdfast.server.web.addresses import temporal_address  # noqa: PLC0415  most commands name no page

        return temporal_address(self.connection.ui_url, self.connection.client.namespace, run)

    async def look_up(self, blueprint: Blueprint, placed: Placed) -> None:
        """Raise `BlueprintError` if a worker lacks what the blueprint names; say so if no worker could be asked."""
        checked = await self.runs.look_up(blueprint, placed)
        if checked.problems:
            raise BlueprintError(checked.problems)
        if checked.unchecked is not None:
            say(f"not checked: {checked.unchecked}")

    async def inbox(self, user: str) -> str | None:
        """Return the address of the inbox, for the embedded server with a one-time link for this user; None for none.

        Starts the inbox beside the embedded server if it does not run, and does not wait until it serves.
        """
        if not self.connection.embedded:
            return self.config.serve.url
        try:
            url = await ensure_inbox(self.config)
        except ServerUnreachable as error:
            say(f"no inbox: {error}")
            return None
        from holdfast.server.web.addresses import once_link  # noqa: PLC0415  most commands name no page

        return url and once_link(self.config, url, user)

    async def say_if_nobody_works(self) -> None:
        """Tell the person who starts a run why no worker takes it, and the way out."""
        queue = self.connection.task_queue
        reason = explain_no_work(queue, await describe_queue(self.connection.client, queue))
        if reason is not None:
            say(str(reason))

    def say_who_sees(self, blueprint: Blueprint, by: str) -> None:
        """Tell the person who starts a run where nobody else may see it."""
        if is_seen_by_nobody(self.runs.access.describe_start(blueprint, by), self.config.access_rules()):
            say(f"nobody but {by}, signed in by this name, may see the run: name people for see or steer in [access]")


async def open_session(startup: Startup = Startup.WHERE_RUNS_ARE, config: Config | None = None) -> Session:
    """Load the configuration and connect, to the embedded server if no other is configured.

    Args:
        startup: What may be started of the embedded server.
        config: The configuration; by default that of the current folder.
    """
    quiet_core()
    config = config or _config_of_runs(startup)
    return _make_session(config, await connect(config, startup=startup, tell=say))


async def open_run(name: str) -> tuple[Session, str]:
    """Open a session to read a run, and return it with the run's id, as `Runs.resolve` does; nothing is started.

    While Temporal is away it is a session of the record alone, see `open_recorded`.
    """
    try:
        session = await open_session(Startup.NOTHING)
    except ServerUnreachable as away:
        return await open_recorded(name, away)
    return session, await session.runs.resolve(name)


async def open_recorded(name: str, away: ServerUnreachable, *, ended: bool = True) -> tuple[Session, str]:
    """Open a session that reads a run from the record and asks no server, say so, and return it with the run's id.

    Raises `away` where the record does not have the run, and with `ended` where it does not have its end.
    """
    config = load_config()
    connection = await connect_to_nobody(config)
    archive = find_record(config, connection)
    if archive is None:  # a session would make the state of a local server
        raise away
    session = _make_session(config, connection)
    try:
        run = await session.runs.resolve(name)
    except UnknownRun:
        raise away from None
    if ended and await archive.end(run) is None:
        raise away
    say(f"from the record only, which may be behind: {away}")
    return session, run


def _make_session(config: Config, connection: Connection) -> Session:
    # The inbox beside the embedded server is told where to connect, and where the key is, as its worker is.
    key_file = inbox_key_file(config.home) if connection.embedded else WorkerVariables.read().inbox_key_file
    answering = Answering(
        keys=config.answer_keys(),
        inbox=inbox_key(key_file) if key_file else None,
        # A run of the same id in another namespace is another run.
        memory=QuestionMemory(config.home / f"questions.{connection.client.namespace}.json", load_key_ring(config)),
        groups=config.groups,
        secrets=keeper(config, embedded=connection.embedded),
        limits=config.limits,
    )
    runs = Runs(connection.client, connection.task_queue, answering, find_record(config, connection))
    return Session(config, connection, runs)


def quiet_core() -> None:
    """Keep the SDK's core from logging to standard output, where the result belongs; before the first connection."""
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)), error_if_already_set=False)


def _config_of_runs(startup: Startup) -> Config:
    """Return the configuration of the current folder; where that has no runs, of the only folder below with a server.

    So a run of a blueprint that has a configuration of its own is found from where it was started.
    """
    config = load_config()
    if startup is Startup.ALL or config.path or has_runs(config.home) or is_server_named():
        return config
    homes = find_homes(Path.cwd())
    if len(homes) > 1:
        folders = "\n".join(f"  cd {home.parent.relative_to(Path.cwd())}" for home in homes)
        raise ServerUnreachable(f"there are no runs here; local servers run for these folders below:\n{folders}")
    if not homes:
        return config
    say(f"(the runs in {homes[0].parent.relative_to(Path.cwd())})")
    return load_config(homes[0].parent)


class LaterRecord:
    """The record of a command, opened when the command first needs it: most commands do not, and it loads much."""

    def __init__(self, config: Config, client: Client) -> None:
        self._config, self._client = config, client
        self._opened: Archive | None = None

    @property
    def is_open(self) -> bool:
        """See `Archive`."""
        return self._opened is not None

    async def events(self, workflow: str, start: int, last_iterations: int | None) -> ArchivedEvents:
        """See `Archive`."""
        archive = self._open()
        if archive is None:
            return ArchivedEvents(next_offset=start)
        return await archive.events(workflow, start, last_iterations)

    async def end(self, run: str) -> ArchivedEnd | None:
        """See `Archive`."""
        archive = self._open()
        return None if archive is None else await archive.end(run)

    async def iterations(self, workflow: str, first: int, before: int) -> list[Event] | None:
        """See `Archive`."""
        archive = self._open()
        return None if archive is None else await archive.iterations(workflow, first, before)

    async def blueprint(self, run: str) -> Blueprint | None:
        """See `Archive`."""
        archive = self._open()
        return None if archive is None else await archive.blueprint(run)

    async def access(self, run: str) -> RunAccess | None:
        """See `Archive`."""
        archive = self._open()
        return None if archive is None else await archive.access(run)

    async def runs_like(self, prefix: str) -> list[str]:
        """See `Archive`."""
        archive = self._open()
        return [] if archive is None else await archive.runs_like(prefix)

    async def note_refusal(
        self, run: str, answers: AnswerBatch, refusal: Refusal, user: str | None, proof: str | None
    ) -> None:
        """See `Archive`; it makes the record where nothing has been recorded yet: a refusal is kept nowhere else."""
        try:
            self._opened = self._open() or self._record().open(self._config, self._client)
        except (RecordError, ConfigError) as error:
            say(f"the refused answer was not recorded: {error}")
        else:
            await self._opened.note_refusal(run, answers, refusal, user, proof)

    def _open(self) -> Archive | None:
        """Return the record; None if nothing has been recorded yet. Raises `RecordError`."""
        if self._opened is None:
            self._opened = self._record().read(self._config, self._client)
        return self._opened

    @staticmethod
    def _record() -> type[Record]:
        from holdfast.server.record.record import Record  # noqa: PLC0415  it loads the database's library

        return Record


def find_record(config: Config, connection: Connection) -> LaterRecord | None:
    """Return the record, to read runs from; None where nothing was recorded, unless the configuration names one."""
    if not can_record(config, connection):
        return None
    place = config.record_place()
    is_there = not place.startswith("sqlite:") or Path(place.removeprefix("sqlite:")).exists()
    return LaterRecord(config, connection.client) if is_there or is_record_named(config) else None


def can_record(config: Config, connection: Connection) -> bool:
    """Return whether this machine has a record: that of the embedded server, one that is configured, or a file."""
    if not is_record_installed():
        return False
    return connection.embedded or is_record_named(config) or (config.home / "record.sqlite").exists()


def is_record_named(config: Config) -> bool:
    """Return whether the configuration names a record."""
    return config.record.store is not None or config.record.url_env is not None
