"""External storage for large payloads, used by client and worker: Temporal keeps only a claim of some hundred bytes.

The place is a setting, the same for clients and workers: `dir:PATH`, `s3://…`, `gs://…`, or "" for none. The `driver`
cuts payloads into `pieces` and puts them into a `store`, which is a `directory` or one of the `buckets`; `checkpoints`
keeps those of graphs beside them; `collection` removes from a folder what no history refers to.

Entry points: `make_storage`, `checkpoints.open_checkpoints`, `collection.collect_garbage`.
Traps: names of drivers stand in histories; an object is written before the event that refers to it, and a run may be
parked for months, so nothing goes by its age alone; a list is stored after its parts and removed before them.
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

from holdfast.runtime.encryption import KeyRing
from holdfast.runtime.payloads import buckets
from holdfast.runtime.payloads.directory import PayloadDirectory
from holdfast.runtime.payloads.driver import PieceDriver
from holdfast.runtime.payloads.store import PayloadsUnreachable, Store

__all__ = [
    "THRESHOLD",
    "PayloadsUnreachable",
    "PieceDriver",
    "find_directory",
    "find_folder",
    "make_storage",
    "stores_large",
]

THRESHOLD = 16 * 1024
"""Bytes from which a payload is stored outside. With the SDK's 256 KiB a conversation would fill its history."""
NAMES = (PayloadDirectory.name, buckets.S3, buckets.GCS)
"""Names of the drivers, as histories contain them."""


def make_storage(place: str, *, store: bool = True, ring: KeyRing | None = None) -> ExternalStorage:
    """Return the storage that reads claims and, with `store`, puts large payloads into the place. Raises `ConfigError`.

    Replay must not store: it would write files for runs that another machine recorded.
    """
    chosen = _make_driver(place, ring)
    others = [UnconfiguredStore(name, place) for name in NAMES if chosen is None or name != chosen.name()]
    return ExternalStorage(
        drivers=[*others, *([chosen] if chosen else [])],
        driver_selector=lambda _context, _payload: chosen if store else None,
        payload_size_threshold=THRESHOLD,
    )


def stores_large(storage: ExternalStorage | None) -> bool:
    """Return whether a storage has a place for large payloads, and not only what reads claims of others."""
    return storage is not None and not all(isinstance(driver, UnconfiguredStore) for driver in storage.drivers)


def find_folder(place: str) -> Path | None:
    """Return the folder of a `dir:` place; None for any other."""
    return Path(place.removeprefix("dir:")) if place.startswith("dir:") else None


def find_directory(storage: ExternalStorage | None) -> PayloadDirectory | None:
    """Return the folder in which a storage keeps large payloads; None if it has another place, or none."""
    drivers = storage.drivers if storage else ()
    stores = (driver.place for driver in drivers if isinstance(driver, PieceDriver))
    return next((store for store in stores if isinstance(store, PayloadDirectory)), None)


def _make_driver(place: str, ring: KeyRing | None) -> StorageDriver | None:
    store = open_payload_store(place)
    return PieceDriver(store, ring) if store else None


def open_payload_store(place: str) -> Store | None:
    """Return the store at a place; None for no place. Raises `ConfigError`."""
    if folder := find_folder(place):
        return PayloadDirectory(folder)
    return buckets.make_bucket(place) if place else None


class UnconfiguredStore(StorageDriver):
    """A driver that is not configured: reading a claim of it raises an error with a way out."""

    def __init__(self, name: str, place: str) -> None:
        self._name, self._place = name, place

    def name(self) -> str:
        """See base class."""
        return self._name

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """Raise: the selector never chooses this driver."""
        raise NotImplementedError

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Raise `PayloadsUnreachable`, naming the setting that is missing."""
        bucket = claims[0].claim_data.get("bucket")
        location = f"bucket '{bucket}'" if bucket else "a folder"
        setting = f"here it is '{self._place}'" if self._place else "here it is not set"
        raise PayloadsUnreachable(
            f"a value of this run lies in {location} ({self._name}), as the setting external in [payloads] said when "
            f"it was stored; {setting}. Set it in holdfast.toml, or HOLDFAST_PAYLOADS, to what the run's worker has"
        )
