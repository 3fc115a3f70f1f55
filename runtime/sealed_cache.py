"""The cache of `cache` steps under `[encryption]`: encrypted values under secret names. The worker wraps its store."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import logging
from collections.abc import Iterator
from hashlib import sha256
from typing import Protocol

from holdfast.blueprint.json_values import JSON
from holdfast.protocol.agents import CacheEntry, CacheHit
from holdfast.runtime.encryption import KeyRing, NotDecrypted

log = logging.getLogger("holdfast.cache")

_NAMES = b"holdfast cache"


class StoredValues(Protocol):
    """The part of a store that is needed; the workers' activities have a protocol of their own for it."""

    async def get(self, key: str) -> CacheHit: ...
    async def put(self, entry: CacheEntry) -> None: ...
    async def close(self) -> None: ...


class SealedCache:
    """A store whose values are encrypted with the first key of a ring, and read with every key of it.

    What was kept before there were keys is not found: its name, a digest without a secret, lets others test guesses.
    """

    def __init__(self, inner: StoredValues, ring: KeyRing) -> None:
        self._inner, self._ring = inner, ring

    async def get(self, key: str) -> CacheHit:
        """Return the value under a key. One that cannot be decrypted is none: its step can simply run again."""
        for name in self._derive_names(key):
            hit = await self._inner.get(name)
            if hit.found:
                return self._decrypt(hit.value, name)
        return CacheHit()

    async def put(self, entry: CacheEntry) -> None:
        """Keep a value, encrypted."""
        name = next(self._derive_names(entry.key))
        sealed = self._ring.seal(json.dumps(entry.value).encode(), name.encode())
        value = base64.b64encode(sealed).decode()
        await self._inner.put(entry.model_copy(update={"key": name, "value": value}))

    async def close(self) -> None:
        """Close the store."""
        await self._inner.close()

    def _derive_names(self, key: str) -> Iterator[str]:
        """Yield the names under which a value is kept: by the key that encrypts, then by those before it."""
        for secret in self._ring.derive_keys(_NAMES):
            yield hmac.new(secret, key.encode(), sha256).hexdigest()

    def _decrypt(self, value: JSON, name: str) -> CacheHit:
        try:
            sealed = base64.b64decode(str(value), validate=True)
            return CacheHit(found=True, value=json.loads(self._ring.open(sealed, name.encode())))
        except (NotDecrypted, binascii.Error) as error:
            log.warning("a value of the cache is not used, so its step runs again: %s", error)
            return CacheHit()
