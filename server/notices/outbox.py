"""The outbox: what is to be sent, beside the record in the same database. The notifier writes and empties it.

The functions block, as those of `RecordStore` do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    delete,
    exists,
    func,
    insert,
    inspect,
    or_,
    select,
    update,
)

from holdfast.server.notices.channels import KnownUser
from holdfast.server.notices.notice import Contact, Notice
from holdfast.server.notices.planner import PlannedNotice
from holdfast.server.notices.transports import DeliveryFailed
from holdfast.server.record.database import begin_write, database_time
from holdfast.server.record.entries import Recorded
from holdfast.server.record.store import RecordStore
from holdfast.server.record.tables import OUTBOX, SIGN_INS

State = Literal["waiting", "delivered", "dropped", "dead"]
TRIED_FOR = timedelta(days=1)
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 3600.0
"""Seconds between two tries; each pause is twice the one before."""
ORDERED_FOR = timedelta(hours=1)
"""The time for which a notice that is refused holds back later ones of its question."""
ASKED = "asked"
DIGEST_FROM = 5
"""Questions from which a reader gets one message in place of several."""
LONGEST_DIGEST = 200
"""Questions that one message tells of at most."""
HELD_FOR = timedelta(seconds=60)
"""The time after which a notice is sent again whose sender was not heard of: longer than a try may take."""
KEPT_FOR = timedelta(days=30)
"""The time for which the outbox remembers what is done."""


@dataclass(frozen=True)
class OutboxNotice:
    """A notice that waits in the outbox."""

    id: str
    channel: str
    made: float
    """Seconds since 1970, by the database's clock."""
    tries: int
    first_run: str
    workflow: str
    notice: Notice
    contact: Contact | None
    user: str | None
    is_overdue: bool = False
    """True if it was taken after the time for which a notice is tried."""


@dataclass(frozen=True)
class Attempt:
    """A try to send notices in one message; it succeeded if there is no error."""

    batch: Sequence[OutboxNotice]
    error: DeliveryFailed | None = None


class Outbox:
    """The outbox of a namespace.

    Its times are the database's: one process goes on with what another wrote, whose clock may be set otherwise.

    Args:
        store: The record that it lies beside.
        namespace: The namespace of the runs that are told of.
    """

    def __init__(self, store: RecordStore, namespace: str) -> None:
        self.store, self.namespace = store, namespace

    def put(self, connection: Connection, entry: Recorded, planned: Sequence[PlannedNotice]) -> None:
        """Write what is planned for an entry; what has been written before is left as it is."""
        ids = [item.id for item in planned]
        stored = set(connection.execute(select(OUTBOX.c.id).where(OUTBOX.c.id.in_(ids))).scalars()) if ids else set()
        now = database_time(connection)
        new = [item for item in planned if item.id not in stored]
        # A microsecond apart: they go out in this order.
        rows = [self._make_row(entry, item, now + n / 1_000_000) for n, item in enumerate(new)]
        if rows:
            connection.execute(insert(OUTBOX), rows)

    def _make_row(self, entry: Recorded, planned: PlannedNotice, now: float) -> dict[str, Any]:
        notice, contact = planned.notice, planned.contact
        body = {"notice": notice.model_dump(mode="json"), "contact": None if contact is None else vars(contact)}
        return {
            "id": planned.id,
            "namespace": self.namespace,
            "first_run": entry.first_run,
            "run": entry.run,
            "workflow": entry.workflow,
            "question": notice.question_id,
            "kind": notice.kind,
            "channel": planned.channel,
            "user": None if contact is None else contact.user,
            "state": "waiting",
            "made": now,
            "due": now,
            "tries": 0,
            "body": json.dumps(body, ensure_ascii=False),
        }

    def take(
        self,
        channel: str,
        limit: int,
        *,
        digests: bool = False,
        is_probe: bool = False,
        tried: Sequence[Attempt] = (),
    ) -> list[list[OutboxNotice]]:
        """Return messages to send on a channel, those first that are due longest, for one try of each.

        A message is one notice; with `digests` it is all questions of one reader, where they are many. Nobody else
        takes them for `HELD_FOR`: a process that was stopped for longer than its lease may still send.

        Args:
            channel: The channel.
            limit: The number of messages.
            digests: True if many questions of one reader go into one message.
            is_probe: True to try a channel that takes nothing: the pauses of its notices do not count, and what was
                tried least comes first, for a single notice may be at fault.
            tried: What was tried meanwhile, to be marked in the same transaction.
        """
        first = OUTBOX.c.tries if is_probe else OUTBOX.c.due
        with self.store.engine.connect() as connection:
            now = database_time(connection)
            due = self._select_due(channel, now, is_probe=is_probe).order_by(first, OUTBOX.c.made, OUTBOX.c.id)
            # Mostly there is nothing, and nothing to write.
            if not tried and connection.execute(due.with_only_columns(OUTBOX.c.id).limit(1)).first() is None:
                return []
        with begin_write(self.store.engine) as connection:
            self._mark(connection, tried)
            # Left to whoever takes them at this moment. SQLite knows no locks of rows: there writers take turns anyway.
            rows = connection.execute(due.limit(limit).with_for_update(skip_locked=True)).all()
            batches = self._gather(connection, due, rows) if digests else [[row] for row in rows]
            taken = OUTBOX.c.id.in_([row.id for batch in batches for row in batch])
            held_until = database_time(connection) + HELD_FOR.total_seconds()
            connection.execute(update(OUTBOX).where(taken).values(due=held_until))
        return [
            [replace(_read_row(row), is_overdue=_compute_end(row.made) < now) for row in batch] for batch in batches
        ]

    def _select_due(self, channel: str, now: float, *, is_probe: bool) -> Select[*tuple[Any, ...]]:
        """Return the query for what may be sent now: nothing while an earlier notice of its question waits.

        One that its receiver refuses holds the others back for `ORDERED_FOR`, and no longer.
        """
        earlier = OUTBOX.alias("earlier")
        of_question = [
            getattr(earlier.c, name) == getattr(OUTBOX.c, name)
            for name in ("question", "channel", "state", "namespace", "first_run", "workflow")
        ]
        before = exists().where(
            *of_question,
            earlier.c.user.is_not_distinct_from(OUTBOX.c.user),
            earlier.c.made < OUTBOX.c.made,
            earlier.c.made > now - ORDERED_FOR.total_seconds(),
        )
        in_time = OUTBOX.c.due <= now
        may_go = or_(in_time, OUTBOX.c.reason.is_not(None)) if is_probe else in_time
        return select(OUTBOX).where(self._match_waiting(channel), may_go, ~before)

    def _gather(
        self, connection: Connection, due: Select[*tuple[Any, ...]], rows: Sequence[Row[*tuple[Any, ...]]]
    ) -> list[list[Row[*tuple[Any, ...]]]]:
        """Return the rows as messages: with each question all others of its reader, if they are many."""
        digests: dict[str | None, list[Row[*tuple[Any, ...]]]] = {}
        for user in {row.user: None for row in rows if row.kind == ASKED}:
            of_reader = due.where(OUTBOX.c.kind == ASKED, OUTBOX.c.user.is_not_distinct_from(user))
            questions = connection.execute(of_reader.limit(LONGEST_DIGEST).with_for_update(skip_locked=True)).all()
            if len(questions) >= DIGEST_FROM:
                digests[user] = list(questions)
        single = [[row] for row in rows if row.kind != ASKED or row.user not in digests]
        return [*digests.values(), *single]

    def mark(self, tried: Sequence[Attempt]) -> None:
        """Note how tries went: what was delivered is done, what failed is tried again, for a day."""
        if tried:
            with begin_write(self.store.engine) as connection:
                self._mark(connection, tried)

    def _mark(self, connection: Connection, tried: Sequence[Attempt]) -> None:
        if not tried:
            return
        now = database_time(connection)
        delivered = [posted.id for attempt in tried if attempt.error is None for posted in attempt.batch]
        if delivered:
            self._change(connection, delivered, tries=OUTBOX.c.tries + 1, **_make_done("delivered", None, now))
        failed = [(posted, attempt.error) for attempt in tried if attempt.error for posted in attempt.batch]
        for posted, error in failed:
            self._change(connection, [posted.id], tries=posted.tries + 1, **_make_retry(posted, error, now))

    def drop(self, reasons: Mapping[str, str]) -> None:
        """Mark notices that need not be sent, with the reason of each; what they told is not kept."""
        if reasons:
            with begin_write(self.store.engine) as connection:
                now = database_time(connection)
                for id_, reason in reasons.items():
                    self._change(connection, [id_], **_make_done("dropped", reason, now))

    def hasten(self, channel: str) -> None:
        """Have everything sent that a channel has refused, the oldest first: it works again."""
        with begin_write(self.store.engine) as connection:
            late = OUTBOX.c.due > database_time(connection)
            refused = and_(self._match_waiting(channel), OUTBOX.c.reason.is_not(None), late)
            connection.execute(update(OUTBOX).where(refused).values(due=OUTBOX.c.made))

    def _change(self, connection: Connection, ids: Sequence[str], **values: Any) -> None:
        """Change what waits: what was dropped meanwhile, as its run was erased, stays so."""
        waiting = and_(OUTBOX.c.id.in_(ids), OUTBOX.c.state == "waiting")
        connection.execute(update(OUTBOX).where(waiting).values(**values))

    def prune(self) -> None:
        """Forget what was done long ago."""
        with begin_write(self.store.engine) as connection:
            before = database_time(connection) - KEPT_FOR.total_seconds()
            connection.execute(delete(OUTBOX).where(OUTBOX.c.state != "waiting", OUTBOX.c.done < before))

    def _match_waiting(self, channel: str) -> ColumnElement[bool]:
        return and_(OUTBOX.c.namespace == self.namespace, OUTBOX.c.channel == channel, OUTBOX.c.state == "waiting")


def _compute_end(made: float) -> float:
    """Return the time until which a notice that was made then is tried."""
    return made + TRIED_FOR.total_seconds()


def _make_retry(posted: OutboxNotice, error: DeliveryFailed, now: float) -> dict[str, Any]:
    """Return what a try that failed changes of a notice, beside the number of its tries."""
    pause = max(min(FIRST_PAUSE * 2**posted.tries, LONGEST_PAUSE), min(error.retry_after or 0.0, LONGEST_PAUSE))
    due = now + pause
    if due > _compute_end(posted.made):
        return _make_done("dead", str(error), now)
    return {"reason": str(error), "due": due}


def _make_done(state: State, reason: str | None, now: float) -> dict[str, Any]:
    return {"state": state, "reason": reason, "done": now, "body": None}


def _read_row(row: Row[Any]) -> OutboxNotice:
    body = json.loads(row.body)
    contact = body.get("contact")
    return OutboxNotice(
        id=row.id,
        channel=row.channel,
        made=row.made,
        tries=row.tries,
        first_run=row.first_run,
        workflow=row.workflow,
        notice=Notice.model_validate(body["notice"]),
        contact=None if contact is None else Contact(**contact),
        user=row.user,
    )


def count_notices(store: RecordStore) -> dict[str, dict[str, int]]:
    """Return the number of notices that are remembered, by channel and state. Blocks."""
    columns = (OUTBOX.c.channel, OUTBOX.c.state)
    query = select(*columns, func.count()).group_by(*columns)
    by_channel: dict[str, dict[str, int]] = {}
    if not inspect(store.engine).has_table(OUTBOX.name):  # made by an earlier version
        return by_channel
    with store.engine.connect() as connection:
        for channel, state, count in connection.execute(query):
            by_channel.setdefault(channel, {})[state] = count
    return by_channel


def find_last_trouble(store: RecordStore, channel: str) -> str | None:
    """Return why the latest notice of a channel that failed did so; None if none that is remembered failed. Blocks."""
    failed = and_(OUTBOX.c.reason.is_not(None), OUTBOX.c.state.in_(("waiting", "dead")))
    query = select(OUTBOX.c.reason).where(OUTBOX.c.channel == channel, failed).order_by(OUTBOX.c.due.desc()).limit(1)
    with store.engine.connect() as connection:
        return connection.execute(query).scalar_one_or_none()


def remember_sign_in(store: RecordStore, person: KnownUser) -> None:
    """Keep what the claims of a sign-in say of a user, so that notices reach them. The sign-in calls it."""
    values = {
        "email": person.email,
        "locale": person.locale,
        "groups": json.dumps(list(person.groups)),
        "at": time.time(),
    }
    with begin_write(store.engine) as connection:
        changed = connection.execute(update(SIGN_INS).where(SIGN_INS.c.user == person.user).values(**values))
        if changed.rowcount == 0:
            connection.execute(insert(SIGN_INS).values(user=person.user, **values))


def list_known_users(store: RecordStore) -> list[KnownUser]:
    """Return what the claims of the last sign-ins said."""
    with store.engine.connect() as connection:
        rows = connection.execute(select(SIGN_INS)).all()
    return [KnownUser(row.user, row.email, row.locale, tuple(json.loads(row.groups))) for row in rows]
