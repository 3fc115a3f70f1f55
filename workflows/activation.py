"""The jobs of a workflow task, applied one at a time: how a server has grouped them then makes no difference.

The SDK groups the jobs of a task one way live and another in replay. A query that waits for a worker comes with the
events written meanwhile, before the task that they belong to; and a task that timed out is merged with the next. Then
a workflow that runs once an activation writes other commands in replay than live, and is stuck for ever. One that comes
to rest after each job does not notice. What is left is the order of a signal and a result, which the SDK's core does
not keep, so there is an order of our own; and an end of the workflow that is decided before the rest of the task is
known, so an end waits (`rest`), as does all that depends on the time or the length of the history, which are those of
the task. What a query has brought does not count, but for its answer: the workflow is replayed with the task.

A local activity is part of the task that has started it. One that takes long is carried into the next task, whose jobs
come before its result, or with it, and on replay with it: but for updates, which core may merge with the jobs of the
task before, they are applied after it. A query that came with a task would have it completed at once, with a result
that the workflow has not seen, or without it: it is answered when no local activity is under way.

Used by `runner` for our workflow classes and those of authors.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands.workflow_commands_pb2 import WorkflowCommand
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import SerializationContext, StorageDriverStoreContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails
from temporalio.workflow import Info

from holdfast.workflows.rest import CHANGE, EVICTED, REST

Create = Callable[[WorkflowInstanceDetails], WorkflowInstance]
Future = asyncio.Future[None]

_STARTS = {"initialize_workflow", "notify_has_patch", "update_random_seed"}
_ORDER = {"signal_workflow": 2, "do_update": 3}
_DIRECT = "legacy_query"
"""Core's id of a query that no task has brought."""
_ENDS = {
    "complete_workflow_execution",
    "fail_workflow_execution",
    "cancel_workflow_execution",
    "continue_as_new_workflow_execution",
}
_LOCAL_CALL = "schedule_local_activity"
_BOUND_TO_TASK = {_LOCAL_CALL, "request_cancel_activity", "cancel_timer"}
"""Commands that depend on what else their task brings: a local call is made in it, and core neither cancels what ends
in the same task nor goes on where a cancel that a query has led to is still unsent as that ends."""
_NOT_BY_QUERY = {*_ENDS, _LOCAL_CALL}
"""Commands that only a task may lead to: a query's are not sent, and a local call would be made at once."""
_FIRST_MARK = 1_000_000
"""Where our internal flags begin, far above those of the SDK."""


class InnerInstance(WorkflowInstance):
    """The base of instances around one of the SDK's: what they do not change is asked of that."""

    def __init__(self, inner: WorkflowInstance) -> None:
        self._inner = inner

    def get_serialization_context(self, command_info: Any) -> SerializationContext | None:
        """See base class."""
        return self._inner.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        """See base class."""
        return self._inner.get_external_store_context(command_info)

    def get_info(self) -> Info:
        """See base class."""
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        """See base class."""
        return self._inner.get_thread_id()


class OneJobInstance(InnerInstance):
    """An instance of the SDK that is given one job at a time."""

    def __init__(self, create: Create, details: WorkflowInstanceDetails) -> None:
        """`create` makes the SDK's instance."""
        self._at_rest: dict[bool, list[Future]] = {False: [], True: []}
        """Futures to set once the workflow is at rest; by whether after the whole task, or after the job."""
        self._watches: list[tuple[Future, Callable[[], bool]]] = []
        """Futures to set once the workflow is at rest and something has changed, and what says so."""
        self._extern = details.extern_functions
        self._evicting = False
        self._time, self._length = 0, 0
        """Of the activation before: its time, and the events that it had seen."""
        self._task = WorkflowActivation()
        """The last activation that brought more than results of local activities, without its jobs."""
        self._local: set[int] = set()
        """The local activities under way, by number."""
        self._deferred: list[WorkflowActivation] = []
        """What came while one was under way."""
        self._queries: dict[str, WorkflowActivation] = {}
        """Queries that came with the task then, by id."""
        self._behavior: Any = 0
        """The versioning behaviour of the workflow, for a completion that applies nothing."""
        self._depends_on_task = False
        """Whether what the activation before has led to depends on where its task ends, and it was a live one."""
        self._mark = 0
        """The internal flag of that task: core knows it once the task is completed, and so of a task alone."""
        own: dict[str, Callable[..., Any]] = {
            REST: self._await_rest,
            CHANGE: lambda *watch: self._watches.append(watch),
            EVICTED: lambda: self._evicting,
        }
        super().__init__(create(replace(details, extern_functions={**details.extern_functions, **own})))

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """See base class."""
        kinds = {_name_kind(job) for job in act.jobs}
        if "remove_from_cache" in kinds:
            self._evicting = True
            return self._inner.activate(act)
        if kinds <= {"query_workflow"}:
            return self._answer(act)
        by_query = self._note_arrival(act)
        total = self._apply_in_turn(act, by_query)
        if total.HasField("failed"):
            return total
        self._depends_on_task &= not act.is_replaying and not by_query
        if self._depends_on_task:
            self._mark = _FIRST_MARK + act.history_length
            total.successful.used_internal_flags.append(self._mark)
        if by_query:
            kept = [command for command in total.successful.commands if _name_kind(command) not in _NOT_BY_QUERY]
            del total.successful.commands[:]
            total.successful.commands.extend(kept)
            # In any case: a task that brings nothing more moves the clock, and is completed without asking us. What
            # another query brings after it would be taken for a task.
            self._evict()
        return total

    def _note_arrival(self, act: WorkflowActivation) -> bool:
        """Return whether a query has brought this activation: only a task that was started moves the clock."""
        now = act.timestamp.ToNanoseconds()
        by_query = now == self._time and act.history_length > self._length
        self._time, self._length = now, act.history_length
        return by_query

    def _answer(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """Answer queries: those that came with a task once it has no local activity under way."""
        is_direct = any(job.query_workflow.query_id == _DIRECT for job in act.jobs)
        if self._local and not is_direct:
            self._queries |= {job.query_workflow.query_id: _replace_jobs(act, [job]) for job in act.jobs}
            return self._make_completion()
        if self._depends_on_task and is_direct:
            self._depends_on_task = False
            if self._mark not in act.available_internal_flags:
                # It has brought the activation before, of a task that another worker has started and may lose: in
                # replay that is one task with the next.
                self._evict()
        return self._inner.activate(act)

    def _make_completion(self) -> WorkflowActivationCompletion:
        """Return a completion without commands."""
        completion = WorkflowActivationCompletion()
        completion.successful.SetInParent()
        completion.successful.versioning_behavior = self._behavior
        return completion

    def _apply_in_turn(self, act: WorkflowActivation, by_query: bool) -> WorkflowActivationCompletion:
        """Apply an activation, and what has waited for the local activities that end with it."""
        total = self._make_completion()
        parts = self._take_turns(act)
        while parts or (self._deferred and not self._local):
            part = parts.pop(0) if parts else self._begin_task(self._deferred.pop(0))
            done = self._apply(part, by_query)
            if done.HasField("failed"):
                return done
            _add(total, done)
            calls = [command.schedule_local_activity for command in done.successful.commands if _is_call(command)]
            self._local |= {call.seq for call in calls} if not by_query else set()
            self._depends_on_task |= any(_name_kind(command) in _BOUND_TO_TASK for command in done.successful.commands)
        # A query may have brought the task of a result, and the next task bring what comes before the result in replay.
        self._depends_on_task |= any(_is_local(job) for job in act.jobs)
        self._behavior = total.successful.versioning_behavior
        while self._queries and not self._local:
            _, query = self._queries.popitem()
            _add(total, self._inner.activate(query))
        return total

    def _take_turns(self, act: WorkflowActivation) -> list[WorkflowActivation]:
        """Return what is applied at once; the rest is deferred to the end of the local activities under way."""
        results = [job for job in act.jobs if _is_local(job)]
        rest = [job for job in act.jobs if not _is_local(job)]
        updates = [job for job in rest if self._local and _name_kind(job) == "do_update"]
        rest = [job for job in rest if job not in updates]
        self._local -= {job.resolve_activity.seq for job in results}
        self._deferred += [_replace_jobs(act, rest)] if rest else []
        return [_replace_jobs(self._task, part) for part in (updates, results) if part]

    def _begin_task(self, act: WorkflowActivation) -> WorkflowActivation:
        """Take note of the task that an activation belongs to, and return it."""
        self._task = _replace_jobs(act, [])
        self._depends_on_task = any(_name_kind(job) == "signal_workflow" for job in act.jobs)
        return act

    def _apply(self, act: WorkflowActivation, by_query: bool) -> WorkflowActivationCompletion:
        """Apply the jobs group by group, and return all commands. Stops at a job that fails."""
        jobs = sorted(act.jobs, key=_rank)
        if by_query:  # core sorts signals before results, so in the task they may come elsewhere: they are left to it
            jobs = [job for job in jobs if _name_kind(job) != "signal_workflow"]
        groups = deque(_split(jobs))
        total = WorkflowActivationCompletion()
        total.successful.SetInParent()
        while (group := self._next_group(groups)) is not None:
            done = self._inner.activate(_replace_jobs(act, group))
            if done.HasField("failed"):
                return done
            _add(total, done)
        return total

    def _next_group(self, groups: deque[list[WorkflowActivationJob]]) -> list[WorkflowActivationJob] | None:
        """Return the next jobs; before them and at last what runs the workflow on that has waited for its rest."""
        self._at_rest[False] += self._take_changes()
        whole_task = not groups and not self._deferred  # what is left of the task comes behind local results
        if waiting := self._at_rest[False] or (whole_task and self._at_rest[True]):
            self._depends_on_task |= waiting is self._at_rest[True]
            for future in waiting:
                if not future.done():
                    future.get_loop().call_soon(_release, future)
            waiting.clear()
            nudge = WorkflowActivationJob()
            nudge.fire_timer.seq = 0  # no timer has this number, and the loop runs once more
            return [nudge]
        return groups.popleft() if groups else None

    def _take_changes(self) -> list[Future]:
        """Return the futures that wait for a change that has come."""
        waiting = [watch for watch in self._watches if not watch[0].done()]
        changed = [future for future, has_changed in waiting if has_changed()]
        self._watches = [watch for watch in waiting if watch[0] not in changed]
        return changed

    def _await_rest(self, future: Future, whole_task: bool) -> None:
        """Set the future when the workflow is at rest; at once if it is removed from the cache."""
        if self._evicting:
            future.set_result(None)
        else:
            self._at_rest[whole_task].append(future)

    def _evict(self) -> None:
        """Have the worker drop the workflow from its cache, so that the next task begins with a replay."""
        # The SDK gives a runner no way to its worker but this function's closure; in a replayer there is none.
        check: Any = self._extern.get("__temporal_assert_local_activity_valid")
        cells = dict(zip(check.__code__.co_freevars, check.__closure__ or (), strict=True))
        if "self" in cells:
            cells["self"].cell_contents._bridge_worker.request_workflow_eviction(self._inner.get_info().run_id)


def _release(future: Future) -> None:
    if not future.done():
        future.set_result(None)


def _replace_jobs(act: WorkflowActivation, jobs: list[WorkflowActivationJob]) -> WorkflowActivation:
    """Return an activation with other jobs; itself if they are its own.

    It is made field by field: a message keeps the memory of what is removed from it, and a workflow keeps parts of its
    messages. Copied whole, they took 14 kB of the 82 kB of a run that waits.
    """
    if jobs == [*act.jobs]:
        return act
    fields = {field.name: value for field, value in act.ListFields() if field.name != "jobs"}
    return WorkflowActivation(**fields, jobs=jobs)


def _add(total: WorkflowActivationCompletion, done: WorkflowActivationCompletion) -> None:
    """Add what a part of an activation has led to."""
    total.successful.commands.extend(done.successful.commands)
    flags = {*total.successful.used_internal_flags, *done.successful.used_internal_flags}
    total.successful.used_internal_flags[:] = sorted(flags)
    total.successful.versioning_behavior = done.successful.versioning_behavior


def _split(jobs: list[WorkflowActivationJob]) -> list[list[WorkflowActivationJob]]:
    """Return the groups in which jobs are applied: one each, but together what comes with a history's first task.

    Before that task is done, no query comes.
    """
    if any(_name_kind(job) == "initialize_workflow" for job in jobs):
        return [jobs]
    first = [job for job in jobs if _rank(job) == 0]
    return [*([first] if first else []), *([job] for job in jobs[len(first) :])]


def _rank(job: WorkflowActivationJob) -> int:
    """Return where a job stands in a task: results in the order of their events, signals, updates."""
    kind = _name_kind(job)
    return _ORDER.get(kind, 0 if kind in _STARTS else 1)


def _is_local(job: WorkflowActivationJob) -> bool:
    """Return whether a job is the result of a local activity."""
    return bool(job.resolve_activity.is_local)


def _is_call(command: WorkflowCommand) -> bool:
    """Return whether a command starts a local activity."""
    return _name_kind(command) == _LOCAL_CALL


def _name_kind(message: Any) -> str:
    return str(message.WhichOneof("variant"))
