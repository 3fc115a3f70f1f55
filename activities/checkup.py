"""The check of a worker: clock, keys, and the stores that its activities use. `holdfast doctor` calls it."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from temporalio import activity
from temporalio.exceptions import ApplicationError

from holdfast.activities.cache import CacheStore
from holdfast.activities.secrets import SecretStore
from holdfast.blueprint.questions.secret import DIRECTORY
from holdfast.protocol.agents import CacheEntry
from holdfast.protocol.checkup import CHECK_WORKER, CheckWorker, WorkerState, make_proof
from holdfast.protocol.guard import DEPLOYMENT

PROBE = "holdfast-doctor"
"""The key, in the cache, of the value that the check writes."""
NOBODYS = "0" * 32
"""The id of a secret that no store has."""


class CheckActivities:
    """The activity that checks the worker it runs on. It calls no tool and no model."""

    def __init__(
        self,
        cache: CacheStore,
        secrets: Mapping[str, SecretStore],
        encryption: Mapping[str, bytes] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cache, self._secrets, self._encryption, self._clock = cache, secrets, encryption or {}, clock

    @activity.defn(name=CHECK_WORKER)
    async def check(self, request: CheckWorker) -> WorkerState:
        """Return the state of this worker."""
        keys = {key.id: key.secret.encode() for key in DEPLOYMENT.keys}
        return WorkerState(
            now=self._clock(),
            keys=sorted(keys),
            encryption=list(self._encryption),
            unproved=_find_unlike(request.proofs, keys, request.nonce),
            unlike=_find_unlike(request.encryption, self._encryption, request.nonce),
            troubles=[*await self._check_cache(), *await asyncio.to_thread(self._check_secrets)],
            secret=await asyncio.to_thread(self._reads, request.secret),
            filler=request.filler[::-1],
        )

    async def _check_cache(self) -> list[str]:
        try:
            await self._cache.put(CacheEntry(key=PROBE, value=True, ttl=60.0))
            await self._cache.get(PROBE)
        except ApplicationError as error:
            return [f"cache: {error.message}"]
        return []

    def _reads(self, id_: str | None) -> bool:
        store = self._secrets.get(DIRECTORY)
        if id_ is None or store is None:
            return False
        try:
            return store.read(id_) is not None
        except (OSError, ValueError):
            return False

    def _check_secrets(self) -> list[str]:
        troubles: list[str] = []
        for name, store in self._secrets.items():
            try:
                store.read(NOBODYS)
            except OSError as error:
                troubles.append(f"secrets: the store '{name}' cannot be read: {error}")
        return troubles


def _find_unlike(proofs: Mapping[str, str], keys: Mapping[str, bytes], nonce: str) -> list[str]:
    """Return the ids of keys that are here, too, with another value than the proofs show."""
    return [
        id_
        for id_, proof in proofs.items()
        if id_ in keys and not hmac.compare_digest(proof, make_proof(keys[id_], nonce))
    ]
