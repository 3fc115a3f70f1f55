"""The base class of all values on the wire, and their digests."""

import hashlib

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json

from holdfast.blueprint.json_values import JSON


class Value(BaseModel):
    """An immutable value that crosses a process.

    The data converter omits fields that hold their default; reading refuses unknown fields.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def build_models(base: type[BaseModel]) -> None:
    """Build the models derived from one, which are otherwise built when they are first used.

    A command uses few of them. A workflow would build them inside a workflow task, which has two seconds.
    """
    for model in base.__subclasses__():
        model.model_rebuild()  # does nothing to one that is built
        build_models(model)


def make_digest(*parts: object) -> str:
    """Return 16 hex digits of SHA-256 over the parts as JSON, independent of the order of keys.

    >>> make_digest("run", {"b": 1, "a": 2}) == make_digest("run", {"a": 2, "b": 1})
    True
    """
    return hashlib.sha256(to_json(_sort_keys(parts))).hexdigest()[:16]


def _sort_keys(value: object) -> JSON:
    if isinstance(value, dict):
        return {key: _sort_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_sort_keys(item) for item in value]
    return value
