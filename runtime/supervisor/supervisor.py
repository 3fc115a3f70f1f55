"""The supervisor: starts worker processes, starts those that die again, and answers for all of them."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from holdfast.runtime.config import WorkerSettings
from holdfast.runtime.health import READY, HttpReply, checked, serve_routes
from holdfast.runtime.probe import ALIVE
from holdfast.runtime.shutdown import LEAVING_SECONDS, Shutdown, signal_code
from holdfast.runtime.supervisor.child import WorkerProcess
from holdfast.runtime.supervisor.metrics import labelled

log = logging.getLogger("holdfast.worker")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds until a process that has ended is started again; they double from one to the other."""
STEADY_SECONDS = 60.0
"""A process that has lived so long begins with the first pause again."""
MARGIN_SECONDS = 5.0
"""Seconds that processes may be late, beyond their own limit, before they are killed."""
PROCESSES, RESTARTS = "holdfast_worker_processes", "holdfast_worker_restarts_total"
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"


async def supervise(command: Sequence[str], count: int, settings: WorkerSettings, once: Sequence[str] = ()) -> int:
    """Run worker processes until SIGTERM or SIGINT. Return the exit code. Raises `ConfigError`.

    Args:
        command: The command line of a process.
        count: Number of processes.
        once: Arguments for the first process at its first start.
    """
    children = [WorkerProcess(number, command, once if number == 1 else ()) for number in range(1, count + 1)]
    supervisor = _Supervisor(children, settings)
    health = {ALIVE: lambda: supervisor.health(ALIVE), READY: lambda: supervisor.health(READY)}
    async with (
        serve_routes("HOLDFAST_HEALTH_PORT", settings.health_port, health),
        serve_routes("HOLDFAST_METRICS_PORT", settings.metrics_port, {"/metrics": supervisor.metrics}),
    ):
        return await supervisor.run()


class _Supervisor:
    def __init__(self, children: Sequence[WorkerProcess], settings: WorkerSettings) -> None:
        self._children, self._grace = children, settings.grace
        self._shutdown = Shutdown(settings.grace + LEAVING_SECONDS + MARGIN_SECONDS, self._kill_all)

    async def run(self) -> int:
        """Keep the processes running until the end is requested. Return the exit code."""
        stopping = asyncio.create_task(self._stop_when_requested())
        # The first one alone: what is wrong with the configuration is told once, and ends the supervisor.
        first = asyncio.create_task(self._keep(self._children[0]))
        await _first_of(self._children[0].ready.wait(), asyncio.shield(first))
        rest = [] if first.done() else [asyncio.create_task(self._keep(child)) for child in self._children[1:]]
        codes = await asyncio.gather(first, *rest)
        stopping.cancel()
        return next((code for code in codes if code), 0)

    async def _stop_when_requested(self) -> None:
        await self._shutdown.wait()
        log.info("shutting down %d processes: running activities get %d s", len(self._children), self._grace)
        for child in self._children:
            child.stop()

    async def _keep(self, child: WorkerProcess) -> int:
        """Start a process as often as it ends. Return its exit code at the shutdown, or if none was ever ready."""
        pause = FIRST_PAUSE
        while True:
            started = time.monotonic()
            code = await child.live()
            if self._shutdown.requested:
                return _code_at_shutdown(code)
            # None was ever ready: the configuration is wrong, and would be at each further start.
            if not any(other.ready.is_set() for other in self._children):
                return code if code >= 0 else signal_code(-code)
            pause = FIRST_PAUSE if time.monotonic() - started > STEADY_SECONDS else pause
            log.error("process %d ended with %s; it starts again in %.0f s", child.number, _reason(code), pause)
            await _first_of(self._shutdown.wait(), asyncio.sleep(pause))
            if self._shutdown.requested:
                return 0
            pause = min(2 * pause, LONGEST_PAUSE)

    def _kill_all(self) -> None:
        for child in self._children:
            child.kill()

    async def health(self, path: str) -> HttpReply:
        """Answer 200 if every process does, else 503 with the numbers of the others."""
        well = await asyncio.gather(*(child.is_well(path) for child in self._children))
        ill = [str(child.number) for child, is_well in zip(self._children, well, strict=True) if not is_well]
        return checked(not ill, f"not well: process {', '.join(ill)} of {len(self._children)}")

    async def metrics(self) -> HttpReply:
        """Answer with the metrics of every process that serves them now, and with those of the supervisor."""
        texts = await asyncio.gather(*(child.metrics() for child in self._children))
        served = {child.number: text for child, text in zip(self._children, texts, strict=True) if text is not None}
        return HttpReply(HTTPStatus.OK, self._own_metrics() + labelled(served), PROMETHEUS_TEXT)

    def _own_metrics(self) -> str:
        ready = sum(child.is_ready for child in self._children)
        lines = [
            f"# TYPE {PROCESSES} gauge",
            f"{PROCESSES} {ready}",
            f"# TYPE {RESTARTS} counter",
            *(f'{RESTARTS}{{process="{child.number}"}} {child.restarts}' for child in self._children),
        ]
        return "".join(f"{line}\n" for line in lines)


async def _first_of(*waited: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> None:
    """Wait for the first of these, and cancel the others."""
    tasks = [asyncio.ensure_future(work) for work in waited]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)


def _code_at_shutdown(code: int) -> int:
    """Return the exit code of a process that was asked to end; SIGTERM ends one that has hardly begun."""
    return 0 if code == -signal.SIGTERM else code if code >= 0 else signal_code(-code)


def _reason(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
