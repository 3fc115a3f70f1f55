"""LLMCompiler: numbered calls, `2. tool("…", $1)`, with thoughts between them and a `join()` at the end."""

from __future__ import annotations

import re

from holdfast.blueprint.plan.importers.reading import Reading, with_arguments

END = "<END_OF_PLAN>"
JOINS = ("join", "finish")
JOIN = "join"
"""The id of a join that has no number."""
ANSWER = "Answer from the results of the steps before."
"""What joining is: an agent looks at every result."""
_HEAD = re.compile(
    r"^[ \t]*(?:(?P<thought>Thought(?:[ \t]*\d+)?[ \t]*:)"
    r"|(?:(?P<id>\d+)[.):][ \t]*)?(?P<tool>[A-Za-z_][\w.-]*)\()",
    re.MULTILINE,
)
_REFERENCE = re.compile(r"\$\{(\d+)\}|\$(\d+)")
Head = re.Match[str]


def fits(text: str) -> bool:
    """Whether the text is of this format."""
    return any(not head["thought"] for head in _heads(text, len(text)))


def read(reading: Reading) -> None:
    """Take every step of the text."""
    end = _end(reading)
    heads = _heads(reading.text, end)
    reading.preamble(heads[0].start() if heads else end)
    ids = [_id(head) for head in heads if not head["thought"]]
    thoughts: list[str] = []
    for head, next_ in zip(heads, [*(head.start() for head in heads[1:]), end], strict=True):
        if head["thought"]:
            thoughts.append(" ".join(reading.text[head.end() : next_].split()))
            continue
        _take(reading, head, next_, ids, " ".join(thoughts))
        thoughts = []


def _heads(text: str, end: int) -> list[Head]:
    """The beginnings of thoughts and calls; a call without a number can only be a join."""
    found = _HEAD.finditer(text, 0, end)
    return [head for head in found if head["thought"] or head["id"] or head["tool"] in JOINS]


def _end(reading: Reading) -> int:
    end = reading.text.find(END)
    if end < 0:
        return len(reading.text)
    reading.nothing_in(end + len(END), len(reading.text))
    return end


def _id(head: Head) -> str:
    return head["id"] or JOIN


def _take(reading: Reading, head: Head, next_: int, ids: list[str], title: str) -> None:
    text, tool, id_ = reading.text, head["tool"], _id(head)
    at = head.start("id") if head["id"] else head.start("tool")
    end = text.rfind(")", head.end(), next_)
    if end < 0:
        reading.fault(head.end() - 1, "", "bad_value", f"the arguments of {tool} have no end", "add the )")
        return
    reading.nothing_in(end + 1, next_)
    given, needs = reading.referring((head.end(), end), _REFERENCE, id_, ids)
    if tool not in JOINS:
        told = with_arguments(tool, given)
        reading.step(at, id_, title=title, instruction=told, tools=[tool], dependencies=needs)
        return
    if id_ != ids[-1]:
        reading.fault(at, "", "conflict", f"{tool}() is not the last step", "put it at the end")
    others = [one for one in ids if one != id_]
    reading.step(at, id_, title=title, instruction=ANSWER, dependencies=others)
