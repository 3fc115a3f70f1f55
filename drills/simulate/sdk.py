"""The private parts of Temporal's SDK that the simulator uses: how a worker makes the instance of a workflow.

A worker makes it of the first job of a history (`_WorkflowWorker._create_workflow_instance`), and a runner reaches its
worker by the closure of one function. Nothing else here is private, and nothing private is used elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeVar

import temporalio
import temporalio.workflow
from temporalio.api.common.v1 import Memo, Payload, Payloads, SearchAttributes
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.workflow_activation import InitializeWorkflow
from temporalio.common import Priority
from temporalio.converter import PayloadConverter, decode_search_attributes, decode_typed_search_attributes
from temporalio.service import __version__
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails

from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.workflows import OWN_RUNNER, WORKFLOWS

Result = TypeVar("Result")
TRIED_WITH = "1.35"
"""The version whose core `core.py` imitates."""
_LOOP = asyncio.new_event_loop()
"""An instance is made inside a loop, and is one itself. Not by `run`: its signal handlers would cost more than all."""


def check_version() -> None:
    """Raise `RuntimeError` under another version of the SDK than the one that is imitated."""
    if not __version__.startswith(f"{TRIED_WITH}."):
        raise RuntimeError(f"drills/simulate imitates temporalio {TRIED_WITH}, and this is {__version__}: compare them")


@cache
def get_converter() -> PayloadConverter:
    """Return the converter of payloads, without codecs and stores."""
    return DATA_CONVERTER.payload_converter


@cache
def _find_definitions() -> Mapping[str, Any]:
    definitions = [temporalio.workflow._Definition.must_from_class(class_) for class_ in WORKFLOWS]
    return {str(definition.name): definition for definition in definitions}


def is_ours(workflow_type: str) -> bool:
    """Return whether a type of workflow is one of our classes."""
    return workflow_type in _find_definitions()


def make_instance(
    start: InitializeWorkflow, run_id: str, began: datetime, evict: Callable[[str], None]
) -> WorkflowInstance:
    """Return the instance of a workflow as a worker makes it, through our runner.

    Args:
        start: The first job of the history.
        run_id: Temporal's id of the history.
        began: When its first task was started.
        evict: Called where our runner asks the worker to remove the workflow from its cache.
    """
    details = WorkflowInstanceDetails(
        payload_converter_factory=get_converter,
        failure_converter_class=DATA_CONVERTER.failure_converter_class,
        interceptor_classes=[],
        defn=_find_definitions()[start.workflow_type],
        info=_describe(start, run_id, began),
        randomness_seed=start.randomness_seed,
        extern_functions={"__temporal_get_metric_meter": lambda: None, **name_worker(evict)},
        disable_eager_activity_execution=True,
        worker_level_failure_exception_types=[],
        patch_activation_callback=None,
        last_completion_result=Payloads(),
        last_failure=None,
    )
    asyncio._set_running_loop(_LOOP)
    try:
        return OWN_RUNNER.create_instance(details)
    finally:
        asyncio._set_running_loop(None)


def name_worker(evict: Callable[[str], None]) -> dict[str, Callable[..., Any]]:
    """Return a function with a worker in its closure, as the SDK gives its instances one; by its name."""

    class Bridge:
        request_workflow_eviction = staticmethod(evict)

    class Worker:
        _bridge_worker = Bridge()

    self = Worker()

    def check_activity(activity: str) -> None:
        assert self

    return {"__temporal_assert_local_activity_valid": check_activity}


def run_async(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine in which no workflow is activated: each is a loop itself."""
    return _LOOP.run_until_complete(work)


def _describe(start: InitializeWorkflow, run_id: str, began: datetime) -> temporalio.workflow.Info:
    parent = root = None
    if start.HasField("parent_workflow_info"):
        named = start.parent_workflow_info
        parent = temporalio.workflow.ParentInfo(
            namespace=named.namespace, run_id=named.run_id, workflow_id=named.workflow_id
        )
        root = temporalio.workflow.RootInfo(
            run_id=start.root_workflow.run_id, workflow_id=start.root_workflow.workflow_id
        )
    return temporalio.workflow.Info(
        attempt=1,
        continued_run_id=start.continued_from_execution_run_id or None,
        cron_schedule=None,
        execution_timeout=None,
        first_execution_run_id=start.first_execution_run_id,
        headers={},
        namespace="default",
        original_execution_run_id=run_id,
        parent=parent,
        root=root,
        raw_memo=dict(start.memo.fields),
        retry_policy=None,
        run_id=run_id,
        run_timeout=None,
        search_attributes=decode_search_attributes(start.search_attributes),
        start_time=began,
        workflow_start_time=start.start_time.ToDatetime().replace(tzinfo=UTC),
        task_queue="queue",
        task_timeout=timedelta(seconds=10),
        typed_search_attributes=decode_typed_search_attributes(start.search_attributes),
        workflow_id=start.workflow_id,
        workflow_type=start.workflow_type,
        priority=Priority.default,
    )


def encode_failure(error: BaseException, *, activity: bool = False) -> Failure:
    """Return the failure of an error on the wire; of an activity with what the server wraps around it."""
    failure = Failure()
    DATA_CONVERTER.failure_converter.to_failure(error, get_converter(), failure)
    if not activity:
        return failure
    outer = Failure(message="Activity task failed")
    outer.activity_failure_info.activity_id = "activity"
    outer.cause.CopyFrom(failure)
    return outer


def decode_failure(failure: Failure) -> BaseException:
    """Return the error of a failure on the wire."""
    return DATA_CONVERTER.failure_converter.from_failure(failure, get_converter())


def pack_attributes(fields: Mapping[str, Payload]) -> SearchAttributes:
    """Return search attributes of these payloads."""
    return SearchAttributes(indexed_fields=fields)


def pack_memo(fields: Mapping[str, Payload]) -> Memo:
    """Return a memo of these payloads."""
    return Memo(fields=fields)
