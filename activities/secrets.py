"""Secrets, for tool authors: the value behind a reference, while the tool runs. No result or failure may contain it.

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
from typing import Protocol, TypeVar

from pydantic_core import to_json
from temporalio.exceptions import ApplicationError

from holdfast.activities.registry import wrong
from holdfast.blueprint.questions.secret import IDS, reference_in

Outcome = TypeVar("Outcome")


class SecretStore(Protocol):
    """A store of secret values by id."""

    def read(self, id: str) -> str | None:
        """Return the value, or None if there is none. Raises `OSError`."""


@dataclass
class SecretScope:
    """The secrets of one call: the stores, and the values that it has read."""

    stores: Mapping[str, SecretStore]
    """By the name in references, such as `env`."""
    values: list[str] = field(default_factory=list)

    def are_in(self, text: str) -> bool:
        """Return whether the text contains a value that was read, literally or as JSON or Python writes it."""
        return any(form in text for value in self.values for form in _forms(value))


_scope: ContextVar[SecretScope | None] = ContextVar("scope", default=None)


def secret(reference: str) -> str:
    """Return the value behind a reference, inside a tool. Raises a failure `unknown_secret`.

    Args:
        reference: `secret:<store>/<id>`, as a person's answer to a secret question gives it.
    """
    scope, parsed = _scope.get(), reference_in(reference)
    if scope is None:
        raise wrong("unknown_secret", "secret() works only inside a tool, while it runs")
    if parsed is None:  # without the text, which may be the secret itself
        raise wrong("unknown_secret", "secret() expects a reference secret:<store>/<id>")
    if parsed.store not in scope.stores:
        text = f"{parsed}: this worker has no store {parsed.store!r}; set store in [secrets] of its holdfast.toml"
        raise wrong("unknown_secret", text)
    try:
        value = scope.stores[parsed.store].read(parsed.id)
    except (OSError, ValueError) as error:
        raise wrong("unknown_secret", f"{parsed} cannot be read here: {type(error).__name__}") from None
    if not value:
        raise wrong("unknown_secret", f"{parsed} is not there; {_WAYS_OUT[parsed.store]}")
    scope.values.append(value)
    return value


_WAYS_OUT = {
    "dir": "clients and workers must have the same store in [secrets]",
    "env": "set the variable where the worker runs, and list it in env of [secrets]",
}
assert _WAYS_OUT.keys() == IDS.keys()


@contextmanager
def secret_scope(stores: Mapping[str, SecretStore]) -> Iterator[SecretScope]:
    """Let `secret()` read from these stores inside the block, and record the values that it returns."""
    scope = SecretScope(stores)
    token = _scope.set(scope)
    try:
        yield scope
    finally:
        _scope.reset(token)


async def refuse_leaks(work: Awaitable[Outcome], scope: SecretScope, tool: str) -> Outcome:
    """Return the outcome of a call. Raises a failure `secret_leaked` if its result or failure contains a secret."""
    try:
        outcome = await work
        leak = "result" if scope.values and scope.are_in(to_json(outcome).decode()) else None
    except Exception as error:
        if not scope.values or not scope.are_in(_all_text(error)):
            raise
        leak = "failure"
    if leak is None:
        return outcome
    # Not in the except clause: there the new failure would carry the one with the secret as its context.
    raise wrong("secret_leaked", f"{tool}: its {leak} contained a secret that it had read, and is not kept")


def _all_text(error: BaseException | None) -> str:
    """Return all text of a failure: messages, arguments, notes and details, with those of its causes and parts."""
    texts: list[str] = []
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        notes = getattr(current, "__notes__", [])  # Python sets them with the first `add_note`
        texts += [str(current), *map(str, current.args), *notes]
        if isinstance(current, ApplicationError):
            texts += [str(current.type), *map(_json, current.details)]
        waiting += [current.__cause__, current.__context__]
        waiting += current.exceptions if isinstance(current, BaseExceptionGroup) else []
    return "\n".join(texts)


def _json(value: object) -> str:
    return to_json(value, fallback=str).decode()


def _forms(value: str) -> set[str]:
    r"""Return the forms of a value in a text: literal, as Python's repr, inside JSON, and inside JSON in JSON.

    >>> 'a\\"b' in _forms('a"b')
    True
    """
    forms = {value, repr(value)[1:-1]}
    for _ in range(2):
        forms |= {json.dumps(form, ensure_ascii=ascii)[1:-1] for form in forms for ascii in (True, False)}
    return forms
