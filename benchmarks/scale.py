"""What commands and the API take while many runs are parked, and how fast answers are taken that come at once.

    python -m benchmarks.scale [RUNS [ANSWERS]]

The worker and `holdfast serve`, with its recorder, are processes of their own; the server of Temporal is in memory.
Beside `holdfast runs` and `questions` stands `holdfast --version`, which connects to nothing: the rest is the list.
Answers are sent through the API by one program that has so many requests under way, each to another run's question.
Beside them stand as many answers to handwritten workflows, sent with Temporal's client alone: what the machine allows.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import httpx
import psutil
from temporalio.client import Client

from benchmarks.by_hand import Answer, ByHand, Work
from benchmarks.ground import server
from benchmarks.hand_worker import HAND_QUEUE
from benchmarks.inbox import WORKER, process, processor_seconds
from benchmarks.table import Cell, print_table
from benchmarks.worker_process import run_hand_worker
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.load import loads
from holdfast.client.runs import Runs
from holdfast.protocol.names import WAITING_ATTRIBUTE
from holdfast.runtime.errors import RunExists

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
PROCESSORS = os.cpu_count() or 1
HEAD = (
    "answers at once",
    "",
    "a second",
    "p50",
    "p95",
    "processor ms of the client",
    "of serve",
    "of the worker",
    "of the server",
    "of all",
    "a second at most, by these",
    "recorded after",
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
    """Start runs in batches until so many wait, and wait until visibility lists all as waiting."""
    runs, blueprint = Runs(client), loads(ASK, name="parked")
    begun = await count_waiting(client)
    for first in range(begun, count, STARTED_TOGETHER):
        numbers = range(first, min(first + STARTED_TOGETHER, count))
        await asyncio.gather(*(_start(runs, blueprint, f"parked-{number}") for number in numbers))
        if (first - begun) % BATCH < STARTED_TOGETHER:
            await _await_waiting(client, numbers.stop)
    await _await_waiting(client, count)


async def _start(runs: Runs, blueprint: Blueprint, run: str) -> None:
    with suppress(RunExists):  # a batch before this one was cut off
        await runs.start(blueprint, run=run)


async def count_waiting(client: Client) -> int:
    """Return the number of workflows that visibility lists as waiting."""
    return (await client.count_workflows(f"{WAITING_ATTRIBUTE} IS NOT NULL")).count


async def _await_waiting(client: Client, count: int) -> None:
    while await count_waiting(client) < count:
        await asyncio.sleep(0.2)


def find_server() -> psutil.Process:
    """Return the process of Temporal's server, which this one has started."""
    return next(one for one in psutil.Process().children(recursive=True) if one.name().startswith("temporal"))


@asynccontextmanager
async def deployment(client: Client, folder: Path, more: Mapping[str, str] | None = None) -> AsyncIterator[Place]:
    """Run a worker and `holdfast serve` beside a server, with a token of somebody who may answer.

    Args:
        client: A connection to the server.
        folder: For their state.
        more: Variables that they need beside that.
    """
    async with AsyncExitStack() as stack:
        address = client.service_client.config.target_host
        environment = {"TEMPORAL_ADDRESS": address, "HOLDFAST_HOME": str(folder), **(more or {})}
        worker = stack.enter_context(process([sys.executable, str(WORKER)], folder, environment))
        token = ["token", "create", "--user", "ana", "--scope", "read", "--scope", "answer", "--json"]
        made = subprocess.run(
            [*HOLDFAST, *token], cwd=folder, env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True
        )
        command = [*HOLDFAST, "serve", "--port", "0", "--as", "user:ana", "--json"]
        served = stack.enter_context(process(command, folder, environment))
        assert served.stdout is not None
        url = httpx.URL(json.loads(served.stdout.readline())["url"]).join("/api/v1/")
        headers = {"Authorization": f"Bearer {json.loads(made.stdout)['token']}"}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        api = httpx.AsyncClient(base_url=url, headers=headers, timeout=300, limits=limits)
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


Send = Callable[[int], Awaitable[None]]
"""Sends one answer, to the run of this number, and returns once it is accepted."""


def send_by_api(place: Place, question: str, ids: Mapping[str, str]) -> Send:
    """Return what answers through the API: by the id of the question where it is known, else by its name.

    Each answer has a connection of its own, as from a program of its own; httpx took a sixth of all processor time.
    """
    url, token = place.api.base_url, place.api.headers["Authorization"]

    async def send(number: int) -> None:
        named = ids.get(f"parked-{number}", question)
        body = json.dumps({"answers": [{"question": named, "content": f"yes {number}"}]}).encode()
        head = [
            f"POST {url.path}runs/parked-{number}/answers HTTP/1.1",
            f"Host: {url.netloc.decode()}",
            f"Authorization: {token}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        response = (await reader.read()).decode()
        writer.close()
        if (
            not response.startswith("HTTP/1.1 200")
            or json.loads(response.partition("\r\n\r\n")[2])[0]["status"] != "answered"
        ):
            raise RuntimeError(response)

    return send


def send_by_hand(client: Client, iteration: int) -> Send:
    """Return what answers the handwritten workflows of `benchmarks.by_hand` straight, with Temporal's client."""

    async def send(number: int) -> None:
        handle = client.get_workflow_handle_for(ByHand.run, f"hand-{number}")
        await handle.execute_update(ByHand.answer, Answer(question=f"q{iteration}", text=f"yes {number}"))

    return send


async def answer_all(label: str, send: Send, count: int, processes: Sequence[psutil.Process | None]) -> list[Cell]:
    """Answer so many runs at once, and return the row.

    Args:
        label: What the row says first.
        send: Sends one answer.
        count: The number of runs.
        processes: Whose processor time is counted: the client's, that of `serve`, the worker's, the server's.
    """
    times: list[float] = []

    async def answer(number: int) -> None:
        before = time.perf_counter()
        await send(number)
        times.append(time.perf_counter() - before)

    used = [0.0 if one is None else -processor_seconds(one) for one in processes]
    before = time.perf_counter()
    await asyncio.gather(*(answer(number) for number in range(count)))
    seconds = time.perf_counter() - before
    used = [0.0 if one is None else total + processor_seconds(one) for total, one in zip(used, processes, strict=True)]
    each = [f"{1000 * one / count:.1f}" for one in (*used, sum(used))]
    times_of_all = f"{median(times):.1f} s", f"{quantiles(times, n=20)[-1]:.1f} s"
    return [label, count, f"{count / seconds:.0f}", *times_of_all, *each, f"{PROCESSORS * count / sum(used):.0f}"]


async def park_by_hand(client: Client, count: int) -> None:
    """Start so many handwritten workflows, and wait until each asks."""
    work = Work(iterations=2, thinks="no")
    start = partial(client.start_workflow, ByHand.run, work, task_queue=HAND_QUEUE)
    for first in range(0, count, STARTED_TOGETHER):
        numbers = range(first, min(first + STARTED_TOGETHER, count))
        handles = await asyncio.gather(*(start(id=f"hand-{number}") for number in numbers))
        await asyncio.gather(*(handle.query(ByHand.waiting) for handle in handles))


async def answer_by_hand(client: Client, folder: Path, count: int, server: psutil.Process) -> list[list[Cell]]:
    """Answer handwritten workflows without any API between, and return a row for each of two rounds."""
    with run_hand_worker(client, folder) as worker:
        await park_by_hand(client, count)
        processes = [psutil.Process(), None, psutil.Process(worker.pid), server]
        label = "by hand, without an API"
        return [await answer_all(label, send_by_hand(client, n), count, processes) for n in (1, 2)]


async def await_record(place: Place, count: int, question: str) -> float:
    """Wait until the record has so many answers to a question, and return the seconds."""
    before = time.perf_counter()
    with sqlite3.connect(f"file:{place.folder / 'record.sqlite'}?mode=ro", uri=True) as record:
        kept = "SELECT count(*) FROM record_entries WHERE type = 'question.answered' AND address LIKE ?"
        while record.execute(kept, (f"%hitl:{question}",)).fetchone()[0] < count:
            await asyncio.sleep(0.2)
    return time.perf_counter() - before


async def answer_by_api(place: Place, count: int, server: psutil.Process) -> list[list[Cell]]:
    """Answer the parked runs through the API, by name and by id in turn, and return a row for each round."""
    processes, rows = [psutil.Process(), place.serve, place.worker, server], []
    for n in range(ROUNDS):
        question, by_id = f"ask-{n}", n % 2 == 1
        send = send_by_api(place, question, await list_ids(place) if by_id else {})
        row = await answer_all("by the id" if by_id else "by the name of its step", send, count, processes)
        rows.append([*row, f"{await await_record(place, count, question):.0f} s"])
    return rows


async def main(count: int, answers: int) -> None:
    """Park, measure and print."""
    answers = min(answers, count)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        client = await stack.enter_async_context(server())
        place = await stack.enter_async_context(deployment(client, folder))
        before = time.perf_counter()
        await park(client, count)
        parked = time.perf_counter() - before
        rows = [time_command(place, words) for words in COMMANDS]
        rows += [await time_list(place, path) for path in LISTS]
        title = f"First pages with {count} parked runs (parking took {parked:.0f} s)"
        print_table(title, ("", "first time", "later", "processor time of the command, or of serve"), rows)
        temporal = find_server()
        by_hand = await answer_by_hand(client, place.folder, answers, temporal)
        print_table("Answers at once", HEAD, [*by_hand, *await answer_by_api(place, answers, temporal)])


if __name__ == "__main__":
    asyncio.run(main(*(int(text) for text in (*sys.argv[1:], *map(str, (RUNS, ANSWERS)[len(sys.argv) - 1 :])))))
    sys.stdout.flush()
    os._exit(0)
