"""Several worker processes that look like one to an operator: signals, health, metrics, exit code.

`worker.py` calls `supervise`, and holds the other end of it, the `Lifeline`, in each process: over this socket a
process reports its ports, and notices when the supervisor ends. Metrics are not added up: the counters of a process
that was started again begin at 0, which Prometheus sees in a series of its own and would take for an increase in a sum.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Any

from holdfast.runtime.config import WorkerSettings
from holdfast.runtime.health import READY, HttpReply, report_health, serve_routes
from holdfast.runtime.probe import ALIVE, LOOPBACK
from holdfast.runtime.shutdown import LEAVING_SECONDS, Shutdown, signal_code

OPTION = "--lifeline"
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?( .*)", re.DOTALL)
ASKED_SECONDS = 5.0
"""Seconds in which a process answers; its event loop may be busy with workflow tasks."""
log = logging.getLogger("holdfast.worker")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds until a process that has ended is started again; they double from one to the other."""
STEADY_SECONDS = 60.0
"""A process that has lived so long begins with the first pause again."""
MARGIN_SECONDS = 5.0
"""Seconds that processes may be late, beyond their own limit, before they are killed."""
PROCESSES, RESTARTS = "holdfast_worker_processes", "holdfast_worker_restarts_total"
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Ports:
    """The address at which a process answers its supervisor, on this machine alone."""

    health: int
    metrics: int
    """0: it serves none."""


class Lifeline:
    """The end that a process holds.

    Args:
        descriptor: The inherited file descriptor of the socket.
    """

    def __init__(self, descriptor: int) -> None:
        # The processes that tools and MCP servers are must not hold it: the supervisor waits for its end.
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)

    @asynccontextmanager
    async def report(self, ports: Ports, on_end: Callable[[], None]) -> AsyncIterator[None]:
        """Tell the supervisor that this process is ready; `on_end` is called if the supervisor ends meanwhile."""
        reader, writer = await asyncio.open_connection(sock=self._socket)
        writer.write(json.dumps(asdict(ports)).encode() + b"\n")

        async def watch() -> None:
            with suppress(ConnectionError):
                await reader.read()
            on_end()

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()
            writer.close()


async def read_report(ours: socket.socket) -> Ports | None:
    """Return the ports that a process reports once it is ready; None if it ends before."""
    ours.setblocking(False)
    line = b""
    # Not by a stream: it would close the socket when it is thrown away, which tells the process to end.
    while not line.endswith(b"\n"):
        part = b""
        with suppress(ConnectionError):  # it was killed
            part = await asyncio.get_running_loop().sock_recv(ours, 1024)
        if not part:
            return None
        line += part
    return Ports(**json.loads(line))


@dataclass
class MetricFamily:
    """A metric: its comments, and its samples in all processes."""

    comments: dict[str, str] = field(default_factory=dict)
    samples: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the metric."""
        yield from self.comments.values()
        yield from self.samples


def label_metrics(texts: Mapping[int, str]) -> str:
    """Return the metrics of processes, by number, as one text.

    >>> print(label_metrics({1: "# TYPE a counter\\na 1", 2: '# TYPE a counter\\na{b="c"} 2'}), end="")
    # TYPE a counter
    a{process="1"} 1
    a{process="2",b="c"} 2
    """
    families: dict[str, MetricFamily] = {}
    for number, text in texts.items():
        _add(families, number, text)
    return "".join(f"{line}\n" for family in families.values() for line in family.lines())


def _add(families: dict[str, MetricFamily], number: int, text: str) -> None:
    family = MetricFamily()
    for line in filter(None, text.splitlines()):
        if line.startswith("#"):
            _, kind, name, *_ = line.split(" ", 3)
            family = families.setdefault(name, MetricFamily())
            family.comments.setdefault(kind, line)
        elif sample := SAMPLE.fullmatch(line):
            name, labels, rest = sample.groups()
            own = f'process="{number}"'
            family.samples.append(f"{name}{{{f'{own},{labels}' if labels else own}}}{rest}")


class WorkerProcess:
    """A worker process, and those that take its place under the same number.

    Args:
        number: Its number among the processes, from 1; its log lines and metrics have it.
        command: The command line of the process.
        once: Arguments for the first start alone.
    """

    def __init__(self, number: int, command: Sequence[str], once: Sequence[str] = ()) -> None:
        self.number, self.starts = number, 0
        self.ready = asyncio.Event()
        """Set when a process of this number has become ready for the first time."""
        self._command, self._once = command, once
        self._pid, self._stopped = 0, False
        self._ports: Ports | None = None

    async def live(self) -> int:
        """Start the process and wait for its end. Return its exit code, negative for a signal."""
        ours, theirs = socket.socketpair()
        arguments = ["--process", str(self.number), OPTION, str(theirs.fileno()), *(() if self.starts else self._once)]
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # In a session of its own: Ctrl-C reaches the supervisor alone, which passes it on.
                start_new_session=True,
            )
        self.starts, self._pid = self.starts + 1, process.pid
        # The end may have been requested while the process was being created, and had no id to send it to.
        if self._stopped:
            process.terminate()
        report = asyncio.create_task(self._take_report(ours))
        try:
            return await process.wait()
        finally:
            self._pid, self._ports = 0, None
            report.cancel()
            await asyncio.wait([report])
            ours.close()  # not sooner: a process takes its end for that of the supervisor

    async def _take_report(self, ours: socket.socket) -> None:
        ports = await read_report(ours)
        if ports is not None:
            self._ports = ports
            self.ready.set()

    @property
    def is_ready(self) -> bool:
        """Return whether the process has reported, and has not ended."""
        return self._ports is not None

    @property
    def restarts(self) -> int:
        """Number of processes that took the place of another."""
        return max(0, self.starts - 1)

    def stop(self) -> None:
        """Ask the process to end, and any that would still start."""
        self._stopped = True
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)

    async def is_well(self, path: str) -> bool:
        """Return whether the process answers this path with 200."""
        return self._ports is not None and await _get(self._ports.health, path) is not None

    async def metrics(self) -> str | None:
        """Return the metrics of the process; None if it serves none now."""
        return await _get(self._ports.metrics, "/metrics") if self._ports and self._ports.metrics else None


async def _get(port: int, path: str) -> str | None:
    return await asyncio.to_thread(_read, f"http://{LOOPBACK}:{port}{path}")


def _read(url: str) -> str | None:
    """Return the text of an answer with status 200; None for any other, and where nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=ASKED_SECONDS) as reply:  # the scheme is ours  # nosec B310
            text: str = reply.read().decode()
            return text
    except (urllib.error.URLError, OSError):
        return None


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
        await _await_first(self._children[0].ready.wait(), asyncio.shield(first))
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
                return _read_exit_code(code)
            # None was ever ready: the configuration is wrong, and would be at each further start.
            if not any(other.ready.is_set() for other in self._children):
                return code if code >= 0 else signal_code(-code)
            pause = FIRST_PAUSE if time.monotonic() - started > STEADY_SECONDS else pause
            log.error("process %d ended with %s; it starts again in %.0f s", child.number, _describe_end(code), pause)
            await _await_first(self._shutdown.wait(), asyncio.sleep(pause))
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
        return report_health(not ill, f"not well: process {', '.join(ill)} of {len(self._children)}")

    async def metrics(self) -> HttpReply:
        """Answer with the metrics of every process that serves them now, and with those of the supervisor."""
        texts = await asyncio.gather(*(child.metrics() for child in self._children))
        served = {child.number: text for child, text in zip(self._children, texts, strict=True) if text is not None}
        return HttpReply(HTTPStatus.OK, self._write_own_metrics() + label_metrics(served), PROMETHEUS_TEXT)

    def _write_own_metrics(self) -> str:
        ready = sum(child.is_ready for child in self._children)
        lines = [
            f"# TYPE {PROCESSES} gauge",
            f"{PROCESSES} {ready}",
            f"# TYPE {RESTARTS} counter",
            *(f'{RESTARTS}{{process="{child.number}"}} {child.restarts}' for child in self._children),
        ]
        return "".join(f"{line}\n" for line in lines)


async def _await_first(*waited: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> None:
    """Wait for the first of these, and cancel the others."""
    tasks = [asyncio.ensure_future(work) for work in waited]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)


def _read_exit_code(code: int) -> int:
    """Return the exit code of a process that was asked to end; SIGTERM ends one that has hardly begun."""
    return 0 if code == -signal.SIGTERM else code if code >= 0 else signal_code(-code)


def _describe_end(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
