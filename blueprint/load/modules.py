"""Blueprints that a Python module builds, by `pkg.mod:name`. Used by `load` and by every command that takes a file."""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from pathlib import Path
from typing import Protocol, runtime_checkable

from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.load.parsed import Parsed

_LIBRARY = str(Path(traceback.__file__).parent)
"""The folder of Python's own modules."""
_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


@runtime_checkable
class BuiltBlueprint(Protocol):
    """What Python built: `holdfast.build.Pipeline`."""

    @property
    def parsed(self) -> Parsed: ...


def is_target(name: str) -> bool:
    """Return whether a text is `pkg.mod:name`, and no path.

    >>> is_target("shop.flows:feedback"), is_target("flows/feedback.yaml"), is_target("C:flow.yaml")
    (True, False, False)
    """
    return _TARGET.fullmatch(name) is not None


def read_target(target: str) -> Parsed:
    """Import a module from the current folder or the path of Python, and return the blueprint of this name in it."""
    module_name, _, name = target.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = vars(importlib.import_module(module_name)).get(name)
    except BlueprintError as error:
        return Parsed(None, error.problems)
    except Exception as error:  # noqa: BLE001  an author's module may raise anything
        return _locate(target, error)
    match found:
        case Blueprint():
            return Parsed(found, [])
        case BuiltBlueprint():
            return found.parsed
        case None:
            return _fail(target, f"the module {module_name!r} has no {name!r}", "name a Pipeline, or a blueprint")
    return _fail(target, f"{target!r} is no blueprint, but {type(found).__name__}", "name a Pipeline, or a blueprint")


def _fail(target: str, message: str, hint: str) -> Parsed:
    return Parsed(None, [Problem(target, 0, 0, "", "unreadable_file", message, hint)])


def _locate(target: str, error: Exception) -> Parsed:
    """Return the problem of a module that cannot be imported, at the innermost line that its author wrote."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        message = f"{type(error).__name__}: {error.msg}"
        return _report(error.filename, error.lineno or 1, error.offset or 1, message)
    lines = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_authors(frame.f_globals.get("__name__", ""), frame.f_code.co_filename)
    ]
    if not lines:
        return _fail(target, f"cannot import it: {error}", "a module is looked for in the current folder, too")
    return _report(*lines[-1], 1, f"{type(error).__name__}: {error}")


def _is_authors(module: str, file: str) -> bool:
    """Return whether code is neither ours, nor a library's, nor Python's own."""
    return not module.startswith("holdfast.") and "site-packages" not in file and not file.startswith(("<", _LIBRARY))


def _report(file: str, line: int, column: int, message: str) -> Parsed:
    return Parsed(None, [Problem(file, line, column, "", "unreadable_file", message)])
