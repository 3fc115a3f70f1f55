"""Commands that steer a run: who may send one, and the key that makes a repeated one count once."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, ValidationError
from temporalio import workflow
from temporalio.common import RawValue

from holdfast.protocol import guard
from holdfast.protocol.answers import Refusal
from holdfast.protocol.guard import BadToken, Key
from holdfast.protocol.people import names_of, user_of
from holdfast.protocol.values import Value, digest_of
from holdfast.workflows.door import value_in


class Steering(Value):
    """The fields that every such command has beside its own content."""

    by: str | None = Field(None, max_length=200)
    key: str | None = Field(None, min_length=1, max_length=200)

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


def check_token(run: str, command: str, raw: RawValue) -> Key | None:
    """Return the key whose token the command carries; None where the deployment has no keys. Raises `Refusal`.

    For validators only: a handler that reads the deployment would replay differently once that has changed.
    """
    return check_payload_token(run, command, value_in(raw, None)) if guard.DEPLOYMENT.keys else None


def check_payload_token(run: str, command: str, payload: object) -> Key | None:
    """Return the key whose token a decoded command carries; see `check_token`."""
    if not guard.DEPLOYMENT.keys:
        return None
    fields = payload if isinstance(payload, dict) else {}
    owner = workflow.info().workflow_id
    try:
        return guard.check_token(
            guard.DEPLOYMENT.keys, fields.get("token"), run=run, owner=owner, command=command, payload=fields
        )
    except BadToken as error:
        raise Refusal("bad_token", str(error)) from None


def check_may_answer(key: Key | None) -> None:
    """Refuse an answer under a key whose scope is other commands."""
    if key is not None and "answer" not in key.scope:
        raise Refusal("not_allowed", f"key {key.id!r} is not for answers; its scope says what it is for")


def check_may_steer(steering: Steering, key: Key | None, steer: Sequence[str], started_by: str | None) -> None:
    """Refuse a command from a person who may not steer the run. For validators only, as it reads the deployment.

    Args:
        key: the key whose token the command carries; None where the deployment has no keys.
        steer: users and groups that the blueprint names; empty: the run's starter, and whoever has a key for it.
    """
    user = user_of(steering.by)
    if key is not None:
        is_starter = key.proves == "person" and user is not None and user == user_of(started_by)
        if "steer" not in key.scope and not is_starter:
            raise Refusal("not_allowed", f"key {key.id!r} is not for steering; its scope says what it is for")
        if steering.key is None:
            raise Refusal("not_allowed", "a command with a token needs a `key`, so that it counts once")
    if steer and (user is None or not set(names_of(user, guard.DEPLOYMENT.groups)) & set(steer)):
        raise Refusal(
            "not_allowed", f"{', '.join(steer)} may steer this run, and {steering.by or 'nobody'} is not in it"
        )
