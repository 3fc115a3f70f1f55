"""The activations of a recorded history, grouped anew in each way in which the SDK's core could have grouped them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands.workflow_commands_pb2 import WorkflowCommand
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker._command_aware_visitor import CommandInfo

from drills.simulate.sdk import name_worker

MESSAGES = ("signal_workflow", "do_update")
TIMES = re.compile(r'(\\"seconds\\":[0-9.e-]+,?)|(20[0-9-]{8}T[0-9:.]+Z)')
"""In JSON within a message as text."""
FIRST = ("initialize_workflow", "notify_has_patch", "update_random_seed")


@dataclass
class Recorded:
    """One history as a replayer gave it to its instance."""

    details: WorkflowInstanceDetails
    runner: WorkflowRunner
    activations: list[WorkflowActivation] = field(default_factory=list)

    @cached_property
    def commands(self) -> list[str]:
        """What it leads to as it was recorded."""
        return _Fed(self).feed(*self.activations).comparable()

    @cached_property
    def _leads_on(self) -> list[bool]:
        """Of each activation whether it leads to commands: core could not merge it with the next one."""
        fed = _Fed(self)
        leads = [fed.leads_on(activation) for activation in self.activations]
        fed.discard()
        return leads

    def regroup(self, index: int) -> Iterator[list[str]]:
        """Yield what it leads to for each other way in which an activation may come."""
        whole = self.activations[index]
        if index and not any(_kind(job) in FIRST for job in whole.jobs):
            results = [job for job in whole.jobs if _kind(job) not in MESSAGES]
            for count in range(1, len(results) + 1):
                yield self._commands_by_query(index, results[:count])
        if index + 1 < len(self.activations) and not self._leads_on[index]:
            yield self._commands_merged(index)

    def _commands_by_query(self, index: int, results: Sequence[WorkflowActivationJob]) -> list[str]:
        """What it leads to if a query brings the first results of an activation."""
        whole = self.activations[index]
        brought, rest = _copy(whole, results), _copy(whole, [job for job in whole.jobs if job not in results])
        brought.timestamp.CopyFrom(self.activations[index - 1].timestamp)
        brought.history_length = self.activations[index - 1].history_length + 1
        fed = _Fed(self).feed(*self.activations[:index], brought)
        if fed.evicted:  # it is replayed, and goes on as it was recorded
            fed.discard()
            return self.commands
        # A task that brings nothing more is completed by core, with what the query's activation led to.
        return fed.feed(*([rest] if rest.jobs else []), *self.activations[index + 1 :]).comparable()

    def _commands_merged(self, index: int) -> list[str]:
        """What it leads to if a task was lost and is merged with the next."""
        first, second = self.activations[index], self.activations[index + 1]
        jobs = [*first.jobs, *second.jobs]
        # Core puts signals before results, and updates last.
        merged = _copy(second, sorted(jobs, key=_core_rank))
        return _Fed(self).feed(*self.activations[:index], merged, *self.activations[index + 2 :]).comparable()


class Recorder(WorkflowRunner):
    """Keeps what a replayer feeds, beside the instances of another runner."""

    def __init__(self, inner: WorkflowRunner) -> None:
        self._inner = inner
        self.recorded: list[Recorded] = []

    def prepare_workflow(self, defn: Any) -> None:
        """See base class."""
        self._inner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """See base class."""
        recorded = Recorded(replace(det, info=deepcopy(det.info)), self._inner)  # upserts change it in place
        self.recorded.append(recorded)
        return _Recording(self._inner.create_instance(det), recorded)


class _Recording(WorkflowInstance):
    def __init__(self, inner: WorkflowInstance, recorded: Recorded) -> None:
        self._inner, self._recorded = inner, recorded

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        if not any(_kind(job) in ("remove_from_cache", "query_workflow") for job in act.jobs):
            kept = WorkflowActivation()
            kept.CopyFrom(act)
            self._recorded.activations.append(kept)
        return self._inner.activate(act)

    def get_serialization_context(self, command_info: CommandInfo | None) -> Any:
        return self._inner.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: CommandInfo | None) -> Any:
        return self._inner.get_external_store_context(command_info)

    def get_info(self) -> Any:
        return self._inner.get_info()


class _Fed:
    """A new instance of a recorded history, and what it leads to."""

    def __init__(self, recorded: Recorded) -> None:
        self.evicted = False
        self.commands: list[WorkflowCommand] = []
        details = replace(
            recorded.details,
            info=deepcopy(recorded.details.info),
            extern_functions={
                **recorded.details.extern_functions,
                **name_worker(self._note_eviction),
            },
        )
        with asyncio.Runner() as runner:  # an instance is made inside a loop, and is one itself
            self._instance = runner.run(_make(recorded.runner, details))

    def feed(self, *activations: WorkflowActivation) -> _Fed:
        for activation in activations:
            completion = self._instance.activate(activation)
            assert not completion.HasField("failed"), completion.failed.failure.message
            self.commands += completion.successful.commands
        return self

    def leads_on(self, activation: WorkflowActivation) -> bool:
        """Whether this activation leads to commands, so that later ones may hold their results."""
        before = len(self.commands)
        self.feed(activation)
        return len(self.commands) > before or any(_kind(job) in FIRST for job in activation.jobs)

    def discard(self) -> None:
        """Evict the instance, as a worker does: what waits in it ends inside its loop."""
        eviction = WorkflowActivation(run_id=self._instance.get_info().run_id)
        eviction.jobs.add().remove_from_cache.SetInParent()
        self._instance.activate(eviction)

    def comparable(self) -> list[str]:
        """Discard the instance; its commands without times, as a query's activation has another one than its task."""
        self.discard()
        commands = []
        for command in self.commands:
            copy = WorkflowCommand()
            copy.CopyFrom(command)
            if copy.HasField("start_timer"):
                copy.start_timer.ClearField("start_to_fire_timeout")
            if copy.HasField("upsert_workflow_search_attributes"):
                copy.upsert_workflow_search_attributes.search_attributes.Clear()
            commands.append(TIMES.sub("", str(copy)))
        return commands

    def _note_eviction(self, run_id: str) -> None:
        self.evicted = True


async def _make(runner: WorkflowRunner, details: WorkflowInstanceDetails) -> WorkflowInstance:
    return runner.create_instance(details)


def _copy(activation: WorkflowActivation, jobs: Sequence[WorkflowActivationJob]) -> WorkflowActivation:
    copy = WorkflowActivation()
    copy.CopyFrom(activation)
    kept = [_clone(job) for job in jobs]
    del copy.jobs[:]
    copy.jobs.extend(kept)
    return copy


def _clone(job: WorkflowActivationJob) -> WorkflowActivationJob:
    clone = WorkflowActivationJob()
    clone.CopyFrom(job)
    return clone


def _core_rank(job: WorkflowActivationJob) -> int:
    order = {"signal_workflow": 1, "do_update": 3}
    return 0 if _kind(job) in FIRST else order.get(_kind(job), 2)


def _kind(job: WorkflowActivationJob) -> str:
    return str(job.WhichOneof("variant"))
