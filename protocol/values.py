"""The base of every value that crosses a process: immutable, strict, and sparse on the wire."""

import hashlib
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json


class Value(BaseModel):
    """Written without the fields that hold their default; read with unknown fields refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def digest_of(*parts: Any) -> str:
    """16 hex digits that stand for the JSON of the parts.

    >>> digest_of("run", {"b": 1, "a": 2}) == digest_of("run", {"a": 2, "b": 1})
    True
    """
    return hashlib.sha256(to_json(_ordered(parts))).hexdigest()[:16]


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_ordered(item) for item in value]
    return value
