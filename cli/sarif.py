"""SARIF 2.1.0 output of `validate --sarif`, which code hosts and editors show at the lines of the problems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from holdfast.blueprint.codes import CODES, ERRORS
from holdfast.blueprint.errors import Problem
from holdfast.blueprint.json_values import JSONObject
from holdfast.runtime.distribution import find_version

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RULES = list(CODES)


def sarif_log(problems: Sequence[Problem]) -> JSONObject:
    """Return the log of these problems; its rules list every code, also those without a problem."""
    rules = [_rule(code, meaning) for code, meaning in CODES.items()]
    version = find_version()
    driver = {"name": "holdfast", **({"version": version} if version else {}), "rules": rules}
    results = [_result(problem) for problem in problems]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str, meaning: str) -> JSONObject:
    level = "error" if code in ERRORS else "warning"
    return {"id": code, "shortDescription": {"text": meaning}, "defaultConfiguration": {"level": level}}


def _result(problem: Problem) -> JSONObject:
    text = problem.message + (f" ({problem.hint})" if problem.hint else "")
    place: JSONObject = {"physicalLocation": _physical(problem)}
    if problem.path:
        place["logicalLocations"] = [{"fullyQualifiedName": problem.path}]
    rule = {"ruleIndex": _RULES.index(problem.code)} if problem.code in CODES else {}
    return {
        "ruleId": problem.code,
        **rule,
        "level": problem.severity,
        "message": {"text": text},
        "locations": [place],
    }


def _physical(problem: Problem) -> JSONObject:
    """Return the place; a problem without a line, as of an unreadable file, has no region."""
    place: JSONObject = {"artifactLocation": {"uri": _uri(problem.file)}}
    if problem.line:
        place["region"] = {"startLine": problem.line, "startColumn": problem.column}
    return place


def _uri(file: str) -> str:
    """Return a path as a URI.

    >>> _uri("flows/my brief.yaml")
    'flows/my%20brief.yaml'
    """
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
