"""Read the body and the query of a request: measured while it arrives, then parsed, then validated.

API, webhooks, forms and the codec server use it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Receive

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.jsonschemas import shown_path
from holdfast.blueprint.model_problems import word_problem
from holdfast.protocol.answers import Refusal
from holdfast.protocol.size_limits import SizeLimit, check_bytes, check_value, read_json
from holdfast.server.web.problems import Unfit

LARGEST_FORM = 16 * 1024 * 1024
"""Bytes of a form as it is sent, where a character takes up to 12: what is typed may be too large for an answer, and
comes back in its form with the reason."""
MOST_SKIPPED = 256 * 1024 * 1024
"""Bytes that are received, and not kept, behind those that are too many: a browser reads no answer while it sends."""
MOST_FIELDS = 5_000
Check = Callable[[int], None]
"""Is called with a number of bytes, and raises if they are too many."""
Read = TypeVar("Read", bound=BaseModel)


def limit_bytes(largest: int, what: str) -> Check:
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
        try:
            check(len(data))
        except (HTTPException, Refusal):
            if more:
                await _skip(receive)
            raise
    return bytes(data)


async def _skip(receive: Receive) -> None:
    """Receive the rest of a body up to `MOST_SKIPPED` bytes."""
    left, more = MOST_SKIPPED, True
    while more and left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        more = message.get("more_body", False)


async def read_form(request: Request) -> FormData:
    """Return what a form of a page has sent; its bytes were measured before."""
    return await request.form(max_files=0, max_fields=MOST_FIELDS, max_part_size=LARGEST_FORM)


class WebInput(BaseModel):
    """The base class of what a request carries: unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


async def read_measured(request: Request, limit: SizeLimit) -> bytes:
    """Return the body of a request. Raises `Refusal` (`too_large`) as soon as it exceeds the limit."""
    length = request.headers.get("content-length", "")
    check_bytes(int(length) if length.isdecimal() else 0, limit)
    return await read_body(request.receive, lambda count: check_bytes(count, limit))


async def read_json_body(request: Request, model: type[Read], limit: SizeLimit) -> Read:
    """Return the JSON body of a request as a model; no body at all is an empty object.

    Raises:
        Refusal: It is too large.
        Unfit: It is no JSON, or does not fit the model.
        HTTPException: 415, it is not sent as JSON.
    """
    data = await read_measured(request, limit)
    if not data and all(not field.is_required() for field in model.model_fields.values()):
        return validate(model, {})
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send JSON, with the header Content-Type: application/json")
    return validate(model, parse_json(data, limit))


def parse_json(data: bytes, limit: SizeLimit) -> JSON:
    """Return the value of a JSON text: finite numbers, whole Unicode, no key twice. Raises `Refusal` or `Unfit`."""
    try:
        value = read_json(data, limit)
        check_value(value, limit, "the body")
    except Refusal as refusal:
        if refusal.code != "invalid_answer":
            raise
        raise Unfit([("", refusal.message)]) from None
    return value


def read_query(request: Request, model: type[Read]) -> Read:
    """Return the query of a request as a model. Raises `Unfit`, also for a name that stands twice."""
    items = request.query_params.multi_items()
    names = [name for name, _ in items]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Unfit([(name, "appears twice in the query") for name in twice])
    return validate(model, dict(items))


def validate(model: type[Read], value: object) -> Read:
    """Return a value as a model. Raises `Unfit` with every problem."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        raise Unfit((shown_path(detail["loc"]), _message(detail, model)) for detail in details) from None


def _message(detail: Any, model: type[BaseModel]) -> str:
    if detail["type"] != "extra_forbidden":
        return word_problem(detail)
    names = ", ".join(field.alias or name for name, field in model.model_fields.items())
    return f"unknown name; there are: {names}" if len(detail["loc"]) == 1 else "unknown name"
