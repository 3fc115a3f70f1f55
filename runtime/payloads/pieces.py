"""Cut a payload into pieces that other payloads share with it, and name them: the driver stores each piece once.

A conversation is sent to its model again with each turn, and carried by continue-as-new: as a whole it would be stored
once for each turn. Its messages are pieces, so that only what is new is stored, and lists of pieces are objects, too.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SMALLEST = 1024
"""Bytes from which a message is a piece; shorter ones share a piece with those after them."""
LARGEST = 8 * 1024
"""Bytes from which the next element of any list, or the next line of a text, begins a piece."""
FAN = 16
"""Names in a list: 16 pieces are one list, 16 lists another. A claim has at most 15 names of each height."""

# Wherever a cut is, the pieces give the same bytes again: cutting elsewhere would only share less. A message begins
# with its role, and no text in JSON looks like it, as a quote inside of one has a backslash before it. The end of a
# list is a cut because the last message of a conversation is followed by something else once it is no longer the last.
_MESSAGE = re.compile(rb',\{"role":"|\](?:,"\w+":|\}+\Z)')
_ELEMENT = re.compile(rb'(?<=["}\]]),|\\n')


@dataclass(frozen=True)
class PayloadPart:
    """A piece, or a list of parts."""

    name: str
    data: bytes
    """Of a list, the names of its parts."""
    parts: tuple[PayloadPart, ...] = ()

    @property
    def is_list(self) -> bool:
        return bool(self.parts)


@dataclass(frozen=True)
class SplitPayload:
    """A payload in parts: those that are objects, and the bytes after them."""

    parts: tuple[PayloadPart, ...]
    rest: bytes
    """Too short for an object of their own."""


@dataclass(frozen=True)
class Namer:
    """Names parts by an HMAC: a name tells nothing of its part to whoever does not have the key."""

    key: bytes
    realm: bytes
    """The payloads that share their parts: those of a namespace, in a bucket those of a period."""

    def make_piece(self, data: bytes) -> PayloadPart:
        """Return a piece of these bytes."""
        return PayloadPart(self._name(b"piece", data), data)

    def make_list(self, parts: Sequence[PayloadPart]) -> PayloadPart:
        """Return a list of these parts."""
        names = " ".join(part.name for part in parts).encode()
        return PayloadPart(self._name(b"list", names), names, tuple(parts))

    def _name(self, kind: bytes, data: bytes) -> str:
        digest = hmac.new(self.key, b"%b\x00%b\x00" % (kind, self.realm), hashlib.sha256)
        digest.update(data)
        return digest.hexdigest()


def split_payload(raw: bytes, namer: Namer) -> SplitPayload:
    """Return these bytes in parts."""
    pieces = list(cut(raw))
    rest = pieces.pop() if len(pieces[-1]) < SMALLEST else b""
    return SplitPayload(tuple(_group([namer.make_piece(piece) for piece in pieces], namer)), rest)


def cut(raw: bytes) -> Iterator[bytes]:
    """Yield the pieces of these bytes, in their order; all but the last have `SMALLEST` bytes or more."""
    start = 0
    for end in (*(match.start() for match in _MESSAGE.finditer(raw)), len(raw)):
        while element := _ELEMENT.search(raw, start + LARGEST, end):
            yield raw[start : element.start()]
            start = element.start()
        if end - start >= SMALLEST and end < len(raw):
            yield raw[start:end]
            start = end
    yield raw[start:]


def _group(parts: list[PayloadPart], namer: Namer) -> list[PayloadPart]:
    """Return the parts with each full group of them as a list; what is appended later leaves these lists alone."""
    if len(parts) < FAN:
        return parts
    end = len(parts) // FAN * FAN
    groups = [parts[start : start + FAN] for start in range(0, end, FAN)]
    return [*_group([namer.make_list(group) for group in groups], namer), *parts[end:]]
