"""Short forms of maps: the list of items, and the writes before it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from holdfast.blueprint.kinds import Finalize, MapBlock
from holdfast.blueprint.source import PlacedDict, Position, plain
from holdfast.blueprint.sugar.report import ExpansionReport
from holdfast.blueprint.sugar.writes import writes_core

StepsCore = Callable[[Any, Position, str, ExpansionReport], Any]

_ROOTS = frozenset({"input", "context", "steps", "previous_step", "output", "resume_input", "item", "history"})
_TEMPLATE = re.compile(r"\s*\{\{((?:(?!\}\}|\{\{).)*)\}\}\s*", re.DOTALL)


def map_core(definition: PlacedDict, path: str, report: ExpansionReport, steps_core: StepsCore) -> PlacedDict:
    block = report.correct_keys(definition, MapBlock, path)
    if "iterable_input" in block:
        block["iterable_input"] = _expression(block["iterable_input"])
    if "body" in block:
        block["body"] = steps_core(block["body"], block.value_place("body"), f"{path}.body", report)
    if "init" in block:
        block["init"] = writes_core(block["init"], f"{path}.init", report, presets=False)
    if isinstance(block.get("finalize"), PlacedDict):
        block["finalize"] = report.correct_keys(block["finalize"], Finalize, f"{path}.finalize")
    return block


def _expression(value: Any) -> Any:
    """Return the expression: `events` is `context.events`; `{{ … }}` is its content; a list is itself."""
    match value:
        case list():
            return json.dumps(plain(value))
        case str() if whole := _TEMPLATE.fullmatch(value):
            return whole[1].strip()
        case str() if re.fullmatch(r"[A-Za-z_]\w*", value.strip()) and value.strip() not in _ROOTS:
            return f"context.{value.strip()}"
    return value
