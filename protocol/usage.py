"""What work consumes: charged to budgets, shown to people."""

from __future__ import annotations

from holdfast.protocol.values import Value


class Usage(Value):
    """Consumption that is charged to budgets: requests, tokens, dollars, seconds, steps, questions and timers."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """None: the price is not known."""
    seconds: float = 0
    """Working time; time spent waiting for people does not count."""
    steps: int = 0
    questions: int = 0
    """Questions and holds put to people."""
    timers: int = 0
    """Timers and events of other systems that were waited for."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=sum(costs) if costs else None,
            seconds=self.seconds + other.seconds,
            steps=self.steps + other.steps,
            questions=self.questions + other.questions,
            timers=self.timers + other.timers,
        )
