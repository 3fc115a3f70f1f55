"""What commands and the API take while many runs are parked, and how fast answers are taken that come at once.

    python -m benchmarks.scale [RUNS [ANSWERS]]

The worker and `holdfast serve`, with its recorder, are processes of their own; the server of Temporal is in memory.
Beside `holdfast runs` and `questions` stands `holdfast --version`, which connects to nothing: the rest is the list.
Answers are sent through the API by one program that has so many requests under way, each to another run's question.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import httpx
import psutil
from temporalio.client import Client

from benchmarks.ground import server
from benchmarks.inbox import WORKER, process, processor_seconds
from benchmarks.table import Cell, print_table
from holdfast.blueprint.load import loads
from holdfast.client.runs import Runs
from holdfast.protocol.names import WAITING_ATTRIBUTE

RUNS, ANSWERS = 5_000, 500
BATCH = 500
"""Runs that are parked before the next ones are started."""
STARTED_TOGETHER = 40
TIMES = 5
ROUNDS = 4
"""How often every run of those that are answered is answered."""
ASK = (
    f"name: parked\nsteps: {[{'kind': 'hitl', 'name': f'ask-{n}', 'message': 'May it be paid?'} for n in range(20)]}\n"
)
COMMANDS = ["--version", "runs", "runs --waiting", "questions"]
LISTS = ["runs", "runs?status=waiting", "questions", "questions?for=me"]


@dataclass(frozen=True)
class Place:
    """A deployment: its folder, the environment of its commands, its API and its processes."""

    folder: Path
    environment: dict[str, str]
    api: httpx.AsyncClient
    serve: psutil.Process
    worker: psutil.Process


async def park(client: Client, count: int) -> None:
    """Start so many runs in batches, and wait until visibility lists all as waiting."""
    runs, blueprint = Runs(client), loads(ASK, name="parked")
    for first in range(0, count, STARTED_TOGETHER):
        numbers = range(first, min(first + STARTED_TOGETHER, count))
        await asyncio.gather(*(runs.start(blueprint, run=f"parked-{number}") for number in numbers))
        if first % BATCH < STARTED_TOGETHER:
            await _await_waiting(client, numbers.stop)
    await _await_waiting(client, count)


async def _await_waiting(client: Client, count: int) -> None:
    while (await client.count_workflows(f"{WAITING_ATTRIBUTE} IS NOT NULL")).count < count:
        await asyncio.sleep(0.2)


@asynccontextmanager
async def deployment(client: Client) -> AsyncIterator[Place]:
    """Run a worker and `holdfast serve` beside a server, with a token of somebody who may answer."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        environment = {"TEMPORAL_ADDRESS": client.service_client.config.target_host, "HOLDFAST_HOME": str(folder)}
        worker = stack.enter_context(process([sys.executable, str(WORKER)], folder, environment))
        token = ["token", "create", "--user", "ana", "--scope", "read", "--scope", "answer", "--json"]
        made = subprocess.run(
            [*HOLDFAST, *token], cwd=folder, env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True
        )
        command = [*HOLDFAST, "serve", "--port", "0", "--as", "user:ana", "--json"]
        served = stack.enter_context(process(command, folder, environment))
        assert served.stdout is not None
        address = httpx.URL(json.loads(served.stdout.readline())["url"]).join("/api/v1/")
        headers = {"Authorization": f"Bearer {json.loads(made.stdout)['token']}"}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        api = httpx.AsyncClient(base_url=address, headers=headers, timeout=300, limits=limits)
        await stack.enter_async_context(api)
        yield Place(folder, environment, api, psutil.Process(served.pid), psutil.Process(worker.pid))


HOLDFAST = [sys.executable, "-m", "holdfast"]


def time_command(place: Place, words: str) -> list[Cell]:
    """Run a command some times, and return its row."""
    times, used = [], []
    environment = {**os.environ, **place.environment, "PYTHONPATH": str(WORKER.parent)}
    for _ in range(TIMES):
        before, quiet = time.perf_counter(), subprocess.DEVNULL
        started = subprocess.Popen(
            [*HOLDFAST, *words.split()], cwd=place.folder, env=environment, stdout=quiet, stderr=quiet
        )
        _, status, resources = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        times.append(time.perf_counter() - before)
        used.append(resources.ru_utime + resources.ru_stime)
    return [f"`holdfast {words}`", *_two(times), f"{median(used):.2f} s"]


async def time_list(place: Place, path: str) -> list[Cell]:
    """Get the first page of a list some times, and return its row."""
    times, used = [], processor_seconds(place.serve)
    for _ in range(TIMES):
        before = time.perf_counter()
        (await place.api.get(path)).raise_for_status()
        times.append(time.perf_counter() - before)
    used = (processor_seconds(place.serve) - used) / TIMES
    return [f"`GET /api/v1/{path}`", *_two(times), f"{used:.2f} s"]


def _two(times: Sequence[float]) -> tuple[str, str]:
    """Return the first time, of which nothing was known before, and the median of the others."""
    return f"{times[0]:.2f} s", f"{median(times[1:]):.2f} s"


async def list_ids(place: Place) -> dict[str, str]:
    """List all open questions by the API, page by page; return the id of each by its run."""
    ids: dict[str, str] = {}
    following = "questions"
    while following:
        response = (await place.api.get(following)).raise_for_status()
        ids |= {row["run"]: row["id"] for row in response.json() if "id" in row}  # else no worker tells
        following = response.links.get("next", {}).get("url", "").removeprefix("/api/v1/")
    return ids


async def answer_all(place: Place, count: int, question: str, *, by_id: bool) -> list[Cell]:
    """Answer the question of so many runs at once, by the name of its step or by its id, and return the row."""
    times: list[float] = []
    ids = await list_ids(place) if by_id else {}

    async def answer(number: int) -> None:
        named = ids.get(f"parked-{number}", question)
        body = {"answers": [{"question": named, "content": f"yes {number}"}]}
        before = time.perf_counter()
        response = await place.api.post(f"runs/parked-{number}/answers", json=body)
        if response.status_code != 200:
            raise RuntimeError(response.text)
        assert response.json()[0]["status"] == "answered", response.text
        times.append(time.perf_counter() - before)

    used = [processor_seconds(one) for one in (place.serve, place.worker)]
    before = time.perf_counter()
    await asyncio.gather(*(answer(number) for number in range(count)))
    seconds = time.perf_counter() - before
    serve, worker = (processor_seconds(one) - was for one, was in zip((place.serve, place.worker), used, strict=True))
    rate, p95 = f"{count / seconds:.0f}", f"{quantiles(times, n=20)[-1]:.1f} s"
    each = [f"{1000 * used / count:.1f}" for used in (serve, worker)]
    return [
        "id" if by_id else "name of the step",
        count,
        rate,
        f"{median(times):.1f} s",
        p95,
        *each,
        f"{await await_record(place, count, question):.0f} s",
    ]


async def await_record(place: Place, count: int, question: str) -> float:
    """Wait until the record has so many answers to a question, and return the seconds."""
    before = time.perf_counter()
    with sqlite3.connect(f"file:{place.folder / 'record.sqlite'}?mode=ro", uri=True) as record:
        kept = "SELECT count(*) FROM record_entries WHERE type = 'question.answered' AND address LIKE ?"
        while record.execute(kept, (f"%hitl:{question}",)).fetchone()[0] < count:
            await asyncio.sleep(0.2)
    return time.perf_counter() - before


async def main(count: int, answers: int) -> None:
    """Park, measure and print."""
    async with server() as client, deployment(client) as place:
        before = time.perf_counter()
        await park(client, count)
        parked = time.perf_counter() - before
        rows = [time_command(place, words) for words in COMMANDS]
        rows += [await time_list(place, path) for path in LISTS]
        title = f"First pages with {count} parked runs (parking took {parked:.0f} s)"
        print_table(title, ("", "first time", "later", "processor time of the command, or of serve"), rows)
        head = (
            "answers at once",
            "a second",
            "p50",
            "p95",
            "ms of serve each",
            "ms of the worker each",
            "recorded after",
        )
        rounds = [await answer_all(place, min(answers, count), f"ask-{n}", by_id=n % 2 == 1) for n in range(ROUNDS)]
        print_table("Answers through the API", head, rounds)


if __name__ == "__main__":
    asyncio.run(main(*(int(text) for text in (*sys.argv[1:], *map(str, (RUNS, ANSWERS)[len(sys.argv) - 1 :])))))
    sys.stdout.flush()
    os._exit(0)
