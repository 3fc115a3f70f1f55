"""The body of a request is measured while it arrives."""

from __future__ import annotations

import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from holdfast.server.web.requests import limit_bytes, read_body


def receiving(messages: list[Message]) -> Receive:
    """What an ASGI server gives an application, one message after the other."""

    async def receive() -> Message:
        return messages.pop(0)

    return receive


def chunk(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_pieces_is_read_to_its_end() -> None:
    receive = receiving([chunk(b"ab"), chunk(b"c", more=False)])
    assert await read_body(receive, limit_bytes(3, "a form")) == b"abc"


@pytest.mark.parametrize(
    ("messages", "code", "detail"),
    [
        ([chunk(b"ab"), chunk(b"cd", more=False)], 413, "a form may have at most 3 bytes"),
        ([chunk(b"ab"), chunk(b"cd"), chunk(b"ef", more=False)], 413, "a form may have at most 3 bytes"),
        ([chunk(b"ab"), {"type": "http.disconnect"}], 400, "the connection ended before the request did"),
    ],
)
async def test_a_body_that_is_too_large_or_breaks_off_is_refused(
    messages: list[Message], code: int, detail: str
) -> None:
    with pytest.raises(HTTPException) as caught:
        await read_body(receiving(messages), limit_bytes(3, "a form"))
    assert not messages, "a browser that still sends shows no answer"
    assert (caught.value.status_code, caught.value.detail) == (code, detail)
