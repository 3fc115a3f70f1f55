"""The JSON API, `/api/v1`: what the commands print with `--json`. See docs/api.md.

A call is a row of a table: `routes.ApiCall` says its address, what it takes, gives and needs; the routes and the
OpenAPI document (`openapi`) are made of the tables in `questions`, `runs` and `events`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from starlette.routing import BaseRoute

from holdfast.blueprint.json_values import JSONObject
from holdfast.server.web.api.events import EVENT_CALLS, INCOMING_CALLS
from holdfast.server.web.api.openapi import document
from holdfast.server.web.api.questions import ANSWER_CALLS, COMMENT_CALLS, QUESTION_CALLS
from holdfast.server.web.api.routes import ApiCall, Exchange, make_routes
from holdfast.server.web.api.runs import RUN_CALLS, START_CALLS, STEERING_CALLS


async def show_openapi(exchange: Exchange) -> JSONObject:
    """Return this document."""
    return openapi()


CALLS = [
    *QUESTION_CALLS,
    *COMMENT_CALLS,
    *RUN_CALLS,
    *START_CALLS,
    *EVENT_CALLS,
    *ANSWER_CALLS,
    *STEERING_CALLS,
    *INCOMING_CALLS,
    ApiCall("GET", "/openapi.json", show_openapi, dict[str, Any]),
]
API: list[BaseRoute] = make_routes(CALLS)


@cache
def openapi() -> JSONObject:
    """Return the OpenAPI document of these calls."""
    return document(CALLS)
