"""Rules of a `hitl`'s people: valid names, a reachable quorum, an escalation ladder in order."""

from __future__ import annotations

from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.people import is_person, name_hint


def check_access(blueprint: Blueprint, findings: Findings) -> None:
    for capability, names in blueprint.access or ():
        for index, name in enumerate(names or ()):
            if not is_person(name):
                message = f"{name[:40]!r} is neither a user nor a group"
                findings.add(f"access.{capability}[{index}]", "bad_value", message, name_hint(name, capability))
