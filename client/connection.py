"""The connection to Temporal: where the server is, how to speak to it, what must be registered there."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

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

from client import embedded as local
from client.config import Config, ConfigError, load_config
from client.embedded import ServerUnreachable
from client.payloads import directory, folder_of, storage
from protocol.runs import BLUEPRINT_ATTRIBUTE, WAITING_ATTRIBUTE
from protocol.values import Value

__all__ = [
    "DATA_CONVERTER",
    "Connection",
    "ServerUnreachable",
    "connect",
    "converter",
    "ensure_search_attributes",
    "missing_search_attributes",
    "payload_place",
]

PATIENCE = 5.0
"""Seconds a connection attempt may take: the SDK alone would wait 30."""
LAG = 15.0
"""Seconds a new namespace or search attribute may take to reach the server's caches."""
ATTRIBUTES = {
    BLUEPRINT_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    WAITING_ATTRIBUTE: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
}


class SparseJson(PydanticJSONPlainPayloadConverter):
    """Pydantic's JSON; values of the protocol go without the fields that hold their default.

    Only of the protocol: a model of an author's own may need a default on the wire (a union's discriminator).
    """

    def __init__(self) -> None:
        super().__init__(ToJsonOptions())

    def to_payload(self, value: Any) -> Payload | None:
        """See base class."""
        if not _is_ours(value):
            return super().to_payload(value)
        data = self._schema_serializer.to_json(value, exclude_defaults=True)
        return Payload(metadata={"encoding": self.encoding.encode()}, data=data)


def _is_ours(value: Any) -> bool:
    return isinstance(value, Value) or (isinstance(value, list) and any(isinstance(item, Value) for item in value))


class HoldfastPayloads(CompositePayloadConverter):
    """Temporal's converters, with `SparseJson` in the place of plain JSON."""

    def __init__(self) -> None:
        usual = DefaultPayloadConverter.default_encoding_payload_converters
        super().__init__(*(SparseJson() if isinstance(one, JSONPlainPayloadConverter) else one for one in usual))


DATA_CONVERTER = DataConverter(payload_converter_class=HoldfastPayloads)
"""Keeps every value in Temporal, and reads none that lies elsewhere."""


def converter(place: str, *, store: bool = True) -> DataConverter:
    """The converter whose large payloads lie in the place; without `store` it only reads there."""
    return replace(DATA_CONVERTER, external_storage=storage(place, store=store))


def payload_place(config: Config) -> str:
    """Where the large payloads lie of the server that is configured, else of the embedded one."""
    return config.place(embedded=not _is_configured(_profile()))


@dataclass(frozen=True)
class Connection:
    """A client, with what its user must know of the server."""

    client: Client
    config: Config
    task_queue: str
    ui_url: str | None
    """Temporal's UI; known only of the embedded server."""
    embedded: bool


async def connect(config: Config | None = None, *, embedded: bool = True) -> Connection:
    """Connect to the configured server, else to the embedded one, which is started when it does not run.

    Without `embedded`, Temporal's own default address stands in for a missing configuration.
    Raises ConfigError and ServerUnreachable.
    """
    config = config or load_config()
    profile, ui_url = _profile(), None
    embedded = embedded and not _is_configured(profile)
    place = config.place(embedded=embedded)
    data_converter = converter(place)
    if embedded:
        server = await local.ensure(config)
        profile, ui_url = ClientConfigProfile(address=server.address, namespace=server.namespace), server.ui_url
    client = await _open(profile, data_converter)
    namespace = await _check_namespace(client)
    if namespace and (folder := folder_of(place)):
        directory.enter(folder, namespace, f"{client.namespace} at {client.service_client.config.target_host}")
    return Connection(client, config, config.worker.task_queue, ui_url, embedded)


def _profile() -> ClientConfigProfile:
    """What TEMPORAL_… variables and Temporal's TOML profiles say."""
    try:
        return ClientConfigProfile.load()
    except RuntimeError as error:
        raise ConfigError(f"Temporal's configuration: {error}; correct it or unset TEMPORAL_PROFILE") from error


def _is_configured(profile: ClientConfigProfile) -> bool:
    """Whether somebody named a server; the file and profile variables count even when they add nothing."""
    named = any(os.environ.get(name) for name in ("TEMPORAL_CONFIG_FILE", "TEMPORAL_PROFILE"))
    return named or profile != ClientConfigProfile()


async def _open(profile: ClientConfigProfile, data_converter: DataConverter) -> Client:
    """A client that has spoken to its server."""
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
    """As the SDK decides: its own settings, else on when there is an API key."""
    try:
        return profile.tls.to_connect_tls_config() if profile.tls else None
    except OSError as error:
        raise ConfigError(f"a TLS file of TEMPORAL_TLS_… cannot be read: {error}; correct its path") from error


def _reason(error: RuntimeError) -> str:
    """The cause at the end of the SDK's nested message, in plain words where it is a common one."""
    text = str(error).removeprefix("Failed client connect: ")
    common = {"Connection refused": "connection refused", "dns error": "unknown host", "Timeout expired": "no reply"}
    return next((plain for cause, plain in common.items() if cause in text), text)


def _unreachable(address: str, profile: ClientConfigProfile, reason: str) -> str:
    said = "as TEMPORAL_ADDRESS or the Temporal profile says" if profile.address else "the default: no address is set"
    return (
        f"no Temporal server at {address} ({said}): {reason}. "
        "Start it, correct TEMPORAL_ADDRESS and TEMPORAL_TLS_…, or unset TEMPORAL_… to use the embedded server"
    )


async def _check_namespace(client: Client) -> str | None:
    """The namespace's id, if we may know it. A missing one is told now: later it looks like a missing run."""
    request = DescribeNamespaceRequest(namespace=client.namespace)
    try:
        reply = await client.workflow_service.describe_namespace(request, timeout=timedelta(seconds=PATIENCE))
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
    """Names of our search attributes that are not registered there, or have another type."""
    request = ListSearchAttributesRequest(namespace=namespace)
    reply = await client.operator_service.list_search_attributes(request, retry=True)
    return [name for name, kind in ATTRIBUTES.items() if reply.custom_attributes.get(name) != kind]


async def ensure_search_attributes(client: Client, namespace: str) -> None:
    """Register our search attributes, and return once the server knows them. Doing it again changes nothing."""
    deadline = asyncio.get_running_loop().time() + LAG
    while missing := await _register(client, namespace):
        if asyncio.get_running_loop().time() > deadline:
            raise ServerUnreachable(
                f"search attributes {', '.join(missing)} are not registered in namespace '{namespace}', or have "
                f"another type: {BLUEPRINT_ATTRIBUTE} must be Keyword, {WAITING_ATTRIBUTE} KeywordList"
            )
        await asyncio.sleep(0.1)


async def _register(client: Client, namespace: str) -> list[str]:
    """Register what is missing; what is missing still. A namespace made a moment ago may not be known yet."""
    try:
        missing = await missing_search_attributes(client, namespace)
        if missing:
            wanted = {name: ATTRIBUTES[name] for name in missing}
            request = AddSearchAttributesRequest(namespace=namespace, search_attributes=wanted)
            await client.operator_service.add_search_attributes(request)
            missing = await missing_search_attributes(client, namespace)
    except RPCError as error:
        if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.ALREADY_EXISTS, RPCStatusCode.UNAVAILABLE):
            raise
        return list(ATTRIBUTES)
    return missing
