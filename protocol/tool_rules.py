"""The demands of a tool's owner before a call; `permissions` decides by them."""

from __future__ import annotations

from typing import Literal

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.evaluation import holds, names_in_expression
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.parts import Risk
from holdfast.protocol.values import Value

Consent = Literal["", "approved", "reviewed"]
"""What a person has said of a call's arguments: nothing, that they may be used, or what they shall be."""


class OwnerRule(Value):
    """The demand that a person agrees before a call of a tool."""

    approve: str | None = None
    """`always`, or an expression on `args`: a person must agree to calls for which it holds."""
    review: bool = False
    """A person looks at the arguments of each call, and may change them."""
    risk: Risk | None = None
    permission: str = ""
    """The question to the person; empty: one that names the tool."""


def needs_approval(approve: str, args: JSONObject) -> bool:
    """Return whether the expression holds, and true where it fails or reads arguments that are missing."""
    if approve == "always":
        return True
    try:
        if holds(approve, {"args": args})[0]:
            return True
    except ExpressionError:
        return True
    reads = names_in_expression(approve)
    return any(_lacks(args, path[1:]) for path in reads if path[0] == "args")


def _lacks(value: JSON, path: tuple[str, ...]) -> bool:
    """Return whether the argument at the path is missing, so that the tool's own default would apply unseen."""
    for key in path:
        if not isinstance(value, dict):
            return False
        if key not in value:
            return True
        value = value[key]
    return False
