"""The `pause` kind: wait for a while."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds.base import Step
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.parts import Seconds

DAY = 86_400


class Pause(Step):
    """Wait for a while. The output is the input."""

    kind: Literal["pause"]
    duration: Seconds = Field(description="How long.", examples=["30s"])

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        if self.duration > DAY:
            findings.add(f"{path}.duration", "bad_value", "a pause takes at most a day")
