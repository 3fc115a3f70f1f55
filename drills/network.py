"""The way of a process to the server, through a proxy that is cut, held up, half open, slow, or forgets: for drills."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

HOST = "127.0.0.1"
MODES = ("cut", "held", "half open", "slow", "forgotten")
"""What happens to a link: every connection ends and none begins; nothing passes; what the server says is lost, and the
connections end only afterwards; each piece takes its time; on the connections that there are nothing passes ever again,
and neither end is told, as with a router that has forgotten them: new ones are as before."""
OPEN = "open"
SLOWEST = 0.4
"""Seconds for each piece that passes."""
PIECE = 65_536


class Link:
    """One proxy; `port` is where the process connects to.

    Args:
        target: The port of the server.
        dice: Say how slow it is.
    """

    def __init__(self, target: int, dice: random.Random) -> None:
        self._target, self._dice = target, dice
        self._mode = OPEN
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._forgotten: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def begin(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """End every connection, and listen no more."""
        self._server.close()
        self._end_all()

    async def disturb(self, mode: str, seconds: float) -> None:
        """Disturb the link for so long; then it is as before, but for the connections that have ended."""
        self.set(mode)
        await asyncio.sleep(seconds)
        self.set(OPEN)

    def set(self, mode: str) -> None:
        """Have the link be as one of `MODES` says, or open."""
        before, self._mode = self._mode, mode
        if "cut" in (before, mode) or before == "half open":
            self._end_all()
        if mode == "forgotten":
            self._forgotten |= self._writers
        if mode == "held":
            self._flows.clear()
        else:
            self._flows.set()

    def _end_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "cut":
            writer.transport.abort()
            return
        try:
            their_reader, their_writer = await asyncio.open_connection(HOST, self._target)
        except OSError:  # the server is away
            writer.transport.abort()
            return
        both = {writer, their_writer}
        self._writers |= both
        try:
            await asyncio.gather(
                self._pass_on(reader, their_writer), self._pass_on(their_reader, writer, to_server=False)
            )
        except asyncio.CancelledError:  # the drill is over
            return
        finally:
            self._writers -= both
            self._forgotten -= both

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, to_server: bool = True
    ) -> None:
        with suppress(OSError):
            while piece := await reader.read(PIECE):
                await self._flows.wait()
                if writer in self._forgotten or (self._mode == "half open" and not to_server):
                    continue
                if self._mode == "slow":
                    await asyncio.sleep(self._dice.uniform(0, SLOWEST))
                writer.write(piece)
                await writer.drain()
        if writer not in self._forgotten:
            writer.close()
