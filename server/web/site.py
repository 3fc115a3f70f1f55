"""The context of the pages and the API: the configuration, the runs, the settings and the state of the server.

`Upkeep` warns those who run a deployment: of questions that nobody is notified of, of a record that falls behind.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import HTTPConnection
from temporalio.service import RPCError

from holdfast.client.permissions import Permissions, RunAccessCache
from holdfast.client.runs import Runs
from holdfast.protocol.access import AccessRules, Capability, Person
from holdfast.protocol.people import Groups
from holdfast.protocol.questions import Question
from holdfast.runtime.config import Config
from holdfast.server.notices.channels import AddressBook, Channels, make_usable_channels
from holdfast.server.notices.notice import Notice
from holdfast.server.notices.outbox import list_known_users
from holdfast.server.notices.planner import find_unreached
from holdfast.server.record.jobs import LastingTrouble
from holdfast.server.record.record import Lag, Record
from holdfast.server.record.store import RecordStore
from holdfast.server.web.credentials import WebScope
from holdfast.server.web.dispatches import Dispatches, EventDelivery
from holdfast.server.web.gate import Identity, require_identity
from holdfast.server.web.live import Live, Streams

log = logging.getLogger(__name__)

LAG_FRESH_SECONDS = 60.0
"""How long the lag of the record is not asked for again."""


class Upkeep:
    """The state of what works beside the pages.

    Args:
        config: The configuration.
        record: The record, where one is kept; without it nobody is told of anything.
    """

    def __init__(self, config: Config, record: Record | None) -> None:
        self._config, self._record = config, record
        self._reading_people = LastingTrouble(log, "reading who is notified")
        self._reading_lag = LastingTrouble(log, "reading how far the record is behind")
        self._lag: tuple[float, Lag | None] = (float("-inf"), None)

    async def find_unreached(self, questions: Sequence[Question]) -> Mapping[str, list[str]]:
        """Return, by the id of the question, the assignees whom no channel reaches, and channels that there are not.

        Questions of which everybody is told are left out, and all where there are no channels.
        """
        if self._record is None or not questions or not self._channels.by_name:
            return {}
        if (book := await self._read_address_book()) is None:
            return {}
        now = datetime.now(UTC)
        names = {question.id: _list_unreached(question, self._channels, book, now) for question in questions}
        return {id_: lost for id_, lost in names.items() if lost}

    async def list_unknown(self, names: Sequence[str]) -> list[str]:
        """Return those of these users and groups that neither the configuration nor a sign-in has named.

        None where nobody is named, and where it cannot be found out.
        """
        book = await self._read_address_book()
        return [] if book is None else book.list_unknown(names)

    async def _read_address_book(self) -> AddressBook | None:
        """Return the people as configuration and sign-ins know them now; None if that cannot be read."""
        store = None if self._record is None else self._record.store
        with self._reading_people.note_failure(SQLAlchemyError):
            return await asyncio.to_thread(load_address_book, self._config, store)
        return None

    async def lag(self) -> Lag | None:
        """Return how far the record is behind, if runs may be forgotten before they are recorded; else None."""
        asked, lag = self._lag
        if self._record is not None and time.monotonic() - asked > LAG_FRESH_SECONDS:
            with self._reading_lag.note_failure(SQLAlchemyError, RPCError):
                lag = await self._record.lag()
            self._lag = time.monotonic(), lag
        return lag if lag is not None and lag.is_dangerous else None

    @cached_property
    def _channels(self) -> Channels:
        return make_usable_channels(self._config)


def load_address_book(config: Config, store: RecordStore | None) -> AddressBook:
    """Return the people as the configuration, and sign-ins where there is a record, know them now. Blocks."""
    return AddressBook(config.people, config.groups, [] if store is None else list_known_users(store))


def _list_unreached(question: Question, channels: Channels, book: AddressBook, now: datetime) -> list[str]:
    notice = Notice(kind="asked", run=question.run, time=now, question=question.model_dump(mode="json"))
    news = find_unreached(notice, channels, book, now)
    return [] if news is None else [*news.unreachable, *news.missing]


OUTAGE_SECONDS = 30.0
"""How long the record is asked first, after Temporal did not answer: to find that out may take ten seconds."""


@dataclass
class Outage:
    """Whether Temporal did not answer just now."""

    _noted: float = float("-inf")

    def note(self) -> None:
        """Remember that Temporal did not answer."""
        self._noted = time.monotonic()

    @property
    def is_likely(self) -> bool:
        """True for a while after Temporal did not answer."""
        return time.monotonic() - self._noted < OUTAGE_SECONDS


@dataclass(frozen=True)
class Site:
    """The parts that every request shares. A request finds it as `request.app.state.site`."""

    config: Config
    given_runs: Runs
    ui_url: str | None = None
    """Temporal's own UI; None if it is not known."""
    address: str = ""
    """The address at which people reach the server, without a slash at its end, for links in messages."""
    record: Record | None = None
    """The record that this server fills; None where none is kept."""

    @cached_property
    def runs(self) -> Runs:
        """Return the runs, with queries that all readers share: each one may cost a run its place in a cache."""
        return self.given_runs.sharing_queries()

    @cached_property
    def delivery(self) -> EventDelivery:
        """Return the delivery of events of other systems."""
        return EventDelivery()

    @cached_property
    def dispatches(self) -> Dispatches:
        """Return what people are sending to questions now."""
        return Dispatches()

    @cached_property
    def streams(self) -> Streams:
        """Return the live streams that are open."""
        return Streams()

    @cached_property
    def live(self) -> Live:
        """Return what browsers look at now."""
        return Live(self.runs, self.record)

    @cached_property
    def outage(self) -> Outage:
        """Return whether Temporal did not answer just now."""
        return Outage()

    @cached_property
    def of_record(self) -> Site:
        """Return this site as if Temporal had forgotten every run: it has those whose end is recorded."""
        assert self.record is not None
        record = self.record.without_temporal()
        runs = Runs(record.client, self.given_runs.task_queue, self.given_runs.answering, record)
        return replace(self, given_runs=runs, record=record)

    @cached_property
    def upkeep(self) -> Upkeep:
        """Return the state of what works beside the pages."""
        return Upkeep(self.config, self.record)

    @cached_property
    def access_rules(self) -> AccessRules:
        """Return who may do what."""
        return self.config.access_rules()

    @cached_property
    def run_access(self) -> RunAccessCache:
        """Return what the runs say of the access to them."""
        return RunAccessCache()

    def find_runs(self, identity: Identity) -> Runs:
        """Return the runs as this person sees and commands them: what is sent carries their name, groups and proof."""
        groups = replace(self.runs.answering, sender=identity.sender).known_groups
        return self.runs.acting_as(identity.sender, self.make_permissions(identity, groups))

    def make_permissions(self, identity: Identity, groups: Groups) -> Permissions:
        """Return what a person may do, with the groups that they are in."""
        # A session of a browser has every scope; a token was made for what its scopes say.
        holds_steer = identity.token is not None and "steer" in identity.scopes
        person = Person.of(identity.user, groups, holds_steer=holds_steer)
        person = replace(person, names=person.names | identity.represented)
        return Permissions(person, self.access_rules, self.run_access)


async def permit(connection: HTTPConnection, capability: Capability) -> Runs:
    """Return the runs as the person of a request sees them, where they may do something with the run of its path.

    Raises:
        HTTPException: 401 for nobody; 403 where a token or a link is not for it.
        UnknownRun: They may not see the run, or there is none.
        Refusal: They may not do it.
    """
    scope: WebScope = "steer" if capability in ("steer", "administer") else "read" if capability == "see" else "answer"
    runs = find_site(connection).find_runs(require_identity(connection, scope))
    await runs.access.require(capability, str(connection.path_params["run"]))
    return runs


def find_site(connection: HTTPConnection) -> Site:
    """Return the site of a request; while Temporal does not answer, as `outage` says, that of the record alone."""
    site: Site = connection.app.state.site
    return site.of_record if getattr(connection.state, "is_outage", False) else site
