"""The health check of a worker on the same machine, as the image runs it: `python -P -m holdfast.runtime.probe`.

It imports the standard library alone: every 30 seconds it is a process of its own, and with the imports of a worker
each took 2.4 s of a processor, not 0.12.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

LOOPBACK = "127.0.0.1"
ALIVE = "/healthz"
VARIABLE = "HOLDFAST_HEALTH_PORT"
NOT_SET = f"{VARIABLE} is not set; set it for the worker and for the health check alike"
MOST = 65_535
TIMEOUT = 5.0


def main() -> int:
    """Ask the worker on the port of the environment. Return 0 if it is healthy, 1 if not, 2 without a port."""
    port = os.environ.get(VARIABLE, "")
    if port in ("", "0"):
        return _report(2, NOT_SET)
    if not port.isdecimal() or int(port) > MOST:
        return _report(2, f"{VARIABLE}={port}: must be a whole number, 0 to {MOST}")
    problem = find_problem(int(port))
    return _report(1, problem) if problem else 0


def find_problem(port: int) -> str | None:
    """Return why no healthy worker of this machine answers on a port; None if one does."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}{ALIVE}", timeout=TIMEOUT):  # our scheme  # nosec B310
            return None
    except urllib.error.URLError as error:
        return f"no worker answers on port {port}: {error.reason}"


def _report(code: int, problem: str) -> int:
    print(problem, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
