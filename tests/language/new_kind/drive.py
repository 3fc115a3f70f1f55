"""Use the kind `pause` in a tree that has it: `python drive.py FOLDER SERVER` prints what each room says of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from holdfast.blueprint.explain import explain
from holdfast.blueprint.graph import graph
from holdfast.blueprint.load import loads, parse
from holdfast.blueprint.schema import language_schema
from tests.conftest import Harness, worker_for
from tests.server import connected


async def observed(folder: Path, server: str) -> dict[str, Any]:
    text = (folder / "pause.yaml").read_text()
    blueprint = loads(text, name="pausing")
    definitions = language_schema()["$defs"]
    client = await connected(server)
    harness = Harness(client, "new-kind", folder)
    async with worker_for(client, "new-kind"):
        run = await harness.start(text, "now")
        output = await harness.output(run)
        seen = await harness.runs.watch.trace(await harness.runs.state(run), None)
        await harness.replay()
    return {
        "problems": [str(problem) for problem in parse(text.replace("1ms", "2d"), name="pausing").problems],
        "unknown": [str(problem) for problem in parse(text.replace("pause", "puase"), name="pausing").problems],
        "explained": explain(blueprint).text,
        "graph": graph(blueprint),
        "schema": sorted(definitions["Pause"]["properties"].keys() - definitions["Cache"]["properties"].keys()),
        "kinds": definitions["Step"]["properties"]["kind"]["enum"],
        "output": output,
        "addresses": [step.address for step in seen.steps],
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(observed(Path(sys.argv[1]), sys.argv[2]))), flush=True)
    os._exit(0)  # a plain exit may abort in the SDK's threads (sdk-python issue 300)
