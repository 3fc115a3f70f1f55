"""A process whose clock is off by some seconds, and which tries to hold a lease: `python -m … PLACE SHIFT SECONDS`."""

from __future__ import annotations

import subprocess
import sys
import time

from holdfast.server.record.jobs import Lease
from holdfast.server.record.store import open_store

NAME = "recorder:shifted"


def holds(place: str, shift: float, seconds: float = 15.0) -> bool:
    """Return whether a process of its own, with such a clock, gets the lease of this name."""
    command = [sys.executable, "-m", __name__, place, str(shift), str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip() == "True"


if __name__ == "__main__":
    clock, shift = time.time, float(sys.argv[2])
    time.time = lambda: clock() + shift
    print(Lease(open_store(sys.argv[1]), NAME, float(sys.argv[3])).hold())
