"""The proxy of drills: what is cut ends, what is held arrives later, what is half open or forgotten is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from drills.network import HOST, OPEN, Link


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(100):
        writer.write(piece)
    writer.close()


@pytest_asyncio.fixture
async def link() -> AsyncIterator[Link]:
    async with await asyncio.start_server(echo, HOST, 0) as server:
        made = Link(server.sockets[0].getsockname()[1], random.Random(1))
        await made.begin()
        yield made
        made.stop()


async def connect(link: Link) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which something has passed both ways."""
    reader, writer = await asyncio.open_connection(HOST, link.port)
    writer.write(b"one")
    assert await reader.readexactly(3) == b"one"
    return reader, writer


async def test_what_is_cut_ends_and_nothing_new_begins(link: Link) -> None:
    reader, _ = await connect(link)
    link.set("cut")
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await connect(link)
    link.set(OPEN)
    await connect(link)


async def test_what_is_held_arrives_once_the_link_is_open(link: Link) -> None:
    reader, writer = await connect(link)
    link.set("held")
    writer.write(b"two")
    link.set(OPEN)
    assert await reader.readexactly(3) == b"two"


async def test_what_the_server_says_on_a_half_open_link_is_lost_with_its_connection(link: Link) -> None:
    reader, writer = await connect(link)
    link.set("half open")
    writer.write(b"two")
    link.set(OPEN)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(3)


async def test_a_forgotten_connection_is_silent_for_ever_and_a_new_one_is_not(link: Link) -> None:
    reader, writer = await connect(link)
    link.set("forgotten")
    link.set(OPEN)
    writer.write(b"two")
    await connect(link)
    link.stop()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(3)
