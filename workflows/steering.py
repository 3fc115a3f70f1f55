"""Commands that steer a run: who may send one, and the key that makes a repeated one count once."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, ValidationError
from temporalio import workflow
from temporalio.common import RawValue

from holdfast.protocol import guard
from holdfast.protocol.access import THIS_MACHINE, Capability, Person, RunAccess, may, refusal_of
from holdfast.protocol.answers import Refusal
from holdfast.protocol.guard import BadToken, SignedCommand, Verified
from holdfast.protocol.people import CanonicalName, ProvedGroups, user_of, with_proved
from holdfast.protocol.values import Value, digest_of
from holdfast.workflows.door import value_in


class Steering(Value):
    """The fields that every such command has beside its own content."""

    by: CanonicalName | None = Field(None, max_length=200)
    key: str | None = Field(None, min_length=1, max_length=200)
    groups: ProvedGroups | None = None
    """The groups that a sign-in has proved."""

    @classmethod
    def of(cls, payload: object) -> Steering:
        """Return the fields of a command's argument. Raises `Refusal`."""
        own = {name: payload[name] for name in cls.model_fields if name in payload} if isinstance(payload, dict) else {}
        try:
            return cls.model_validate(own)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise Refusal("invalid_answer", f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def digest_of_command(command: str, payload: object) -> str:
    """Return a digest that tells two commands under one key apart; their tokens do not count."""
    content = (
        {name: value for name, value in payload.items() if name != "token"} if isinstance(payload, dict) else payload
    )
    return digest_of(command, content)


def check_token(run: str, command: str, raw: RawValue) -> Verified | None:
    """Return what the token of a command proves; None without one, where none is needed. Raises `Refusal`.

    For validators only: a handler that reads the deployment would replay differently once that has changed.
    """
    return check_payload_token(run, command, value_in(raw, None))


def check_payload_token(run: str, command: str, payload: object) -> Verified | None:
    """Return what the token of a decoded command proves; see `check_token`.

    A token is checked wherever there is one: the handler takes its word, and cannot know whether keys were configured.
    """
    fields = payload if isinstance(payload, dict) else {}
    token, deployment = fields.get("token"), guard.DEPLOYMENT
    verified = None
    if token is not None or deployment.keys:
        sent = SignedCommand(run, workflow.info().workflow_id, command, fields)
        try:
            verified = guard.check_token(deployment.valid_keys, token, sent)
        except BadToken as error:
            raise Refusal("bad_token", str(error)) from None
    if fields.get("groups") is not None and (verified is None or verified.key.proves != "person"):
        raise Refusal(
            "not_allowed", "groups are accepted only with a token of a key that proves persons; leave them out"
        )
    return verified


def check_may_answer(verified: Verified | None) -> None:
    """Refuse an answer under a key whose scope is other commands."""
    if verified is not None and "answer" not in verified.key.scope:
        raise Refusal("not_allowed", f"key {verified.key.id!r} is not for answers; its scope says what it is for")


class RunGuard:
    """Refuses commands of people who may not send them to a run. For validators only, as it reads the deployment.

    Args:
        run: What the run says of the access to it.
    """

    def __init__(self, run: RunAccess) -> None:
        self.run = run

    @property
    def checks_answers(self) -> bool:
        """Return whether the run says who may answer a question without assignees."""
        return self.run.written.answer is not None or self.run.written.see is not None

    def check_steering(self, steering: Steering, verified: Verified | None) -> None:
        """Refuse a command that steers; `verified` is what its token proves, None without one."""
        user = user_of(steering.by)
        if verified is not None:
            is_starter = verified.proof == "person" and user is not None and user == self.run.started_by
            if "steer" not in verified.key.scope and not is_starter:
                raise Refusal(
                    "not_allowed", f"key {verified.key.id!r} is not for steering; its scope says what it is for"
                )
            if steering.key is None:
                raise Refusal("not_allowed", "a command with a token needs a `key`, so that it counts once")
        self._check("steer", steering.by, steering.groups, verified)

    def check_answering(self, by: str | None, groups: Sequence[str] | None, verified: Verified | None) -> None:
        """Refuse somebody who may not answer the questions without assignees."""
        self._check("answer", by, groups, verified)

    def supervises(self, by: str | None, groups: Sequence[str] | None) -> bool:
        """Return whether this user started the run, or is among those that the blueprint names for steering it."""
        names = _person(by, groups).names
        return self.run.started_by in names or not names.isdisjoint(self.run.written.names_having("steer"))

    def _check(
        self, capability: Capability, by: str | None, groups: Sequence[str] | None, verified: Verified | None
    ) -> None:
        """Refuse a person who may not; the holder of a key that proves nobody is whoever they say."""
        proves = verified is not None and verified.proof not in ("client", "service")
        rules = guard.DEPLOYMENT.access if proves else THIS_MACHINE
        if may(_person(by, groups), capability, self.run, rules):
            return
        raise Refusal("not_allowed", refusal_of(capability, by, self.run.written))


def _person(by: str | None, groups: Sequence[str] | None) -> Person:
    return Person.of(by, with_proved(guard.DEPLOYMENT.groups, by, groups))
