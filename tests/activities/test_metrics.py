"""The figures of a worker's activities: each call is counted as it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from temporalio.common import MetricMeter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from holdfast.activities.metrics import MetricsInterceptor
from holdfast.protocol.agents import Completed, Message, ModelReply, ModelRequest, ToolRequest
from holdfast.protocol.usage import Usage

TOOL = ToolRequest(tool="mail", input={"to": "ana"})
MODEL = ModelRequest(step="draft", model="fast", messages=[Message(role="user", content="Hi")])
REPLY = ModelReply(output="Hello", usage=Usage(requests=1, input_tokens=7, output_tokens=2, cost_usd=0.25))


class Meter(type(MetricMeter.noop)):  # type: ignore[misc]
    """A meter that keeps what was counted, and the last values of gauges."""

    def __init__(self) -> None:
        self.seen: Counter[tuple[str, ...]] = Counter()

    def create_counter(self, name: str, *_: Any) -> Any:
        return Instrument(self.seen, name, adds=True)

    def create_gauge_float(self, name: str, *_: Any) -> Any:
        return Instrument(self.seen, name, adds=False)


class Instrument:
    def __init__(self, seen: Counter[tuple[str, ...]], name: str, *, adds: bool) -> None:
        self.seen, self.name, self.adds = seen, name, adds

    def add(self, value: float, labels: Mapping[str, str]) -> None:
        key = (self.name, *labels.values())
        self.seen[key] = value + (self.seen[key] if self.adds else 0)  # type: ignore[assignment]

    set = add


class Ends(ActivityInboundInterceptor):
    """An activity that ends like this."""

    def __init__(self, *results: object) -> None:
        self.results = list(results)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


async def counted(request: object, *results: object) -> Counter[tuple[str, ...]]:
    environment, meter = ActivityEnvironment(), Meter()
    environment.metric_meter = meter
    chain = MetricsInterceptor().intercept_activity(Ends(*results))

    async def call() -> None:
        await chain.execute_activity(ExecuteActivityInput(fn=call, args=[request], executor=None, headers={}))

    for result in results:
        if isinstance(result, Exception):
            with pytest.raises(type(result)):
                await environment.run(call)
        else:
            await environment.run(call)
    return meter.seen


async def test_calls_of_tools_are_counted_by_outcome() -> None:
    seen = await counted(TOOL, Completed(result=1), Completed(result=2), ApplicationError("no"))
    assert seen == {
        ("holdfast_tool_calls", "mail", "completed"): 2,
        ("holdfast_tool_calls", "mail", "failed"): 1,
    }


async def test_requests_tokens_and_dollars_of_models_are_counted() -> None:
    seen = await counted(MODEL, REPLY, ApplicationError("busy"), REPLY)
    assert seen == {
        ("holdfast_model_requests", "fast", "finished"): 2,
        ("holdfast_model_requests", "fast", "failed"): 1,
        ("holdfast_model_tokens", "fast", "input"): 14,
        ("holdfast_model_tokens", "fast", "output"): 4,
        ("holdfast_model_cost_usd_total", "fast"): 0.5,
    }
