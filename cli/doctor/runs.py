"""Checks of `holdfast doctor` of the open runs: what keeps one from going on though nobody is asked."""

from __future__ import annotations

import shlex

from temporalio.service import RPCError

from holdfast.blueprint.amounts import say_count
from holdfast.cli.doctor.findings import Finding
from holdfast.cli.doctor.server import Deployment
from holdfast.client.listing import OPEN
from holdfast.client.obstacles import Obstacle, find_obstacles
from holdfast.client.stopping import at_once
from holdfast.client.visibility import ListedExecution, list_executions
from holdfast.protocol.address import read_run
from holdfast.runtime.errors import is_missing, make_server_error

MOST = 500
"""Open workflows that are looked at, the newest first; the recorder of `holdfast serve` looks at all."""


async def check_runs(deployment: Deployment) -> list[Finding]:
    """Return what keeps open runs from going on."""
    client = deployment.client

    async def look(execution: ListedExecution) -> list[Obstacle]:
        handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
        try:
            return await find_obstacles(client, await handle.describe())
        except RPCError as error:
            if is_missing(error):  # it has ended meanwhile
                return []
            raise

    try:
        listed = [execution async for execution in list_executions(client, OPEN, MOST)]
    except RPCError as error:
        if make_server_error(error).code != "not_set_up":  # the check of the namespace says so
            raise
        return []
    found = [obstacle for obstacles in await at_once(look, listed) for obstacle in obstacles]
    if not found:
        more = f" (the newest {MOST} were looked at)" if len(listed) == MOST else ""
        return [Finding("runs", "ok", f"{say_count(len(listed), 'open workflow')}, none is stuck{more}")]
    return [Finding("runs", "fault", f"{one.workflow}: {one.message}", _remedy(one)) for one in found]


def _remedy(obstacle: Obstacle) -> str:
    run = shlex.quote(read_run(obstacle.workflow))
    if obstacle.type == "task_fails":  # what comes to a workflow that takes no task does not reach it
        return f"See the log of the workers; holdfast cancel {run} --force ends the run."
    return f"See the log of the workers; holdfast cancel {run} ends the run, and holdfast cancel {run} --force at once."
