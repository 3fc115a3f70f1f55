"""Files of answers, with the places of their mistakes: `run --answers`, `answer --answers`, tests of blueprints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.source import PlacedDict, PlacedList, plain
from holdfast.client.reading import BadUsage, complete, read_placed, text_of_file
from holdfast.protocol.address import names_at
from holdfast.protocol.answers import Answer
from holdfast.protocol.people import Groups, why_not
from holdfast.protocol.questions import Question

ENTRY_KEYS = ("question", "content", "decline", "times")


@dataclass
class Entry:
    """An entry of a file of answers: a pattern for questions, the answer, and how many questions it answers."""

    pattern: str
    content: JSON = None
    decline: bool = False
    times: int = 1
    tried: set[str] = field(default_factory=set)
    """The ids of the questions it was used for, so that one that refused it does not get it again."""

    def fits(self, question: Question) -> bool:
        """Return whether it can be used for the question: the pattern is a glob over id, address and step name.

        What a tool, a graph, an agent, a plan or a `clarify` asks has its own name; that of its step means it, too.
        """
        names = (question.id, question.address, *names_at(question.address))
        return self.remaining > 0 and any(fnmatchcase(name, self.pattern) for name in names)

    def can_answer(self, question: Question) -> bool:
        """Return whether it fits a question that it has not been tried on."""
        return question.id not in self.tried and self.fits(question)

    @property
    def remaining(self) -> int:
        """Return how many questions it could still answer."""
        return self.times - len(self.tried)

    def answer(self, question: Question) -> Answer:
        """Return its answer to the question, and count it as used. Raises `Refusal` for words that cannot be read."""
        self.tried.add(question.id)
        if self.decline:
            return Answer(question=question.id, action="decline")
        return Answer(question=question.id, content=complete(self.content, question))


def waits_for_escalation(question: Question, by: str | None, groups: Groups) -> bool:
    """Return whether a test keeps an answer: who gives it may answer only after an escalation of the question."""
    return question.escalates_at is not None and why_not(question.people, by, groups) is not None


def read_entries(path: Path) -> list[Entry]:
    """Read a file of answers. Raises `BadUsage`, or `BlueprintError` with every problem."""
    text, shape = text_of_file(path), "a list of {question: NAME, content: …}"
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        raise BadUsage(f"{path}: the file is empty; expected {shape}")
    value = read_placed(text, str(path))
    if not isinstance(value, PlacedList):
        raise BadUsage(f"{path}: expected {shape}")
    if problems := entry_problems(value):
        raise BlueprintError(problems)
    return make_entries(value)


def make_entries(items: PlacedList) -> list[Entry]:
    """Return unused entries for a list without problems (see `entry_problems`)."""
    return [
        Entry(item["question"], plain(item.get("content")), bool(item.get("decline")), item.get("times", 1))
        for item in items
    ]


def entry_problems(items: PlacedList, path: str = "", also: Sequence[str] = ()) -> list[Problem]:
    """Return the problems of a list of answers.

    Args:
        items: The list, with positions.
        path: The path of the list in its file.
        also: Keys that an entry may have beside the usual ones.
    """
    problems: list[Problem] = []
    for index, (item, place) in enumerate(zip(items, items.places, strict=True)):
        item_path = f"{path}[{index}]"
        if isinstance(item, PlacedDict):
            problems += _entry_problems(item, item_path, (*ENTRY_KEYS, *also))
        else:
            text = "expected an entry of a list of {question: NAME, content: …}"
            problems.append(place.problem(item_path, "bad_entry", text))
    return problems


def _entry_problems(item: PlacedDict, path: str, keys: Sequence[str]) -> list[Problem]:
    problems = []
    for key in item:
        if key not in keys:
            hint = did_you_mean(key, keys) or f"known: {', '.join(keys)}"
            problems.append(item.key_place(key).problem(f"{path}.{key}", "unknown_key", f"unknown key {key!r}", hint))
    if not isinstance(item.get("question"), str) or not item["question"]:
        text = "question must be the name of a step, an id, or a glob over addresses"
        problems.append(item.place.problem(path, "bad_entry", text))
    if "decline" in item and item["decline"] is not True:
        problems.append(item.value_place("decline").problem(f"{path}.decline", "bad_entry", "decline can only be true"))
    if ("content" in item) == ("decline" in item):
        problems.append(item.place.problem(path, "bad_entry", "give exactly one of content and decline"))
    times = item.get("times", 1)
    if type(times) is not int or times < 1:
        place = item.value_place("times")
        problems.append(place.problem(f"{path}.times", "bad_entry", "times must be a whole number, 1 or more"))
    return problems


def answers_for(entries: Sequence[Entry], questions: Sequence[Question]) -> tuple[list[Answer], list[Entry]]:
    """Return the answers of the entries that fit the open questions, and the entries that are unused so far."""
    answers = []
    for question in questions:
        entry = next((candidate for candidate in entries if candidate.fits(question)), None)
        if entry is not None:
            answers.append(entry.answer(question))
    return answers, [entry for entry in entries if not entry.tried]
