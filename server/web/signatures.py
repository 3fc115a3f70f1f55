"""Check the signature of a webhook that came in: as Standard Webhooks sign, or an HMAC of the body in one header."""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Mapping, Sequence
from typing import Literal

from starlette.exceptions import HTTPException

from holdfast.server.notices.signing import secrets_of

Scheme = Literal["standard", "hmac-sha256"]


def read_secrets(text: str, scheme: Scheme) -> list[bytes]:
    """Return the secrets of a variable, several while they are being changed. Raises `BadSecret`."""
    return secrets_of(text) if scheme == "standard" else [word.encode() for word in text.split()]


def check_standard(secrets: Sequence[bytes], headers: Mapping[str, str], body: bytes, tolerance: float) -> str:
    """Return the id of a webhook. Raises `HTTPException` 401 unless it was signed with a secret, and lately."""
    id_, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not id_ or not (sent.isdecimal() and len(sent) < 16):
        raise _unsigned("the headers webhook-id, webhook-timestamp and webhook-signature")
    content = f"{id_}.{sent}.".encode() + body
    expected = [base64.b64encode(hmac.digest(secret, content, "sha256")) for secret in secrets]
    sent_signatures = [
        word.removeprefix("v1,") for word in headers.get("webhook-signature", "").split() if word[:3] == "v1,"
    ]
    if not _any_equal(expected, sent_signatures):
        raise HTTPException(401, "the signature was not made with the secret of this hook, for this body")
    if abs(time.time() - int(sent)) > tolerance:
        raise HTTPException(
            401, f"webhook-timestamp is more than {tolerance:.0f} s off: the webhook is old, or a clock"
        )
    return id_


def check_hmac(secrets: Sequence[bytes], header: str, headers: Mapping[str, str], body: bytes) -> None:
    """Raise `HTTPException` 401 unless a header holds the HMAC-SHA256 of the body in hex, perhaps after `sha256=`."""
    value = headers.get(header, "")
    if not value:
        raise _unsigned(f"the header {header}")
    expected = [hmac.digest(secret, body, "sha256").hex().encode() for secret in secrets]
    if not _any_equal(expected, [value.removeprefix("sha256=").lower()]):
        raise HTTPException(401, "the signature was not made with the secret of this hook, for this body")


def _any_equal(expected: Sequence[bytes], received: Sequence[str]) -> bool:
    """Return whether one of the signatures is right. The time that it takes does not depend on them."""
    pairs = [(signature, other) for signature in expected for other in received]
    # A list: without it `any` would stop at the first that is equal.
    return any([hmac.compare_digest(signature, other.encode()) for signature, other in pairs])


def _unsigned(what: str) -> HTTPException:
    return HTTPException(401, f"this webhook is not signed: send {what}")
