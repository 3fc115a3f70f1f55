"""Look up the names of a blueprint on a running worker: tools, models, MCP servers, groups.

`Runs.start`, `holdfast validate` and `doctor` use it. The worker is asked by a standalone activity, or by a workflow
where the server has no such activities.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio.client import ActivityFailureError, Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeout
from temporalio.service import RPCError, RPCStatusCode

from holdfast.blueprint.errors import Problem
from holdfast.blueprint.parts import Requirement
from holdfast.blueprint.positions import path_text
from holdfast.client.lookup import CONNECT_SECONDS, Checked, Placed, Unchecked, find_problems, make_request
from holdfast.protocol.lookup import LOOK_UP, LOOK_UP_WORKFLOW, LookedUp, LookUp, Missing, RequiredName
from holdfast.runtime.workers import find_last_poll

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint

START_SECONDS = 1.0
"""The time for a worker to take the look-up; without one the run starts unchecked."""
LOOKS = 10
WORK_SECONDS = 15.0
"""Long, as a worker imports the models' library at its first look-up."""


async def look_up(
    client: Client, task_queue: str, requirements: Sequence[Requirement], placed: Placed, *, connect: bool = False
) -> Checked:
    """Ask a worker of the task queue for names that a blueprint uses.

    Args:
        client: A connected client.
        task_queue: The queue of the worker.
        requirements: The names.
        placed: Makes a problem with its position.
        connect: Connect to the MCP servers, too.
    """
    if not requirements:
        return Checked()
    try:
        result = await _by_worker(client, task_queue, make_request(requirements, connect=connect))
    except Unchecked as error:
        return Checked(unchecked=str(error))
    problems = find_problems(result, requirements, placed)
    return Checked(problems, rules=result.rules, forms=result.forms, local=result.local)


async def look_up_names(
    client: Client, task_queue: str, wanted: Sequence[RequiredName], *, connect: bool = False
) -> list[Missing]:
    """Return those of the names that a worker of the task queue does not have. Raises `Unchecked`."""
    return (await _by_worker(client, task_queue, LookUp(wanted=list(wanted), connect=connect))).missing


def place_by_path(blueprint: Blueprint) -> Placed:
    """Return what makes a problem of a blueprint that has no file: with its name and the path only."""
    return lambda path, code, message: Problem(blueprint.name, 0, 0, path_text(path), code, message)


async def _by_worker(client: Client, task_queue: str, request: LookUp) -> LookedUp:
    try:
        return await _by_activity(client, task_queue, request)
    except RPCError as error:
        if error.status != RPCStatusCode.UNIMPLEMENTED:
            raise Unchecked(f"the server did not take the look-up: {error.message}") from None
    return await _by_workflow(client, task_queue, request)


async def _by_activity(client: Client, task_queue: str, request: LookUp) -> LookedUp:
    """Look up by a standalone activity, which needs no workflow and is in no history."""
    limit = CONNECT_SECONDS if request.connect else WORK_SECONDS
    try:
        result: LookedUp = await client.execute_activity(
            LOOK_UP,
            request,
            **_options(task_queue, limit),
            result_type=LookedUp,
            schedule_to_start_timeout=timedelta(seconds=START_SECONDS),
            start_to_close_timeout=timedelta(seconds=limit),
            heartbeat_timeout=timedelta(seconds=10),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
    except ActivityFailureError as error:
        raise _reason(error.cause, task_queue) from None
    return result


async def _by_workflow(client: Client, task_queue: str, request: LookUp) -> LookedUp:
    if not await _polls_soon(client, task_queue):
        raise _no_worker(task_queue)
    limit = CONNECT_SECONDS if request.connect else WORK_SECONDS
    try:
        result: LookedUp = await client.execute_workflow(
            LOOK_UP_WORKFLOW,
            request,
            **_options(task_queue, limit),
            result_type=LookedUp,
            execution_timeout=timedelta(seconds=START_SECONDS + limit),
        )
    except WorkflowFailureError as error:
        cause = error.cause.cause if isinstance(error.cause, ActivityError) else error.cause
        raise _reason(cause, task_queue) from None
    return result


async def _polls_soon(client: Client, task_queue: str) -> bool:
    """Return whether a worker polls the queue within a second."""
    for _ in range(LOOKS):
        if await find_last_poll(client, task_queue) is not None:
            return True
        await asyncio.sleep(START_SECONDS / LOOKS)
    return False


def _options(task_queue: str, limit: float) -> dict[str, Any]:
    return {"id": f"holdfast-look-up-{secrets.token_hex(8)}", "task_queue": task_queue}


def _reason(cause: BaseException | None, task_queue: str) -> Unchecked:
    match cause:
        case ActivityTimeout(type=TimeoutType.SCHEDULE_TO_START):
            return _no_worker(task_queue)
        case ApplicationError(type="NotFoundError"):
            return Unchecked(f"the worker on task queue {task_queue!r} is of a version that cannot look names up")
    return Unchecked(f"the look-up failed on task queue {task_queue!r}: {cause}")


def _no_worker(task_queue: str) -> Unchecked:
    return Unchecked(f"no worker answered within a second on task queue {task_queue!r}")
