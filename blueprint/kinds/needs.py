"""What the steps of a list need of each other, for the checks, the words and the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.findings import Findings
from holdfast.blueprint.words.text import Vocabulary

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep


def has_needs(steps: Sequence[AnyStep]) -> bool:
    """Return whether the order of a list is that of its `needs`; without any, it is the written one."""
    return any(step.needs for step in steps)


def find_needs(steps: Sequence[AnyStep]) -> Mapping[str, frozenset[str]]:
    """Return the steps that each one needs, however far, by its name; a step needs only those written before it."""
    needs: dict[str, frozenset[str]] = {}
    for step in steps:
        known = [name for name in step.needs if name in needs]
        needs[step.name] = frozenset(known).union(*(needs[name] for name in known))
    return needs


def find_vocabularies(steps: Sequence[AnyStep], names: Vocabulary) -> list[Vocabulary]:
    """Return the vocabulary at each step of a list, and at last the one behind the list."""
    first, depends = names, has_needs(steps)
    after: dict[str, Vocabulary] = {}
    places: list[Vocabulary] = []
    for step in steps:
        if depends:
            names = after.get(step.needs[0], first) if step.needs else first
        places.append(names)
        names = after[step.name] = names.after(step.result(names))
    return [*places, names]


def describe_order(steps: Sequence[AnyStep], most: int | None) -> str:
    """Return the sentence about the order of a list; "" for the written one."""
    if not has_needs(steps):
        return ""
    at_once = "all that can run at once" if most is None else f"at most {most} at once" if most > 1 else "one at a time"
    return f"Each of these steps starts as soon as those that it comes after have ended, {at_once}."


def check_needs(steps: Sequence[AnyStep], path: str, findings: Findings) -> None:
    """Report needs that are no earlier step of the list."""
    names = [step.name for step in steps]
    for index, step in enumerate(steps):
        for nth, name in enumerate(step.needs):
            if name in names[:index]:
                continue
            place = f"{path}[{index}].needs[{nth}]"
            if name == step.name:
                findings.add(place, "cycle", f"the step {name!r} needs itself", "remove it")
            elif name in names:
                message = f"the step {name!r} is written after {step.name!r}, which needs it"
                findings.add(place, "cycle", message, "write each step after those that it needs")
            else:
                hint = did_you_mean(name, names[:index]) or "a step needs steps of its own list"
                findings.add(place, "unknown_name", f"there is no step {name!r} in this list", hint)


def check_most(
    most: int | None, lists: Sequence[Sequence[AnyStep]], path: str, findings: Findings, instead: str = "remove it"
) -> None:
    """Report `max_parallel` where no step needs another: such a list is a line. `instead`: what else may be meant."""
    if most is not None and not any(has_needs(steps) for steps in lists):
        message = "'max_parallel' belongs to lists whose steps say what they `need`: others run one after the other"
        findings.add_key(f"{path}max_parallel", "conflict", message, f"add needs to the steps, or {instead}")
