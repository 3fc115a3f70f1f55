"""A run that is fed its activations by hand: which jobs come in one activation, and in which order, is the test's.

A server cannot be made to put an answer, a cancel and a timer into one workflow task in a chosen order.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import temporalio.workflow
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands.workflow_commands_pb2 import WorkflowCommand
from temporalio.common import Priority, RawValue, TypedSearchAttributes
from temporalio.converter import PayloadConverter
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails

from drills.simulate.sdk import name_worker
from holdfast.blueprint.load import loads
from holdfast.protocol.answers import Answer, AnswerBatch
from holdfast.protocol.events import Event
from holdfast.protocol.names import ANSWER, EVENTS, VIEW
from holdfast.protocol.runs import Definition, PipelineState
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.workflows import OWN_RUNNER
from holdfast.workflows.pipeline import PipelineWorkflow

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
UPDATE, SIGNAL = "update", "signal"
Messages = Sequence[tuple[str, Any, str]]
"""Names, arguments and ways of messages."""


@cache
def _converter() -> PayloadConverter:
    return DATA_CONVERTER.payload_converter


class FedRun:
    """One workflow, driven without a server; `commands` are those of the last activation."""

    def __init__(self, text: str | type, first: Messages = ()) -> None:
        """Start the run of a blueprint, or a workflow class without arguments; `first` comes with its first task."""
        if isinstance(text, str):
            definition = Definition(run="fed", blueprint=loads(text, file="test.yaml", name="test"))
            self._begin(PipelineWorkflow, _converter().to_payloads([definition, PipelineState()]), BEGAN, first)
        else:
            self._begin(text, [], BEGAN, first)

    @classmethod
    def of(cls, class_: type, arguments: Sequence[Payload], now: datetime, first: Messages = ()) -> FedRun:
        """Return the run of a workflow that another one, or its history before, has started with these arguments."""
        run = cls.__new__(cls)
        run._begin(class_, arguments, now, first)
        return run

    def _begin(self, class_: type, arguments: Sequence[Payload], now: datetime, first: Messages) -> None:
        self.now, self._class = now, class_
        self._ids = itertools.count(1)
        self._length = 1
        self.evictions = 0
        self._instance = _made(class_, self._count_eviction)
        self._fed: list[tuple[WorkflowActivation, list[WorkflowCommand]]] = []
        self.commands: list[WorkflowCommand] = []
        self.timers: dict[int, datetime] = {}
        """When each timer that runs fires, by its number."""
        start = WorkflowActivationJob()
        start.initialize_workflow.workflow_type = class_.__name__
        start.initialize_workflow.arguments.extend(arguments)
        self.feed(start, *(self.message(name, value, by=by) for name, value, by in first))

    def feed(self, *jobs: WorkflowActivationJob, after: timedelta = timedelta(), by_query: bool = False) -> list[str]:
        """Activate the run with these jobs; return the kinds of its commands.

        `by_query`: as if a query had brought them, before their task.
        """
        self.now += after
        self._length += by_query
        activation = WorkflowActivation(run_id="run", jobs=jobs, history_length=self._length)
        activation.timestamp.FromDatetime(self.now)
        self.commands = _activated(self._instance, activation)
        self._fed.append((activation, self.commands))
        for job in jobs:
            if job.HasField("fire_timer"):
                self.timers.pop(job.fire_timer.seq, None)
        for command in self.commands:
            if command.HasField("start_timer"):
                self.timers[command.start_timer.seq] = (
                    self.now + command.start_timer.start_to_fire_timeout.ToTimedelta()
                )
            elif command.HasField("cancel_timer"):
                self.timers.pop(command.cancel_timer.seq, None)
        return [str(command.WhichOneof("variant")) for command in self.commands]

    def replay(self) -> None:
        """Feed what came once more to a new instance, as a history has it: without refused updates, validated once."""
        instance = _made(self._class, lambda run_id: None)
        for activation, commands in self._fed:
            refused = {command.update_response.protocol_instance_id for command in commands if _is_refusal(command)}
            again = WorkflowActivation()
            again.CopyFrom(activation)
            again.is_replaying = True
            del again.jobs[:]
            again.jobs.extend(job for job in activation.jobs if job.do_update.protocol_instance_id not in refused)
            for job in again.jobs:
                if job.HasField("do_update"):
                    job.do_update.run_validator = False
            if again.jobs:
                assert _activated(instance, again) == [one for one in commands if not _is_refusal(one)]

    def evict(self) -> None:
        """Remove the run from the cache; the SDK raises `RuntimeError` if one of its tasks still waits."""
        job = WorkflowActivationJob()
        job.remove_from_cache.SetInParent()
        self.feed(job)

    def _count_eviction(self, run_id: str) -> None:
        self.evictions += 1

    # Jobs

    def answer(self, content: Any = None, *, by: str = UPDATE, n: int = 0, **how: Any) -> WorkflowActivationJob:
        """The answer to the n-th open question, by update or signal."""
        answers = AnswerBatch(answers=[Answer(question=self.questions[n].id, content=content, **how)])
        return self.message(ANSWER, answers, by=by)

    def message(self, name: str, value: Any = None, *, by: str = UPDATE) -> WorkflowActivationJob:
        job, payloads = WorkflowActivationJob(), _converter().to_payloads([value])
        if by == SIGNAL:
            job.signal_workflow.signal_name = name
            job.signal_workflow.input.extend(payloads)
            return job
        job.do_update.id = job.do_update.protocol_instance_id = f"update-{next(self._ids)}"
        job.do_update.name, job.do_update.run_validator = name, True
        job.do_update.input.extend(payloads)
        return job

    def cancel(self) -> WorkflowActivationJob:
        job = WorkflowActivationJob()
        job.cancel_workflow.reason = "a person"
        return job

    def timer(self) -> WorkflowActivationJob:
        """The firing of the only timer."""
        [number] = self.timers
        job = WorkflowActivationJob()
        job.fire_timer.seq = number
        return job

    # What is seen

    def query(self, name: str, type_: Any) -> Any:
        job = WorkflowActivationJob()
        job.query_workflow.query_id, job.query_workflow.query_type = "legacy_query", name
        activation = WorkflowActivation(run_id="run", jobs=[job])
        activation.timestamp.FromDatetime(self.now)
        [command] = self._instance.activate(activation).successful.commands
        [value] = _converter().from_payloads([command.respond_to_query.succeeded.response], [type_])
        return value

    @property
    def view(self) -> WorkflowView:
        return self.query(VIEW, WorkflowView)

    @property
    def questions(self) -> Sequence[Any]:
        return self.view.questions

    @property
    def events(self) -> list[str]:
        """The journal's types of events, those about questions, tools' calls and the run's end."""
        return [event.type for event in self.query(EVENTS, list[Event])]

    @property
    def updates(self) -> list[str]:
        """What the updates of the last activation were told, in their order: `completed` or `rejected`."""
        responses = [command.update_response for command in self.commands if command.HasField("update_response")]
        said = [str(response.WhichOneof("response")) for response in responses]
        return [word for word in said if word != "accepted"]

    @property
    def told(self) -> dict[str, str]:
        """What each update of the last activation was told, by its id."""
        responses = [command.update_response for command in self.commands if command.HasField("update_response")]
        words = {one.protocol_instance_id: str(one.WhichOneof("response")) for one in responses}
        return {id_: word for id_, word in words.items() if word != "accepted"}

    @property
    def continued(self) -> list[Payload]:
        """The arguments of the next history, if the last activation has ended this one for it."""
        continuing = [one for one in self.commands if one.HasField("continue_as_new_workflow_execution")]
        return [payload for one in continuing for payload in one.continue_as_new_workflow_execution.arguments]

    @property
    def ended(self) -> str | None:
        """How the last activation ended the run; None if it goes on."""
        ends = {
            "complete_workflow_execution": "completed",
            "fail_workflow_execution": "failed",
            "cancel_workflow_execution": "cancelled",
        }
        [*found] = [ends[kind] for command in self.commands if (kind := str(command.WhichOneof("variant"))) in ends]
        assert len(found) <= 1
        return found[0] if found else None

    def output(self) -> Any:
        """The output of the run that the last activation has completed."""
        [command] = [command for command in self.commands if command.HasField("complete_workflow_execution")]
        raw = RawValue(command.complete_workflow_execution.result)
        return _converter().from_payloads([raw.payload], [dict])[0]["output"]


def _made(class_: type, evict: Callable[[str], None]) -> WorkflowInstance:
    definition = temporalio.workflow._Definition.must_from_class(class_)
    extern = {**_DETAILS.extern_functions, **name_worker(evict)}
    details = replace(_DETAILS, defn=definition, extern_functions=extern, info=_info())

    async def made() -> WorkflowInstance:
        return OWN_RUNNER.create_instance(details)

    with asyncio.Runner() as runner:  # it is made inside a loop, and is one itself
        return runner.run(made())


def _activated(instance: WorkflowInstance, activation: WorkflowActivation) -> list[WorkflowCommand]:
    completion = instance.activate(activation)
    assert not completion.HasField("failed"), completion.failed.failure.message
    return list(completion.successful.commands)


def _is_refusal(command: WorkflowCommand) -> bool:
    return command.HasField("update_response") and command.update_response.HasField("rejected")


def _info() -> temporalio.workflow.Info:
    return temporalio.workflow.Info(
        attempt=1,
        continued_run_id=None,
        cron_schedule=None,
        execution_timeout=None,
        first_execution_run_id="run",
        headers={},
        namespace="default",
        original_execution_run_id="run",
        parent=None,
        root=None,
        raw_memo={},
        retry_policy=None,
        run_id="run",
        run_timeout=None,
        search_attributes={},
        start_time=BEGAN,
        workflow_start_time=BEGAN,
        task_queue="queue",
        task_timeout=timedelta(seconds=10),
        typed_search_attributes=TypedSearchAttributes([]),
        workflow_id="fed",
        workflow_type="Pipeline",
        priority=Priority.default,
    )


_DETAILS = WorkflowInstanceDetails(
    payload_converter_factory=_converter,
    failure_converter_class=DATA_CONVERTER.failure_converter_class,
    interceptor_classes=[],
    defn=temporalio.workflow._Definition.must_from_class(PipelineWorkflow),
    info=_info(),
    randomness_seed=1,
    extern_functions={"__temporal_get_metric_meter": lambda: None},
    disable_eager_activity_execution=True,
    worker_level_failure_exception_types=[],
    patch_activation_callback=None,
    last_completion_result=Payloads(),
    last_failure=None,
)
