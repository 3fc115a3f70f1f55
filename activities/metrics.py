"""The metrics of a worker's activities: what models and tools did. `worker.py` adds the interceptor.

They go out beside temporalio's own, at `HOLDFAST_METRICS_PORT`. Workflow code raises none: replay would count again.
"""

from __future__ import annotations

from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from holdfast.activities.attempts import find_request
from holdfast.protocol.agents import Interrupted, ModelReply, ModelRequest, ToolRequest

# The endpoint adds `_total` to the names of counters.
REQUESTS, TOKENS, TOOL_CALLS = "holdfast_model_requests", "holdfast_model_tokens", "holdfast_tool_calls"
COST = "holdfast_model_cost_usd_total"
"""A gauge that only grows: the SDK's counters are whole numbers."""


class MetricsInterceptor(Interceptor):
    """Counts the requests, tokens and dollars of models, and the calls of tools."""

    def __init__(self) -> None:
        self._dollars: dict[str, float] = {}

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """See base class."""
        return _MeteredCalls(next, self._dollars)


class _MeteredCalls(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, dollars: dict[str, float]) -> None:
        super().__init__(next)
        self._dollars = dollars

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        request = find_request(input)
        try:
            result = await self.next.execute_activity(input)
        except BaseException:
            self._count(request, None)
            raise
        self._count(request, result)
        return result

    def _count(self, request: object, result: object) -> None:
        """Count a call; a result of None is a failure."""
        match request:
            case ToolRequest(tool=tool):
                _add(TOOL_CALLS, 1, tool=tool, outcome=_outcome(result))
            case ModelRequest(model=model):
                finish = result.finish if isinstance(result, ModelReply) else "failed"
                _add(REQUESTS, 1, model=model, outcome=finish)
                if isinstance(result, ModelReply):
                    self._count_usage(model, result)

    def _count_usage(self, model: str, reply: ModelReply) -> None:
        _add(TOKENS, reply.usage.input_tokens, model=model, kind="input")
        _add(TOKENS, reply.usage.output_tokens, model=model, kind="output")
        if reply.usage.cost_usd is not None:
            dollars = self._dollars[model] = self._dollars.get(model, 0.0) + reply.usage.cost_usd
            activity.metric_meter().create_gauge_float(COST).set(dollars, {"model": model})


def _outcome(result: object) -> str:
    if result is None:
        return "failed"
    return "interrupted" if isinstance(result, Interrupted) else "completed"


def _add(name: str, amount: int, **labels: str) -> None:
    activity.metric_meter().create_counter(name).add(amount, labels)
