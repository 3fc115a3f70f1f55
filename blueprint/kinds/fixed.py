"""What a blueprint gives to a tool whatever happens: a worker says before a run whether the tool takes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from holdfast.blueprint.findings import is_literal
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.parts import Requirement


def list_fixed(tool: str, arguments: Mapping[str, JSON] | None, input_: JSON) -> Iterator[Requirement]:
    """Yield each argument of a call that is no template; without arguments the input, if that is none."""
    if arguments is None and input_ is not None and is_literal(input_):
        yield Requirement("tool_input", tool, ("input",), json.dumps(input_))
    for key, value in (arguments or {}).items():
        if is_literal(value):
            yield make_fixed(tool, key, value)


def make_fixed(tool: str, key: str, value: JSON) -> Requirement:
    """Return the requirement that a tool takes an argument."""
    return Requirement("tool_argument", tool, ("arguments", key), json.dumps({key: value}))
