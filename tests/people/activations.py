"""A run that is fed its activations by hand: which jobs come in one activation, and in which order, is the test's.

A server cannot be made to put an answer, a cancel and a timer into one workflow task in a chosen order. The SDK applies
the jobs of an activation in two ways: signals and updates first, the workflow running on before the rest (as of 1.35),
or all of them before anything runs (flag 2, "single batch", which its source announces as a later default).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import temporalio.workflow
from temporalio.api.common.v1 import Payloads
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands.workflow_commands_pb2 import WorkflowCommand
from temporalio.common import Priority, RawValue, TypedSearchAttributes
from temporalio.converter import PayloadConverter
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails

from holdfast.blueprint import loads
from holdfast.client.connection import DATA_CONVERTER
from holdfast.protocol.answers import Answer, Answers
from holdfast.protocol.events import Event
from holdfast.protocol.runs import ANSWER, EVENTS, VIEW, Definition, PipelineState, WorkflowView
from holdfast.workflows.pipeline import PipelineWorkflow

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
SINGLE_BATCH = 2
UPDATE, SIGNAL = "update", "signal"


@cache
def _converter() -> PayloadConverter:
    return DATA_CONVERTER.payload_converter


class FedRun:
    """One workflow, driven without a server; `commands` are those of the last activation."""

    def __init__(self, text: str | type, *, batch: bool) -> None:
        """Start the run of a blueprint, or a workflow class without arguments.

        `batch`: apply all jobs of an activation before anything runs.
        """
        self.now, self._flags = BEGAN, [SINGLE_BATCH] if batch else []
        self._ids = itertools.count(1)
        with asyncio.Runner() as runner:  # it is made inside a loop, and is one itself
            self._instance = runner.run(_instance(PipelineWorkflow if isinstance(text, str) else text))
        self.commands: list[WorkflowCommand] = []
        self.timers: list[int] = []
        """Numbers of the timers that run."""
        start = WorkflowActivationJob()
        start.initialize_workflow.workflow_type = "Pipeline"
        if isinstance(text, str):
            definition = Definition(run="fed", blueprint=loads(text, file="test.yaml", name="test"))
            start.initialize_workflow.arguments.extend(_converter().to_payloads([definition, PipelineState()]))
        self.feed(start)

    def feed(self, *jobs: WorkflowActivationJob, after: timedelta = timedelta()) -> list[str]:
        """Activate the run with these jobs; return the kinds of its commands."""
        self.now += after
        activation = WorkflowActivation(run_id="run", jobs=jobs, available_internal_flags=self._flags)
        activation.timestamp.FromDatetime(self.now)
        completion = self._instance.activate(activation)
        assert not completion.HasField("failed"), completion.failed.failure.message
        self.commands = list(completion.successful.commands)
        for command in self.commands:
            if command.HasField("start_timer"):
                self.timers.append(command.start_timer.seq)
            elif command.HasField("cancel_timer") and command.cancel_timer.seq in self.timers:
                self.timers.remove(command.cancel_timer.seq)
        return [str(command.WhichOneof("variant")) for command in self.commands]

    # Jobs

    def answer(self, content: Any = None, *, by: str = UPDATE, n: int = 0, **how: Any) -> WorkflowActivationJob:
        """The answer to the n-th open question, by update or signal."""
        answers = Answers(answers=[Answer(question=self.questions[n].id, content=content, **how)])
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
        job.query_workflow.query_id, job.query_workflow.query_type = "q", name
        activation = WorkflowActivation(run_id="run", jobs=[job], available_internal_flags=self._flags)
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


async def _instance(class_: type) -> WorkflowInstance:
    definition = temporalio.workflow._Definition.must_from_class(class_)
    return UnsandboxedWorkflowRunner().create_instance(replace(_DETAILS, defn=definition))


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
