"""The generator of blueprints knows the language: each key is written by it, or left out with a reason."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from drills.simulate.blueprints import Choices, Generator, write
from drills.simulate.extras import LEFT_OUT
from holdfast.blueprint.kinds import KINDS, Blueprint
from holdfast.blueprint.kinds.base import Step

BLUEPRINTS = 4_000


def find_models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from find_models(argument)


def list_keys() -> set[tuple[str, str]]:
    """Return all keys of the language, each with its class."""
    keys, left = set[tuple[str, str]](), [Blueprint, *KINDS.values()]
    seen = set[type[BaseModel]]()
    while left:
        if (model := left.pop()) in seen:
            continue
        seen.add(model)
        for name, field in model.model_fields.items():
            keys.add((model.__name__, name))
            left += find_models(field.annotation)
    return keys


def list_pairs(value: Any, around: str = "") -> Iterator[tuple[str, str]]:
    """Yield the keys of a document, each with the key or the kind of step in which it stands."""
    if isinstance(value, dict):
        around = value.get("kind", around) if isinstance(value.get("kind"), str) else around
        for key, inner in value.items():
            yield around, key
            yield from list_pairs(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from list_pairs(inner, around)


def read_keys(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the keys that are set in a loaded blueprint, each with its class."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            if name in value.model_fields_set:
                yield type(value).__name__, name
            yield from read_keys(getattr(value, name))
    elif isinstance(value, dict):
        for inner in value.values():
            yield from read_keys(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from read_keys(inner)


def generate_keys() -> set[tuple[str, str]]:
    """Return the keys of many blueprints; of those that bring nothing new none is loaded, which takes most time."""
    pairs, keys = set[tuple[str, str]](), set[tuple[str, str]]()
    for number in range(BLUEPRINTS):
        document = Generator(Choices(random.Random(f"blueprint {number}"))).write()
        new = {pair for pair in list_pairs(document) if pair[1].isidentifier()} - pairs
        if new:
            pairs |= new
            keys |= set(read_keys(write(Choices(random.Random(f"blueprint {number}"))).blueprint))
    return keys


@pytest.mark.slow
def test_every_key_is_generated_or_left_out_with_a_reason() -> None:
    generated = generate_keys()
    common = {key for _, key in generated} & Step.model_fields.keys()  # the same for every kind: one is enough
    missing = {
        f"{model}.{key}"
        for model, key in list_keys() - generated
        if key not in common and model not in LEFT_OUT and f"{model}.{key}" not in LEFT_OUT
    }
    assert not missing, "write it in drills/simulate, or say why not in LEFT_OUT of extras.py"
    written = {f"{model}.{key}" for model, key in generated}
    assert not written & LEFT_OUT.keys(), "these are generated, and need no reason"
