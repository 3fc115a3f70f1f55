"""Short forms of maps: what is gone through, and what is written before."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from blueprint.grammar import Finalize, MapBlock
from blueprint.source import Place, PlacedDict, plain
from blueprint.sugar.notes import Notes
from blueprint.sugar.writes import writes_core

StepsCore = Callable[[Any, Place, str, Notes], Any]

_ROOTS = frozenset({"input", "context", "steps", "previous_step", "output", "resume_input", "item", "history"})
_TEMPLATE = re.compile(r"\s*\{\{((?:(?!\}\}|\{\{).)*)\}\}\s*", re.DOTALL)


def map_core(written: PlacedDict, path: str, notes: Notes, steps_core: StepsCore) -> PlacedDict:
    block = notes.spelled(written, MapBlock, path)
    if "iterable_input" in block:
        block["iterable_input"] = _expression(block["iterable_input"])
    if "body" in block:
        block["body"] = steps_core(block["body"], block.value_place("body"), f"{path}.body", notes)
    if "init" in block:
        block["init"] = writes_core(block["init"], f"{path}.init", notes, presets=False)
    if isinstance(block.get("finalize"), PlacedDict):
        block["finalize"] = notes.spelled(block["finalize"], Finalize, f"{path}.finalize")
    return block


def _expression(written: Any) -> Any:
    """`events` is `context.events`; `{{ … }}` is what stands in it; a list is itself."""
    match written:
        case list():
            return json.dumps(plain(written))
        case str() if whole := _TEMPLATE.fullmatch(written):
            return whole[1].strip()
        case str() if re.fullmatch(r"[A-Za-z_]\w*", written.strip()) and written.strip() not in _ROOTS:
            return f"context.{written.strip()}"
    return written
