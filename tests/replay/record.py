"""Records the histories that every later version must still replay: `python -m tests.replay.record [NAME …]`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from temporalio.testing import WorkflowEnvironment

from client.connection import DATA_CONVERTER
from tests.conftest import ATTRIBUTES, Harness, temporal_binary, worker_for
from tests.loops.test_loops import MORE_OR_STOP, NESTED, answered

HERE = Path(__file__).parent / "histories"

BRANCHES = """
agents: {echo: {model: echo}}
steps:
  - {name: seed, uses: context_set, input: {path: chosen, value: left}}
  - kind: conditional
    name: which
    condition_expression: context.chosen
    branches:
      left: {kind: hitl, name: ask, ask: decision, message: "{{ input }}?", options: [go, stop], sink_to: said}
  - {name: bad, input: "{{ 1 / 0 }}", on_error: {fallback: {name: instead, input: "{{ error.type }}"}}}
  - {name: last, agent: echo, input: "{{ context.said }} {{ steps.bad.output }}"}
"""
DEADLINE = "steps: [{kind: hitl, name: ask, message: Go?, timeout: 1s, default: nobody}]"
FAILS = "steps: [{kind: loop, name: l, loop: {max_loops: 2, exit_expression: output == 'x', body: [{name: a}]}}]"


async def loop(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP, "start")
    await answered(house, run, "more", "stop")
    await house.result(run)


async def continued(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP.replace("max_loops: 5", "checkpoint_every: 2"), "start")
    await answered(house, run, "a", "b", "c", "stop")
    await house.result(run)


async def nested(house: Harness) -> None:
    run = await house.start(NESTED)
    await answered(house, run, "again", "next", "next")
    await house.result(run)


async def branches(house: Harness) -> None:
    run = await house.start(BRANCHES, "on")
    await answered(house, run, "go")
    await house.result(run)


async def deadline(house: Harness) -> None:
    await house.result(await house.start(DEADLINE))


async def fails(house: Harness) -> None:
    await house.result(await house.start(FAILS))


async def paused_and_cancelled(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP, "start")
    await house.one(run)
    await house.runs.pause(run)
    await house.answer(run, "more")
    await house.runs.resume(run)
    await house.one(run)
    await house.runs.cancel(run)
    await house.result(run)


FLOWS: list[Callable[[Harness], Awaitable[None]]] = [
    loop,
    continued,
    nested,
    branches,
    deadline,
    fails,
    paused_and_cancelled,
]


async def record(names: list[str]) -> None:
    HERE.mkdir(exist_ok=True)
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=temporal_binary(), data_converter=DATA_CONVERTER, search_attributes=ATTRIBUTES
    ) as server:
        with tempfile.TemporaryDirectory() as folder:
            house = Harness(server.client, "record", Path(folder))
            async with worker_for(server.client, "record"):
                for flow in FLOWS:
                    if not names or flow.__name__ in names:
                        await _record(house, flow)


async def _record(house: Harness, flow: Callable[[Harness], Awaitable[None]]) -> None:
    house.started.clear()
    await flow(house)
    for number, history in enumerate(await house.histories(house.started[0])):
        text = json.dumps(_without_places(json.loads(history.to_json())), indent=1)
        (HERE / f"{flow.__name__}-{number}.json").write_text(text + "\n")


def _without_places(value: Any) -> Any:
    """The history without stack traces and identities: they name the machine, and replay does not read them."""
    match value:
        case dict():
            return {key: _without_places(part) for key, part in value.items() if key not in ("stackTrace", "identity")}
        case list():
            return [_without_places(part) for part in value]
    return value


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1:]))
    sys.stdout.flush()
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit
