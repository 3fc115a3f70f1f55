"""Read the body of a request, measured while it arrives. The API, the forms and the codec server use it."""

from __future__ import annotations

from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.types import Receive

Check = Callable[[int], None]
"""Is called with a number of bytes, and raises if they are too many."""


def at_most(largest: int, what: str) -> Check:
    """Return a check that raises `HTTPException` (413) where something, such as `a form`, has more bytes."""

    def check(count: int) -> None:
        if count > largest:
            raise HTTPException(413, f"{what} may have at most {largest:,} bytes")

    return check


async def read_body(receive: Receive, check: Check) -> bytes:
    """Return the body of a request.

    Args:
        receive: The rest of the request.
        check: Called with the number of bytes that have come so far, and raises if they are too many.

    Raises:
        HTTPException: 400, the connection ended before the body did.
    """
    data, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HTTPException(400, "the connection ended before the request did")
        data += message.get("body", b"")
        more = message.get("more_body", False)
        check(len(data))
    return bytes(data)
