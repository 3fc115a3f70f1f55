"""A record that tests write by hand, and channels that keep what they are told: no server is needed for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select, update

from holdfast.runtime.config import NOTICE_KINDS, PersonSection
from holdfast.server.notices.channels import AddressBook, Channel, Channels
from holdfast.server.notices.notice import Contact, Delivery
from holdfast.server.notices.notifier import Notifier
from holdfast.server.notices.transports import DeliveryFailed
from holdfast.server.record.database import begin_write
from holdfast.server.record.entries import ENDED, RecordedRun, RecordEntry
from holdfast.server.record.store import RecordStore, open_store
from holdfast.server.record.tables import OUTBOX

RUN = RecordedRun("default", "brief-01", "first-1", "brief")
GROUPS = {"editors": ["user:ana", "user:bob"]}


@dataclass
class Told:
    """A way that keeps what it is told; `failures` are raised first."""

    is_personal: bool = False
    for_people: bool = False
    needs_email: bool = False
    got: list[Delivery] = field(default_factory=list)
    failures: list[DeliveryFailed] = field(default_factory=list)
    digests: list[list[Delivery]] = field(default_factory=list)

    def reaches(self, contact: Contact) -> bool:
        return contact.email is not None or not self.needs_email

    async def send(self, delivery: Delivery) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.got.append(delivery)

    async def send_digest(self, deliveries: Sequence[Delivery], home: str) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.digests.append(list(deliveries))

    async def close(self) -> None:
        """See `Transport`."""

    @property
    def kinds(self) -> list[str]:
        return [delivery.notice.kind for delivery in self.got]

    @property
    def users(self) -> list[str]:
        return [delivery.contact.user for delivery in self.got if delivery.contact]


class Office:
    """A record with a notifier."""

    def __init__(self, folder: Path, place: str | None = None) -> None:
        self.store: RecordStore = open_store(place or f"sqlite:{folder / 'record.sqlite'}")
        self.channels: dict[str, Channel] = {}
        self.people: dict[str, PersonSection] = {}
        self.fallback: str | None = None
        self._count = 0

    def channel(self, name: str, *, to: Sequence[str] | None = None, events: Any = NOTICE_KINDS, **how: bool) -> Told:
        way = Told(**how)
        self.add(Channel(name, way, events, to))
        return way

    def add(self, channel: Channel) -> None:
        """Add a channel, which has been there since now."""
        self.store.set_mark(f"feed:notices:default:{channel.name}:begin", str(self.store.last()))
        self.channels[channel.name] = channel

    @property
    def notifier(self) -> Notifier:
        return self.notifier_in("default")

    def notifier_in(self, namespace: str) -> Notifier:
        """A notifier for the runs of a namespace, beside the record that holds those of several."""
        channels = Channels(self.channels, self.fallback)
        links = lambda notice, contact: f"https://inbox/{notice.question_id or notice.run}"  # noqa: E731
        return Notifier(self.store, namespace, channels, lambda: AddressBook(self.people, GROUPS), links)

    def note(self, type_: str, data: Mapping[str, Any], *, ago: timedelta = timedelta(0), **content: Any) -> None:
        """Write an entry of the record."""
        self.store.append(RUN, [self.entry(type_, data, ago=ago, **content)])

    def entry(
        self, type_: str, data: Mapping[str, Any], *, ago: timedelta = timedelta(0), **content: Any
    ) -> RecordEntry:
        """The next entry of the record, unwritten."""
        self._count += 1
        return RecordEntry(
            workflow=RUN.run,
            key=str(self._count - 1),
            type=type_,
            address="pipeline:brief;hitl:tone",
            at=datetime.now(UTC) - ago,
            content={"data": dict(data), **content},
            offset=self._count - 1,
            question=data.get("id"),
        )

    def ask(self, id: str = "q1", *, ago: timedelta = timedelta(0), shown: bool = True, **fields: Any) -> None:
        self.store.append(RUN, [self.asked(id, ago=ago, shown=shown, **fields)])

    def asked(self, id: str, *, ago: timedelta = timedelta(0), shown: bool = True, **fields: Any) -> RecordEntry:
        """The entry of a question, unwritten."""
        question = {
            "id": id,
            "address": "pipeline:brief;hitl:tone",
            "owner": RUN.run,
            "run": RUN.run,
            "kind": "decision",
            "message": "Which tone?",
            "assignees": [],
            **fields,
        }
        data = {name: question[name] for name in ("id", "kind", "message", "assignees")}
        return self.entry("question.asked", data, ago=ago, **({"question": question} if shown else {}))

    def answer(self, id: str = "q1", by: str = "user:ana", **how: Any) -> None:
        self.note("question.answered", {"id": id, "by": by, "content": "warm"}, **how)

    def end(self, status: str, **outcome: Any) -> None:
        self.note(ENDED, {"status": status, "how": status}, outcome=outcome)


def rows(office: Office) -> list[Any]:
    with office.store.engine.connect() as connection:
        return list(connection.execute(select(OUTBOX).order_by(OUTBOX.c.made)))


def later(office: Office, **values: Any) -> None:
    """Change rows of the outbox, as time would."""
    with begin_write(office.store.engine) as connection:
        connection.execute(update(OUTBOX).values(**values))
