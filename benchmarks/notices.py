"""Delivering notices to a webhook, against posting as many events by hand, as many at a time and signed by nobody.

`python -m benchmarks.notices [NOTICES]`; once to a receiver that replies at once, and once to one that takes 50 ms for
each. The receiver is a process of its own. Notices are planned from a record, written to the outbox and marked there.
"""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from benchmarks.table import Cell, print_table
from holdfast.runtime.config import MAX_CONCURRENCY, NOTICE_KINDS
from holdfast.server.notices.channels import Channel
from holdfast.server.notices.transports import Webhook
from tests.notices.office import RUN, Office

NOTICES = 5_000
WRITTEN_TOGETHER = 500
SECONDS_EACH = (0.0, 0.05)
BODY = b'{"specversion": "1.0", "data": "' + b"x" * 700 + b'"}'
"""As long as the event of a short question."""


async def reply(reader: StreamReader, writer: StreamWriter, seconds: float) -> None:
    """Take requests of one connection, and reply to each after some time."""
    with suppress(IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            await asyncio.sleep(seconds)
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            await writer.drain()
    writer.close()


async def receive(seconds: float) -> None:
    """Print the port, and take requests until killed."""
    server = await asyncio.start_server(lambda reader, writer: reply(reader, writer, seconds), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@asynccontextmanager
async def receiver(seconds: float) -> AsyncIterator[str]:
    """Start a receiver as a process, and yield its address."""
    command = [sys.executable, "-m", "benchmarks.notices", "receive", str(seconds)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}/"
    finally:
        process.kill()
        await process.wait()


async def by_hand(url: str, count: int) -> None:
    """Post as many events, as many at a time, over connections that are kept."""
    numbers = iter(range(count))

    async def lane(client: httpx.AsyncClient) -> None:
        for _ in numbers:
            (await client.post(url, content=BODY)).raise_for_status()

    async with httpx.AsyncClient() as client:
        await asyncio.gather(*(lane(client) for _ in range(MAX_CONCURRENCY)))


async def by_notifier(url: str, office: Office, count: int) -> None:
    """Plan and deliver the notices of so many questions."""
    office.channels["ops"] = Channel("ops", Webhook(url), NOTICE_KINDS)
    assert await office.notifier.round() == count


async def timed(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Return the seconds that a work takes, and those of the processor."""
    before, used = time.perf_counter(), time.process_time()
    await work()
    return time.perf_counter() - before, time.process_time() - used


async def measure(seconds: float, count: int) -> tuple[Cell, ...]:
    """Return how long both take, as a row."""
    with TemporaryDirectory() as folder:
        office = Office(Path(folder))
        for start in range(0, count, WRITTEN_TOGETHER):
            numbers = range(start, min(start + WRITTEN_TOGETHER, count))
            office.store.append(RUN, [office.asked(f"q{number}") for number in numbers])
        async with receiver(seconds) as url:
            hand = await timed(lambda: by_hand(url, count))
            ours = await timed(lambda: by_notifier(url, office, count))
        office.store.close()
    times = [f"{time:.1f} s" for time in (hand[0], ours[0], hand[1], ours[1])]
    return (f"{seconds * 1000:.0f} ms", *times[:2], ours[0] / hand[0], *times[2:])


async def main(count: int) -> None:
    """Print a row for each receiver."""
    rows = [await measure(seconds, count) for seconds in SECONDS_EACH]
    head = ("receiver takes", "by hand", "Holdfast", "ratio", "processor by hand", "processor Holdfast")
    print_table(f"{count} notices to a webhook", head, rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["receive"]:
        asyncio.run(receive(float(sys.argv[2])))
    else:
        asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else NOTICES))
