"""Attempts of an activity: its beats, its time limit, and the count of its failures. Used by every activity.

A lost worker is no attempt: Temporal hands a call out again without limit, and counts what it handed out. What failed
is counted here, in the details of the beats, which the server keeps from one attempt to the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import NoReturn

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import ExecuteActivityInput

from holdfast.blueprint.parts import Retry
from holdfast.protocol.activity_request import NOT_LOCAL, ActivityRequest
from holdfast.protocol.tool_errors import CHECKPOINTS_UNREACHABLE, TIMEOUT

MOST_MET = 10_000
_met: dict[str, int] = {}
"""The last runs of workflows that have made local calls in this process: which attempt of a task it met first."""
LONGEST_PAUSE = 2.0
"""Seconds between two beats. A cancellation arrives with one, so that a call hears of it within seconds."""


@asynccontextmanager
async def run_attempt(request: ActivityRequest) -> AsyncIterator[None]:
    """Run the block as one attempt: with beats, within the time limit, its failure counted and typed.

    The block must not occupy the event loop.

    Raises `timeout` when the time of the request is over.
    """
    async with count_failures(request), limit_time(request.timeout, _no_result):
        yield


@asynccontextmanager
async def count_failures(request: ActivityRequest) -> AsyncIterator[None]:
    """Do the same without a time limit; the block has one of its own."""
    async with send_beats(request):
        try:
            yield
        except Exception as error:  # noqa: BLE001 whatever it is: an error that is not counted would be retried for ever
            _raise_counted(_type_error(error), count_earlier_failures(request) + 1, request.retry)


@asynccontextmanager
async def send_beats(request: ActivityRequest) -> AsyncIterator[None]:
    """Tell the server while the block runs that the call is under way, and how often it has failed before."""
    beats = asyncio.create_task(_send_beats(count_earlier_failures(request)))
    try:
        yield
    finally:
        beats.cancel()


@asynccontextmanager
async def limit_time(seconds: float, failure: Callable[[float], ApplicationError]) -> AsyncIterator[None]:
    """Cancel the block after so many seconds, and raise the failure for that; a `TimeoutError` of its own passes."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise failure(seconds) from None


def find_request(input: ExecuteActivityInput) -> ActivityRequest | None:
    """Return the request of a call of ours, as an interceptor sees it; None for an activity of somebody else."""
    request = input.args[0] if input.args else None
    return request if isinstance(request, ActivityRequest) else None


def count_earlier_failures(request: ActivityRequest) -> int:
    """Return how many attempts of this call failed before this one."""
    details = activity.info().heartbeat_details
    return int(details[0]) if details else request.failures


def was_lost(request: ActivityRequest) -> bool:
    """Return whether the call was handed out before to a worker that did not say how it ended."""
    return activity.info().attempt - 1 > count_earlier_failures(request) - request.failures


def refuse_local(name: str) -> None:
    """Raise `not_local` in a call in the workflow's own task; the workflow then makes an ordinary one."""
    if activity.info().is_local:
        raise ApplicationError(f"{name} is not called locally", type=NOT_LOCAL)


async def leave_failing_task(name: str) -> None:
    """Raise `not_local` in a local call of a run whose workflow task had failed when this process met it first.

    A local call that ends its worker fails its task. An ordinary one follows, which the server backs off, and which is
    named if it loses its workers. The server is asked once for each run: the next process asks anew.
    """
    info = activity.info()
    if not info.is_local:
        return
    assert info.workflow_id is not None and info.workflow_run_id is not None
    if info.workflow_run_id not in _met:
        handle = activity.client().get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
        with suppress(RPCError):  # the server is away: the task cannot be completed either
            _met[info.workflow_run_id] = (await handle.describe()).raw_description.pending_workflow_task.attempt
        if len(_met) > MOST_MET:
            del _met[next(iter(_met))]
    if _met.get(info.workflow_run_id, 1) > 1:
        raise ApplicationError(f"{name} is not called locally: its workflow task has failed", type=NOT_LOCAL)


async def _send_beats(failures: int) -> None:
    if activity.info().is_local:
        return  # it is short, and the task of its workflow tells that its worker is there
    limit = activity.info().heartbeat_timeout or timedelta.max
    pause = min(LONGEST_PAUSE, limit.total_seconds() / 5)
    while True:
        await asyncio.sleep(pause)  # before the first one: a short activity needs none
        activity.heartbeat(failures)  # each carries the count on: a beat without details would wipe it


def _no_result(seconds: float) -> ApplicationError:
    return ApplicationError(f"no result within {seconds:g} s", type=TIMEOUT)


def _type_error(error: Exception) -> ApplicationError:
    """Return the error as Temporal would write it."""
    if isinstance(error, ApplicationError):
        return error
    typed = ApplicationError(str(error), type=type(error).__name__).with_traceback(error.__traceback__)
    typed.__cause__ = error.__cause__
    return typed


def _raise_counted(error: ApplicationError, failures: int, retry: Retry) -> NoReturn:
    """Raise the failure so that the server tries again after the author's pause, or not at all."""
    if error.non_retryable or error.type in (NOT_LOCAL, CHECKPOINTS_UNREACHABLE):
        # A store that cannot be reached is no failure of the call: as with other values, it waits for it.
        raise error
    if activity.is_worker_shutdown():
        # What ends the worker may have caused it, such as a signal that its processes got, too: it counts as lost.
        raise error
    if not activity.info().is_local:
        activity.heartbeat(failures)
    is_spent = failures >= retry.attempts
    pause = error.next_retry_delay or _pause_after(failures, retry)
    counted = ApplicationError(
        error.message,
        *error.details,
        type=error.type,
        non_retryable=is_spent,
        next_retry_delay=None if is_spent else pause,
        category=error.category,
    )
    # Its cause and its traceback, but not the error itself: the history would hold each message twice.
    raise counted.with_traceback(error.__traceback__) from error.__cause__


def _pause_after(failures: int, retry: Retry) -> timedelta:
    """Return the author's pause after so many failures."""
    longest = max(retry.max, retry.backoff)
    pause = retry.backoff
    for _ in range(failures - 1):
        pause = min(pause * retry.factor, longest)
    return timedelta(seconds=pause)
