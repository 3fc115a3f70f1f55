"""ReWOO: a `Plan: …` in words, then `#E1 = Tool[input]`, whose input may name the evidence of others, as in #E1."""

from __future__ import annotations

import re
from typing import NamedTuple

from holdfast.blueprint.plan.importers.reading import Reading, with_arguments

MODEL = "LLM"
"""The tool that is a model without tools."""
_LEAD = r"^[ \t]*(?:[-*>]+[ \t]*|\d+[.)][ \t]*)?"
_PLAN = re.compile(rf"{_LEAD}Plan(?:[ \t]*\d+)?[ \t]*:[ \t]*", re.MULTILINE)
_EVIDENCE = re.compile(rf"{_LEAD}(?=#E\d+\s*[=:])", re.MULTILINE)
_BESIDE = re.compile(r"(?=#E\d+\s*=)")
"""Evidence in the line of its plan."""
_CALL = re.compile(r"#(?P<id>E\d+)\s*[=:]\s*(?P<tool>[A-Za-z_][\w.:/-]*)\s*\[")
_REFERENCE = re.compile(r"#(E\d+)")


class _Part(NamedTuple):
    """A plan in words, or what gives a piece of evidence."""

    head: int
    begin: int
    end: int
    is_plan: bool


def fits(text: str) -> bool:
    """Whether the text is of this format."""
    return _EVIDENCE.search(text) is not None or (
        _PLAN.search(text) is not None and _BESIDE.search(text) is not None and _CALL.search(text) is not None
    )


def read(reading: Reading) -> None:
    """Take every step of the text."""
    parts = _parts(reading.text)
    reading.preamble(parts[0].head if parts else len(reading.text))
    ids = [match["id"] for part in parts if not part.is_plan and (match := _CALL.match(reading.text, part.begin))]
    plan: _Part | None = None
    for part in parts:
        if part.is_plan:
            _check_used(reading, plan)
            plan = part
        else:
            _take(reading, part, plan, ids)
            plan = None
    _check_used(reading, plan)


def _parts(text: str) -> list[_Part]:
    heads = [(match.start(), match.end(), True) for match in _PLAN.finditer(text)]
    heads += [(match.start(), match.end(), False) for match in _EVIDENCE.finditer(text)]
    heads.sort()
    parts: list[_Part] = []
    for (head, begin, is_plan), (end, *_) in zip(heads, [*heads[1:], (len(text), 0, False)], strict=True):
        beside = _BESIDE.search(text, begin, end) if is_plan else None
        parts.append(_Part(head, begin, end if beside is None else beside.start(), is_plan))
        if beside is not None:
            parts.append(_Part(beside.start(), beside.start(), end, False))
    return parts


def _check_used(reading: Reading, plan: _Part | None) -> None:
    if plan is not None:
        words = reading.text[plan.begin : plan.end].strip()
        hint = "write #E… = Tool[input] below it, or take it out"
        reading.fault(plan.begin, "", "missing_key", f"nothing is done for the plan {words[:60]!r}", hint)


def _take(reading: Reading, part: _Part, plan: _Part | None, ids: list[str]) -> None:
    call = _CALL.match(reading.text, part.begin)
    if call is None:
        line = reading.text[part.begin : part.end].strip().partition("\n")[0]
        reading.fault(part.begin, "", "bad_value", f"{line[:60]!r} calls nothing", "write #E1 = Tool[input]")
        return
    end = reading.text.rfind("]", call.end(), part.end)
    if end < 0:
        reading.fault(call.end() - 1, "", "bad_value", f"the input of {call['tool']} has no end", "close it with ]")
        return
    reading.nothing_in(end + 1, part.end)
    words: str = ""
    of_plan: list[str] = []
    if plan is not None:
        words, of_plan = reading.referring((plan.begin, plan.end), _REFERENCE, call["id"], ids)
    given, of_input = reading.referring((call.end(), end), _REFERENCE, call["id"], ids)
    is_model = call["tool"].upper() == MODEL
    told = given if is_model else with_arguments(call["tool"], given)
    reading.step(
        part.begin,
        call["id"],
        instruction=f"{words}\n{told}",
        tools=[] if is_model else [call["tool"]],
        dependencies=list(dict.fromkeys([*of_plan, *of_input])),
    )
