"""The ledger of a plan: the calls that it made, for whoever plans what is left, and before a call is made again.

A plan that ended otherwise than `completed` leaves its ledger to the next plan of the same step, and to its planner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field, ValidationError

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds.references import AGENT
from holdfast.blueprint.questions.agreement import DEFAULT_LANGUAGE, Language
from holdfast.blueprint.words.repeats import choose_repeat_words
from holdfast.protocol.address import Address, is_within
from holdfast.protocol.agents import MadeCall
from holdfast.protocol.values import Value, make_digest

EntryStatus = Literal["returned", "failed", "unknown"]
ANY_TOOL = "*"
"""Stands for every tool, where nothing is known of what a plan did."""
MOST_ENTRIES = 1_000
LONGEST_LEDGER = 60_000
"""Characters of a ledger with arguments and outputs; a longer one has the digests of the arguments alone."""
_ITERATION = re.compile(r"(?<=;)(loop:[^:;]+):\d+(?=;|$)")
_STATUSES: dict[str, EntryStatus] = {"begun": "unknown", "returned": "returned", "failed": "failed"}


class LedgerEntry(Value):
    """One call of a tool that a plan made."""

    step: str = ""
    """Id of the step."""
    item: str | None = None
    """Which item of which loop it was for, in the plan's language: `item 2 of events`."""
    tool: str
    arguments: JSON = None
    """Of long arguments the beginning of their text; None where they are not known."""
    digest: str | None = Field(None, max_length=64)
    """Digest of the arguments. Without it and without `arguments` the entry stands for every call of the tool."""
    status: EntryStatus = "returned"
    """`unknown`: the call was begun, and nobody knows whether it took effect."""
    output: JSON = None
    """What it returned, of a long result the beginning of its text; of a failed call the message."""
    language: Language = DEFAULT_LANGUAGE
    """The language of the plan, in which a person is asked about it."""

    @property
    def arguments_digest(self) -> str | None:
        return make_digest(self.arguments) if self.digest is None and self.arguments is not None else self.digest

    @property
    def may_have_acted(self) -> bool:
        """Whether the call took effect, or may have."""
        return self.status != "failed"

    def matches(self, tool: str, digest: str) -> bool:
        """Return whether it is the same call as one of this tool with arguments of this digest."""
        if not self.may_have_acted or self.tool not in (tool, ANY_TOOL):
            return False
        if tool.startswith(AGENT) and self.status == "returned":  # what it called stands in the ledger itself
            return False
        return self.arguments_digest in (None, digest)

    def to_output(self) -> JSONObject:
        """Return the entry as a plan's output and its planner have it."""
        own: JSONObject = self.model_dump(mode="json", exclude_defaults=True)
        if self.digest is not None and self.digest == make_digest(self.arguments):
            del own["digest"]
        return {**own, "status": self.status}

    def ask_again(self, tool: str) -> str:
        """Return the question to a person whether a tool is called again, in the language of the plan."""
        return choose_repeat_words(self.language).again.format(tool)

    def describe(self) -> str:
        """Return what was done, for a person who is asked whether it is done again, in the language of its plan."""
        words = choose_repeat_words(self.language)
        item = f" ({self.item})" if self.item else ""
        who = words.step.format(f"{self.step}{item}") if self.step else words.plan
        if self.arguments_digest is None:
            called = words.this_tool if self.tool != ANY_TOOL else words.tools
            return words.arguments_unknown.format(who, called)
        if self.status == "unknown":
            return words.effect_unknown.format(who)
        returned = "" if self.output is None else f" {words.returned.format(write_text(self.output))}"
        return f"{words.made.format(who)}{returned}"


def read_ledger(value: JSON) -> list[LedgerEntry]:
    """Return the entries in a value: a list of them, the output of a plan, or the error or result of a plan or a run.

    Raises `ValueError` with a message for a value that is none of these; None is an empty ledger.

    >>> [entry.tool for entry in read_ledger({"output": {"status": "failed", "ledger": [{"tool": "send"}]}})]
    ['send']
    """
    match value:
        case None | "":
            return []
        case {"ledger": entries}:
            return read_ledger(entries)
        case {"output": dict(inner)}:
            return read_ledger(inner)
        case {"steps": dict(), "status": str()}:
            return []  # of a plan that called no tool
        case list():
            return [_read_entry(entry, index) for index, entry in enumerate(value)]
    raise ValueError("it is no ledger: give the output of a plan, or a list of {step, tool, arguments, status}")


def _read_entry(value: JSON, index: int) -> LedgerEntry:
    try:
        return LedgerEntry.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in ("", *first["loc"]))
        raise ValueError(f"[{index}]{place}: {first['msg']}") from None


def make_entry(call: MadeCall, step: str, item: str | None) -> LedgerEntry:
    """Return the entry of a call, in the default language."""
    return LedgerEntry(
        step=step,
        item=item,
        tool=call.tool,
        arguments=call.arguments,
        digest=call.args or None,
        status=_STATUSES[call.outcome],
        output=call.output,
    )


def add_entries(entries: Iterable[LedgerEntry], more: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """Return a ledger with further entries; of equal calls the last counts, but no failed one hides an effect.

    Of more than `MOST_ENTRIES` the oldest are left out. For those of a tool that would be asked about, one without
    arguments stands: they are asked about all the same.
    """
    found: dict[tuple[str, str | None], LedgerEntry] = {}
    for entry in (*entries, *more):
        key = (entry.tool, entry.arguments_digest)
        before = found.pop(key, None)
        found[key] = before if before is not None and before.may_have_acted and not entry.may_have_acted else entry
    for tool, digest in [(tool, digest) for tool, digest in found if digest is not None][:-MOST_ENTRIES]:
        oldest = found.pop((tool, digest))
        if oldest.matches(tool, digest):
            found[tool, None] = LedgerEntry(tool=tool, status="unknown", language=oldest.language)
    return list(found.values())


def tell_ledger(entries: Sequence[LedgerEntry]) -> list[JSONObject]:
    """Return a ledger as the output of a plan has it; of a long one without the values."""
    told = [entry.to_output() for entry in entries]
    if len(write_text(told)) <= LONGEST_LEDGER:
        return told
    bare = [
        entry.model_copy(update={"digest": entry.arguments_digest, "arguments": None, "output": None})
        for entry in entries
    ]
    return [entry.to_output() for entry in bare]


def drop_iterations(address: Address) -> str:
    """Return the place of a plan: its address, the same in each iteration of the loops around it.

    >>> drop_iterations(Address("pipeline:p;loop:again:2;map:each:3;plan:work"))
    'pipeline:p;loop:again;map:each:3;plan:work'
    """
    return _ITERATION.sub(r"\1", address)


def select_near(ledgers: Mapping[str, list[LedgerEntry]], address: Address) -> dict[str, list[LedgerEntry]]:
    """Return the ledgers of the plans around an address and below it."""
    place = drop_iterations(address)
    return {key: value for key, value in ledgers.items() if is_around(key, address) or is_within(key, place)}


def is_around(place: str, address: Address) -> bool:
    """Return whether a ledger's place is around an address: a plan in any iteration, or the very item of a loop.

    >>> item = "pipeline:p;plan:work;loop:all:2"
    >>> [is_around(item, Address(f"pipeline:p;plan:work;loop:all:{n};step:s")) for n in (2, 3)]
    [True, False]
    """
    return is_within(address, place) or is_within(drop_iterations(address), place)
