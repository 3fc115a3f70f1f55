"""Lint warnings for a blueprint that has no errors: it runs, but hardly as intended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.blueprint.dependencies import find_reach
from holdfast.blueprint.errors import Problem
from holdfast.blueprint.expressions.evaluation import names_in
from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds import AnyStep, Blueprint
from holdfast.blueprint.kinds.shared_writes import warn_of_list
from holdfast.blueprint.kinds.walk import placed_steps
from holdfast.blueprint.positions import Parts
from holdfast.blueprint.source import PlacedDict


def advise(blueprint: Blueprint, tree: PlacedDict, prefix: Parts = ()) -> list[Problem]:
    """Return warnings about one document, its imports left out; `tree` is its core form with positions."""
    findings = Findings(tree, prefix, frozenset())
    _warn_of_unused(blueprint, findings)
    _warn_of_unproved_people(blueprint, findings)
    _warn_of_late_lists(blueprint, findings)
    _warn_of_shared_writes(blueprint, findings)
    for path, step in placed_steps(blueprint.steps, "steps"):
        step.advise(path, blueprint, findings)
    return [replace(problem, severity="warning") for problem in findings.problems]


def _warn_of_unproved_people(blueprint: Blueprint, findings: Findings) -> None:
    """Warn of questions whose people depend on who answered another, where nothing need prove who that was."""
    steps = list(placed_steps(blueprint.steps, "steps"))
    unproved = {step.name for _, step in steps if step.answered_question is not None and not step.takes_proof}
    for path, step in steps:
        for key, template in step.people_templates().items():
            for chain in sorted(names_in(template)):
                if chain[0] == "steps" and chain[2:] == ("reply", "by") and chain[1] in unproved:
                    message = f"nothing proves who answered {chain[1]}: `by` is what the sender says"
                    hint = f"write proof: person in {chain[1]}, or set [answers] keys in holdfast.toml"
                    findings.add(f"{path}.{key}", "unproved_person", message, hint)


def _warn_of_shared_writes(blueprint: Blueprint, findings: Findings) -> None:
    """Warn of steps in lists with `needs` that may run at once and write one path of the context."""
    lists: list[tuple[str, Sequence[AnyStep], int | None]] = [("steps", blueprint.steps, blueprint.max_parallel)]
    for path, step in placed_steps(blueprint.steps, "steps"):
        lists += [(f"{path}.{key}", block.steps, step.most_at_once) for key, block in step.blocks().items()]
    for path, steps, most in lists:
        if most != 1:
            warn_of_list(steps, path, blueprint, findings)


def _warn_of_late_lists(blueprint: Blueprint, findings: Findings) -> None:
    """Warn of lists that grow between iterations and are read after the last one, of which they lack the value."""
    steps = list(placed_steps(blueprint.steps, "steps"))
    for index, (path, step) in enumerate(steps):
        if not step.growing_lists:
            continue
        later = [other.reads() for place, other in steps[index + 1 :] if not place.startswith(f"{path}.")]
        ends = [step.output_templates, blueprint.output, *(template for reads in later for template in reads.values())]
        read = {chain for template in ends for chain in names_in(template)}
        for key, target in step.growing_lists.items():
            keys = tuple(target.split("."))
            if any(chain[: len(keys)] == keys for chain in read):
                message = f"{target} is read after the loop, but the last iteration appends nothing to it"
                hint = "`state` runs between iterations only: append in a step of the body, with sink_to"
                findings.add(f"{path}.{key}", "late_append", message, hint)


def _warn_of_unused(blueprint: Blueprint, findings: Findings) -> None:
    dependencies = find_reach(blueprint.steps, blueprint)
    for kind, defined, used in (
        ("agent", blueprint.agents, dependencies.agents),
        ("import", blueprint.imports, dependencies.imports),
    ):
        for name in defined:
            if name not in used:
                message = f"nothing uses the {kind} {name!r}"
                findings.add_key(f"{kind}s.{name}", f"unused_{kind}", message, "remove it, or use it in a step")
