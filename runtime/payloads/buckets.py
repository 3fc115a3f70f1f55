"""The store of large payloads in a bucket of S3 or GCS; their packages are extras, imported when used."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from temporalio.contrib.aws.s3driver import S3StorageDriverClient
from temporalio.contrib.gcp.gcsdriver import GCSStorageDriverClient

from holdfast.runtime.config import ConfigError
from holdfast.runtime.payloads.store import Location, PayloadsUnreachable, Store

S3, GCS = "holdfast.s3", "holdfast.gcs"
"""Parts of claims, so they never change."""
KEY = "key"
KEY_BYTES = 32
TRUSTED = 600.0
"""Seconds for which an object that was seen in the bucket is not asked for again."""
SHARED = 30 * 86400.0
"""Seconds of a period; payloads of two periods share no objects. Lifecycle rules count from when an object was written:
without periods a rule might remove what a run began to use long after that."""
AT_ONCE = 16
BUCKET, PREFIX = "bucket", "prefix"

T = TypeVar("T")


class Objects(Protocol):
    """A service that keeps objects."""

    async def exists(self, bucket: str, key: str) -> bool:
        """Return whether there is such an object."""

    async def put(self, bucket: str, key: str, data: bytes) -> None:
        """Write an object."""

    async def get(self, bucket: str, key: str) -> bytes:
        """Return an object."""


class NamedObjects:
    """Objects by name below a prefix of a bucket."""

    def __init__(self, service: Objects, bucket: str, prefix: str) -> None:
        self.service, self.bucket, self.prefix = service, bucket, prefix

    async def put(self, name: str, data: bytes) -> None:
        """Store an object."""
        await self.service.put(self.bucket, self.prefix + name, data)

    async def get(self, name: str) -> bytes | None:
        """Return the content of an object; None if there is none of this name."""
        if not await self.service.exists(self.bucket, self.prefix + name):
            return None
        return await self.service.get(self.bucket, self.prefix + name)


def open_objects(place: str) -> NamedObjects:
    """Return the objects at `s3://BUCKET/PREFIX` or `gs://BUCKET/PREFIX`. Raises `ConfigError`."""
    scheme, _, rest = place.partition("://")
    bucket, _, prefix = rest.partition("/")
    prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    if scheme == "s3":
        _check(place, "s3", "aioboto3", "types_aiobotocore_s3")
        return NamedObjects(S3Objects(), bucket, prefix)
    _check(place, "gcs", "gcloud.aio.storage")
    return NamedObjects(GcsObjects(), bucket, prefix)


def make_bucket(place: str) -> Bucket:
    """Return the store at a place (see `open_objects`). Raises `ConfigError`."""
    at = open_objects(place)
    kind = S3Bucket if place.startswith("s3:") else GcsBucket
    return kind(at.service, at.bucket, at.prefix, place)


def _check(place: str, extra: str, *modules: str) -> None:
    for module in modules:
        if not _is_installed(module):
            raise ConfigError(
                f"[payloads] external = '{place}' needs the package {module}, which is not installed here: "
                f"pip install 'holdfast[{extra}]'"
            )


def _is_installed(module: str) -> bool:
    """Return whether a module could be imported. The import itself is slow, and happens when it is used."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing too
        return False


class Bucket(Store):
    """A bucket, below a prefix. A claim holds both, so that payloads are found after the setting has changed."""

    def __init__(self, objects: Objects, bucket: str, prefix: str, place: str) -> None:
        self._objects, self._bucket, self._prefix, self._place = objects, bucket, prefix, place
        self._seen: dict[str, float] = {}
        """When each object was last seen, by its name."""

    def __str__(self) -> str:
        return self._place

    @property
    def location(self) -> Location:
        """See base class."""
        return {BUCKET: self._bucket, PREFIX: self._prefix}

    @property
    def period(self) -> str:
        """See base class."""
        return str(int(time.time() // SHARED))

    def locate(self, name: str) -> str:
        """See base class."""
        return f"{self._place.rstrip('/')}/{name}"

    async def key(self) -> bytes:
        """See base class."""
        # Two processes that begin at once may make two; then each stores what the other has, and all is found.
        key = self._prefix + KEY
        if not await self._try("read", self._objects.exists(self._bucket, key)):
            await self._try("stored", self._objects.put(self._bucket, key, secrets.token_bytes(KEY_BYTES)))
        return await self._try("read", self._objects.get(self._bucket, key))

    async def renew(self, sizes: Mapping[str, int]) -> set[str]:
        """See base class. The age that a lifecycle rule sees stays: periods make up for that."""
        since = time.monotonic() - TRUSTED
        asked = [name for name in sizes if self._seen.get(name, since) <= since]
        exists = await self._each(self._exists(name) for name in asked)
        self._see(name for name, is_there in zip(asked, exists, strict=True) if is_there)
        return {name for name in sizes if self._seen.get(name, since) > since}

    async def write(self, objects: Mapping[str, bytes]) -> None:
        """See base class."""
        await self._each(self._put(name, raw) for name, raw in objects.items())
        self._see(objects)

    async def read(self, names: Collection[str], location: Location) -> dict[str, bytes]:
        """See base class."""
        bucket, prefix = location.get(BUCKET, self._bucket), location.get(PREFIX, self._prefix)
        raws = await self._each(self._get(bucket, prefix + name) for name in names)
        return dict(zip(names, raws, strict=True))

    def _see(self, names: Iterable[str]) -> None:
        now = time.monotonic()
        self._seen = {name: at for name, at in self._seen.items() if now - at < TRUSTED} | dict.fromkeys(names, now)

    async def _exists(self, name: str) -> bool:
        return await self._try("read", self._objects.exists(self._bucket, self._prefix + name))

    async def _put(self, name: str, raw: bytes) -> None:
        await self._try("stored", self._objects.put(self._bucket, self._prefix + name, raw))

    async def _get(self, bucket: str, key: str) -> bytes:
        return await self._try("read", self._objects.get(bucket, key), f" [bucket={bucket}, key={key}]")

    async def _each(self, works: Iterable[Awaitable[T]]) -> list[T]:
        """Return the results of these works, of which so many go on at once."""
        free = asyncio.Semaphore(AT_ONCE)

        async def run(work: Awaitable[T]) -> T:
            async with free:
                return await work

        return list(await asyncio.gather(*map(run, works)))

    async def _try(self, action: str, work: Awaitable[T], place: str = "") -> T:
        try:
            return await work
        except Exception as error:  # each service has errors of its own, and none of its packages need be here
            raise PayloadsUnreachable(
                f"a large value cannot be {action} in {self._place}{place}: {type(error).__name__}: {error}; check "
                "that the bucket exists, that this process has credentials for it, and that no lifecycle rule removes "
                "what runs need"
            ) from error


class S3Bucket(Bucket):
    """A bucket of S3."""

    name = S3


class GcsBucket(Bucket):
    """A bucket of GCS."""

    name = GCS


class _LazyService:
    """A connection to a service that is opened when first needed: most commands never need it."""

    def __init__(self, connect: Callable[[], AsyncGenerator[Any, None]]) -> None:
        self._connect = connect
        self._opening = asyncio.Lock()
        self._connection: AsyncGenerator[Any, None] | None = None
        self._service: Any = None

    async def get(self) -> Any:
        async with self._opening:
            if self._service is None:
                # A converter is never closed. `asyncio.run` closes the generators that are still open at its end.
                self._connection = self._connect()
                self._service = await anext(self._connection)
        return self._service


class S3Objects:
    """S3 by aioboto3, which finds region and credentials as AWS's tools do."""

    def __init__(self) -> None:
        self._lazy = _LazyService(_s3)

    async def exists(self, bucket: str, key: str) -> bool:
        """See `Objects`."""
        service: S3StorageDriverClient = await self._lazy.get()
        return await service.object_exists(bucket=bucket, key=key)

    async def put(self, bucket: str, key: str, data: bytes) -> None:
        """See `Objects`."""
        service: S3StorageDriverClient = await self._lazy.get()
        await service.put_object(bucket=bucket, key=key, data=data)

    async def get(self, bucket: str, key: str) -> bytes:
        """See `Objects`."""
        service: S3StorageDriverClient = await self._lazy.get()
        return await service.get_object(bucket=bucket, key=key)


class GcsObjects:
    """GCS by gcloud-aio-storage, which finds credentials as Google's tools do."""

    def __init__(self) -> None:
        self._lazy = _LazyService(_gcs)

    async def exists(self, bucket: str, key: str) -> bool:
        """See `Objects`."""
        service: GCSStorageDriverClient = await self._lazy.get()
        return await service.object_exists(bucket=bucket, object_name=key)

    async def put(self, bucket: str, key: str, data: bytes) -> None:
        """See `Objects`. What is there already stays."""
        service: GCSStorageDriverClient = await self._lazy.get()
        await service.put_object(bucket=bucket, object_name=key, data=data)

    async def get(self, bucket: str, key: str) -> bytes:
        """See `Objects`."""
        service: GCSStorageDriverClient = await self._lazy.get()
        return await service.get_object(bucket=bucket, object_name=key)


async def _s3() -> AsyncGenerator[Any, None]:
    session = importlib.import_module("aioboto3").Session()
    adapter = importlib.import_module("temporalio.contrib.aws.s3driver.aioboto3")
    async with session.client("s3") as service:
        yield adapter.new_aioboto3_client(service)


async def _gcs() -> AsyncGenerator[Any, None]:
    storage = importlib.import_module("gcloud.aio.storage").Storage()
    adapter = importlib.import_module("temporalio.contrib.gcp.gcsdriver.gcloud_aio")
    async with storage as service:
        yield adapter.new_gcloud_aio_client(service)
