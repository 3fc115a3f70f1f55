"""Rules that no single key can keep: names, schemas, and what each kind checks of itself. Used by `load`."""

from __future__ import annotations

from holdfast.blueprint.check.agents import check_agents, check_references
from holdfast.blueprint.check.names import check_names
from holdfast.blueprint.check.schemas import check_schemas, check_step_schemas
from holdfast.blueprint.check.undos import check_undos
from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds import AnyStep, Blueprint
from holdfast.blueprint.kinds.deadlines import check_deadline
from holdfast.blueprint.kinds.needs import check_most
from holdfast.blueprint.kinds.walk import placed_steps
from holdfast.blueprint.people import is_person, name_hint
from holdfast.blueprint.positions import Parts
from holdfast.blueprint.shapes import judge
from holdfast.blueprint.source import PlacedDict


def check(
    blueprint: Blueprint,
    tree: PlacedDict,
    prefix: Parts = (),
    repaired: frozenset[Parts] = frozenset(),
    unread: frozenset[Parts] = frozenset(),
) -> Findings:
    """Return what is wrong in one document, its imports left out; `tree` is its core form with positions."""
    findings = Findings(tree, prefix, repaired, unread)
    check_names(blueprint, findings)
    judge(blueprint, findings)
    check_schemas(blueprint, findings)
    check_agents(blueprint, findings)
    check_access(blueprint, findings)
    check_undos(blueprint, findings)
    check_deadline(blueprint.deadline, blueprint.on_deadline, "", findings)
    check_most(blueprint.max_parallel, [blueprint.steps], "", findings)
    for path, step in placed_steps(blueprint.steps, "steps"):
        _check_step(step, path, blueprint, findings)
    return findings


def _check_step(step: AnyStep, path: str, blueprint: Blueprint, findings: Findings) -> None:
    step.check(path, blueprint, findings)
    check_references(step, path, blueprint, findings)
    if step.plan_body is not None:
        from holdfast.blueprint.check.plans import check_plan  # noqa: PLC0415  it loads what compiles plans

        check_plan(step.plan_body, f"{path}.plan", blueprint, findings)
    check_step_schemas(step, path, findings)


def check_access(blueprint: Blueprint, findings: Findings) -> None:
    for capability, names in blueprint.access or ():
        for index, name in enumerate(names or ()):
            if not is_person(name):
                message = f"{name[:40]!r} is neither a user nor a group"
                findings.add(f"access.{capability}[{index}]", "bad_value", message, name_hint(name, capability))
