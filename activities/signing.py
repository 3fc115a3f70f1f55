"""Tokens for what a worker sends to workflows of its run: an update, as anybody at Temporal's frontend can send one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.guard import DEPLOYMENT, Proof, SignedCommand, sign

TOKEN_LIFE = timedelta(minutes=5)


def sign_command(command: SignedCommand, proof: Proof) -> JSONObject:
    """Return the argument of a command with a token by a key of the deployment that is for answers; as it is without.

    Args:
        command: Its payload is the argument as JSON has it.
        proof: What the token proves.
    """
    for key in DEPLOYMENT.valid_keys:
        if key.may_prove(proof) and "answer" in key.scope:
            return {**command.payload, "token": sign(key, command, datetime.now(UTC) + TOKEN_LIFE, proof)}
    return dict(command.payload)
