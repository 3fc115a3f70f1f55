"""HuggingGPT: a list of `{"task", "id", "dep", "args"}` in JSON, with `<GENERATED>-0` for what the task 0 has made."""

from __future__ import annotations

import json
import re
from typing import Any

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.plan.importers.reading import Reading
from holdfast.blueprint.source import PlacedDict, PlacedList
from holdfast.blueprint.source import read as read_source

KEYS = ("task", "id", "dep", "args")
NONE = -1
"""What planners write into `dep` to say that there is none."""
_FITS = re.compile(r"\s*\[\s*\{.*[\"']task[\"']\s*:", re.DOTALL)
_REFERENCE = re.compile(r"<(?:GENERATED|resource)>-(\d+)|<(?:GENERATED|resource)-(\d+)>", re.IGNORECASE)
_UNREAD = re.compile(r"<(?:GENERATED|resource)\b[^>]*>?\S*", re.IGNORECASE)


def fits(text: str) -> bool:
    """Whether the text is of this format."""
    return _FITS.match(text) is not None


def read(reading: Reading) -> None:
    """Take every step of the text."""
    value, place, problems = read_source(reading.text, reading.source.file)
    reading.problems += problems
    if not isinstance(value, PlacedList):
        return
    ids = [_id(task["id"]) for task in value if isinstance(task, PlacedDict) and "id" in task]
    for index, (task, place) in enumerate(zip(value, value.places, strict=True)):
        if isinstance(task, PlacedDict):
            _Task(reading, task, f"[{index}]", [id_ for id_ in ids if id_ is not None]).take()
        else:
            reading.fault(place, f"[{index}]", "bad_value", "a task is an object", f"with {', '.join(KEYS)}")


def _id(written: Any) -> str | None:
    """The id as a text; None for what is none."""
    text = str(written) if isinstance(written, int | str) and not isinstance(written, bool) else ""
    return text if text.isdecimal() else None


class _Task:
    """One task on its way to a step."""

    def __init__(self, reading: Reading, task: PlacedDict, path: str, ids: list[str]) -> None:
        self.reading, self.task, self.path, self.ids = reading, task, path, ids
        self.referred: list[str] = []

    def take(self) -> None:
        for key in self.task:
            if key not in KEYS:
                hint = did_you_mean(key, KEYS) or f"known: {', '.join(KEYS)}"
                place = self.task.key_place(key)
                self.reading.fault(place, f"{self.path}.{key}", "unknown_key", f"unknown key {key!r}", hint)
        name, id_ = self.task.get("task"), _id(self.task.get("id"))
        if not isinstance(name, str) or not name.strip():
            self._fault("task", "'task' is the name of a tool", "such as image-to-text")
        elif id_ is None:
            self._fault("id", "'id' is a whole number, from 0", None)
        else:
            told, needs = self._told(name, id_), self._needs(id_)
            needs += [one for one in self.referred if one not in needs]
            self.reading.step(self.task.place, id_, instruction=told, tools=[name], dependencies=needs)

    def _fault(self, key: str, message: str, hint: str | None) -> None:
        place = self.task.value_place(key) if key in self.task else self.task.place
        code = "bad_value" if key in self.task else "missing_key"
        self.reading.fault(place, f"{self.path}.{key}", code, message, hint)

    def _needs(self, own: str) -> list[str]:
        written = self.task.get("dep")
        listed = written if isinstance(written, list) else [] if written is None else [written]
        found: list[str] = []
        for one in listed:
            id_ = _id(one)
            if id_ in self.ids and id_ != own:
                found.append(id_)
            elif one != NONE:
                known = f"known: {', '.join(self.ids)}"
                self._fault("dep", f"{json.dumps(one)} is no other task", known)
        return found

    def _told(self, name: str, own: str) -> str:
        args = self.task.get("args")
        if args is not None and not isinstance(args, PlacedDict):
            self._fault("args", "'args' is an object", 'such as {"text": "…"}')
        if not args or not isinstance(args, PlacedDict):
            return f"Call {name}."
        lines = [f"{key}: {self._filled(key, value, args, own)}" for key, value in args.items()]
        return "\n".join([f"Call {name} with", *lines])

    def _filled(self, key: str, value: Any, args: PlacedDict, own: str) -> str:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        place = args.value_place(key)
        filled, referred = self.reading.referring(text, _REFERENCE, own, self.ids, place)
        self.referred += referred
        if (unread := _UNREAD.search(filled)) is not None:
            told = f"{unread.group()[:60]!r} is no reference"
            self.reading.fault(place, f"{self.path}.args.{key}", "bad_reference", told, "write <GENERATED>-0")
        return filled
