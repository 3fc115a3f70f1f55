"""Commands that steer a run: who may send one, and the key that makes a repeated one count once."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, ValidationError
from temporalio import workflow
from temporalio.common import RawValue

from holdfast.protocol import guard
from holdfast.protocol.answers import Refusal
from holdfast.protocol.guard import BadToken, SignedCommand, Verified
from holdfast.protocol.people import CanonicalName, ProvedGroups, names_of, user_of, with_proved
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


def check_may_steer(
    steering: Steering, verified: Verified | None, steer: Sequence[str], started_by: str | None
) -> None:
    """Refuse a command from a person who may not steer the run. For validators only, as it reads the deployment.

    Args:
        verified: what the token of the command proves; None without one.
        steer: users and groups that the blueprint names; empty: the run's starter, and whoever has a key for it.
    """
    user = user_of(steering.by)
    if verified is not None:
        is_starter = verified.proof == "person" and user is not None and user == user_of(started_by)
        if "steer" not in verified.key.scope and not is_starter:
            raise Refusal("not_allowed", f"key {verified.key.id!r} is not for steering; its scope says what it is for")
        if steering.key is None:
            raise Refusal("not_allowed", "a command with a token needs a `key`, so that it counts once")
    groups = with_proved(guard.DEPLOYMENT.groups, user, steering.groups)
    if steer and (user is None or not set(names_of(user, groups)) & set(steer)):
        raise Refusal(
            "not_allowed", f"{', '.join(steer)} may steer this run, and {steering.by or 'nobody'} is not in it"
        )
