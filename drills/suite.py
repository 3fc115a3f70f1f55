"""The project's own tests on a cluster: `python -m drills.suite BUILT TESTS…`, with what pytest takes.

The server is the processes of `drills.cluster` on PostgreSQL, with the settings of a deployment; those that make the
server of `tests.server` quick are missing, so that the tests take longer.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from drills.cluster import NoToolchain, make_cluster
from tests.repository import ROOT
from tests.server import OTHER_SERVER, namespaces


async def run_tests(built: Path, tests: Sequence[str]) -> int:
    """Run pytest on a new cluster, and return its exit code. Raises `NoToolchain`."""
    processes = make_cluster(Path(tempfile.mkdtemp(prefix="holdfast-suite-")), built)
    try:
        await processes.begin_server()
        for name in namespaces():
            await processes.make_namespace(name)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, OTHER_SERVER: processes.address}
        return (await asyncio.to_thread(subprocess.run, command, env=environment, cwd=ROOT, check=False)).returncode
    finally:
        processes.stop()


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(run_tests(Path(sys.argv[1]).resolve(), sys.argv[2:])))
    except NoToolchain as error:
        sys.exit(f"no cluster: {error}")
