"""The tables of the record's database, which the migrations make; a test compares both.

What people and models said is in columns of `SealedText`: encrypted in the database where `[encryption]` has keys.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Dialect,
    Engine,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeDecorator

from holdfast.runtime.encryption import KeyRing

CONTEXT = "record"
_RINGS: WeakKeyDictionary[Dialect, KeyRing] = WeakKeyDictionary()
"""The keys of each engine. Tables are the same for all engines, and a column type is given the engine's dialect."""


class SealedText(TypeDecorator[str]):
    """A text that is encrypted in the database; one that was written before there were keys is read as it is."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """See base class."""
        ring = _RINGS.get(dialect)
        return value if value is None or ring is None else ring.seal_text(value, CONTEXT)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """See base class. Raises `NotDecrypted`."""
        return None if value is None else _RINGS.get(dialect, KeyRing()).open_text(value, CONTEXT)


def seal_engine(engine: Engine, ring: KeyRing) -> None:
    """Have an engine encrypt and decrypt with these keys."""
    _RINGS[engine.dialect] = ring


METADATA = MetaData()

# Times are texts in ISO 8601 with microseconds, in UTC: they stand in the hashes, and SQLite would lose their zone.

RUNS = Table(
    "recorded_runs",
    METADATA,
    Column("first_run", Text, primary_key=True),  # Temporal's id of the first history of the run's own workflow
    Column("namespace", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("blueprint", Text, nullable=False),
    Column("entries", Integer, nullable=False),  # the length of the chain
    Column("head", Text, nullable=False),  # the hash of its last entry
    Column("sealed", Integer, nullable=False),  # the length of the chain at the last checkpoint
    Index("ix_recorded_runs_run", "namespace", "run"),
)
WORKFLOWS = Table(
    "recorded_workflows",
    METADATA,
    Column("first_run", Text, primary_key=True),  # that of the run
    Column("workflow", Text, primary_key=True),
    Column("next_offset", Integer, nullable=False),
    Column("temporal_run", Text, nullable=False),  # the history that was read last
    Column("closed", Text),  # when it was closed, once that is known
    Column("complete", Boolean, nullable=False),  # every event has been read
    Index("ix_recorded_workflows_unread", "complete", "closed"),
    Index("ix_recorded_workflows_temporal", "temporal_run"),
)
ENTRIES = Table(
    "record_entries",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),  # from 1, without gaps, in the order of writing
    Column("first_run", Text, nullable=False),
    Column("n", Integer, nullable=False),  # the place in the chain of its run, from 0
    Column("workflow", Text, nullable=False),
    Column("key", Text, nullable=False),  # of an event its offset: what has been recorded is recorded once
    Column("offset", Integer),
    Column("type", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("question", Text),
    Column("at", Text, nullable=False),
    Column("digest", Text, nullable=False),  # of salt and content
    Column("hash", Text, nullable=False),  # of the hash before, the metadata and the digest
    Column("salt", SealedText),  # this and the content are null once they are erased
    Column("content", SealedText),
    UniqueConstraint("first_run", "n"),
    UniqueConstraint("first_run", "workflow", "key"),
    Index("ix_record_entries_offset", "first_run", "workflow", "offset"),
    Index("ix_record_entries_type", "first_run", "workflow", "type", "offset"),
    Index("ix_record_entries_question", "question"),
    Index("ix_record_entries_run_type", "first_run", "type"),
)
BLUEPRINTS = Table(
    "recorded_blueprints",
    METADATA,
    Column("digest", Text, primary_key=True),  # of the document; the entry `run.blueprint` of a run has it in its key
    Column("document", SealedText, nullable=False),  # JSON, as runs are started with it
)
CHECKPOINTS = Table(
    "record_checkpoints",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),  # from 1, without gaps
    Column("body", Text, nullable=False),  # the JSON that is signed
    Column("signature", Text, nullable=False),
)
COUNTERS = Table(
    "record_counters",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", Integer, nullable=False),
)
MARKS = Table(
    "record_marks",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
LEASES = Table(
    "record_leases",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until", Float, nullable=False),  # seconds since 1970
)
OUTBOX = Table(
    "notice_outbox",
    METADATA,
    Column("id", Text, primary_key=True),  # of event, channel and person: what is planned again is sent once
    Column("namespace", Text, nullable=False),
    Column("first_run", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("question", Text),
    Column("kind", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("user", Text),  # the one person who is told, of a personal channel
    Column("state", Text, nullable=False),  # waiting, delivered, dropped, dead
    Column("made", Float, nullable=False),  # seconds since 1970, as the other times
    Column("due", Float, nullable=False),  # the next try
    Column("tries", Integer, nullable=False),
    Column("reason", Text),  # why the last try failed, or why there is none
    Column("done", Float),
    Column("body", SealedText),  # JSON of what is told; null once it is done
    Index("ix_notice_outbox_due", "namespace", "channel", "state", "due"),
    Index("ix_notice_outbox_question", "question", "channel", "state", "made"),  # for what must go out before
)
SIGN_INS = Table(
    "notice_sign_ins",
    METADATA,
    Column("user", Text, primary_key=True),
    Column("email", Text),
    Column("locale", Text),
    Column("groups", Text, nullable=False),  # a JSON list
    Column("at", Float, nullable=False),  # seconds since 1970
)

# Of the web servers; times are seconds since 1970. No row holds a value that signs anybody in: only digests. Each is
# sealed with the key of the servers (see `WebStore`): whoever may write here cannot make or change one.

WEB_SESSIONS = Table(
    "web_sessions",
    METADATA,
    Column("id", Text, primary_key=True),  # the digest of the cookie
    Column("seal", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("groups", JSON, nullable=False),
    Column("proof", Text, nullable=False),
    Column("only", Text),
    Column("created", Float, nullable=False),
    Column("used", Float, nullable=False),
    Column("expires", Float, nullable=False),
)
WEB_TOKENS = Table(
    "web_tokens",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("seal", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("groups", JSON, nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("is_service", Boolean, nullable=False),
    Column("created", Float, nullable=False),
    Column("expires", Float),
    Column("used", Float),
    Column("revoked", Float),
)
WEB_ONCE = Table(
    "web_once",
    METADATA,
    Column("digest", Text, primary_key=True),
    Column("seal", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("expires", Float, nullable=False),
)
