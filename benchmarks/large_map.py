"""A benchmark of a map of many items: its time, the size of its histories, and the worker's memory.

`python -m benchmarks.large_map [ITEMS]` (default 100,000, some minutes).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from temporalio.client import Client

from benchmarks.ground import server
from benchmarks.table import Cell, print_table
from holdfast.blueprint.load import loads
from holdfast.client.runs import Runs
from holdfast.runtime.connection import make_converter

BLUEPRINT = """
name: large
steps: [{kind: map, name: m, map: {iterable_input: input.items, body: {name: a, input: "{{ item + 1 }}"}}}]
"""
WORKER = Path(__file__).parent.parent / "worker.py"


async def main(items: int) -> None:
    async with server() as plain:
        with tempfile.TemporaryDirectory() as folder:
            place = f"dir:{folder}/payloads"
            address = plain.service_client.config.target_host
            client = await Client.connect(address, data_converter=make_converter(place))
            environment = {**os.environ, "TEMPORAL_ADDRESS": address, "HOLDFAST_PAYLOADS": place}
            with subprocess.Popen([sys.executable, str(WORKER)], env=environment, stderr=subprocess.DEVNULL) as worker:
                await _measure(client, items, worker.pid)
                worker.terminate()


async def _measure(client: Client, items: int, worker: int) -> None:
    runs = Runs(client)
    began = time.perf_counter()
    run = await runs.start(loads(BLUEPRINT, name="large"), {"items": list(range(items))})
    outcome = await runs.result(run)
    took = time.perf_counter() - began
    assert outcome.output == [n + 1 for n in range(items)], outcome.error
    workflows = [description.id async for description in client.list_workflows("WorkflowType = 'Map'")]
    looked_at = [run, *sorted(workflows, key=len)[:60]]  # the map itself, pages of pages, and some pages
    histories = [await client.get_workflow_handle(workflow_id).fetch_history() for workflow_id in looked_at]
    rows: list[tuple[Cell, ...]] = [
        ("workflows", len(workflows)),
        ("time", f"{took:.0f} s, {took / items * 1000:.1f} ms an item"),
        ("most events in a history", max(len(history.events) for history in histories)),
        ("most bytes in a history", max(sum(event.ByteSize() for event in history.events) for history in histories)),
        ("largest memory of the worker", f"{_peak(worker) / 1024:.0f} MiB"),
    ]
    print_table(f"A map of {items} items", ("", "figure"), rows)


def _peak(process: int) -> int:
    """Return the peak memory of a process, in KiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
    sys.stdout.flush()
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit
