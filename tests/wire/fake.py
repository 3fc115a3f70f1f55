"""A provider on localhost that refuses what the real one would, and says only what the real one could."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs

from holdfast.activities.aliases import ModelAlias
from tests.activities.provider import Provider, Reply, Request
from tests.wire.apis import Api

KEY_VARIABLE = "TEST_KEY"


class Fake(Provider):
    """A server of one API. `refused` has its reasons for each 400."""

    def __init__(self, api: Api) -> None:
        super().__init__()
        self.api = api
        self.refused: list[str] = []

    @property
    def alias(self) -> ModelAlias:
        return ModelAlias(self.api.model, KEY_VARIABLE, self.url.removesuffix("/v1") + self.api.base)

    def fail(self, status: int, message: str = "", **more: Any) -> None:
        """Queue an error as the API words it."""
        self.reply(Reply(status=status, body=self.api.error(status, message), **more))

    def _next(self, request: Request) -> Reply:
        problem = self.api.problem(request)
        if problem is None:
            reply = super()._next(request)
            problem = self._impossible(reply, request)
            if problem is None:
                return reply
        self.refused.append(problem)
        return Reply(status=400, body=self.api.error(400, problem))

    def _impossible(self, reply: Reply, request: Request) -> str | None:
        """Why no model held to the schemas that were sent could give this reply."""
        offered = self.api.offered(request)
        for name, args, _ in reply.calls:
            if isinstance(args, dict) and name in offered and not jsonschema_rs.is_valid(offered[name], args):
                return f"test: {args} does not fit the schema of {name} on the wire: {offered[name]}"
        return None

    def encoded(self, reply: Reply, request: Request) -> tuple[bytes, dict[str, str]]:
        """See base class. A stream has no length: where it is cut nothing tells but what is missing."""
        if reply.body is not None or reply.status != 200 or not request.body.get("stream"):
            return super().encoded(reply, request)
        events = self.api.stream(self.body_of(reply, request))
        lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
        return "".join(lines).encode(), {"Content-Type": "text/event-stream", "Connection": "close"}

    def body_of(self, reply: Reply, request: Request) -> Any:
        """See base class."""
        return self.api.body(reply, request) if reply.body is None else reply.body
