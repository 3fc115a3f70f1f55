"""The tools of the runs under drill: slow, and each effect is a line of a file."""

from __future__ import annotations

import asyncio
import operator
import os
import random
import signal
import zlib
from pathlib import Path
from typing import Annotated, Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from temporalio.exceptions import ApplicationError
from typing_extensions import TypedDict

from holdfast import tool

EFFECTS = "effects"
"""The file of the effects, one a line."""
LONG = "x" * 40_000
"""What goes to the payload store."""
STUMBLES = 12
"""A run has some twenty such calls, and each lost worker holds all runs up until the next one has started."""


async def linger() -> None:
    """Take as long as a slow service."""
    await asyncio.sleep(random.uniform(0.1, 3))


def list_effects(folder: Path) -> list[str]:
    """Return the effects that were made, in their order."""
    path = folder / EFFECTS
    return path.read_text().splitlines() if path.exists() else []


@tool
async def charge(folder: str, key: str) -> str:
    """Charge a card: it may not run twice."""
    with (Path(folder) / EFFECTS).open("a") as file:
        file.write(f"{key}\n")
    await linger()
    return f"charged {key}"


@tool
async def bill(folder: str, key: str) -> str:
    """Charge a card, and return a bill that is too long for Temporal: it goes to the payload store."""
    return f"{await charge(folder, key)} {LONG}"


@tool(idempotent=True)
async def fetch(key: str) -> str:
    """Return a long text: it may run as often as need be."""
    return f"{await search(key)} {LONG}"


@tool(idempotent=True)
async def falter(folder: str, key: str, times: int) -> str:
    """Fail so many times, and then no more."""
    path = Path(folder) / f"faltered-{key}"
    count = len(path.read_text().splitlines()) if path.exists() else 0
    if count < times:
        path.write_text("x\n" * (count + 1))
        raise ApplicationError(f"it has failed {count + 1} times", non_retryable=True)
    return "went well"


@tool(idempotent=True)
async def search(key: str) -> str:
    """Search for something: it may run as often as need be."""
    await linger()
    return f"found {key}"


@tool(idempotent=True, local=True)
def quote(key: str) -> str:
    """Say a price, in the workflow's own task."""
    return f"quoted {key}"


@tool(idempotent=True, local=True)
def stumble(folder: str, key: str) -> str:
    """Say a price; of one key in `STUMBLES` the first call kills its worker, as a fault in a library does."""
    path = Path(folder) / f"stumbled-{key}"
    if zlib.crc32(key.encode()) % STUMBLES == 0 and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return f"quoted {key}"


class Draft(TypedDict):
    """The state of the graph."""

    key: str
    log: Annotated[list[str], operator.add]


def _node(name: str) -> Any:
    async def work(state: Draft) -> dict[str, list[str]]:
        await linger()
        return {"log": [name]}

    return work


def _graph() -> Any:
    builder = StateGraph(Draft)
    for name in ("read", "write", "check"):
        builder.add_node(name, _node(name))
    for one, other in ((START, "read"), ("read", "write"), ("write", "check"), ("check", END)):
        builder.add_edge(one, other)
    return builder.compile(checkpointer=InMemorySaver())


drafting = _graph()
