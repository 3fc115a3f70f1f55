"""Rules of undos: who keeps them must be there."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds import AnyStep, Blueprint, Fallback


def check_undos(blueprint: Blueprint, findings: Findings) -> None:
    """Report an `undo` where no block keeps it."""
    _check_steps(blueprint.steps, "steps", findings, "it belongs to the steps of a block: kind: block, steps: […]")


def _check_steps(steps: Sequence[AnyStep], path: str, findings: Findings, hint: str) -> None:
    """Check a list of steps; a `hint` says why undos may not stand in it, "" if they may."""
    for index, step in enumerate(steps):
        _check_step(step, f"{path}[{index}]", findings, hint)


def _check_step(step: AnyStep, path: str, findings: Findings, hint: str) -> None:
    if step.undo_tool is not None and hint:
        findings.add_key(f"{path}.undo", "conflict", f"nothing keeps the undo of {step.name} here", hint)
    inside = {"kept": "", "handed_on": hint, "none": f"{step.name} keeps none: write a block inside it"}[
        step.undos_inside
    ]
    for key, block in step.blocks().items():
        last = f"what {key} of {step.name} does is done in any case: write a block inside it"
        _check_steps(block.steps, f"{path}.{key}", findings, inside if block.undoes else last)
    if isinstance(step.on_error, Fallback):
        _check_step(step.on_error.fallback, f"{path}.on_error.fallback", findings, hint)
