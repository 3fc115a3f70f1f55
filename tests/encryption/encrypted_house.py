"""A house whose client and worker encrypt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from temporalio.client import Client

from holdfast.activities import all_activities, store_at
from holdfast.runtime.connection import make_converter
from holdfast.runtime.encryption import KeyRing
from holdfast.runtime.payloads.checkpoints import open_checkpoints
from holdfast.runtime.sealed_cache import SealedCache
from tests.conftest import TOOLS, Harness, worker_for

OLD, NEW = {"old": "o" * 40}, {"new": "n" * 40}
MARK = "marzipan"
"""A word that is in every text of the run, and nowhere else."""


def secretive(client: Client, folder: Path, keys: dict[str, str]) -> Client:
    config = client.config()
    config["data_converter"] = make_converter(f"dir:{folder / 'payloads'}", ring=KeyRing(keys))
    return Client(**config)


@asynccontextmanager
async def house_of(client: Client, folder: Path, keys: dict[str, str], queue: str) -> AsyncIterator[Harness]:
    client, ring = secretive(client, folder, keys), KeyRing(keys)
    cache = SealedCache(store_at(f"sqlite:{folder / 'cache.db'}"), ring)
    checkpoints = open_checkpoints(f"dir:{folder / 'payloads'}")
    activities = all_activities([TOOLS], {}, cache=cache, checkpoints=checkpoints)
    async with worker_for(client, queue, activities=activities):
        yield Harness(client, queue, folder)
    await cache.close()


DECODE, ENCODE = "/api/codec/decode", "/api/codec/encode"
ASK = f"""
name: ask
steps:
  - {{kind: hitl, name: ask, message: "Is {MARK} right?"}}
"""
