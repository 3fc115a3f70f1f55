"""The codec server of Temporal's UI and command line: for those whom `[encryption] readers` names.

It decrypts what a sender shows it, and nothing else: whoever may not read a history there has nothing to send here. It
encrypts what these tools send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from google.protobuf.json_format import MessageToDict, Parse, ParseError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.common import RawValue
from temporalio.converter import DataConverter

from holdfast.runtime.config import Config
from holdfast.runtime.errors import ServerUnreachable
from holdfast.server.web.gate import Identity, require_identity
from holdfast.server.web.problems import make_problem
from holdfast.server.web.questions import list_groups
from holdfast.server.web.requests import limit_bytes, read_body
from holdfast.server.web.security import CODEC
from holdfast.server.web.site import Site, find_site

DECODE, ENCODE = f"{CODEC}decode", f"{CODEC}encode"
Converted = Awaitable[list[Payload]]
LARGEST = 32 * 1024 * 1024
"""Bytes of a request: a page of a history."""


async def decode(request: Request) -> Response:
    """Return the payloads of the request, decrypted and with what the store of large payloads has of them."""
    return await _convert(request, _decrypt)


async def encode(request: Request) -> Response:
    """Return the payloads of the request, encrypted: the command line sends an update or a query so."""
    return await _convert(request, _encrypt)


async def _convert(request: Request, convert: Callable[[DataConverter, Sequence[Payload]], Converted]) -> Response:
    try:
        site = find_site(request)
        _check_reader(site, require_identity(request))
        payloads = Parse(await read_body(request.receive, limit_bytes(LARGEST, "a request")), Payloads())
        converted = await convert(site.runs.client.data_converter, payloads.payloads)
        return JSONResponse(MessageToDict(Payloads(payloads=converted)))
    except ParseError as error:
        return make_problem(HTTPException(400, f"the body must be payloads as JSON: {error}")).response()
    except (HTTPException, ServerUnreachable) as error:
        return make_problem(error).response()


async def _decrypt(converter: DataConverter, payloads: Sequence[Payload]) -> list[Payload]:
    # Raw, so that each keeps the encoding that it was written with: the UI reads it.
    values = await converter.decode(payloads, [RawValue] * len(payloads))
    return [value.payload for value in values]


async def _encrypt(converter: DataConverter, payloads: Sequence[Payload]) -> list[Payload]:
    codec = converter.payload_codec
    return list(payloads) if codec is None else await codec.encode(payloads)


def _check_reader(site: Site, identity: Identity) -> None:
    """Raise `HTTPException` unless `[encryption] readers` names the user or one of the user's groups."""
    names = {identity.user, *list_groups(site.find_runs(identity), identity.user)}
    if names.isdisjoint(site.config.encryption.readers):
        raise HTTPException(403, f"{identity.user} may not decrypt payloads: readers in [encryption] name who may")


class CodecOrigin:
    """Let the pages of Temporal's UI, at `[encryption] ui`, read what the codec server answers; no other page may."""

    def __init__(self, app: ASGIApp, config: Config) -> None:
        self.app = app
        self.origin = (config.encryption.ui or "").rstrip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http" or scope["path"] not in (DECODE, ENCODE) or not self._is_from_ui(scope):
            await self.app(scope, receive, send)
        elif scope["method"] == "OPTIONS":  # a browser asks without its cookies whether it may
            await Response(status_code=204, headers=self._headers())(scope, receive, send)
        else:
            await self.app(scope, receive, self._allow_origin(send))

    def _is_from_ui(self, scope: Scope) -> bool:
        return bool(self.origin) and Headers(scope=scope).get("origin") == self.origin

    def _headers(self) -> dict[str, str]:
        return {
            "Access-Control-Allow-Origin": self.origin,
            "Access-Control-Allow-Credentials": "true",
            "Access-Control-Allow-Methods": "POST",
            "Access-Control-Allow-Headers": "Authorization, Content-Type, X-Namespace",
            "Vary": "Origin",
        }

    def _allow_origin(self, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers())
            await send(message)

        return send_with_headers


CODEC_ROUTES: list[BaseRoute] = [Route(DECODE, decode, methods=["POST"]), Route(ENCODE, encode, methods=["POST"])]
