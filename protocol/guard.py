"""Keys, groups and limits of the deployment for update validators and activities, and the tokens made with its keys.

`DEPLOYMENT` is set once, by worker.py. Only update validators and activities may read it, since replay never runs them:
with a signal handler that read it, a changed key made recorded histories fail to replay. docs/security.md describes
tokens for clients in other languages; docs/token-vectors.json has examples.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Literal

from holdfast.blueprint.json_values import JSON
from holdfast.protocol.door import SizeLimits

Scope = Literal["answer", "steer"]
ALL_SCOPES: frozenset[Scope] = frozenset(("answer", "steer"))


@dataclass(frozen=True)
class Key:
    """A key that signs tokens."""

    id: str
    secret: str = field(repr=False)
    proves: Literal["client", "person"] = "client"
    """`person`: the holder has authenticated the person that the command names; `client`: only the holder is proved."""
    scope: frozenset[Scope] = ALL_SCOPES
    """The commands that its tokens are valid for."""


@dataclass
class Guard:
    """The deployment's keys and groups, and its limits."""

    keys: Sequence[Key] = ()
    groups: dict[str, list[str]] = field(default_factory=dict)
    """Members (`user:NAME`) by name of the group."""
    limits: SizeLimits = SizeLimits()
    busy_from: int = 1_500
    """Number of updates in a history from which only answers, declines, pause and resume are taken.

    After 2,000 Temporal refuses every update, and nobody could answer a parked run any more.
    """


DEPLOYMENT = Guard()


class BadToken(ValueError):
    """A token that was not made for this command with one of the deployment's keys, or that has expired."""


def sign(key: Key, *, run: str, owner: str, command: str, payload: Mapping[str, JSON], expiry: datetime) -> str:
    """Return a token for one command with exactly this payload, valid until the expiry: `KEY_ID.EXPIRY.MAC`.

    Args:
        owner: Id of the workflow that receives the command.
        command: Name of the update.
        payload: Its argument as it is sent; a member `token` is ignored.
        expiry: Precise to the second.

    >>> soon = datetime(2030, 1, 1, tzinfo=UTC)
    >>> sign(Key("k", "s"), run="r", owner="r", command="pause", payload={}, expiry=soon).rpartition(".")[0]
    'k.1893456000'
    """
    until = int(expiry.timestamp())
    return f"{key.id}.{until}.{_mac(key, run, owner, command, payload, until)}"


def check_token(
    keys: Sequence[Key], token: object, *, run: str, owner: str, command: str, payload: Mapping[str, JSON]
) -> Key:
    """Return the key that signed the token for exactly this command. Raises `BadToken`.

    For the arguments see `sign`.
    """
    if token is None:
        raise BadToken("this deployment takes commands only with a token; set an answer key where you send it")
    id_, until, mac = _parts(token)
    key = next((key for key in keys if key.id == id_), None)
    if key is None:
        raise BadToken(f"this deployment has no key {id_[:60]!r}, which made the token")
    if not hmac.compare_digest(mac.encode(), _mac(key, run, owner, command, payload, until).encode()):
        raise BadToken("the token was not made for this command with this deployment's key")
    if until < datetime.now(UTC).timestamp():
        raise BadToken("the token has expired; make a new one")
    return key


def _parts(token: object) -> tuple[str, int, str]:
    """Return key id, expiry (Unix seconds) and MAC."""
    match token.split(".") if isinstance(token, str) and token.isascii() else []:
        case [id_, until, mac] if until.isdecimal() and len(until) < 16:
            return id_, int(until), mac
    raise BadToken("not a token: expected KEY_ID.EXPIRY.MAC")


def _mac(key: Key, run: str, owner: str, command: str, payload: Mapping[str, JSON], until: int) -> str:
    text = message(run=run, owner=owner, command=command, payload=payload, until=until)
    return hmac.new(key.secret.encode(), text, hashlib.sha256).hexdigest()


def message(*, run: str, owner: str, command: str, payload: Mapping[str, JSON], until: int) -> bytes:
    """Return the bytes that a token authenticates. Raises `BadToken` for a payload that JSON cannot represent.

    Args:
        until: Expiry in Unix seconds. For the others see `sign`.
    """
    signed = {name: value for name, value in payload.items() if name != "token"}
    document = {"run": run, "owner": owner, "command": command, "payload": signed, "expiry": until}
    try:
        return canonical(document).encode()
    except ValueError as error:
        raise BadToken(f"the payload cannot be signed: {error}") from None


def canonical(value: object) -> str:
    """Return canonical JSON: RFC 8785, but whole numbers beyond 2^53 are written with all of their digits.

    Raises `ValueError` for anything that JSON cannot represent.

    >>> canonical({"b": [1.0, 1e21, 0.000001, 2**60], "a": "é\\n"})
    '{"a":"é\\\\n","b":[1,1e+21,0.000001,1152921504606846976]}'
    """
    match value:
        case dict():
            names = sorted(value, key=lambda name: name.encode("utf-16-be"))  # RFC 8785 sorts by UTF-16 code units
            return f"{{{','.join(f'{canonical(name)}:{canonical(value[name])}' for name in names)}}}"
        case list() | tuple():
            return f"[{','.join(map(canonical, value))}]"
        case float():
            return _number(value)
        case None | bool() | int() | str():
            return json.dumps(value, ensure_ascii=False)
    raise ValueError(f"a {type(value).__name__} is no JSON value")


def _number(value: float) -> str:
    """Return a number as ECMAScript writes it: with the shortest digits that identify it."""
    if not math.isfinite(value):
        raise ValueError("a number is not finite")
    if value == 0:
        return "0"
    sign_, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text, minus = "".join(map(str, digits)), "-" if sign_ else ""
    point = len(text) + int(exponent)
    if len(text) <= point <= 21:
        return f"{minus}{text.ljust(point, '0')}"
    if 0 < point <= 21:
        return f"{minus}{text[:point]}.{text[point:]}"
    if -6 < point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    rest = f".{text[1:]}" if len(text) > 1 else ""
    return f"{minus}{text[0]}{rest}e{point - 1:+d}"
