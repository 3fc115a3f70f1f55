"""Storage driver for large payloads: cuts them into pieces, and keeps each piece once, in a folder or a bucket."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)
from temporalio.exceptions import ApplicationError

from holdfast.runtime.encryption import EncryptionCodec, KeyRing
from holdfast.runtime.payloads.pieces import FAN, Namer, PayloadPart, SplitPayload, split_payload
from holdfast.runtime.payloads.store import Location, PayloadsUnreachable, Store

PIECES, REST, ENVELOPE = "pieces", "rest", "envelope"
"""What a claim holds: the names of parts; in base64 the bytes after them, and the payload without its data, whose
length would make the first piece of each payload another one."""
CACHED = 32 * 1024 * 1024
"""Bytes of pieces kept in memory: a worker that runs a conversation would else read all of it with each turn."""
DEEPEST = 8
LONGEST = 256 * 1024 * 1024
"""Most bytes of one payload, whose sender is judged by it, too: a claim can name a piece more than once."""
_NAME = re.compile(r"[0-9a-f]{64}")
_PIECE, _LIST, _SEALED = b"P", b"L", b"E"
NAMES = b"holdfast piece names"
_CHECK_BYTES = 8
LARGEST_LIST = 1 + _CHECK_BYTES + FAN * 65
"""Most bytes of an object that is a list."""


class Stored(NamedTuple):
    """The content of an object."""

    data: bytes
    is_list: bool

    @property
    def names(self) -> list[str]:
        """The names in a list."""
        return self.data.decode(errors="replace").split(" ")


class PieceSeal:
    """Makes objects of parts, and reads them. A list is never encrypted: names tell nothing, and gc follows them."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    def size(self, part: PayloadPart) -> int:
        """Return the number of bytes of the object that holds a part."""
        is_encrypted = self._ring and not part.is_list
        return 1 + len(part.data) + (self._ring.overhead if is_encrypted else _CHECK_BYTES)

    def make_object(self, part: PayloadPart) -> bytes:
        """Return the object that holds a part."""
        if self._ring and not part.is_list:
            return _SEALED + self._ring.seal(part.data, part.name.encode())
        return (_LIST if part.is_list else _PIECE) + _compute_check(part.data) + part.data

    def read_part(self, raw: bytes, name: str) -> Stored | None:
        """Return what an object holds; None if it is damaged. Raises `NotDecrypted`."""
        if raw[:1] == _SEALED:
            return Stored(self._ring.open(raw[1:], name.encode()), False)
        return read_unencrypted(raw)


def read_unencrypted(raw: bytes) -> Stored | None:
    """Return what an object that is not encrypted holds, as no list is; None if it is damaged."""
    kind, check, data = raw[:1], raw[1 : 1 + _CHECK_BYTES], raw[1 + _CHECK_BYTES :]
    return Stored(data, kind == _LIST) if kind in (_PIECE, _LIST) and check == _compute_check(data) else None


def _compute_check(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:_CHECK_BYTES]


class PieceDriver(StorageDriver):
    """A storage driver for one store, with the pieces used last in memory.

    Payloads come encrypted, each time otherwise: they are decrypted, and each piece is encrypted when it is stored.
    """

    def __init__(self, store: Store, ring: KeyRing | None = None) -> None:
        self.place = store
        self._codec = EncryptionCodec(ring or KeyRing())
        self._seal = PieceSeal(self._codec.ring)
        self._key: bytes | None = None
        self._cache = PieceCache(CACHED)

    def name(self) -> str:
        """See base class."""
        return self.place.name

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """See base class. Raises PayloadsUnreachable, and `too_large` for what could not be read again."""
        self._key = self._key or await self._read_naming_key()
        payloads = [self._codec.decrypt(payload) for payload in payloads]
        if (size := max((len(payload.data) for payload in payloads), default=0)) > LONGEST:
            message = (
                f"a value of {size:,} bytes is too large; at most {LONGEST:,}: keep it elsewhere, and pass a reference"
            )
            raise ApplicationError(message, type="too_large", non_retryable=True)
        namespace = context.target.namespace if context.target else ""
        namer = Namer(self._key, f"{namespace} {self.place.period}".encode())
        wholes = await asyncio.to_thread(lambda: [split_payload(payload.data, namer) for payload in payloads])
        await self._store_missing([part for whole in wholes for part in whole.parts])
        return [self._make_claim(payload, whole) for payload, whole in zip(payloads, wholes, strict=True)]

    async def store_early(self, namespace: str, payloads: Sequence[Payload]) -> None:
        """Store what the SDK is about to store for workflows of a namespace; where it cannot, the SDK will say so."""
        with suppress(PayloadsUnreachable):
            await self.store(StorageDriverStoreContext(target=StorageDriverWorkflowInfo(namespace=namespace)), payloads)

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """See base class. Raises PayloadsUnreachable."""
        return list(await asyncio.gather(*(self._read_payload(dict(claim.claim_data)) for claim in claims)))

    async def _read_naming_key(self) -> bytes:
        """Return the key of names: in a store that is encrypted one that does not lie there."""
        ring = self._codec.ring
        return ring.derive_key(NAMES) if ring else await self.place.key()

    def _make_claim(self, payload: Payload, whole: SplitPayload) -> StorageDriverClaim:
        names = " ".join(part.name for part in whole.parts)
        rest = self._codec.ring.seal_text(_encode_text(whole.rest), REST)
        envelope = Payload(metadata=payload.metadata).SerializeToString(deterministic=True)
        return StorageDriverClaim({**self.place.location, PIECES: names, REST: rest, ENVELOPE: _encode_text(envelope)})

    async def _store_missing(self, parts: Iterable[PayloadPart]) -> None:
        """Store the parts that are missing.

        A list that is there has its parts, as garbage collection removes lists first. So only those of a missing list
        are looked at, and they are stored before it.
        """
        wanted = {part.name: part for part in parts}
        there = await self.place.renew({name: self._seal.size(part) for name, part in wanted.items()})
        missing = {name: part for name, part in wanted.items() if name not in there}
        if not missing:
            return
        if inner := [inside for part in missing.values() for inside in part.parts]:
            await self._store_missing(inner)
        await self.place.write({name: self._seal.make_object(part) for name, part in missing.items()})
        for name, part in missing.items():
            self._cache.put(name, Stored(part.data, part.is_list))

    async def _read_payload(self, claim: dict[str, str]) -> Payload:
        # Claims come from histories, where anyone who may signal can write.
        try:
            names, rest = claim[PIECES].split(), _decode_text(self._codec.ring.open_text(claim[REST], REST))
            payload = Payload.FromString(_decode_text(claim[ENVELOPE]))
        except (KeyError, binascii.Error, DecodeError):
            raise PayloadsUnreachable(f"a claim on {self.place} names no payload; its sender is wrong") from None
        payload.data = b"".join([*await self._read_pieces(names, claim), rest])
        return payload

    async def _read_pieces(self, names: list[str], location: Location) -> list[bytes]:
        """Return the pieces that these names stand for, those in lists among them."""
        for _ in range(DEEPEST):
            parts = await self._read(names, location)
            if sum(len(part.data) for part in parts) > LONGEST:
                break
            if not any(part.is_list for part in parts):
                return [part.data for part in parts]
            names = [
                inside
                for name, part in zip(names, parts, strict=True)
                for inside in (part.names if part.is_list else [name])
            ]
        raise PayloadsUnreachable(f"a claim on {self.place} names more than {LONGEST} bytes; its sender is wrong")

    async def _read(self, names: list[str], location: Location) -> list[Stored]:
        for name in names:
            if not _NAME.fullmatch(name):
                raise PayloadsUnreachable(
                    f"a claim on {self.place} names no payload: {name[:80]!r}; its sender is wrong"
                )
        parts = {name: self._cache.get(name) for name in set(names)}
        if missing := [name for name, part in parts.items() if part is None]:
            for name, raw in (await self.place.read(missing, location)).items():
                parts[name] = self._check_part(name, raw)
        return [part for name in names if (part := parts[name]) is not None]

    def _check_part(self, name: str, raw: bytes) -> Stored:
        part = self._seal.read_part(raw, name)
        if part is None:
            raise PayloadsUnreachable(
                f"{self.place.locate(name)} is damaged: it does not hold what was stored ({len(raw)} bytes, and "
                "another digest). Put it back from a backup; the run then goes on"
            )
        self._cache.put(name, part)
        return part


def _encode_text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _decode_text(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


class PieceCache:
    """The pieces used last, up to a number of bytes."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._parts: OrderedDict[str, Stored] = OrderedDict()

    def get(self, name: str) -> Stored | None:
        """Return a piece that is here."""
        if name in self._parts:
            self._parts.move_to_end(name)
        return self._parts.get(name)

    def put(self, name: str, part: Stored) -> None:
        """Keep a piece, and drop those not used for longest."""
        if name in self._parts:
            return
        self._parts[name] = part
        self._size += len(part.data)
        while self._size > self._most:
            _, dropped = self._parts.popitem(last=False)
            self._size -= len(dropped.data)
