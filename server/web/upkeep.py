"""Warnings for those who run a deployment: questions that nobody is notified of, a record that falls behind."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property

from sqlalchemy.exc import SQLAlchemyError
from temporalio.service import RPCError

from holdfast.protocol.questions import Question
from holdfast.runtime.config import Config
from holdfast.server.notices.addressees import AddressBook
from holdfast.server.notices.channels import Channels, usable_channels
from holdfast.server.notices.notice import Notice
from holdfast.server.notices.outbox import signed_in
from holdfast.server.notices.planning import unreached
from holdfast.server.record.record import Lag, Record
from holdfast.server.record.store import RecordStore
from holdfast.server.record.troubles import LastingTrouble

log = logging.getLogger(__name__)

FRESH_SECONDS = 60.0
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

    async def unreached(self, questions: Sequence[Question]) -> Mapping[str, list[str]]:
        """Return, by the id of the question, the assignees whom no channel reaches, and channels that there are not.

        Questions of which everybody is told are left out, and all where there are no channels.
        """
        if self._record is None or not questions or not self._channels.by_name:
            return {}
        book = None
        with self._reading_people.noted(SQLAlchemyError):
            book = await asyncio.to_thread(book_of, self._config, self._record.store)
        if book is None:
            return {}
        now = datetime.now(UTC)
        names = {question.id: _unreached(question, self._channels, book, now) for question in questions}
        return {id_: lost for id_, lost in names.items() if lost}

    async def lag(self) -> Lag | None:
        """Return how far the record is behind, if runs may be forgotten before they are recorded; else None."""
        asked, lag = self._lag
        if self._record is not None and time.monotonic() - asked > FRESH_SECONDS:
            with self._reading_lag.noted(SQLAlchemyError, RPCError):
                lag = await self._record.lag()
            self._lag = time.monotonic(), lag
        return lag if lag is not None and lag.is_dangerous else None

    @cached_property
    def _channels(self) -> Channels:
        return usable_channels(self._config)


def book_of(config: Config, store: RecordStore) -> AddressBook:
    """Return the people as configuration and sign-ins know them now. Blocks."""
    return AddressBook(config.people, config.groups, signed_in(store))


def _unreached(question: Question, channels: Channels, book: AddressBook, now: datetime) -> list[str]:
    notice = Notice(kind="asked", run=question.run, time=now, question=question.model_dump(mode="json"))
    news = unreached(notice, channels, book, now)
    return [] if news is None else [*news.unreachable, *news.missing]
