"""How large a value may be that leaves a workflow: for another one, for an activity, or for its own next history.

Whoever sends more than a server takes would fail its task again and again, and stand still for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from temporalio import workflow

from holdfast.blueprint.expressions.bounds import Bounds
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.reducers import split_keys
from holdfast.protocol.address import Address
from holdfast.protocol.children import Failure
from holdfast.protocol.size_limits import describe_excess
from holdfast.workflows.failures import failure

MAX_CONTEXT = 32 * 1024 * 1024
"""Characters of a context as JSON, wherever large values are stored: 100 MB took longer to send than a task may."""
CONTEXT = "the context"
_AROUND = 6
"""Characters that JSON has at most for a key beside its name, or for an item of a list."""
_LARGE_FIELDS = ("items", "reached", "context", "output", "made", "ledgers", "undos")
"""What a failure tells beside itself, in the order in which it is left out."""


def count_bytes(values: Sequence[object]) -> int:
    """Return the bytes of values as they are sent, before any encryption."""
    return sum(payload.ByteSize() for payload in workflow.payload_converter().to_payloads(values))


def can_be_sent(value: object, limit: int | None) -> bool:
    """Return whether a value has no more bytes than the limit; None: there is none."""
    return limit is None or count_bytes([value]) <= limit


def check_size(values: Sequence[object], limit: int | None, name: str, address: Address) -> None:
    """Raise a failure `too_large` for values that have more bytes together than the limit; None: there is none."""
    if limit is not None and (count := count_bytes(values)) > limit:
        raise failure("too_large", describe_excess(f"{name} has", count, limit, "pass on less"), address)


def weigh_write(path: str, value: object, verb: Literal["set", "append"], address: Address) -> int:
    """Return how much a value adds at most to the context at a path, with the objects and the list around it."""
    keys = split_keys(path)
    own = _weigh(value, CONTEXT, address, len(keys) + (verb == "append"))
    return own + sum(len(key) + _AROUND for key in keys) + _AROUND


def _weigh(value: object, name: str, address: Address, level: int = 0) -> int:
    """Return the least characters that a value has as JSON; `level`: how deep it stands in a larger one.

    Unlike bytes they are counted without building the JSON, and a part that occurs often is counted once. Raises a
    failure `too_large` for one that is nested too deep.
    """
    try:
        return Bounds().weigh(value, level)
    except ExpressionError as error:
        raise failure("too_large", f"{name}: {error.message}", address) from None


def check_weight(value: object, most: int, name: str, address: Address) -> int:
    """Return the weight of a value; raise a failure `too_large` for more, which would hold its workflow up."""
    if (weight := _weigh(value, name, address)) > most:
        raise failure("too_large", f"{name} has more than {most >> 20} MiB", address)
    return weight


def fit_failure(cause: Failure, limit: int | None) -> Failure:
    """Return a failure that can be sent: of a large one without its largest parts."""
    for name in _LARGE_FIELDS:
        if can_be_sent(cause, limit):
            break
        cause = cause.model_copy(update={name: Failure.model_fields[name].get_default()})
    return cause
