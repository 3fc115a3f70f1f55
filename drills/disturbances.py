"""What happens to the processes under drill: killed, told to end, frozen; each is there again within seconds."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter

from tests.crash.machines import Machines

IMPORTS = "drills.tools"
GRACE = "1"
"""Seconds that a worker leaves to what is under way."""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
LONGEST_FREEZE = 6.0


class Processes(Machines):
    """The server, the worker and `serve`, each of which can be disturbed."""

    names: tuple[str, ...] = ("worker", "worker", "server", "serve")
    """What is disturbed; the worker twice as often: it is what most depends on."""
    record = 'store = "sqlite:record.sqlite"'
    """Where the record is, as `holdfast.toml` says it."""

    async def begin(self) -> None:
        """Start everything."""
        (self.folder / "holdfast.toml").write_text(f"[record]\n{self.record}\n")
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
                self.start_worker(HOLDFAST_IMPORTS=IMPORTS, HOLDFAST_GRACE=GRACE, HOLDFAST_PAYLOADS=payloads)
            case "server":
                self.start_server()
            case _:
                payloads = f"dir:{self.folder / 'payloads'}"
                command = [sys.executable, "-m", "holdfast", "serve", "--port", "0"]
                self._start("serve", command, HOLDFAST_PAYLOADS=payloads)

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


async def disturb_all(
    processes: Processes, dice: random.Random, seconds: float, pauses: tuple[float, float]
) -> Counter[str]:
    """Disturb a process after each pause, for so long; return how often each was, by name and signal."""
    counts: Counter[str] = Counter()
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        await asyncio.sleep(dice.uniform(*pauses))
        name, by = dice.choice(processes.names), dice.choice(SIGNALS)
        sent = await processes.disturb(name, by, dice)
        counts[f"{name} {sent.name}"] += 1
    return counts
