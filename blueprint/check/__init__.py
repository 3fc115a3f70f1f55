"""Rules of the whole blueprint, which no single key can keep: names, exclusions, schemas. Used by `load`."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.blueprint.check.agents import check_agents
from holdfast.blueprint.check.findings import Findings
from holdfast.blueprint.check.kinds import check_step
from holdfast.blueprint.check.names import check_names
from holdfast.blueprint.check.people import check_access
from holdfast.blueprint.check.schemas import check_schemas, check_step_schemas
from holdfast.blueprint.errors import Problem
from holdfast.blueprint.kinds import AnyStep, Blueprint, Fallback
from holdfast.blueprint.positions import Parts
from holdfast.blueprint.source import PlacedDict


def check(
    blueprint: Blueprint, tree: PlacedDict, prefix: Parts = (), repaired: frozenset[Parts] = frozenset()
) -> list[Problem]:
    """Return the problems of one document, its imports left out; `tree` is its core form with positions."""
    findings = Findings(tree, prefix, repaired)
    check_names(blueprint, findings)
    check_schemas(blueprint, findings)
    check_agents(blueprint, findings)
    check_access(blueprint, findings)
    _check_steps(blueprint.steps, "steps", blueprint, findings)
    return findings.problems


def _check_steps(steps: Iterable[AnyStep], path: str, blueprint: Blueprint, findings: Findings) -> None:
    for index, step in enumerate(steps):
        _check_step_tree(step, f"{path}[{index}]", blueprint, findings)


def _check_step_tree(step: AnyStep, path: str, blueprint: Blueprint, findings: Findings) -> None:
    check_step(step, path, blueprint, findings)
    check_step_schemas(step, path, findings)
    for key, block in step.blocks().items():
        _check_steps(block.steps, f"{path}.{key}", blueprint, findings)
    if isinstance(step.on_error, Fallback):
        _check_step_tree(step.on_error.fallback, f"{path}.on_error.fallback", blueprint, findings)
