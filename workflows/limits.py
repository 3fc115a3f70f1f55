"""How much may be spent: counted where it is spent, and by everybody above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from blueprint.grammar import Limits
from protocol.agents import Usage
from protocol.runs import Budget

_WORDS = {
    "model_calls": "model calls",
    "tokens": "tokens",
    "cost_usd": "dollars",
    "seconds": "seconds of work",
    "steps": "steps",
}


Before = Literal["step", "model"]
_BINDS: dict[Before, frozenset[str]] = {
    "step": frozenset({"steps", "seconds"}),
    "model": frozenset({"model_calls", "tokens", "cost_usd", "seconds"}),
}
"""What may not be used up before it begins."""


class Meter:
    """What one place may spend, and has spent. Several budgets may bind it: the run's, an agent's, a branch's share."""

    def __init__(self, budgets: Sequence[Budget] = (), outer: Meter | None = None) -> None:
        self.budgets = list(budgets)
        self._outer = outer

    def count(self, usage: Usage) -> None:
        self.budgets = [one.model_copy(update={"spent": one.spent + usage}) for one in self.budgets]
        if self._outer is not None:
            self._outer.count(usage)

    def within(self, budget: Budget) -> Meter:
        """The same with one budget more, whose spending counts here as well."""
        return Meter([*self.budgets, budget], self)

    def split(self, shares: int) -> list[Meter]:
        """Even shares of what is left; what whole numbers leave over goes to the first ones."""
        return [Meter([_share(one, shares, nth) for one in self.budgets], self) for nth in range(shares)]

    def reached(self, before: Before | None = None) -> tuple[int, str] | None:
        """Which budget has come to its end, and by what; of those that bind what is about to begin, or of all."""
        for index, one in enumerate(self.budgets):
            for name, most in allowed(one).items():
                if spent_of(one.spent, name) >= most and (before is None or name in _BINDS[before]):
                    return index, name
        return None

    def told(self, index: int, name: str) -> str:
        """What a person is told of a limit: which one, of whom, and what was spent.

        >>> two = Budget(limits=Limits(steps=2), of="the run", spent=Usage(steps=2))
        >>> Meter([two]).told(0, "steps")
        'the limit of 2 steps of the run is reached (2 spent)'
        >>> Meter([two]).split(2)[0].told(0, "steps")
        'the share of this branch, 0 of the 2 steps of the run, is reached (0 spent)'
        """
        one = self.budgets[index]
        limit, spent = limits_of(one.limits)[name], spent_of(one.spent, name)
        if one.share is not None:
            whole = f"{one.share[name]:g} of the {limit:g} {_WORDS[name]} of {one.of}"
            return f"the share of this branch, {whole}, is reached ({spent:g} spent)"
        return f"the limit of {limit:g} {_WORDS[name]} of {one.of} is reached ({spent:g} spent)"

    def grant(self, index: int, name: str, amount: float) -> None:
        """Raise a limit; here and where it came from."""
        one = self.budgets[index]
        raised: dict[str, Any]
        if one.share is not None:
            raised = {"share": {**one.share, name: one.share[name] + amount}}
        else:
            raised = {"limits": one.limits.model_copy(update={name: limits_of(one.limits)[name] + amount})}
        self.budgets[index] = one.model_copy(update=raised)
        if self._outer is not None and index < len(self._outer.budgets):
            self._outer.grant(index, name, amount)

    def adopt(self, budgets: Sequence[Budget]) -> None:
        """Take over what was granted to a child that had these budgets."""
        for index, (mine, theirs) in enumerate(zip(self.budgets, budgets, strict=False)):
            for name, most in allowed(mine).items():
                if (more := allowed(theirs)[name] - most) > 0:
                    self.grant(index, name, more)


def limits_of(limits: Limits) -> dict[str, float]:
    """The limits that are set, by name."""
    return {name: value for name in _WORDS if (value := limits.model_dump(include={name})[name]) is not None}


def allowed(budget: Budget) -> dict[str, float]:
    """How much may be spent, by the limits' names."""
    return limits_of(budget.limits) if budget.share is None else budget.share


def spent_of(usage: Usage, name: str) -> float:
    spent = {
        "model_calls": usage.requests,
        "tokens": usage.tokens,
        "cost_usd": usage.cost_usd or 0.0,
        "seconds": usage.seconds,
        "steps": usage.steps,
    }
    return spent[name]


def _share(budget: Budget, shares: int, nth: int) -> Budget:
    share = {}
    for name, most in allowed(budget).items():
        left = max(most - spent_of(budget.spent, name), 0)
        whole, over = divmod(left, shares)
        share[name] = left / shares if name in ("cost_usd", "seconds") else whole + (nth < over)
    return budget.model_copy(update={"share": share, "spent": Usage()})


def old_share(budget: Budget, shares: int) -> Budget:
    """As runs that began before 21 November 2026 share."""
    left = {name: max(most - spent_of(budget.spent, name), 0) for name, most in allowed(budget).items()}
    shared = {
        name: value / shares if name in ("cost_usd", "seconds") else int(value // shares)
        for name, value in left.items()
    }
    return budget.model_copy(update={"limits": budget.limits.model_copy(update=shared), "spent": Usage()})
