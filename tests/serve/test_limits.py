"""Limits of the server: half-sent requests end, connections are bounded, and so are the live streams of a person."""

import asyncio

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.server.web import listener, live
from holdfast.server.web.live import Streams
from tests.serve.ground import served

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def echo(request: Request) -> Response:
    return Response(await request.body())


APP = Starlette(routes=[Route("/", echo, methods=["GET", "POST"])])


async def connected(address: str, sent: bytes = b"") -> Connection:
    host, _, port = address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def is_closed(connection: Connection) -> bool:
    """Wait until the server closes a connection; whether it did so without a word."""
    try:
        return await asyncio.wait_for(connection[0].read(), 60) == b""
    except ConnectionResetError:
        return True
    finally:
        connection[1].close()


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"


@pytest.mark.parametrize("half", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-", HEAD + b"abc"])
async def test_a_half_sent_request_ends(half: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(listener, "BODY_SECONDS", 0.2)
    async with served(APP) as address:
        assert await is_closed(await connected(address, half))


CHUNKS = b"2\r\n{}\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_a_request_whose_end_is_not_clear_is_refused_and_nothing_after_it_is_read() -> None:
    async with served(APP) as address:
        for head in (b"HTTP/1.1\r\nHost: x\r\nContent-Length: 4", b"HTTP/1.0\r\nConnection: keep-alive"):
            sent = b"POST / %s\r\nTransfer-Encoding: chunked\r\n\r\n%s" % (head, CHUNKS)
            reader, writer = await connected(address, sent)
            told = await asyncio.wait_for(reader.read(), 60)
            assert (told.startswith(b"HTTP/1.1 400 "), told.count(b"HTTP/1.1")) == (True, 1)
            writer.close()


async def test_a_half_sent_request_behind_a_whole_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HEAD_SECONDS", 0.2)
    async with served(APP) as address:
        reader, writer = await connected(address, HEAD + b"123456789")
        assert b"200 OK" in await reader.readuntil(b"123456789")
        writer.write(b"GET / HTT")
        assert await is_closed((reader, writer))


async def test_of_too_many_connections_the_longest_silent_one_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "count_most_connections", lambda: 3)
    async with served(APP) as address:
        under_way = await connected(address, HEAD)
        silent = [await connected(address) for _ in range(2)]
        asking = await connected(address, HEAD + b"123456789")
        assert await is_closed(silent[0])
        assert b"200 OK" in await asking[0].readuntil(b"123456789")
        under_way[1].write(b"abcdefghi")
        assert b"200 OK" in await under_way[0].readuntil(b"abcdefghi")
        for _, writer in (under_way, silent[1], asking):
            writer.close()


async def test_a_person_has_so_many_live_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 2)

    async def lines():
        while True:
            yield "line"

    open_ = Streams()
    read = [open_.open("user:ana", lines()) for _ in range(2)]
    for one in read:
        await anext(one)
    with pytest.raises(HTTPException, match="user:ana has 2 live streams open"):
        open_.open("user:ana", lines())
    open_.open("user:bob", lines())
    await read[0].aclose()
    open_.open("user:ana", lines())
