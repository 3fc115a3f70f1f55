"""What each key of `holdfast.toml` means, from the texts below the fields; for its schema and its page of the docs.

They are read from the source when somebody asks: pydantic would read them each time that a command starts.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from typing import get_args

from pydantic import BaseModel


def find_sections(model: type[BaseModel]) -> list[type[BaseModel]]:
    """Return a model and those inside it, in the order in which the fields name them."""
    found = [model]
    inside = [field.annotation for field in model.model_fields.values()]
    if extra := inspect.get_annotations(model, eval_str=True).get("__pydantic_extra__"):
        inside.append(extra)
    for annotation in inside:
        for one in _find_models(annotation):
            found += [each for each in find_sections(one) if each not in found]
    return found


def _find_models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _find_models(part)]


def read_key_texts(model: type[BaseModel]) -> dict[str, str]:
    """Return the texts of a model's fields by their names; those of a base class count unless it has its own."""
    texts: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        texts |= _read_module(owner.__module__).get(owner.__name__, {})
    return {name: text for name, text in texts.items() if name in model.model_fields}


@cache
def _read_module(name: str) -> dict[str, dict[str, str]]:
    """Return the texts below the fields of each class of a module."""
    if not name.startswith("holdfast."):
        return {}
    classes = [node for node in ast.parse(inspect.getsource(sys.modules[name])).body if isinstance(node, ast.ClassDef)]
    return {one.name: _read_class(one) for one in classes}


def _read_class(node: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, text in zip(node.body, node.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as words)):
                found[name] = inspect.cleandoc(words).replace("\n", " ")
    return found
