"""An answer asks the server no more than it must: the calls are counted by the SDK's own metrics."""

from collections import Counter

from temporalio.client import Client
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig

from holdfast.client.answering import Answering
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer
from holdfast.runtime.converters import DATA_CONVERTER
from tests.conftest import Harness

NESTED = """
steps:
- kind: loop
  name: outer
  loop:
    max_loops: 1
    body: [{kind: hitl, name: ask, message: Go?}]
"""


async def counted(house: Harness) -> tuple[Runs, MetricBuffer]:
    """Return the runs by a client of its own, and the metrics of its calls."""
    metrics = MetricBuffer(10_000)
    runtime = Runtime(telemetry=TelemetryConfig(metrics=metrics))
    address = house.client.service_client.config.target_host
    client = await Client.connect(
        address, namespace=house.client.namespace, data_converter=DATA_CONVERTER, runtime=runtime
    )
    metrics.retrieve_updates()
    return Runs(client, house.runs.task_queue, Answering()), metrics


def calls(metrics: MetricBuffer) -> Counter[str]:
    counts: Counter[str] = Counter()
    for update in metrics.retrieve_updates():
        if update.metric.name in ("temporal_request", "temporal_long_request"):
            counts[str(update.attributes["operation"])] += int(update.value)
    return counts


async def test_an_answer_walks_the_tree_once(house: Harness) -> None:
    run = await house.start(NESTED)
    question = await house.one(run)
    runs, metrics = await counted(house)
    found = await runs.open_questions(await runs.find(run))
    await runs.answer(run, [Answer(question=question.id, content="yes")], open_questions=found)
    assert calls(metrics) == {
        "DescribeWorkflowExecution": 1,
        "DescribeTaskQueue": 1,
        "QueryWorkflow": 2,  # the run and its loop
        "UpdateWorkflowExecution": 1,
    }
