"""Checks of `holdfast doctor` of the server: address, namespace, search attributes, retention."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError

from holdfast.blueprint.amounts import say_count
from holdfast.cli.doctor.findings import Finding, make_fault
from holdfast.runtime.config import Config, ConfigError
from holdfast.runtime.connection import check_namespace, connect_if_running, is_server_named
from holdfast.runtime.errors import ServerUnreachable
from holdfast.runtime.namespace import RETENTION, find_missing_search_attributes

SETUP = "Run: holdfast setup"


@dataclass(frozen=True)
class Deployment:
    """A deployment that can be reached."""

    client: Client
    config: Config
    embedded: bool
    retention: timedelta | None = None
    """How long Temporal keeps closed runs; None if this client may not know it."""


async def reach(config: Config) -> tuple[Deployment | None, list[Finding]]:
    """Return the deployment with what was found on the way to it; None if it cannot be reached."""
    try:
        embedded = not is_server_named()
        client = await connect_if_running(config)
        if client is None:
            remedy = "Set TEMPORAL_ADDRESS; or start the local server: holdfast dev."
            return None, [
                Finding("server", "fault", "no server is configured, and the local one is not running", remedy)
            ]
    except (ConfigError, ServerUnreachable) as error:
        return None, [make_fault("server", error)]
    version = (await client.workflow_service.get_system_info(GetSystemInfoRequest(), retry=True)).server_version
    target = client.service_client.config.target_host
    findings = [Finding("server", "ok", f"Temporal {version} at {target}{' (local)' if embedded else ''}")]
    try:
        namespace = await check_namespace(client)
    except ServerUnreachable as error:
        return None, [*findings, make_fault("namespace", error)]
    findings.append(Finding("namespace", "ok", client.namespace))
    retention = None if namespace is None else namespace.config.workflow_execution_retention_ttl.ToTimedelta()
    return Deployment(client, config, embedded, retention), findings


def make_stall_fault(error: RPCError) -> Finding:
    """Return the fault of a server that is there, and does not do what it is asked: its database, as a rule."""
    remedy = (
        "As a rule its database cannot be written, as on a full disk: make room there. It then goes on by itself,"
        " and no run is lost."
    )
    return Finding("server", "fault", f"it is there, and does no work ({error.message})", remedy)


async def check_server(deployment: Deployment) -> list[Finding]:
    """Return what is wrong with the namespace."""
    return [await _check_attributes(deployment.client), _check_retention(deployment.retention)]


async def _check_attributes(client: Client) -> Finding:
    try:
        missing = await find_missing_search_attributes(client, client.namespace)
    except RPCError as error:
        return Finding("search_attributes", "unchecked", f"they could not be listed: {error.message}")
    if missing:
        return Finding("search_attributes", "fault", f"not registered, or of another type: {', '.join(missing)}", SETUP)
    return Finding("search_attributes", "ok", "all are registered")


def _check_retention(retention: timedelta | None) -> Finding:
    if retention is None:
        return Finding("retention", "unchecked", "this client may not describe the namespace")
    message = f"closed runs are kept for {say_count(retention.days, 'day')}"
    if retention < RETENTION:
        remedy = (
            f"{SETUP}, which asks for {RETENTION.days} days; or keep a record (holdfast serve), which outlives them."
        )
        return Finding("retention", "warning", message, remedy)
    return Finding("retention", "ok", message)
