"""What happens to the processes under drill, for seconds: killed, told to end, frozen, cut off from the server, their
disk or the server's full; and until the next time: their clock wrong."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from drills.clock import FARTHEST, follow_clock, set_clock
from drills.disk import Disk
from drills.network import HOST, MODES, Link
from holdfast.runtime.connection import make_converter
from tests.crash.machines import Machines

IMPORTS = "drills.tools"
GRACE = "1"
"""Seconds that a worker leaves to what is under way."""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
LONGEST_FREEZE = 6.0
LOOK_SECONDS = 0.5
SERVER_MEGABYTES = 256
"""The disk of the server's database: runs of ten minutes fit on it."""
SHARES = {"process": 0.5, "link": 0.25, "clock": 0.15, "disk": 0.1}
"""The share of the disturbances that are of each kind."""
CLOCKS = ("worker", "serve", "client")
"""The processes whose clock jumps; the client is the drill itself."""
LINKED = ("worker", "serve")
"""The processes whose way to the server is disturbed, too."""


class Processes(Machines):
    """The server, the worker and `serve`, each of which can be disturbed."""

    names: tuple[str, ...] = ("worker", "worker", "server", "serve")
    """What is disturbed; the worker twice as often: it is what most depends on."""
    record = 'store = "sqlite:disk/record.sqlite"'
    """Where the record is, as `holdfast.toml` says it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.links: dict[str, Link] = {}
        self.disk = Disk(folder / "disk")
        self.disks = {"disk": self.disk, "server's disk": Disk(folder / "server", SERVER_MEGABYTES)}
        self.database = self.disks["server's disk"].folder / "temporal.db"
        self._payloads = f"dir:{self.disk.folder / 'payloads'}"
        self.converter = make_converter(self._payloads)

    async def begin(self, dice: random.Random) -> None:
        """Start everything."""
        self.make_folders()
        (self.folder / "holdfast.toml").write_text(f"[record]\n{self.record}\n")
        self.links = {name: Link(self.port, dice) for name in LINKED}
        for link in self.links.values():
            await link.begin()
        await self.begin_server()
        for name in ("worker", "serve"):
            self.start(name)

    def make_folders(self) -> None:
        """Make the folders that the processes write to."""
        for disk in self.disks.values():
            disk.folder.mkdir(exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a worker and `serve` need beside those of every process here."""
        return {}

    @property
    def record_place(self) -> str:
        """Where the record is, as `read_store` takes it."""
        return f"sqlite:{self.disk.folder / 'record.sqlite'}"

    async def begin_server(self) -> None:
        """Start Temporal's server, with the state that a server has left in the folder."""
        self.start("server")

    def start(self, name: str) -> None:
        """Start a process by its name."""
        match name:
            case "worker":
                more = {"HOLDFAST_PAYLOADS": self._payloads, "TEMPORAL_ADDRESS": self._find_address(name)}
                self.start_worker(HOLDFAST_IMPORTS=IMPORTS, HOLDFAST_GRACE=GRACE, **more)
            case "server":
                self.start_server()
            case _:
                command = [sys.executable, "-m", "holdfast", "serve", "--port", "0"]
                address = self._find_address(name)
                self._start("serve", command, HOLDFAST_PAYLOADS=self._payloads, TEMPORAL_ADDRESS=address)

    def _start(self, name: str, command: list[str], **more: str) -> None:
        """See base class. A process whose clock jumps begins with the clock that it has ended with."""
        if name in CLOCKS:
            command = [command[0], "-m", "drills.clock", str(self._find_clock(name)), *command[1:]]
        super()._start(name, command, **more)

    def _find_clock(self, name: str) -> Path:
        return self.folder / f"{name}.clock"

    def follow_clock(self) -> None:
        """Have the clock of this process jump, too."""
        follow_clock(self._find_clock("client"))

    def set_clock(self, name: str, seconds: float) -> None:
        """Have the clock of a process be off by so many seconds."""
        set_clock(self._find_clock(name), seconds)

    def mount_disks(self) -> None:
        """Have disks of their own that can be filled, where they may be mounted; before `begin`."""
        for disk in self.disks.values():
            disk.mount()

    @property
    def mounted(self) -> list[str]:
        """The names of the disks that can be filled."""
        return [name for name, disk in self.disks.items() if disk.is_mounted]

    async def fill_disk(self, name: str, seconds: float) -> None:
        """Have a disk be full for so long."""
        self.disks[name].fill()
        try:
            await asyncio.sleep(seconds)
        finally:
            self.disks[name].free()

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
        for disk in self.disks.values():
            disk.unmount()

    async def revive(self) -> None:
        """Start each process again that ends by itself, until cancelled: killed by a call, or as it met no server."""
        while True:
            for name in LINKED:
                if self.has_ended(name):
                    self.start(name)
            await asyncio.sleep(LOOK_SECONDS)


async def disturb_all(
    processes: Processes,
    dice: random.Random,
    seconds: float,
    pauses: tuple[float, float],
    kinds: Collection[str] = tuple(SHARES),
) -> Counter[str]:
    """Disturb something of these kinds after each pause, for so long; return how often, by name and how."""
    counts: Counter[str] = Counter()
    possible = [kind for kind in SHARES if kind in kinds and (kind != "disk" or processes.mounted)]
    shares = {kind: SHARES[kind] for kind in possible or ["process"]}
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        await asyncio.sleep(dice.uniform(*pauses))
        [kind] = dice.choices(list(shares), list(shares.values()))
        counts[await _disturb(processes, kind, dice)] += 1
    return counts


async def _disturb(processes: Processes, kind: str, dice: random.Random) -> str:
    """Disturb something of a kind of `SHARES`; return what was done to what."""
    match kind:
        case "link":
            name, mode = dice.choice(LINKED), dice.choice(MODES)
            await processes.links[name].disturb(mode, dice.uniform(1, LONGEST_FREEZE))
            return f"{name} {mode}"
        case "clock":
            name = dice.choice(CLOCKS)
            processes.set_clock(name, dice.choice((0, dice.uniform(-FARTHEST, FARTHEST))))
            return f"{name} clock"
        case "disk":
            name = dice.choice(processes.mounted)
            await processes.fill_disk(name, dice.uniform(1, LONGEST_FREEZE))
            return f"{name} full"
    name, by = dice.choice(processes.names), dice.choice(SIGNALS)
    sent = await processes.disturb(name, by, dice)
    return f"{name} {sent.name}"
