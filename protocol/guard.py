"""Keys, groups, rules and limits of the deployment, for update validators and activities, and tokens of its keys.

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
from typing import Literal, NamedTuple

from holdfast.blueprint.json_values import JSON
from holdfast.protocol.access import THIS_MACHINE, AccessRules
from holdfast.protocol.size_limits import SizeLimits

Scope = Literal["answer", "steer"]
ALL_SCOPES: frozenset[Scope] = frozenset(("answer", "steer"))
Role = Literal["client", "person"]
Proof = Literal["person", "link", "client", "assistant", "service"]
"""What proves the user that a command names: a sign-in; a link in a message; nothing but a client that holds a key;
a person's answer through an assistant; a token of a program, which is nobody who could consent."""
UNPROVED = "nothing"
"""In place of a proof, for a command without a token."""
# Whoever holds a key can write any name into a token, and so claim to be the inbox. Only a key of a place where people
# sign in says who somebody is.
PROOFS: Mapping[Role, frozenset[Proof]] = {
    "person": frozenset(("person", "link", "client", "assistant", "service")),
    "client": frozenset(("client", "assistant", "service")),
}
"""The proofs that a key's tokens may hold, by what the key proves."""


@dataclass(frozen=True)
class Key:
    """A key that signs tokens."""

    id: str
    secret: str = field(repr=False)
    proves: Role = "client"
    """`person`: the holder has authenticated the person that the command names; `client`: only the holder is proved."""
    scope: frozenset[Scope] = ALL_SCOPES
    """The commands that its tokens are valid for."""

    def may_prove(self, proof: Proof) -> bool:
        """Return whether its tokens may hold this proof."""
        return proof in PROOFS[self.proves]


class Verified(NamedTuple):
    """The proof that a valid token gives."""

    key: Key
    proof: Proof


@dataclass
class Guard:
    """The deployment's keys and groups, and its limits."""

    keys: Sequence[Key] = ()
    """If there are any, every command needs a token of one."""
    inbox: Key | None = None
    """The key of the embedded set's inbox, whose tokens are valid too; commands need none for it."""
    groups: dict[str, list[str]] = field(default_factory=dict)
    """Members (`user:NAME`) by name of the group."""
    sign_in_has_groups: bool = False
    """Whether a proxy or a provider says who is in which group; `groups` then need not name them."""
    access: AccessRules = THIS_MACHINE
    """Who may do what with the runs of the deployment."""
    limits: SizeLimits = SizeLimits()
    busy_from: int = 1_500
    """Number of updates in a history from which only answers, declines, pause and resume are taken.

    After 2,000 Temporal refuses every update, and nobody could answer a parked run any more.
    """

    @property
    def knows_all_groups(self) -> bool:
        """Whether there are no groups but `groups`: a server with a key that proves a person may sign in others."""
        return not self.sign_in_has_groups and not any(key.proves == "person" for key in self.keys)

    @property
    def valid_keys(self) -> Sequence[Key]:
        """The keys whose tokens are valid: a configured key comes before the inbox's own of the same id."""
        return [*self.keys, *([self.inbox] if self.inbox else [])]


DEPLOYMENT = Guard()


class BadToken(ValueError):
    """A token that was not made for this command with one of the deployment's keys, or that has expired."""


@dataclass(frozen=True)
class SignedCommand:
    """One command to one workflow, as a token authenticates it."""

    run: str
    owner: str
    """Id of the workflow that receives it."""
    command: str
    """Name of the update."""
    payload: Mapping[str, JSON]
    """Its argument as it is sent; a member `token` is ignored."""

    def message(self, until: int, proof: str) -> bytes:
        """Return the bytes that a token authenticates. Raises `BadToken` for a payload that JSON cannot represent.

        Args:
            until: Expiry in Unix seconds.
            proof: What proves the user that the payload names.
        """
        payload = {name: value for name, value in self.payload.items() if name != "token"}
        names = {"run": self.run, "owner": self.owner, "command": self.command}
        try:
            return canonical({**names, "payload": payload, "expiry": until, "proof": proof}).encode()
        except ValueError as error:
            raise BadToken(f"the payload cannot be signed: {error}") from None


def sign(key: Key, command: SignedCommand, expiry: datetime, proof: Proof = "client") -> str:
    """Return a token for one command with exactly this payload: `KEY_ID.EXPIRY.PROOF.MAC`.

    Args:
        expiry: The end of its validity, precise to the second.
        proof: What proves the user that the payload names; one that the key may prove.

    >>> pause = SignedCommand("r", "r", "pause", {})
    >>> sign(Key("k", "s"), pause, datetime(2030, 1, 1, tzinfo=UTC)).rpartition(".")[0]
    'k.1893456000.client'
    """
    until = int(expiry.timestamp())
    return f"{key.id}.{until}.{proof}.{_mac(key, command, until, proof)}"


def check_token(keys: Sequence[Key], token: object, command: SignedCommand) -> Verified:
    """Return the key that signed the token for exactly this command, and what it proves. Raises `BadToken`."""
    if token is None:
        raise BadToken("this deployment takes commands only with a token; set an answer key where you send it")
    id_, until, proof, mac = _parts(token)
    key = next((key for key in keys if key.id == id_), None)
    if key is None:
        raise BadToken(f"the worker has no key {id_[:60]!r}, which made the token; give it the same [answers] keys")
    if not hmac.compare_digest(mac.encode(), _mac(key, command, until, proof).encode()):
        raise BadToken("the token was not made for this command with this deployment's key")
    if (late := datetime.now(UTC).timestamp() - until) > 0:
        way = "make a new one, or set the clocks right (holdfast doctor compares them)"
        raise BadToken(f"the token expired {late:.0f} s ago by the worker's clock; {way}")
    for allowed in PROOFS[key.proves]:
        if proof == allowed:
            return Verified(key, allowed)
    raise BadToken(f"key {id_!r} proves a {key.proves}; a token of it cannot prove {proof[:60]!r}")


def proof_in(token: str | None) -> str:
    """Return what a token that was verified proves; `nothing` without one.

    For handlers: they run again on replay, when the keys may be others. The validator has checked the token before.
    """
    try:
        return UNPROVED if token is None else _parts(token)[2]
    except BadToken:
        return UNPROVED


def _parts(token: object) -> tuple[str, int, str, str]:
    """Return key id, expiry (Unix seconds), proof and MAC."""
    match token.split(".") if isinstance(token, str) and token.isascii() else []:
        case [id_, until, proof, mac] if until.isdecimal() and len(until) < 16:
            return id_, int(until), proof, mac
    raise BadToken("not a token: expected KEY_ID.EXPIRY.PROOF.MAC")


def _mac(key: Key, command: SignedCommand, until: int, proof: str) -> str:
    return hmac.new(key.secret.encode(), command.message(until, proof), hashlib.sha256).hexdigest()


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
    raise ValueError(f"a {type(value).__name__} is not a JSON value")


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
