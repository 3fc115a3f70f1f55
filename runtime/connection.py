"""Connect to Temporal: find or start the server, choose the data converter, register search attributes.

Commands, workers and programs call `connect`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeNamespaceResponse
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfigProfile
from temporalio.service import RPCError, RPCStatusCode

from holdfast.protocol.names import ATTRIBUTE_TYPES
from holdfast.runtime import embedded as local
from holdfast.runtime.config import Config, ConfigError, load_config
from holdfast.runtime.converters import DATA_CONVERTER, add_encryption
from holdfast.runtime.embedded import Startup
from holdfast.runtime.embedded.server import NAMESPACE, find_server
from holdfast.runtime.encryption import KeyRing, load_key_ring
from holdfast.runtime.errors import ServerUnreachable, make_server_error
from holdfast.runtime.namespace import find_missing_search_attributes, register_search_attributes
from holdfast.runtime.outage import NoWorkflows, ReadLimits
from holdfast.runtime.payloads import find_directory, make_storage
from holdfast.runtime.payloads.directory import NamespaceNote
from holdfast.runtime.temporal_profile import (
    ADDRESS,
    DEFAULT_ADDRESS,
    find_origin,
    is_configured,
    load_profile,
    make_tls_config,
)

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds that a connection attempt may take: the SDK's own limit is 30."""
LAG = 15.0
"""Seconds that a new namespace or search attribute may take to reach the server's caches."""


def make_converter(place: str, *, store: bool = True, ring: KeyRing | None = None) -> DataConverter:
    """Return a converter that encrypts with a ring of keys, and keeps large payloads in a store (see `Config.place`).

    Without `store` it only reads.
    """
    large = replace(DATA_CONVERTER, external_storage=make_storage(place, store=store, ring=ring))
    return add_encryption(large, ring or KeyRing())


def find_payload_place(config: Config) -> str:
    """Return the store for large payloads of the configured server, else that of the embedded one."""
    return config.place(embedded=not is_configured(load_profile()))


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
    config: Config | None = None,
    *,
    embedded: bool = True,
    startup: Startup = Startup.ALL,
    tell: Callable[[str], None] | None = None,
) -> Connection:
    """Connect to the configured server, else to the embedded one.

    Args:
        config: The configuration; by default that of the current folder.
        embedded: Use the embedded server if none is configured; else Temporal's default address.
        startup: What may be started of the embedded server if it does not run.
        tell: Called with a message when something is started, which takes some seconds.

    Raises:
        ConfigError: The configuration cannot be used.
        ServerUnreachable: The server does not answer, or has no such namespace.
    """
    config = config or load_config()
    profile, ui_url = load_profile(), None
    embedded = embedded and not is_configured(profile)
    place = config.place(embedded=embedded)
    data_converter = make_converter(place, ring=load_key_ring(config))
    if embedded:
        server = await local.reach(config, startup, tell)
        client, ui_url = await _connect_embedded(config, server.address, data_converter), server.ui_url
    else:
        client = await _connect(profile, data_converter)
    namespace = await check_namespace(client)
    if namespace is not None and (directory := find_directory(data_converter.external_storage)):
        label = f"{client.namespace} at {client.service_client.config.target_host}"
        directory.note = NamespaceNote(namespace.namespace_info.id, label)
    return Connection(client, config, config.worker.task_queue, ui_url, embedded)


async def connect_if_running(config: Config) -> Client | None:
    """Return a client of the configured server, else of the embedded one if it runs; nothing is started.

    Raises:
        ConfigError: The configuration cannot be used.
        ServerUnreachable: The server does not answer.
    """
    profile = load_profile()
    embedded = not is_configured(profile)
    converter = make_converter(config.place(embedded=embedded), ring=load_key_ring(config))
    if not embedded:
        return await _connect(profile, converter)
    server = find_server(config.home)
    return None if server is None else await _connect_embedded(config, server.address, converter)


async def connect_to_nobody(config: Config) -> Connection:
    """Return a connection for who reads the record alone: no server is asked, and it finds no workflow."""
    profile = load_profile()
    embedded = not is_configured(profile)
    client = await Client.connect(
        DEFAULT_ADDRESS,
        namespace=NAMESPACE if embedded else profile.namespace or "default",
        lazy=True,
        data_converter=make_converter(config.place(embedded=embedded), ring=load_key_ring(config)),
        interceptors=[NoWorkflows()],
    )
    return Connection(client, config, config.worker.task_queue, None, embedded)


def is_server_named() -> bool:
    """Return whether the environment names a server, which is used instead of the embedded one. Raises ConfigError."""
    return is_configured(load_profile())


async def _connect_embedded(config: Config, address: str, data_converter: DataConverter) -> Client:
    """Return a client of the embedded server. Raises ServerUnreachable."""
    try:
        return await _connect(ClientConfigProfile(address=address, namespace=NAMESPACE), data_converter)
    except ServerUnreachable as error:  # in the words of a server that the environment names
        raise ServerUnreachable(local.explain_unreachable(config.home)) from error


async def _connect(profile: ClientConfigProfile, data_converter: DataConverter) -> Client:
    """Return a connected client. Raises ConfigError or ServerUnreachable."""
    address = profile.address or DEFAULT_ADDRESS
    tls = make_tls_config(profile)
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
                interceptors=[ReadLimits()],
            )
    except TimeoutError as error:
        raise ServerUnreachable(_explain_unreachable(address, profile, f"no reply in {PATIENCE:.0f} s")) from error
    except ValueError as error:  # of the address and of metadata, in the SDK's own words
        raise ConfigError(_explain_unusable(address, str(error))) from error
    except RuntimeError as error:
        if "Invalid headers" in str(error):  # of TEMPORAL_API_KEY and TEMPORAL_GRPC_META_…
            raise ConfigError(_explain_unusable(address, _find_reason(error))) from error
        if misfit := _find_plain(_TLS_REASONS, str(error)):
            raise ServerUnreachable(f"no connection to the server at {address}: {misfit}") from error
        raise ServerUnreachable(_explain_unreachable(address, profile, _find_reason(error))) from error


_REASONS = {
    "Connection refused": "connection refused",
    "dns error": "unknown host",
    "Timeout expired": "no reply",
}
"""Causes in the SDK's nested messages, and what they mean in plain words."""
_CA = "TEMPORAL_TLS_SERVER_CA_CERT_PATH"
_OWN = "TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH"
_HUNG_UP = (
    "it ends the connection: it may want TLS (TEMPORAL_TLS=true), or a client certificate, or another one; "
    f"correct {_OWN}"
)
_TLS_REASONS = {
    "InvalidContentType": "it does not speak TLS; unset TEMPORAL_TLS, or correct the port",
    "PrivateKeyParseError": "the key of the client certificate cannot be read: TEMPORAL_TLS_CLIENT_KEY_PATH",
    "KeyMismatch": f"the key is not that of the client certificate; correct {_OWN}",
    "UnknownIssuer": f"no authority that is trusted here has signed its certificate; name its authority's in {_CA}",
    "BadSignature": f"its certificate is not signed by the authority that is trusted here; correct {_CA}",
    "NotValidForName": "its certificate is for another name; set TEMPORAL_TLS_SERVER_NAME to the name in it",
    "InvalidCertificate(Expired": "its certificate has expired",
    "InvalidCertificate(NotValidYet": "its certificate is not valid yet, or the clock here is wrong",
    "CertificateRequired": f"it wants a client certificate; set {_OWN}",
    "AlertReceived": f"it does not take the client certificate; correct {_OWN}",
    **dict.fromkeys(
        ("UnexpectedEof", "BrokenPipe", "ConnectionReset", "ConnectionAborted", "Error(Canceled", "IncompleteMessage"),
        _HUNG_UP,
    ),
}
"""The same where a server is there: its name is followed by what does not fit, with the variable to set."""


def _find_reason(error: RuntimeError) -> str:
    """Return the cause in the SDK's nested message, in plain words if it is a common one."""
    text = str(error).removeprefix("Failed client connect: ")
    return _find_plain(_REASONS, text) or text


def _find_plain(reasons: Mapping[str, str], text: str) -> str | None:
    """Return the plain words for the first of these causes that is in a message; None if none is."""
    return next((plain for cause, plain in reasons.items() if cause in text), None)


def _explain_unusable(address: str, text: str) -> str:
    """Return the message for settings that the SDK refuses before it connects."""
    target, separator, reason = text.partition("invalid target URL: ")
    if separator and not target:
        return f"{find_origin(ADDRESS, 'address')}: {address!r} is not an address: {reason}; write HOST:PORT"
    return f"TEMPORAL_…: {text}; correct the variable, or the profile"


def _explain_unreachable(address: str, profile: ClientConfigProfile, reason: str) -> str:
    origin = f"as {find_origin(ADDRESS, 'address')} says" if profile.address else "the default: no address is set"
    return (
        f"no Temporal server at {address} ({origin}): {reason}. "
        "Start it, correct TEMPORAL_ADDRESS and TEMPORAL_TLS_…, or unset TEMPORAL_… to use the embedded server"
    )


async def check_namespace(client: Client) -> DescribeNamespaceResponse | None:
    """Return what the server says of the namespace; None if the key may not read it.

    Raises ServerUnreachable if it does not exist.
    """
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
            text = f"the server at {client.service_client.config.target_host}: {make_server_error(error)}"
            raise ServerUnreachable(text) from error
        return None
    return reply


async def check_search_attributes(client: Client) -> None:
    """Raise `ServerUnreachable` if our search attributes are missing: every workflow task would fail for ever."""
    try:
        missing = await find_missing_search_attributes(client, client.namespace)
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
    while missing := await register_search_attributes(client, namespace):
        if asyncio.get_running_loop().time() > deadline:
            wanted = ", ".join(f"{name} must be {ATTRIBUTE_TYPES[name]}" for name in missing)
            raise ServerUnreachable(
                f"search attributes {', '.join(missing)} are not registered in namespace '{namespace}', or have "
                f"another type: {wanted}"
            )
        await asyncio.sleep(0.1)


@contextmanager
def explain_registration_errors(namespace: str) -> Iterator[None]:
    """Raise `ServerUnreachable` with the way out where search attributes may not be registered by this client."""
    try:
        yield
    except RPCError as error:
        if error.status not in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED):
            raise
        flags = " ".join(f"--search-attribute {name}={type_}" for name, type_ in ATTRIBUTE_TYPES.items())
        raise ServerUnreachable(
            f"search attributes cannot be registered in namespace '{namespace}' from here: {error.message}. "
            f"On Temporal Cloud: tcld namespace search-attributes add --namespace {namespace} {flags}; "
            "elsewhere ask an administrator"
        ) from error
