"""Branches before the run: keys that are never chosen, and values that have no branch."""

from __future__ import annotations

import re

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.kinds.knowledge import Branching
from holdfast.blueprint.shape import Shape
from holdfast.blueprint.shapes import consents
from holdfast.blueprint.shapes.place import JudgedText
from holdfast.blueprint.shapes.report import describe_values

_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")
_TRUTH = frozenset({"true", "false"})


def check_branches(judged: JudgedText, path: str, branching: Branching, shape: Shape) -> None:
    """Check that the branches of a step fit the values that its condition can have.

    Args:
        judged: Of the condition.
        path: The path of the step.
        branching: Its branches.
        shape: What the condition gives; it may also be null.
    """
    if consents.check_branches(judged, branching, shape):
        return
    for key in sorted(branching.keys):
        if (option := shape.find_near_option(key)) is not None:
            message = f"the branch {key!r} is no option of {shape.step}"
            judged.findings.warn_key(
                f"{path}.{branching.keys_at}.{key}", "near_option", message, f"did you mean {option!r}?"
            )
    if not shape.values:
        _check_numbers(judged, path, branching, shape)
        return
    values = {write_text(value): value for value in shape.values}
    possible, findings = describe_values(list(shape.values)), judged.findings
    never = sorted(branching.keys - values.keys() - {"null"})
    for key in never:
        message = f"the branch {key!r} is never chosen: the condition is {possible}"
        hint = did_you_mean(key, values) or f"name it {possible}, or remove it"
        findings.add_key(f"{path}.{branching.keys_at}.{key}", "unreachable_branch", message, hint)
    if branching.has_default:
        if values.keys() == _TRUTH and branching.keys >= _TRUTH:
            message = f"the default branch is never chosen: the condition is {possible}"
            findings.warn_key(f"{path}.{branching.default_at}", "unused_default", message, "remove it")
        return
    # A misspelt key is one mistake, and is told already.
    lacking = sorted(
        key for key in values.keys() - branching.keys if not any(did_you_mean(one, [key]) for one in never)
    )
    if lacking and values.keys() & branching.keys:
        message = f"the step fails where the condition is {' or '.join(lacking)}: there is no such branch"
        hint = f"add it, or the key {branching.default_at.rpartition('.')[2]}"
        if values.keys() <= _TRUTH:
            findings.warn_key(f"{path}.{branching.keys_at}", "missing_branch", message, hint)
        else:
            findings.add_key(f"{path}.{branching.keys_at}", "uncovered_value", message, hint)


def _check_numbers(judged: JudgedText, path: str, branching: Branching, shape: Shape) -> None:
    """Report keys that are no numbers where the condition is one."""
    if shape.types - {"null"} != {"number"}:
        return
    for key in sorted(branching.keys - {"null"}):
        if not _NUMBER.fullmatch(key):
            message = f"the branch {key!r} is never chosen: the condition is a number"
            hint = "compare it, so that the branches are true and false"
            judged.findings.add_key(f"{path}.{branching.keys_at}.{key}", "unreachable_branch", message, hint)
