"""Problems as SARIF 2.1.0, which code hosts and editors show at their lines."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from blueprint.codes import CODES, ERRORS
from blueprint.errors import Problem

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RULES = list(CODES)


def sarif_log(problems: Sequence[Problem]) -> dict[str, Any]:
    """The whole log; its rules are all codes there are, whatever was found."""
    rules = [_rule(code, meaning) for code, meaning in CODES.items()]
    driver = {"name": "holdfast", **_version(), "rules": rules}
    results = [_result(problem) for problem in problems]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _version() -> dict[str, str]:
    try:
        return {"version": importlib.metadata.version("holdfast")}
    except importlib.metadata.PackageNotFoundError:
        return {}


def _rule(code: str, meaning: str) -> dict[str, Any]:
    level = "error" if code in ERRORS else "warning"
    return {"id": code, "shortDescription": {"text": meaning}, "defaultConfiguration": {"level": level}}


def _result(problem: Problem) -> dict[str, Any]:
    told = problem.message + (f" ({problem.hint})" if problem.hint else "")
    place: dict[str, Any] = {"physicalLocation": _physical(problem)}
    if problem.path:
        place["logicalLocations"] = [{"fullyQualifiedName": problem.path}]
    known = {"ruleIndex": _RULES.index(problem.code)} if problem.code in CODES else {}
    return {
        "ruleId": problem.code,
        **known,
        "level": problem.severity,
        "message": {"text": told},
        "locations": [place],
    }


def _physical(problem: Problem) -> dict[str, Any]:
    """A file without a text has no region."""
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(problem.file)}}
    if problem.line:
        place["region"] = {"startLine": problem.line, "startColumn": problem.column}
    return place


def _uri(file: str) -> str:
    """
    >>> _uri("flows/my brief.yaml")
    'flows/my%20brief.yaml'
    """
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
