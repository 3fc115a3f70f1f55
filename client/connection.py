"""Connect to Temporal: find or start the server, choose the data converter, register search attributes.

Commands, workers and programs call `connect`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter, ToJsonOptions
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
)
from temporalio.envconfig import ClientConfigProfile
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from holdfast.client import embedded as local
from holdfast.client.config import Config, ConfigError, load_config
from holdfast.client.embedded import ServerUnreachable
from holdfast.client.payloads import directory, folder_of, storage
from holdfast.protocol.runs import BLUEPRINT_ATTRIBUTE, WAITING_ATTRIBUTE
from holdfast.protocol.values import Value

__all__ = [
    "DATA_CONVERTER",
    "Connection",
    "ServerUnreachable",
    "check_search_attributes",
    "connect",
    "converter",
    "ensure_search_attributes",
    "missing_search_attributes",
    "names_server",
    "payload_place",
]

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds that a connection attempt may take: the SDK's own limit is 30."""
LAG = 15.0
"""Seconds that a new namespace or search attribute may take to reach the server's caches."""
ATTRIBUTES = {
    BLUEPRINT_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    WAITING_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
}


class SparseJson(PydanticJSONPlainPayloadConverter):
    """The converter for JSON by pydantic that omits default fields in values of the protocol.

    A model of an author's own keeps them: a default may be needed on the wire, such as a union's discriminator.
    """

    def __init__(self) -> None:
        super().__init__(ToJsonOptions())

    def to_payload(self, value: object) -> Payload | None:
        """See base class."""
        if not _is_ours(value):
            return super().to_payload(value)
        data = self._schema_serializer.to_json(value, exclude_defaults=True)
        return Payload(metadata={"encoding": self.encoding.encode()}, data=data)


def _is_ours(value: object) -> bool:
    return isinstance(value, Value) or (isinstance(value, list) and any(isinstance(item, Value) for item in value))


class HoldfastPayloads(CompositePayloadConverter):
    """Temporal's payload converters, with `SparseJson` in place of plain JSON."""

    def __init__(self) -> None:
        usual = DefaultPayloadConverter.default_encoding_payload_converters
        super().__init__(*(SparseJson() if isinstance(item, JSONPlainPayloadConverter) else item for item in usual))


DATA_CONVERTER = DataConverter(payload_converter_class=HoldfastPayloads)
"""The converter without external storage: every value is kept in Temporal."""


def converter(place: str, *, store: bool = True) -> DataConverter:
    """Return a converter that keeps large payloads in a store (see `Config.place`); without `store` it only reads."""
    return replace(DATA_CONVERTER, external_storage=storage(place, store=store))


def payload_place(config: Config) -> str:
    """Return the store for large payloads of the configured server, else that of the embedded one."""
    return config.place(embedded=not _is_configured(_profile()))


@dataclass(frozen=True)
class Connection:
    """A client, with the configuration and the server that it belongs to."""

    client: Client
    config: Config
    task_queue: str
    ui_url: str | None
    """The URL of Temporal's UI; known for the embedded server only."""
    embedded: bool


async def connect(
    config: Config | None = None, *, embedded: bool = True, tell: Callable[[str], None] | None = None
) -> Connection:
    """Connect to the configured server, else to the embedded one, which is started if it is not running.

    Args:
        config: The configuration; by default that of the current folder.
        embedded: Use the embedded server if none is configured; else Temporal's default address.
        tell: Called with a message when something is started, which takes some seconds.

    Raises:
        ConfigError: The configuration cannot be used.
        ServerUnreachable: The server does not answer, or has no such namespace.
    """
    config = config or load_config()
    profile, ui_url = _profile(), None
    embedded = embedded and not _is_configured(profile)
    place = config.place(embedded=embedded)
    data_converter = converter(place)
    if embedded:
        server = await local.ensure(config, tell)
        profile, ui_url = ClientConfigProfile(address=server.address, namespace=server.namespace), server.ui_url
    client = await _open(profile, data_converter)
    namespace = await _check_namespace(client)
    if namespace and (folder := folder_of(place)):
        directory.enter(folder, namespace, f"{client.namespace} at {client.service_client.config.target_host}")
    return Connection(client, config, config.worker.task_queue, ui_url, embedded)


def _profile() -> ClientConfigProfile:
    """Return the profile that TEMPORAL_… variables and Temporal's TOML file configure. Raises ConfigError."""
    try:
        return ClientConfigProfile.load()
    except RuntimeError as error:
        raise ConfigError(f"Temporal's configuration: {error}; correct it or unset TEMPORAL_PROFILE") from error


def names_server() -> bool:
    """Return whether the environment names a server, which is used instead of the embedded one. Raises ConfigError."""
    return _is_configured(_profile())


def _is_configured(profile: ClientConfigProfile) -> bool:
    """Return whether a server is named; the variables for file and profile count even if they add nothing."""
    named = any(os.environ.get(name) for name in ("TEMPORAL_CONFIG_FILE", "TEMPORAL_PROFILE"))
    return named or profile != ClientConfigProfile()


async def _open(profile: ClientConfigProfile, data_converter: DataConverter) -> Client:
    """Return a connected client. Raises ConfigError or ServerUnreachable."""
    address = profile.address or "localhost:7233"
    tls = _tls(profile)
    try:
        async with asyncio.timeout(PATIENCE):
            return await Client.connect(
                address,
                namespace=profile.namespace or "default",
                api_key=profile.api_key,
                tls=tls,
                rpc_metadata=profile.grpc_meta,
                connect_timeout=timedelta(seconds=PATIENCE),
                data_converter=data_converter,
            )
    except TimeoutError as error:
        raise ServerUnreachable(_unreachable(address, profile, f"no reply in {PATIENCE:.0f} s")) from error
    except RuntimeError as error:
        raise ServerUnreachable(_unreachable(address, profile, _reason(error))) from error


def _tls(profile: ClientConfigProfile) -> bool | TLSConfig | None:
    """Return the TLS settings; None leaves it to the SDK, which uses TLS if there is an API key."""
    try:
        return profile.tls.to_connect_tls_config() if profile.tls else None
    except OSError as error:
        raise ConfigError(f"a TLS file of TEMPORAL_TLS_… cannot be read: {error}; correct its path") from error


def _reason(error: RuntimeError) -> str:
    """Return the cause in the SDK's nested message, in plain words if it is a common one."""
    text = str(error).removeprefix("Failed client connect: ")
    common = {"Connection refused": "connection refused", "dns error": "unknown host", "Timeout expired": "no reply"}
    return next((plain for cause, plain in common.items() if cause in text), text)


def _unreachable(address: str, profile: ClientConfigProfile, reason: str) -> str:
    origin = "as TEMPORAL_ADDRESS or the Temporal profile says" if profile.address else "the default: no address is set"
    return (
        f"no Temporal server at {address} ({origin}): {reason}. "
        "Start it, correct TEMPORAL_ADDRESS and TEMPORAL_TLS_…, or unset TEMPORAL_… to use the embedded server"
    )


async def _check_namespace(client: Client) -> str | None:
    """Return the namespace's id; None if the key may not read it. Raises ServerUnreachable if it does not exist."""
    # Without this check, a command in a namespace that does not exist would report a missing run.
    request = DescribeNamespaceRequest(namespace=client.namespace)
    try:
        reply = await client.workflow_service.describe_namespace(
            request, retry=True, timeout=timedelta(seconds=PATIENCE)
        )
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise ServerUnreachable(
                f"the server at {client.service_client.config.target_host} has no namespace '{client.namespace}'; "
                "set TEMPORAL_NAMESPACE, or make it: temporal operator namespace create -n "
                f"{client.namespace} --retention 90d"
            ) from error
        if error.status != RPCStatusCode.PERMISSION_DENIED:  # a key for runs alone may not describe
            raise ServerUnreachable(f"the server at {client.service_client.config.target_host}: {error}") from error
        return None
    return reply.namespace_info.id


async def missing_search_attributes(client: Client, namespace: str) -> list[str]:
    """Return the names of our search attributes that are not registered in a namespace, or have another type."""
    request = ListSearchAttributesRequest(namespace=namespace)
    reply = await client.operator_service.list_search_attributes(request, retry=True)
    return [name for name, kind in ATTRIBUTES.items() if reply.custom_attributes.get(name) != kind]


async def check_search_attributes(client: Client) -> None:
    """Raise `ServerUnreachable` if our search attributes are missing: every workflow task would fail for ever."""
    try:
        missing = await missing_search_attributes(client, client.namespace)
    except RPCError as error:
        log.warning("search attributes could not be checked: %s", error)
        return
    if missing:
        raise ServerUnreachable(
            f"search attributes {', '.join(missing)} are not registered in namespace '{client.namespace}'; "
            "run: holdfast setup"
        )


async def ensure_search_attributes(client: Client, namespace: str) -> None:
    """Register our search attributes and wait until the server knows them. A repeated call changes nothing.

    Raises ServerUnreachable if they cannot be registered.
    """
    deadline = asyncio.get_running_loop().time() + LAG
    while missing := await _register(client, namespace):
        if asyncio.get_running_loop().time() > deadline:
            raise ServerUnreachable(
                f"search attributes {', '.join(missing)} are not registered in namespace '{namespace}', or have "
                f"another type: {BLUEPRINT_ATTRIBUTE} must be Keyword, {WAITING_ATTRIBUTE} KeywordList"
            )
        await asyncio.sleep(0.1)


async def _register(client: Client, namespace: str) -> list[str]:
    """Register the attributes that are missing, and return those that still are: the caches of the server lag."""
    try:
        missing = await missing_search_attributes(client, namespace)
        if missing:
            wanted = {name: ATTRIBUTES[name] for name in missing}
            request = AddSearchAttributesRequest(namespace=namespace, search_attributes=wanted)
            await client.operator_service.add_search_attributes(request, retry=True)
            missing = await missing_search_attributes(client, namespace)
    except RPCError as error:
        if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.ALREADY_EXISTS, RPCStatusCode.UNAVAILABLE):
            raise
        return list(ATTRIBUTES)
    return missing
