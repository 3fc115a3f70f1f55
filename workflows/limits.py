"""Limits of a run, an agent or a branch: budgets that are counted where something is spent, and in all above."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from holdfast.blueprint.parts import Limits
from holdfast.protocol.address import Address
from holdfast.protocol.children import Budget
from holdfast.protocol.usage import Usage

Before = Literal["step", "model"]


class _Kind(NamedTuple):
    """A kind of limit: its name in messages, what it must not be used up before, and how spending is counted."""

    words: str
    binds: tuple[Before, ...]
    spent: Callable[[Usage], float]
    divisible: bool = False
    """True if branches share it exactly; else the first ones get what is over."""


_KINDS = {
    "model_calls": _Kind("model calls", ("model",), lambda usage: usage.requests),
    "tokens": _Kind("tokens", ("model",), lambda usage: usage.tokens),
    "cost_usd": _Kind("dollars", ("model",), lambda usage: usage.cost_usd or 0.0, divisible=True),
    "seconds": _Kind("seconds of work", ("step", "model"), lambda usage: usage.seconds, divisible=True),
    "steps": _Kind("steps", ("step",), lambda usage: usage.steps),
}
"""By their keys in `limits`. What else bounds a run (`max_loops`, `max_turns`, …) is counted where it is kept."""


class Reached(NamedTuple):
    """A budget of a meter that is used up, by its index, and the name of the limit."""

    budget: int
    limit: str


@dataclass(frozen=True)
class ExhaustedLimit:
    """A limit that is reached: what its author wants then, and how people are told. For `Frame.go_beyond`."""

    type: str
    """Of the failure."""
    key: str
    """The last part of the question's address."""
    address: Address
    then: Literal["fail", "finish", "ask"]
    amount: float
    """What a person may grant: as much again."""
    message: str
    """Of the failure, where nobody is asked."""
    question: str
    ended: str
    """Of the failure, where a person grants nothing, without that person."""
    fail: str
    """Label of the option to fail, as `finish` is of the option to go on with what there is."""
    finish: str | None = None
    final: bool = False
    """True if no `on_error` may handle the failure; `final_if_ended` is for one that a person has chosen."""
    final_if_ended: bool = False

    def options(self) -> list[dict[str, str]]:
        """Return the options of the question whether to go on."""
        labels = {"more": f"{self.amount:g} more", "finish": self.finish, "fail": self.fail}
        return [{"id": id_, "label": label} for id_, label in labels.items() if label is not None]


class Meter:
    """The budgets that bind one part of a run, with their spending: the run's, an agent's, a branch's share."""

    def __init__(self, budgets: Sequence[Budget] = (), outer: Meter | None = None) -> None:
        self.budgets = list(budgets)
        self._outer = outer

    @property
    def limits_time(self) -> bool:
        return any("seconds" in list_allowed(budget) for budget in self.budgets)

    def count(self, usage: Usage) -> None:
        self.budgets = [budget.model_copy(update={"spent": budget.spent + usage}) for budget in self.budgets]
        if self._outer is not None:
            self._outer.count(usage)

    def within(self, budget: Budget) -> Meter:
        """Return a meter with one budget more; what it counts is counted here as well."""
        return Meter([*self.budgets, budget], self)

    def with_spent(self, usage: Usage) -> Meter:
        """Return a meter on which so much more is spent, which is counted here later; it counts here as well."""
        return Meter([budget.model_copy(update={"spent": budget.spent + usage}) for budget in self.budgets], self)

    def split(self, shares: int) -> list[Meter]:
        """Return meters with even shares of the rest; the remainder of whole numbers goes to the first."""
        return [Meter([_make_share(budget, shares, nth) for budget in self.budgets], self) for nth in range(shares)]

    def find_reached(self, before: Before | None = None) -> Reached | None:
        """Return a limit that is used up; with `before`, only one that binds it."""
        for index, budget in enumerate(self.budgets):
            for name, most in list_allowed(budget).items():
                kind = _KINDS[name]
                if kind.spent(budget.spent) >= most and (before is None or before in kind.binds):
                    return Reached(index, name)
        return None

    def describe_exhausted(self, index: int, name: str, address: Address) -> ExhaustedLimit:
        """Return a limit that is reached before something at this address."""
        budget, message = self.budgets[index], self.message(index, name)
        return ExhaustedLimit(
            type="limit_reached",
            key="limit",
            address=address,
            then=budget.limits.on_limit,
            amount=list_limits(budget.limits)[name] - budget.granted.get(name, 0),
            message=message,
            question=f"{message}. Go on?",
            ended=f"{message}; ended",
            fail="Let it fail",
            final=budget.whole_run,
            final_if_ended=True,
        )

    def message(self, index: int, name: str) -> str:
        """Return a message on a limit that is reached: which one, of whom, and what was spent.

        >>> two = Budget(limits=Limits(steps=2), of="the run", spent=Usage(steps=2))
        >>> Meter([two]).message(0, "steps")
        'the limit of 2 steps of the run is reached (2 spent)'
        >>> Meter([two]).split(2)[0].message(0, "steps")
        'the share of this branch, 0 of the 2 steps of the run, is reached (0 spent)'
        """
        budget = self.budgets[index]
        kind, limit = _KINDS[name], list_limits(budget.limits)[name]
        spent = kind.spent(budget.spent)
        if budget.share is not None:
            whole = f"{budget.share[name]:g} of the {limit:g} {kind.words} of {budget.of}"
            return f"the share of this branch, {whole}, is reached ({spent:g} spent)"
        return f"the limit of {limit:g} {kind.words} of {budget.of} is reached ({spent:g} spent)"

    def grant(self, index: int, name: str, amount: float) -> None:
        """Raise a limit, here and in the meters that it comes from."""
        budget = self.budgets[index]
        raised: dict[str, object]
        if budget.share is not None:
            raised = {"share": {**budget.share, name: budget.share[name] + amount}}
        else:
            raised = {
                "limits": budget.limits.model_copy(update={name: list_limits(budget.limits)[name] + amount}),
                "granted": {**budget.granted, name: budget.granted.get(name, 0) + amount},
            }
        self.budgets[index] = budget.model_copy(update=raised)
        if self._outer is not None and index < len(self._outer.budgets):
            self._outer.grant(index, name, amount)

    def adopt(self, begun: Sequence[Budget], ended: Sequence[Budget]) -> None:
        """Raise limits by what was granted to a child, from the budgets that it began with to those that it ended with.

        A limit may have been raised here meanwhile, or by another child that ended first; each grant counts.
        """
        # The child may have one more, of its agent's own limits; they stand behind those that it began with.
        for index, (before, after) in enumerate(zip(begun, ended, strict=False)):
            for name, most in list_allowed(before).items():
                if (more := list_allowed(after)[name] - most) > 0:
                    self.grant(index, name, more)


def list_limits(limits: Limits) -> dict[str, float]:
    """Return the limits that are set, by name."""
    return {name: value for name in _KINDS if (value := getattr(limits, name)) is not None}


def list_allowed(budget: Budget) -> dict[str, float]:
    """Return the amounts that may be spent, by the limits' names."""
    return list_limits(budget.limits) if budget.share is None else budget.share


def _make_share(budget: Budget, shares: int, nth: int) -> Budget:
    share = {}
    for name, most in list_allowed(budget).items():
        rest = max(most - _KINDS[name].spent(budget.spent), 0)
        whole, over = divmod(rest, shares)
        share[name] = rest / shares if _KINDS[name].divisible else whole + (nth < over)
    return budget.model_copy(update={"share": share, "spent": Usage()})
