"""Signatures of webhooks as the Standard Webhooks specify them: receivers check them with any library for those."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64
"""Bytes of a secret, as the specification recommends."""


class BadSecret(ValueError):
    """A secret that cannot sign; the message does not repeat it."""


def secrets_of(text: str) -> list[bytes]:
    """Return the secrets of a variable: base64, with or without `whsec_`; several, while they are being changed.

    Raises:
        BadSecret: One of them is no base64 of 24 to 64 bytes, or there is none.
    """
    secrets = [_decoded(word) for word in text.split()]
    if not secrets or not all(secret and SHORTEST <= len(secret) <= LONGEST for secret in secrets):
        raise BadSecret(
            f"must be base64 of {SHORTEST} to {LONGEST} bytes, with or without {PREFIX} in front; make one: "
            "echo whsec_$(openssl rand -base64 32)"
        )
    return [secret for secret in secrets if secret]


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        return None


def signed_headers(secrets: Sequence[bytes], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a webhook: its id, the time of this try in seconds, a signature for each secret."""
    headers = {"webhook-id": id, "webhook-timestamp": str(timestamp)}
    if secrets:
        content = f"{id}.{timestamp}.".encode() + body
        headers["webhook-signature"] = " ".join(_signature(secret, content) for secret in secrets)
    return headers


def _signature(secret: bytes, content: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(secret, content, "sha256")).decode()
