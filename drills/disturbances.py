"""What happens to the processes under drill: killed, told to end, frozen, or cut off from the server, for seconds."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

from drills.network import HOST, MODES, Link
from tests.crash.machines import Machines

IMPORTS = "drills.tools"
GRACE = "1"
"""Seconds that a worker leaves to what is under way."""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
LONGEST_FREEZE = 6.0
LOOK_SECONDS = 0.5
CUT_SHARE = 0.3
"""The share of the disturbances that are of the network."""
LINKED = ("worker", "serve")
"""The processes whose way to the server is disturbed, too."""


class Processes(Machines):
    """The server, the worker and `serve`, each of which can be disturbed."""

    names: tuple[str, ...] = ("worker", "worker", "server", "serve")
    """What is disturbed; the worker twice as often: it is what most depends on."""
    record = 'store = "sqlite:record.sqlite"'
    """Where the record is, as `holdfast.toml` says it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.links: dict[str, Link] = {}

    async def begin(self, dice: random.Random) -> None:
        """Start everything."""
        (self.folder / "holdfast.toml").write_text(f"[record]\n{self.record}\n")
        self.links = {name: Link(self.port, dice) for name in LINKED}
        for link in self.links.values():
            await link.begin()
        await self.begin_server()
        for name in ("worker", "serve"):
            self.start(name)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a worker and `serve` need beside those of every process here."""
        return {}

    async def begin_server(self) -> None:
        """Start Temporal's server, with the state that a server has left in the folder."""
        self.start("server")

    def start(self, name: str) -> None:
        """Start a process by its name."""
        match name:
            case "worker":
                payloads = f"dir:{self.folder / 'payloads'}"
                more = {"HOLDFAST_PAYLOADS": payloads, "TEMPORAL_ADDRESS": self._find_address(name)}
                self.start_worker(HOLDFAST_IMPORTS=IMPORTS, HOLDFAST_GRACE=GRACE, **more)
            case "server":
                self.start_server()
            case _:
                payloads = f"dir:{self.folder / 'payloads'}"
                command = [sys.executable, "-m", "holdfast", "serve", "--port", "0"]
                address = self._find_address(name)
                self._start("serve", command, HOLDFAST_PAYLOADS=payloads, TEMPORAL_ADDRESS=address)

    def _find_address(self, name: str) -> str:
        return f"{HOST}:{self.links[name].port}" if name in self.links else self.address

    async def disturb(self, name: str, by: signal.Signals, dice: random.Random) -> signal.Signals:
        """Send a signal to a process, and have it there again; return the signal."""
        os.kill(self.pid(name), by)
        if by == signal.SIGSTOP:
            await asyncio.sleep(dice.uniform(1, LONGEST_FREEZE))
            os.kill(self.pid(name), signal.SIGCONT)
            return by
        await self.ended(name)
        self.start(name)
        return by

    def stop(self) -> None:
        """See base class."""
        super().stop()
        for link in self.links.values():
            link.stop()

    async def revive(self) -> None:
        """Start each process again that ends by itself, until cancelled: killed by a call, or as it met no server."""
        while True:
            for name in LINKED:
                if self.has_ended(name):
                    self.start(name)
            await asyncio.sleep(LOOK_SECONDS)


async def disturb_all(
    processes: Processes, dice: random.Random, seconds: float, pauses: tuple[float, float]
) -> Counter[str]:
    """Disturb a process or its way to the server after each pause, for so long; return how often, by name and how."""
    counts: Counter[str] = Counter()
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        await asyncio.sleep(dice.uniform(*pauses))
        if dice.random() < CUT_SHARE:
            name, mode = dice.choice(LINKED), dice.choice(MODES)
            await processes.links[name].disturb(mode, dice.uniform(1, LONGEST_FREEZE))
            counts[f"{name} {mode}"] += 1
            continue
        name, by = dice.choice(processes.names), dice.choice(SIGNALS)
        sent = await processes.disturb(name, by, dice)
        counts[f"{name} {sent.name}"] += 1
    return counts
