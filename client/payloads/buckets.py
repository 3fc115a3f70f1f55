"""Large payloads in a bucket of S3 or GCS, by the SDK's own drivers; their packages are extras, imported when used."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.contrib.aws.s3driver import S3StorageDriver, S3StorageDriverClient
from temporalio.contrib.gcp.gcsdriver import GCSStorageDriver, GCSStorageDriverClient
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from holdfast.client.config import ConfigError
from holdfast.client.payloads.directory import PayloadsUnreachable

S3, GCS = "aws.s3driver", "gcp.gcsdriver"


def driver(place: str) -> StorageDriver:
    """Return the driver for `s3://BUCKET/PREFIX` or `gs://BUCKET/PREFIX`. Raises `ConfigError`."""
    scheme, _, rest = place.partition("://")
    bucket, _, prefix = rest.partition("/")
    prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    if scheme == "s3":
        _check(place, "s3", "aioboto3", "types_aiobotocore_s3")
        return Bucket(S3StorageDriver(S3Client(prefix), bucket, S3), "key", prefix, place)
    _check(place, "gcs", "gcloud.aio.storage")
    return Bucket(GCSStorageDriver(GcsClient(prefix), bucket, GCS), "object_name", prefix, place)


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


class Bucket(StorageDriver):
    """One of the SDK's drivers with a key prefix, raising `PayloadsUnreachable` for its errors.

    A claim holds bucket and full key, so that stored values are found after the setting has changed.
    """

    def __init__(self, inner: StorageDriver, key: str, prefix: str, place: str) -> None:
        self._inner, self._key, self._prefix, self._place = inner, key, prefix, place

    def name(self) -> str:
        """See base class."""
        return self._inner.name()

    def type(self) -> str:
        """See base class."""
        return self._inner.type()

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """See base class. Raises PayloadsUnreachable."""
        try:
            claims = await self._inner.store(context, payloads)
        except (RuntimeError, ValueError) as error:
            raise self._unreachable("stored", error) from error
        return [StorageDriverClaim(self._with_prefix(claim.claim_data)) for claim in claims]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """See base class. Raises PayloadsUnreachable."""
        try:
            return await self._inner.retrieve(context, claims)
        except (RuntimeError, ValueError, KeyError) as error:
            raise self._unreachable("read", error) from error

    def _with_prefix(self, claim: Mapping[str, str]) -> dict[str, str]:
        """Return the claim with the full key: the SDK's driver knows no prefix."""
        return {**claim, self._key: self._prefix + claim[self._key]}

    def _unreachable(self, action: str, error: Exception) -> PayloadsUnreachable:
        cause = f": {error.__cause__}" if error.__cause__ else ""
        return PayloadsUnreachable(
            f"a large value cannot be {action} in {self._place}: {error}{cause}; check that the bucket exists, that "
            "this process has credentials for it, and that no lifecycle rule removes what runs need"
        )


class _LazyService:
    """A connection to a service that is opened when first needed: most commands never need it."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._opening = asyncio.Lock()
        self._connection: AsyncGenerator[Any, None] | None = None
        self._service: Any = None

    async def _open(self, connection: Callable[[], AsyncGenerator[Any, None]]) -> Any:
        async with self._opening:
            if self._service is None:
                # A converter is never closed. `asyncio.run` closes the generators that are still open at its end.
                self._connection = connection()
                self._service = await anext(self._connection)
        return self._service


class S3Client(_LazyService, S3StorageDriverClient):
    """S3 client of aioboto3, which finds region and credentials as AWS's tools do."""

    async def object_exists(self, *, bucket: str, key: str) -> bool:
        """See base class."""
        service = await self._open(_s3)
        return bool(await service.object_exists(bucket=bucket, key=self._prefix + key))

    async def put_object(self, *, bucket: str, key: str, data: bytes) -> None:
        """See base class."""
        service = await self._open(_s3)
        await service.put_object(bucket=bucket, key=self._prefix + key, data=data)

    async def get_object(self, *, bucket: str, key: str) -> bytes:
        """See base class; the key of a claim already has the prefix."""
        service = await self._open(_s3)
        return bytes(await service.get_object(bucket=bucket, key=key))


class GcsClient(_LazyService, GCSStorageDriverClient):
    """GCS client of gcloud-aio-storage, which finds credentials as Google's tools do."""

    async def object_exists(self, *, bucket: str, object_name: str) -> bool:
        """See base class."""
        service = await self._open(_gcs)
        return bool(await service.object_exists(bucket=bucket, object_name=self._prefix + object_name))

    async def put_object(self, *, bucket: str, object_name: str, data: bytes) -> None:
        """See base class."""
        service = await self._open(_gcs)
        await service.put_object(bucket=bucket, object_name=self._prefix + object_name, data=data)

    async def get_object(self, *, bucket: str, object_name: str) -> bytes:
        """See base class; the name of a claim already has the prefix."""
        service = await self._open(_gcs)
        return bytes(await service.get_object(bucket=bucket, object_name=object_name))


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
