"""The retries and forks of a run, as Temporal has them."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC

from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from holdfast.protocol.names import BLUEPRINT_ATTRIBUTE, PIPELINE_WORKFLOW
from holdfast.protocol.past_link import PAST_MEMO, PastLink
from holdfast.runtime.namespace import quote


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
