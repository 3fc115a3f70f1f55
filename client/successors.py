"""The retries and forks of a run, as Temporal has them."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from datetime import UTC

from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.names import BLUEPRINT_ATTRIBUTE, PIPELINE_WORKFLOW, join_run_id
from holdfast.protocol.past_link import PAST_MEMO, PastLink
from holdfast.runtime.errors import BadInput
from holdfast.runtime.namespace import quote

_MOST_NAMES = 100
"""Most ids that are tried for a retry: other runs may have the first of them."""


async def find_successors(client: Client, run: str) -> list[str]:
    """Return the retries and forks of a run that Temporal has, and those of theirs, the oldest first."""
    successors: dict[str, list[str]] = defaultdict(list)
    wanted = f"WorkflowType = '{PIPELINE_WORKFLOW}' AND {await _match_later(client, run)}"
    listed = [execution async for execution in client.list_workflows(wanted)]
    for execution in sorted(listed, key=lambda execution: execution.start_time):
        link: PastLink | None = await execution.memo_value(PAST_MEMO, None, type_hint=PastLink)
        if link is not None and execution.id not in successors[link.run]:
            successors[link.run].append(execution.id)
    found = [run]
    for one in found:  # it grows while it is gone through
        found += successors[one]
    return found[1:]


async def _match_later(client: Client, run: str) -> str:
    """Return the query for the runs among which the successors of a run are: later ones of its blueprint."""
    try:
        described = await client.get_workflow_handle(run).describe()
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:  # Temporal has deleted it
            raise
        return f"{BLUEPRINT_ATTRIBUTE} IS NOT NULL"
    # A successor has the name of the run's blueprint, also where it runs a changed one.
    name = described.typed_search_attributes.get(SearchAttributeKey.for_keyword(BLUEPRINT_ATTRIBUTE))
    same = f"{BLUEPRINT_ATTRIBUTE} = '{quote(name)}'" if name else f"{BLUEPRINT_ATTRIBUTE} IS NOT NULL"
    begun = described.raw_description.workflow_extended_info.original_start_time  # before it continued as new
    return f"{same} AND StartTime >= '{begun.ToDatetime(UTC).isoformat()}'"


def name_retry(run: str) -> str:
    """Return the id of the run that goes on from this one.

    >>> name_retry("brief-01"), name_retry("brief-01~2")
    ('brief-01~2', 'brief-01~3')
    """
    base, _, number = run.rpartition("~")
    if not (base and number.isdigit()):
        base, number = run, "1"
    return join_run_id(base, f"~{int(number) + 1}")


async def find_retry(tree: Tree, run: str) -> tuple[str, PastLink | None]:
    """Return the id of the run that goes on from this one, and what it says of this one; None if nobody started it.

    Other runs may have the ids that come first. Raises `BadInput` if too many have.
    """
    new = run
    for _ in range(_MOST_NAMES):
        new = name_retry(new)
        try:
            described = await tree.describe(new)
        except UnknownRun:
            return new, None
        link: PastLink | None = await described.memo_value(PAST_MEMO, None, type_hint=PastLink)
        if link is not None and link.run == run:
            return new, link
    raise BadInput(f"no name is left for a retry of {run}: other runs have those up to {new}")


async def find_retry_name(tree: Tree, run: str) -> str | None:
    """Return the id of the run that a run was retried as; None if it was not."""
    with suppress(BadInput):
        new, before = await find_retry(tree, run)
        return None if before is None else new
    return None
