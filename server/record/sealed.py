"""The column type of what people and models said: encrypted in the database where `[encryption]` has keys."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from sqlalchemy import Dialect, Engine, Text
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
