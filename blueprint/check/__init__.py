"""Rules of the whole blueprint, which no single key can keep: names, exclusions, schemas."""

from __future__ import annotations

from collections.abc import Iterable

from blueprint.check.agents import check_agents
from blueprint.check.findings import Findings
from blueprint.check.kinds import check_step
from blueprint.check.names import check_names
from blueprint.check.schemas import check_schemas, check_step_schemas
from blueprint.errors import Problem
from blueprint.grammar import AnyStep, Blueprint, Fallback
from blueprint.places import Parts
from blueprint.source import PlacedDict


def check(
    blueprint: Blueprint, tree: PlacedDict, prefix: Parts = (), mended: frozenset[Parts] = frozenset()
) -> list[Problem]:
    """What is wrong with one document, its imports left out; `tree` is its core form with places."""
    findings = Findings(tree, prefix, mended)
    check_names(blueprint, findings)
    check_schemas(blueprint, findings)
    check_agents(blueprint, findings)
    _check_steps(blueprint.steps, "steps", blueprint, findings)
    return findings.problems


def _check_steps(steps: Iterable[AnyStep], path: str, blueprint: Blueprint, findings: Findings) -> None:
    for index, step in enumerate(steps):
        _check_one(step, f"{path}[{index}]", blueprint, findings)


def _check_one(step: AnyStep, path: str, blueprint: Blueprint, findings: Findings) -> None:
    check_step(step, path, blueprint, findings)
    check_step_schemas(step, path, findings)
    for key, block in step.blocks().items():
        _check_steps(block.steps, f"{path}.{key}", blueprint, findings)
    if isinstance(step.on_error, Fallback):
        _check_one(step.on_error.fallback, f"{path}.on_error.fallback", blueprint, findings)
