"""Usage of models that a function asks by itself, as it reports it: it counts once the call has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from holdfast.protocol.usage import Usage

Reported = list[tuple[str, Usage]]
"""What was reported in a call, each with the model's name."""

_reported: ContextVar[Reported | None] = ContextVar("reported", default=None)


def report_usage(
    model: str = "", *, requests: int = 1, input_tokens: int = 0, output_tokens: int = 0, cost_usd: float | None = None
) -> None:
    """Report requests that a tool, or a function that is an agent, has sent to a model by itself.

    They count against the limits of the run, of its agents and branches, and stand in its events, once the call has
    ended or asks people. Outside a call it does nothing.

    Args:
        model: `provider:name`, for the list price of the tokens where there is no `cost_usd`.
        requests: How many there were.
        input_tokens: Of all of them.
        output_tokens: Of all of them.
        cost_usd: What they cost in dollars, if that is known.
    """
    if (reported := _reported.get()) is not None:
        usage = Usage(requests=requests, input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost_usd)
        reported.append((model, usage))


@contextmanager
def collect_usage() -> Iterator[Reported]:
    """Yield a list that gets what is reported inside the block, also in its threads and tasks."""
    reported: Reported = []
    token = _reported.set(reported)
    try:
        yield reported
    finally:
        _reported.reset(token)
