"""What belongs to a run in Temporal: the query for its workflows, which `cancel` asks, and its retries and forks."""

from __future__ import annotations

from collections import defaultdict

from temporalio.client import Client

from holdfast.protocol.names import BLUEPRINT_ATTRIBUTE, PIPELINE_WORKFLOW
from holdfast.protocol.past import PAST_MEMO, PastLink
from holdfast.runtime.namespace import quote


def match_workflows(run: str) -> str:
    """Return the query of Temporal's lists for all workflows of a run: its own, and those below it.

    >>> match_workflows("o-1")
    "RootWorkflowId = 'o-1' OR WorkflowId STARTS_WITH 'o-1/'"
    """
    return f"RootWorkflowId = '{quote(run)}' OR WorkflowId STARTS_WITH '{quote(run)}/'"


async def find_successors(client: Client, run: str) -> list[str]:
    """Return the retries and forks of a run that Temporal has, and those of theirs, the oldest first."""
    successors: dict[str, list[str]] = defaultdict(list)
    wanted = f"{BLUEPRINT_ATTRIBUTE} IS NOT NULL AND WorkflowType = '{PIPELINE_WORKFLOW}'"
    listed = [execution async for execution in client.list_workflows(wanted)]
    for execution in sorted(listed, key=lambda execution: execution.start_time):
        link: PastLink | None = await execution.memo_value(PAST_MEMO, None, type_hint=PastLink)
        if link is not None and execution.id not in successors[link.run]:
            successors[link.run].append(execution.id)
    found = [run]
    for one in found:  # it grows while it is gone through
        found += successors[one]
    return found[1:]
