"""The time of a page of the inbox, and of a question's page, while many runs are parked.

Beside the wall time, which the load of the machine makes, stands the processor time of the server for each page. It
includes what its recorder and its notifier do meanwhile.

`python -m benchmarks.inbox [RUNS]`; 10,000 take some minutes to start. The worker and `holdfast serve`, with its
recorder and its notifier, are processes of their own; the server of Temporal is in memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import httpx
import psutil
from temporalio.client import Client

from benchmarks.ground import server
from benchmarks.table import Cell, print_table
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.load import loads
from holdfast.client.runs import Runs
from holdfast.protocol.names import WAITING_ATTRIBUTE

RUNS = 1_000
ROUNDS = 200
AIM_MS = 300
STARTED_TOGETHER = 40
WORKER = Path(__file__).parent.parent / "worker.py"
ASK = """
name: {name}
steps: [{{kind: hitl, name: ask, message: "May {{{{ input }}}} be paid?", options: [pay, refuse], assignees: [{who}]}}]
"""
TABS = ["/", "/?for=mine", "/?for=all", "/?blueprint=bob&for=all", "/?for=anyone&age=1h", "/?sort=deadline"]
"""What a person looks at, in turn."""
WHO = {"anyone": "", "ana": "'user:ana'", "bob": "'user:bob'", "editors": "'group:editors'"}
"""Blueprints by name, with the assignees of their question: a quarter of the runs each."""


@dataclass(frozen=True)
class Inbox:
    """A browser that has signed in, and the server's process."""

    browser: httpx.AsyncClient
    server: psutil.Process


def blueprints() -> list[Blueprint]:
    return [loads(ASK.format(name=name, who=who), name=name) for name, who in WHO.items()]


async def park(client: Client, count: int) -> None:
    """Start so many runs, and wait until visibility lists each of them as waiting."""
    runs, texts = Runs(client), blueprints()
    for start in range(0, count, STARTED_TOGETHER):
        numbers = range(start, min(start + STARTED_TOGETHER, count))
        await asyncio.gather(*(runs.start(texts[number % len(texts)], f"{number} euros") for number in numbers))
    while (await client.count_workflows(f"{WAITING_ATTRIBUTE} IS NOT NULL")).count < count:
        await asyncio.sleep(0.5)


@contextmanager
def process(command: list[str], place: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a command for as long as the block."""
    with (place / "log").open("a") as log:
        started = subprocess.Popen(
            command, cwd=place, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            yield started
        finally:
            started.kill()
            started.wait()


async def milliseconds(browser: httpx.AsyncClient, address: str) -> float:
    before = time.perf_counter()
    (await browser.get(address)).raise_for_status()
    return (time.perf_counter() - before) * 1000


def processor_seconds(server: psutil.Process) -> float:
    """Return the processor time that a process has used."""
    used = server.cpu_times()
    return float(used.user + used.system)


async def measure(what: str, inbox: Inbox, addresses: Sequence[str], together: int = 1) -> tuple[Cell, ...]:
    """Get the addresses in turn, some at a time, and return how long they took, as a row."""
    asked = [addresses[number % len(addresses)] for number in range(ROUNDS)]
    times: list[float] = []
    used = processor_seconds(inbox.server)
    for start in range(0, ROUNDS, together):
        times += await asyncio.gather(*(milliseconds(inbox.browser, one) for one in asked[start : start + together]))
    used = (processor_seconds(inbox.server) - used) / ROUNDS * 1000
    return what, f"{median(times):.0f} ms", f"{quantiles(times, n=20)[-1]:.0f} ms", f"{used:.0f} ms"


async def look(inbox: Inbox, count: int) -> list[tuple[Cell, ...]]:
    """Look at pages, and return how long they took."""
    browser = inbox.browser
    rows = [await measure("the inbox", inbox, TABS)]
    links: list[str] = []
    while not links:  # a busy worker may leave a list empty
        links = re.findall(r'href="(/questions/[^"]+)"', (await browser.get("/?for=all")).text)
    rows.append(await measure("a question", inbox, [unescape(link) for link in dict.fromkeys(links)]))
    rows.append(await measure("the inbox, ten at a time", inbox, TABS, 10))
    last = max(2, min(count // 50, ROUNDS))
    later = [f"/?for=all&page={page}" for page in range(2, last + 1)]
    return [*rows, await measure(f"pages 2 to {last}", inbox, later)]


async def main(count: int) -> None:
    with TemporaryDirectory() as folder, ExitStack() as processes:
        async with server() as client:
            place = Path(folder)
            environment = {"TEMPORAL_ADDRESS": client.service_client.config.target_host, "HOLDFAST_HOME": folder}
            worker = process([sys.executable, str(WORKER)], place, environment)
            processes.enter_context(worker)
            began = time.perf_counter()
            await park(client, count)
            parked = time.perf_counter() - began
            serve = [sys.executable, "-m", "holdfast.cli", "serve", "--port", "0", "--as", "user:ana", "--json"]
            served = processes.enter_context(process(serve, place, environment))
            assert served.stdout is not None
            line = served.stdout.readline()
            async with httpx.AsyncClient(follow_redirects=True, timeout=60) as browser:
                signed_in = await browser.get(json.loads(line)["url"])
                browser.base_url = signed_in.url.join("/")
                try:
                    rows = await look(Inbox(browser, psutil.Process(served.pid)), count)
                except httpx.HTTPError:
                    sys.stderr.write((place / "log").read_text()[-10_000:])
                    raise
    title = f"Pages with {count} parked runs (parking took {parked:.0f} s); aim of the list: {AIM_MS} ms"
    print_table(title, ("", "p50", "p95", "processor a page"), rows)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS))
    sys.stdout.flush()
    os._exit(0)
