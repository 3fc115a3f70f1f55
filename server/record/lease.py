"""The lease that makes one process the recorder, and one the notifier, of all that share a record."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import uuid4

from sqlalchemy import delete, insert, or_, update
from sqlalchemy.exc import IntegrityError

from holdfast.server.record.clock import DatabaseTime
from holdfast.server.record.engine import writing
from holdfast.server.record.store import RecordStore
from holdfast.server.record.tables import LEASES

SECONDS = 15.0
"""The time that a lease is good for: so long nobody works after its holder was killed."""


@dataclass
class Lease:
    """A lease of one name; `hold` it again well within its seconds.

    Two holders at the same time, after one was stopped for longer than the lease, do no harm to the record: an entry is
    recorded once. The time is the database's: by those of the processes, one that is ahead took what the others held.
    """

    store: RecordStore
    name: str
    seconds: float = SECONDS
    holder: str = field(default_factory=lambda: uuid4().hex)

    def hold(self) -> bool:
        """Take or renew the lease; return whether it is ours. Blocks; see `RecordStore`."""
        ours = or_(LEASES.c.holder == self.holder, LEASES.c.until < DatabaseTime())
        values = {"holder": self.holder, "until": DatabaseTime() + self.seconds}
        try:
            with writing(self.store.engine) as connection:
                changed = connection.execute(update(LEASES).where(LEASES.c.name == self.name, ours).values(**values))
                if changed.rowcount:
                    return True
                taken = connection.execute(update(LEASES).where(LEASES.c.name == self.name).values(name=self.name))
                if taken.rowcount:
                    return False
                connection.execute(insert(LEASES).values(name=self.name, **values))
        except IntegrityError:  # another process was first with a new name
            return False
        return True

    def release(self) -> None:
        """Give the lease up, so that another process need not wait for its end."""
        with writing(self.store.engine) as connection:
            connection.execute(delete(LEASES).where(LEASES.c.name == self.name, LEASES.c.holder == self.holder))
