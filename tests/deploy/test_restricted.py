"""A worker and the inbox with a read-only root and without capabilities, as their containers run them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.conftest import until
from tests.crash.machines import Machines, find_free_port
from tests.repository import ROOT
from tests.skips import IN_TMP, UNSHARE

STATE = "/tmp/state"
# Every mount but those of the kernel becomes read-only; /tmp is new and empty, as in docker-compose.yml.
ENTER = r"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /tmp
mkdir /tmp/state
places=$(awk '$2 !~ "^/(proc|sys|dev|tmp)(/|$)" {print $2}' /proc/self/mounts)
for place in $places; do mount -o remount,bind,ro "$place"; done
cd /
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
"""
CACHED = """
steps:
  - {kind: cache, name: kept, key: a, wrapped_step: {name: call, uses: stringy, input: {text: hi}}}
  - {kind: hitl, name: ask, message: Go?}
"""


def _can_unshare() -> bool:
    tools = all(shutil.which(name) for name in ("unshare", "setpriv", "mount"))
    return tools and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _can_unshare(), reason=UNSHARE),
    pytest.mark.skipif(ROOT.is_relative_to("/tmp"), reason=IN_TMP),
]


async def restricted(machines: Machines, *words: str, port: int, **environment: str) -> subprocess.Popen[bytes]:
    """A command of ours that runs so, once it is ready."""
    command = ["unshare", "--mount", "sh", "-c", ENTER, "sh", str(Path(sys.executable).parent / "holdfast"), *words]
    given = {"TEMPORAL_ADDRESS": machines.address, "HOLDFAST_HOME": STATE, "PYTHONPATH": str(ROOT), **environment}
    process = subprocess.Popen(command, env={**os.environ, **given}, stdout=subprocess.DEVNULL)

    async def ready() -> bool:
        try:
            async with httpx.AsyncClient() as client:
                return (await client.get(f"http://127.0.0.1:{port}/readyz", timeout=30)).status_code == 200
        except httpx.HTTPError:
            return process.poll() is not None

    await until(ready, "the process")
    return process


def written(process: subprocess.Popen[bytes]) -> set[str]:
    """The files in its /tmp, without the companions of a database."""
    root = Path(f"/proc/{process.pid}/root/tmp")
    return {str(file.relative_to(root)).removesuffix("-wal").removesuffix("-shm") for file in root.rglob("*.*")}


def without_capabilities(process: subprocess.Popen[bytes]) -> bool:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return all(f"{name}:\t{0:016x}" in status for name in ("CapPrm", "CapEff", "CapBnd")) and "NoNewPrivs:\t1" in status


async def test_a_worker_works_and_writes_its_cache_alone(with_server: Machines) -> None:
    port, house = find_free_port(), await with_server.house()
    more = {"HOLDFAST_HEALTH_PORT": str(port), "HOLDFAST_IMPORTS": "tests.tools"}
    process = await restricted(with_server, "worker", "--processes", "2", port=port, **more)
    try:
        run = await house.start(CACHED)
        await house.answer(run, "yes")
        assert await house.output(run) == "yes"
        assert without_capabilities(process)
        assert written(process) == {"state/cache.db"}
    finally:
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 60) == 0


async def test_the_inbox_is_ready_and_writes_its_state_alone(with_server: Machines) -> None:
    await with_server.house()
    port = find_free_port()
    process = await restricted(with_server, "serve", "--host", "127.0.0.1", "--port", str(port), port=port)
    try:
        assert without_capabilities(process)
        assert written(process) <= {"state/record.sqlite", "state/record.key", "state/serve.key"}
    finally:
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 60) == 0
