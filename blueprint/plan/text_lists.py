"""A list of texts, which is a plan of instructions in a line; and what anything else looks like that is no plan."""

from __future__ import annotations

import re
from itertools import pairwise

from holdfast.blueprint.expressions.lists import entries_in
from holdfast.blueprint.expressions.texts import list_fenced
from holdfast.blueprint.json_values import JSON, JSONObject

DEFAULT_GOAL = "Do what the steps say"
WAY_OUT = 'write {"goal": "…", "steps": [{"id": "1", "instruction": "…", "tools": ["…"]}]}, or a list of texts'
_CALL = re.compile(r"[A-Za-z_][\w.-]*\(.*\)", re.DOTALL)
_EVIDENCE = re.compile(r"^\s*#E\d+\s*[=:]", re.MULTILINE)
_NUMBERED_CALL = re.compile(r"^\s*\d+[.):]\s*[A-Za-z_][\w.-]*\(", re.MULTILINE)
_MOST_KEYS = 8


def read_instructions(value: object) -> list[str] | None:
    r"""Return the instructions of a list of texts, or of a text of bullets or numbers; None for anything else.

    Calls are none: which tool is meant, with which arguments, is not for a model to guess back.

    >>> read_instructions(["Draft", "Send"]), read_instructions("1. Draft\n2. Send"), read_instructions("1. send(1)")
    (['Draft', 'Send'], ['Draft', 'Send'], None)
    """
    if isinstance(value, str):
        value = entries_in((list_fenced(value) or [value])[0])
    if not isinstance(value, list) or not value or not all(isinstance(text, str) and text.strip() for text in value):
        return None
    return None if any(_CALL.fullmatch(text.strip()) for text in value) else [text.strip() for text in value]


def plan_in_line(instructions: list[str], goal: str = "") -> JSONObject:
    """Return the plan that carries out instructions one after the other.

    >>> plan_in_line(["Draft", "Send"], "A mail")["steps"][1]
    {'id': '2', 'instruction': 'Send', 'dependencies': ['1']}
    """
    ids = [str(number) for number in range(1, len(instructions) + 1)]
    steps: list[JSONObject] = [{"id": id_, "instruction": text} for id_, text in zip(ids, instructions, strict=True)]
    for before, step in pairwise(steps):
        step["dependencies"] = [before["id"]]
    return {"goal": goal or DEFAULT_GOAL, "steps": steps}


def describe_look(value: JSON) -> str:
    r"""Return what a value that is no plan looks like, for a message.

    >>> describe_look("Plan: look\n#E1 = Search[tea]"), describe_look([{"task": "a", "id": 0}])
    ('a plan of ReWOO', 'a list of objects with the keys task, id')
    """
    match value:
        case str() if _EVIDENCE.search(value):
            return "a plan of ReWOO"
        case str() if _NUMBERED_CALL.search(value):
            return "a plan of calls, as LLMCompiler writes it"
        case str():
            return "text" if value.strip() else "an empty text"
        case dict():
            return f"an object with the keys {_list_keys(value)}" if value else "an empty object"
        case [dict() as first, *_]:
            return f"a list of objects with the keys {_list_keys(first)}"
        case list():
            return "a list of something else than texts" if value else "an empty list"
    return "a single value"


def _list_keys(value: JSONObject) -> str:
    return ", ".join([*list(value)[:_MOST_KEYS], *(["…"] if len(value) > _MOST_KEYS else [])])
