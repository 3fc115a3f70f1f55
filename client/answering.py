"""The way a client sends: for whom, signed with which keys, within which limits. `Runs` uses it for every command."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.client.memory import QuestionMemory
from holdfast.client.tree import Tree
from holdfast.protocol.guard import Key, Proof, Scope, SignedCommand, sign
from holdfast.protocol.people import Groups, name_sender, with_proved
from holdfast.protocol.size_limits import SizeLimits, check_value
from holdfast.runtime.errors import NothingSent
from holdfast.runtime.secrets import SecretDirectory

Result = TypeVar("Result")
TOKEN_LIFE = timedelta(minutes=10)


@dataclass(frozen=True)
class Sender:
    """The person for whom a client sends, as a sign-in has proved it."""

    user: str
    """Such as `user:ana`."""
    groups: tuple[str, ...] = ()
    """The groups that the sign-in proved, such as `group:editors`; they are sent with a key that proves persons, and
    count in place of those of the worker's file. Empty: it proved none, and the file counts."""
    proof: Proof = "client"
    """What proves the user: a sign-in, a link in a message, a token that somebody holds, an assistant's elicitation;
    `service` for the token of a program."""

    @property
    def is_service(self) -> bool:
        """True for a program: workflows take no consent from it."""
        return self.proof == "service"


@dataclass(frozen=True)
class Answering:
    """The way a client sends answers and commands: with which keys, limits and secret store."""

    keys: Sequence[Key] = ()
    """The keys of the configuration, which sign commands; without one, commands need no token."""
    inbox: Key | None = None
    """The key of the embedded set's inbox: it signs for a `sender` alone, and proves persons."""
    memory: QuestionMemory = field(default_factory=QuestionMemory)
    """The questions seen last, so that they can be answered when no worker is there to ask."""
    groups: Groups = field(default_factory=dict)
    """The groups of this client's configuration, for lists; who may answer is decided by those of the worker."""
    secrets: SecretDirectory | None = None
    """The store that keeps the values of secrets; what is sent holds references only."""
    limits: SizeLimits = SizeLimits()
    """The limits of what is sent from here; a run and its worker have limits of their own."""
    sender: Sender | None = None
    """The person for whom everything is sent, whoever a command names as `by`; None: whom it names."""

    @property
    def proves_persons(self) -> bool:
        """True if commands of somebody who has signed in can prove it: a key is here whose tokens may say so."""
        return any(key.may_prove("person") for key in self._keys_for_senders)

    @property
    def inbox_problem(self) -> str | None:
        """The reason why an inbox cannot work with these keys, with the way out; None if it can.

        Without any key it can, and its answers prove nothing.
        """
        if not self.keys or self.proves_persons:
            return None
        keys = ", ".join(key.id for key in self.keys)
        return (
            f"[answers] keys: none of the keys that are set here ({keys}) proves a person; "
            'add {id = "inbox", env = "HOLDFAST_INBOX_KEY", proves = "person"}, '
            "and set the variable here and for the workers"
        )

    @property
    def known_groups(self) -> Groups:
        """The groups of the configuration; of the sender those that a sign-in proved, as a worker takes them."""
        sender = self.sender
        return self.groups if sender is None else with_proved(self.groups, sender.user, sender.groups or None)

    def find_sender(self, by: str | None) -> str | None:
        """Return who sends a command: the person for whom everything is sent, else who it names."""
        name = by if self.sender is None else self.sender.user
        return None if name is None else name_sender(name)

    async def steer(
        self, tree: Tree, run: str, owner: str, command: str, payload: Mapping[str, JSON], type_: type[Result]
    ) -> Result:
        """Send a command to one workflow by update and return its result, parsed as `type_`.

        Raises `Refusal`, `NoWorker`, or `UnknownRun` if the workflow has ended.
        """
        argument = self.sign_command(run, owner, command=command, payload=payload)
        return await tree.update(owner, command, argument, type_, id=f"{command}:{argument['key']}")

    def sign_command(self, run: str, owner: str, *, command: str, payload: Mapping[str, JSON]) -> JSONObject:
        """Return the argument of a command to one workflow: with a new idempotency key, signed if there are keys."""
        by = payload.get("by")
        sender = self.find_sender(by if isinstance(by, str) else None)
        argument = {**payload, "by": sender, "key": secrets.token_hex(8)}
        check_value(argument, self.limits.answer, command)
        return self.sign("steer", SignedCommand(run, owner, command, argument))

    def sign(self, scope: Scope, command: SignedCommand) -> JSONObject:
        """Return the argument of a command with a token that proves its origin; without keys as it is.

        Args:
            scope: The scope that the key needs.
            command: Its payload is the argument as JSON has it: the workflow verifies the very value that was signed.
        """
        proof: Proof = "client" if self.sender is None else self.sender.proof
        key = self._key_for(scope, proof)
        if key is None:
            return dict(command.payload)
        payload = dict(command.payload)
        if self.sender is not None and self.sender.groups and key.proves == "person":
            payload["groups"] = list(self.sender.groups)
        expiry = datetime.now(UTC) + TOKEN_LIFE
        return {**payload, "token": sign(key, replace(command, payload=payload), expiry, proof)}

    def _key_for(self, scope: Scope, proof: Proof) -> Key | None:
        """Return the key that signs a command; None if there is none. Raises `NothingSent` if none may prove this."""
        keys = list(self.keys) if self.sender is None else self._keys_for_senders
        proving = [key for key in keys if key.may_prove(proof)]
        if keys and not proving:
            raise NothingSent(
                f"no key of this client may prove a {proof}: nothing was sent. {self.inbox_problem or ''}"
            )
        if self.sender is not None:  # only a key that proves persons carries the groups that a sign-in proved
            proving.sort(key=lambda key: key.proves != "person")
        # Without a key of the scope another one: the workflow refuses it with the reason.
        return next((key for key in proving if scope in key.scope), next(iter(proving), None))

    @property
    def _keys_for_senders(self) -> list[Key]:
        return [*self.keys, *([self.inbox] if self.inbox else [])]
