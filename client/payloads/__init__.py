"""External storage for large payloads: what Temporal keeps of one is a claim of some hundred bytes.

The place is a setting, the same for clients and workers: `dir:PATH`, `s3://…`, `gs://…`, or "" for none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from client.payloads import buckets, directory
from client.payloads.directory import Directory, PayloadsUnreachable

__all__ = ["THRESHOLD", "PayloadsUnreachable", "folder_of", "storage"]

THRESHOLD = 16 * 1024
"""Bytes from which a payload goes outside. The SDK's own 256 KiB would let a conversation fill its history."""
NAMES = (directory.NAME, buckets.S3, buckets.GCS)
"""Of the drivers, as they stand in histories."""


def storage(place: str, *, store: bool = True) -> ExternalStorage:
    """What reads claims and, unless told not to, puts every large payload into the place. Raises ConfigError.

    Replay must not store: it would leave files of runs that another machine recorded.
    """
    chosen = _driver(place)
    others = [Elsewhere(name, place) for name in NAMES if chosen is None or name != chosen.name()]
    return ExternalStorage(
        drivers=[*others, *([chosen] if chosen else [])],
        driver_selector=lambda _context, _payload: chosen if store else None,
        payload_size_threshold=THRESHOLD,
    )


def folder_of(place: str) -> Path | None:
    """The folder, if the place is one."""
    return Path(place.removeprefix("dir:")) if place.startswith("dir:") else None


def _driver(place: str) -> StorageDriver | None:
    if folder := folder_of(place):
        return Directory(folder)
    return buckets.driver(place) if place else None


class Elsewhere(StorageDriver):
    """Stands for the drivers that are not configured, so that a claim of theirs is told with a way out."""

    def __init__(self, name: str, place: str) -> None:
        self._name, self._place = name, place

    def name(self) -> str:
        """See base class."""
        return self._name

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """Nothing is ever stored there."""
        raise NotImplementedError

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Tells what is missing here."""
        where = claims[0].claim_data.get("bucket")
        kind = f"bucket '{where}'" if where else "a folder"
        here = f"here it is '{self._place}'" if self._place else "here it is not set"
        raise PayloadsUnreachable(
            f"a value of this run lies in {kind} ({self._name}), as the setting external in [payloads] said when it "
            f"was stored; {here}. Set it in holdfast.toml, or HOLDFAST_PAYLOADS, to what the run's worker has"
        )
