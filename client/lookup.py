"""Look up the names of a blueprint on a worker before a run starts: tools, models, MCP servers, groups.

`Runs.start` and `holdfast validate` use it. A running worker is asked by a standalone activity, or by a workflow where
the server has no such activities; without a worker a process of its own imports the project's modules.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import ActivityFailureError, Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeout
from temporalio.service import RPCError, RPCStatusCode

from holdfast.blueprint.errors import Problem
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.kinds.parts import Requirement
from holdfast.blueprint.load import Parsed
from holdfast.blueprint.positions import Parts, path_text
from holdfast.blueprint.requirements import requirements_of
from holdfast.protocol.lookup import CODES, LOOK_UP, LOOK_UP_WORKFLOW, LookedUp, LookUp, Missing, Wanted
from holdfast.protocol.tool_rules import OwnerRule
from holdfast.runtime.embedded.worker import WORKER
from holdfast.runtime.workers import last_poll

START_SECONDS = 1.0
"""The time for a worker to take the look-up; without one the run starts unchecked."""
NO_KEY = "model_auth"
LOOKS = 10
WORK_SECONDS = 15.0
"""Long, as a worker imports the models' library at its first look-up."""
CONNECT_SECONDS = 90.0
"""Long, as the command of an MCP server may download it first."""

Placed = Callable[[Parts, str, str], Problem]
"""Makes a problem of a path, a code and a message."""


@dataclass(frozen=True)
class Checked:
    """The problems found by a look-up; `unchecked` says why none took place, or what it left out."""

    problems: list[Problem] = field(default_factory=list)
    unchecked: str | None = None
    rules: dict[str, OwnerRule] | None = None
    """By the name of a tool, what its owner demands; None if no tools were looked up."""


async def look_up(
    client: Client, task_queue: str, blueprint: Blueprint, placed: Placed | None = None, *, connect: bool = False
) -> Checked:
    """Ask a worker of the task queue for the names that the blueprint uses.

    Args:
        client: A connected client.
        task_queue: The queue of the worker.
        blueprint: The blueprint.
        placed: Makes a problem with its position in a file; by default it has the blueprint's name and its path only.
        connect: Connect to the MCP servers, too.
    """
    requirements = requirements_of(blueprint)
    if not requirements:
        return Checked()
    try:
        result = await _by_worker(client, task_queue, request_of(requirements, connect=connect))
    except Unchecked as error:
        return Checked(unchecked=str(error))
    return Checked(problems_of(result, requirements, placed or _unplaced(blueprint)), rules=result.rules)


async def look_up_names(
    client: Client, task_queue: str, wanted: Sequence[Wanted], *, connect: bool = False
) -> list[Missing]:
    """Return those of the names that a worker of the task queue does not have. Raises `Unchecked`."""
    return (await _by_worker(client, task_queue, LookUp(wanted=list(wanted), connect=connect))).missing


def request_of(requirements: Sequence[Requirement], *, connect: bool) -> LookUp:
    """Return the request for these names, each once."""
    return LookUp(wanted=list(dict.fromkeys(map(_wanted, requirements))), connect=connect)


def problems_of(result: LookedUp, requirements: Sequence[Requirement], placed: Placed) -> list[Problem]:
    """Return a problem for each place that names something missing."""
    missing = {entry.wanted: entry for entry in result.missing}
    pairs = [(need, missing[_wanted(need)]) for need in requirements if _wanted(need) in missing]
    return [placed(need.path, entry.code if entry.code in CODES else CODES[-1], entry.message) for need, entry in pairs]


def _wanted(requirement: Requirement) -> Wanted:
    return Wanted(
        kind=requirement.kind, name=requirement.name, idempotent=requirement.idempotent, about=requirement.about
    )


def _unplaced(blueprint: Blueprint) -> Placed:
    return lambda path, code, message: Problem(blueprint.name, 0, 0, path_text(path), code, message)


class Unchecked(Exception):
    """No look-up took place; the message says why."""


async def look_up_here(folder: Path, imports: Sequence[str], parsed: Parsed, *, connect: bool = False) -> Checked:
    """Look up the names of a blueprint in a new process that imports the modules of a folder, as its worker would.

    Without `imports` no tools are looked up. A model's key that is not set here is only noted, not a problem: it may
    be set where the worker runs.
    """
    # A process of its own, because importing runs the author's code.
    assert parsed.blueprint is not None
    requirements = requirements_of(parsed.blueprint)
    tools = [requirement for requirement in requirements if _is_imported(requirement)]
    left_out = [] if imports else list(dict.fromkeys(requirement.name for requirement in tools))
    looked_up = requirements if imports else [requirement for requirement in requirements if requirement not in tools]
    notes = [f"{', '.join(left_out)}: no worker is reached, and [worker] imports names no package"] if left_out else []
    try:
        result = await _by_process(folder, request_of(looked_up, connect=connect)) if looked_up else LookedUp()
    except Unchecked as error:
        return Checked(unchecked="; ".join([*notes, str(error)]))
    keys = [entry.message for entry in result.missing if entry.code == NO_KEY]
    certain = LookedUp(missing=[entry for entry in result.missing if entry.code != NO_KEY])
    rules = result.rules if imports else None
    return Checked(problems_of(certain, looked_up, parsed.problem), "; ".join([*notes, *keys]) or None, rules)


def _is_imported(requirement: Requirement) -> bool:
    return requirement.kind in ("tool", "plan_tool", "agent", "agent_tool") and not requirement.name.startswith("mcp:")


async def _by_process(folder: Path, request: LookUp) -> LookedUp:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *WORKER, "--look-up"), cwd=folder, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            output, errors = await process.communicate(request.model_dump_json().encode())
    except TimeoutError:
        process.kill()
        raise Unchecked(f"[worker] imports took longer than {CONNECT_SECONDS:.0f} s") from None
    if process.returncode != 0:
        last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["it wrote nothing"]
        raise Unchecked(last[0])
    return LookedUp.model_validate_json(output)


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
        if await last_poll(client, task_queue) is not None:
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
