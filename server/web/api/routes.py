"""A call of the API as a value, and its pages of lists: routes and OpenAPI document are made of the table of calls."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self
from urllib.parse import urlencode

from pydantic import BaseModel, Field, TypeAdapter, model_validator
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from holdfast.client.runs import Runs
from holdfast.protocol.access import Capability
from holdfast.server.web.credentials import WebScope
from holdfast.server.web.gate import Identity, require_identity
from holdfast.server.web.outage import read_anyway
from holdfast.server.web.problems import EXPECTED_ERRORS, Unfit, WebProblem, make_problem
from holdfast.server.web.requests import WebInput, read_json_body, read_query
from holdfast.server.web.site import Site, find_site

PREFIX = "/api/v1"
KEY_HEADER = "Idempotency-Key"
KEY_PATTERN = "^[!-~]+$"
LONGEST_KEY = 200
WEB_PAGE = 50
"""Rows of a page."""


_NUMBERED = (
    "The number of the page, counted anew by each call: those before it are read, and rows that have left the list "
    "move others to an earlier page. `after` skips none."
)


class NoQuery(WebInput):
    """The query of a call that takes none."""


@dataclass
class Exchange:
    """A request that has been read, and the headers of its response."""

    request: Request
    site: Site
    identity: Identity
    query: Any
    """An instance of the call's `query`."""
    body: Any = None
    """An instance of the call's `body`, or None."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    @cached_property
    def runs(self) -> Runs:
        """The runs as the person of the request sees and commands them."""
        return self.site.find_runs(self.identity)

    def key(self, in_body: str | None = None) -> str | None:
        """Return the idempotency key of the request, from its header or its body. Raises `Unfit` if they differ."""
        header = self.request.headers.get(KEY_HEADER)
        if header is not None and not (len(header) <= LONGEST_KEY and re.fullmatch(KEY_PATTERN, header)):
            raise Unfit([(KEY_HEADER, f"must have 1 to {LONGEST_KEY} characters of ASCII, without spaces")])
        if None not in (header, in_body) and header != in_body:
            raise Unfit([("key", f"differs from the header {KEY_HEADER}")])
        return header or in_body

    def path(self, name: str) -> str:
        """Return the part of the path that the route calls `name`."""
        return str(self.request.path_params[name])


Answerer = Callable[[Exchange], Awaitable[Any]]


@dataclass(frozen=True)
class ApiCall:
    """One call: its address, what it takes and gives, and what answers it."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    """Below `PREFIX`, such as `/runs/{run}`."""
    answer: Answerer
    """Returns the value of the response, as JSON has it, or a `Response`."""
    gives: Any
    """The type of that value; its schema stands in the OpenAPI document."""
    scope: WebScope = "read"
    needs: Capability | None = None
    """What the person must be allowed to do with the run that the path names; None where it names none, or where the
    call looks at its questions one by one."""
    status: int = 200
    query: type[BaseModel] = NoQuery
    body: type[BaseModel] | None = None
    size: Literal["answer", "input"] = "answer"
    """Which of the deployment's size limits holds for the body."""
    media_type: str = "application/json"
    problems: Sequence[int] = ()
    """Statuses of its errors, beside those that every call may give."""
    others: Mapping[int, str] = field(default_factory=dict)
    """Other statuses of success, with what they mean."""
    takes_key: bool = False
    """True if the header `Idempotency-Key` has a meaning."""

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.answer.__name__

    async def response(self, request: Request) -> Response:
        """Return the response to a request. Raises one of `EXPECTED_ERRORS`."""
        site, identity = find_site(request), require_identity(request, self.scope)
        exchange = Exchange(request, site, identity, read_query(request, self.query), status=self.status)
        if self.body is not None:
            limits = site.runs.answering.limits
            limit = limits.input if self.size == "input" else limits.answer
            exchange.body = await read_json_body(request, self.body, limit)
        if self.needs is not None:
            await exchange.runs.access.require(self.needs, exchange.path("run"))
        value = await self.answer(exchange)
        if isinstance(value, Response):
            return value
        content = TypeAdapter(Any).dump_json(value)
        return Response(content, exchange.status, exchange.headers, self.media_type)


class _PathCalls:
    """The calls of one path, by method."""

    def __init__(self, calls: Sequence[ApiCall]) -> None:
        self._calls: Mapping[str, ApiCall] = {call.method: call for call in calls}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await read_anyway(self._call(request.method).response)(request)
        except EXPECTED_ERRORS as error:
            response = make_problem(error).response()
        await response(scope, receive, send)

    def _call(self, method: str) -> ApiCall:
        call = self._calls.get("GET" if method == "HEAD" else method)
        if call is None:
            allowed = ", ".join(sorted(self._calls))
            raise HTTPException(405, f"this address takes {allowed}", {"Allow": allowed})
        return call


async def _nowhere(request: Request) -> Response:
    detail = f"there is no {request.url.path}; see {PREFIX}/openapi.json"
    return WebProblem(404, "not_found", detail).response()


def make_routes(calls: Sequence[ApiCall]) -> list[BaseRoute]:
    """Return the routes for a table of calls; other addresses below `PREFIX` give a problem document."""
    places: dict[str, list[ApiCall]] = {}
    for call in calls:
        places.setdefault(call.path, []).append(call)
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return [
        *(Route(PREFIX + path, _PathCalls(calls_of_path)) for path, calls_of_path in places.items()),
        Route(PREFIX + "/{rest:path}", _nowhere, methods=methods, include_in_schema=False),
    ]


class PageQuery(WebInput):
    """Which page of a list: by its number, or behind the one before it."""

    page: int | None = Field(None, ge=1, le=10_000, description=_NUMBERED)
    after: str | None = Field(
        None,
        min_length=1,
        max_length=2_000,
        description="In place of `page`: the cursor in the `Link` header of the page before; nothing is read again.",
    )

    @model_validator(mode="after")
    def _only_one(self) -> Self:
        if self.page is not None and self.after is not None:
            raise ValueError("page and after both say which page: give one of them")
        return self

    @property
    def number(self) -> int:
        """The number of the page."""
        return 1 if self.page is None else self.page


def link_to_next(exchange: Exchange, cursor: str | None) -> None:
    """Add the link to the page after this one, if there is one; without the host, as its reader knows the server's."""
    if cursor is None:
        return
    query = {**dict(exchange.request.query_params.items()), "after": cursor}
    query.pop("page", None)
    exchange.headers["Link"] = f'<{exchange.request.url.path}?{urlencode(query)}>; rel="next"'
