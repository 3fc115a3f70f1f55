"""Secrets, for tool authors: the value behind a reference, while the tool runs; nothing that leaves it may hold one.

@tool
def charge(key: str, amount: float) -> str:
    return Payments(secret(key)).charge(amount).id
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pydantic_core import to_json
from temporalio.exceptions import ApplicationError

from activities.registry import wrong
from protocol.secrets import IDS, reference_in

Outcome = TypeVar("Outcome")


class SecretStore(Protocol):
    """Where values are read from, by the ids in references."""

    def read(self, id: str) -> str | None:
        """The value; None if there is none. Raises OSError."""


@dataclass
class Opened:
    """The secrets of one call: where they come from, and those that it has read."""

    stores: Mapping[str, SecretStore]
    values: list[str] = field(default_factory=list)

    def are_in(self, text: str) -> bool:
        """Whether the text holds a value, as it is or as JSON or Python writes it."""
        return any(form in text for value in self.values for form in _forms(value))


_opened: ContextVar[Opened | None] = ContextVar("opened", default=None)


def secret(reference: str) -> str:
    """The value behind a reference, inside a tool. Fails with `unknown_secret`."""
    opened, found = _opened.get(), reference_in(reference)
    if opened is None:
        raise wrong("unknown_secret", "secret() gives values to tools only, while they run")
    if found is None:
        raise wrong("unknown_secret", "secret() was given no reference secret:<store>/<id>")
    if found.store not in opened.stores:
        told = f"{found}: this worker has no store {found.store!r}; set store in [secrets] of its holdfast.toml"
        raise wrong("unknown_secret", told)
    try:
        value = opened.stores[found.store].read(found.id)
    except (OSError, ValueError) as error:
        raise wrong("unknown_secret", f"{found} cannot be read here: {type(error).__name__}") from None
    if not value:
        raise wrong("unknown_secret", f"{found} is not there; {_WAYS_OUT[found.store]}")
    opened.values.append(value)
    return value


_WAYS_OUT = {
    "dir": "clients and workers must have the same store in [secrets]",
    "env": "set the variable where the worker runs, and list it in env of [secrets]",
}
assert _WAYS_OUT.keys() == IDS.keys()


@contextmanager
def opening(stores: Mapping[str, SecretStore]) -> Iterator[Opened]:
    """What `secret()` reads inside."""
    opened = Opened(stores)
    token = _opened.set(opened)
    try:
        yield opened
    finally:
        _opened.reset(token)


async def unleaked(work: Awaitable[Outcome], opened: Opened, tool: str) -> Outcome:
    """What the call gives, if neither it nor its failure holds a secret; else the failure `secret_leaked`."""
    try:
        outcome = await work
        what = "result" if opened.values and opened.are_in(to_json(outcome).decode()) else None
    except Exception as error:
        if not opened.values or not opened.are_in(_told(error)):
            raise
        what = "failure"
    if what is None:
        return outcome
    # Outside of the except clause: the failure that is told must not carry the one that was caught.
    raise wrong("secret_leaked", f"{tool}: its {what} held a secret that it had read, and is not kept")


def _told(error: BaseException | None) -> str:
    """Everything that a failure tells: of itself, of what it carries, and of what it came from."""
    texts: list[str] = []
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        texts += [str(one), *map(str, one.args), *getattr(one, "__notes__", [])]
        if isinstance(one, ApplicationError):
            texts += [str(one.type), *map(_shown, one.details)]
        waiting += [one.__cause__, one.__context__]
        waiting += one.exceptions if isinstance(one, BaseExceptionGroup) else []
    return "\n".join(texts)


def _shown(value: Any) -> str:
    return to_json(value, fallback=str).decode()


def _forms(value: str) -> set[str]:
    r"""How a value may stand in a text: as it is, as Python shows it, inside of JSON, inside of JSON in JSON.

    >>> 'a\\"b' in _forms('a"b')
    True
    """
    once = {value, repr(value)[1:-1]}
    for _ in range(2):
        once |= {json.dumps(one, ensure_ascii=ascii)[1:-1] for one in once for ascii in (True, False)}
    return once
