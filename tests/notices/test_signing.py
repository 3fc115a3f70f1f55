"""Signatures, against the reference vector of Standard Webhooks and another implementation of HMAC."""

import base64
import re
import time
from typing import Any

import pytest

from holdfast.server.notices.transports import BadSecret, read_webhook_secrets, sign_webhook
from tests.notices.receivers import by_openssl
from tests.repository import ROOT

SECRET, ID, AT, BODY = (
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "msg_p5jXN8AQM9LWM0D4loKWxJek",
    1614265330,
    b'{"test": 2432232314}',
)
REFERENCE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("text", [SECRET, SECRET.removeprefix("whsec_")])
def test_a_signature_is_that_of_the_specification(text: str) -> None:
    headers = sign_webhook(read_webhook_secrets(text), ID, AT, BODY)
    assert headers == {"webhook-id": ID, "webhook-timestamp": str(AT), "webhook-signature": REFERENCE}


def test_while_a_secret_is_changed_both_sign() -> None:
    other = "whsec_" + base64.b64encode(b"o" * 32).decode()
    headers = sign_webhook(read_webhook_secrets(f"{SECRET} {other}"), "id", 1, b"body")
    assert headers["webhook-signature"].split() == [by_openssl(secret, b"id.1.body") for secret in (SECRET, other)]


@pytest.mark.parametrize("text", ["", "hunter2", "whsec_", base64.b64encode(b"short").decode(), f"{SECRET} hunter2"])
def test_a_bad_secret_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(BadSecret, match="must be base64 of 24 to 64 bytes") as caught:
        read_webhook_secrets(text)
    assert "hunter2" not in str(caught.value)


def test_the_check_in_the_docs_knows_ours_from_others() -> None:
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "notices.md").read_text(), re.S)
    names: dict[str, Any] = {}
    exec(code, names)
    now = int(time.time())
    headers = sign_webhook(read_webhook_secrets(SECRET), "id", now, b"body")
    assert names["is_ours"](headers, b"body", SECRET)
    assert not names["is_ours"](headers, b"other", SECRET)
    assert not names["is_ours"](sign_webhook(read_webhook_secrets(SECRET), "id", now - 600, b"body"), b"body", SECRET)
