"""Checks of `holdfast doctor` of who may see runs: none may be left that nobody sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.blueprint.errors import BlueprintError
from holdfast.cli.doctor.findings import Finding
from holdfast.cli.doctor.server import Deployment
from holdfast.client.catalogue import list_offered
from holdfast.client.listing import open_runs
from holdfast.client.permissions import read_access
from holdfast.protocol.access import AccessPolicy, RunAccess, is_seen_by_nobody
from holdfast.runtime.config import Config

REMEDY = "Name people for see or steer in [access] of holdfast.toml, or in access of the blueprint."
MOST_NAMED = 5


def check_rules(config: Config) -> Finding:
    """Return whether somebody is left to see the runs that a webhook, a schedule or a token starts."""
    rules = config.access_rules()
    if not rules.enforced:
        return Finding("access", "ok", "nobody signs in, and there is no [access]: who reaches serve sees all runs")
    lonely = [access.blueprint for access in _iterate_offers(config) if is_seen_by_nobody(access, rules)]
    if lonely:
        message = f"nobody may see what a webhook, a schedule or a token starts of {_list_names(lonely)}"
        return Finding("access", "warning", message, REMEDY)
    return Finding("access", "ok", "each blueprint that is offered has people who may see its runs")


def _iterate_offers(config: Config) -> Iterator[RunAccess]:
    for offer in list_offered(config):
        try:
            blueprint = offer.read()
        except BlueprintError:
            continue
        yield RunAccess(blueprint=blueprint.name, written=AccessPolicy.read(blueprint))


async def check_open_runs(deployment: Deployment) -> list[Finding]:
    """Return the open runs that nobody may see; none where everybody may."""
    rules = deployment.config.access_rules()
    if not rules.enforced:
        return []
    lonely = [
        execution.id
        async for execution in open_runs(deployment.client)
        if is_seen_by_nobody(await read_access(execution), rules)
    ]
    if not lonely:
        return []
    message = f"nobody may see {_list_names(lonely)}, but the assignees of the questions"
    return [Finding("access", "warning", message, f"{REMEDY} The rules of the deployment count for open runs, too.")]


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(sorted(names)[:MOST_NAMED]) + more
