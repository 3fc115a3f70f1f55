"""Lists of runs and of open questions, from Temporal's visibility: no workflow is asked. Used by `Runs`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from temporalio.client import Client, WorkflowExecution
from temporalio.common import SearchAttributeKey

from holdfast.client.errors import Ambiguous
from holdfast.client.states import STATUSES, Listed, Waiting
from holdfast.client.tree import UnknownRun
from holdfast.protocol.runs import (
    BLUEPRINT_ATTRIBUTE,
    PAUSED_MEMO,
    PIPELINE_WORKFLOW,
    WAITING_ATTRIBUTE,
    Status,
)

BLUEPRINT_KEY = SearchAttributeKey.for_keyword(BLUEPRINT_ATTRIBUTE)
WAITING_KEY = SearchAttributeKey.for_keyword_list(WAITING_ATTRIBUTE)
ALL_RUNS = f"WorkflowType = '{PIPELINE_WORKFLOW}'"


async def listed_runs(client: Client, blueprint: str | None, *, waiting: bool) -> list[Listed]:
    """Return the runs, newest first; see `Runs.runs`."""
    awaited: dict[str, set[str]] = {}
    async for workflow in waiting_workflows(client):
        awaited.setdefault(workflow.run, set()).update(workflow.waiting_for)
    rows = [_row(execution, awaited) async for execution in client.list_workflows(_of(blueprint))]
    return [row for row in rows if row.waiting_for or not waiting]


def _row(execution: WorkflowExecution, awaited: dict[str, set[str]]) -> Listed:
    status = _status(execution, execution.id in awaited)
    assignees = sorted(awaited.get(execution.id, ())) if status in ("waiting", "paused") else []
    name = execution.typed_search_attributes.get(BLUEPRINT_KEY) or ""
    return Listed(execution.id, name, status, execution.start_time, execution.close_time, assignees)


def _status(execution: WorkflowExecution, has_questions: bool) -> Status:
    """Return the status of a run as far as visibility has it."""
    if execution.status in STATUSES:
        return STATUSES[execution.status]
    if PAUSED_MEMO in execution.raw_info.memo.fields:
        return "paused"
    return "waiting" if has_questions else "running"


async def running_runs(client: Client, blueprint: str | None) -> list[str]:
    """Return the ids of the runs that have not ended."""
    wanted = f"{_of(blueprint)} AND ExecutionStatus = 'Running'"
    return [execution.id async for execution in client.list_workflows(wanted)]


async def only_match(client: Client, prefix: str) -> str:
    """Return the id of the only run whose id starts with `prefix`. Raises `UnknownRun` or `Ambiguous`."""
    wanted = f"WorkflowId STARTS_WITH '{_quoted(prefix)}' AND {ALL_RUNS}"
    matches = sorted({execution.id async for execution in client.list_workflows(wanted, limit=20)})
    if not matches:
        raise UnknownRun(prefix)
    if len(matches) > 1:
        raise Ambiguous(f"{prefix!r} could be any of {', '.join(matches)}; type more of it")
    return matches[0]


async def waiting_workflows(
    client: Client, limit: int | None = None, names: Sequence[str] = ()
) -> AsyncIterator[Waiting]:
    """Yield the workflows with open questions, newest first; with `names` only those that wait for one of them."""
    wanted = f"{WAITING_ATTRIBUTE} IS NOT NULL AND ExecutionStatus = 'Running'"
    if names:
        listed = ", ".join(f"'{_quoted(name)}'" for name in names)
        wanted += f" AND {WAITING_ATTRIBUTE} IN ({listed})"
    async for execution in client.list_workflows(wanted, limit=limit):
        awaited = execution.typed_search_attributes.get(WAITING_KEY) or []
        if awaited:
            run, since = execution.id.partition("/")[0], execution.execution_time or execution.start_time
            yield Waiting(run, execution.id, list(awaited), since)


def _of(blueprint: str | None) -> str:
    return ALL_RUNS if blueprint is None else f"{ALL_RUNS} AND {BLUEPRINT_ATTRIBUTE} = '{_quoted(blueprint)}'"


def _quoted(text: str) -> str:
    """Escape text for the quotes of a visibility query."""
    return text.replace("\\", "\\\\").replace("'", "\\'")
