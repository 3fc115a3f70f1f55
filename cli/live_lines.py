"""Lines at the foot of a terminal that show what a run is doing now: each running step with its time, maps counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from holdfast.client.texts import preview
from holdfast.client.trace import Span, Trace
from holdfast.protocol.address import root
from holdfast.protocol.display import one_line

if TYPE_CHECKING:
    from holdfast.protocol.events import Event

SHORTEST_SECONDS = 1.0
"""Steps that run for less get no line, so that short ones do not flicker."""
MOST_LINES = 6
FRAMES_A_SECOND = 4


class LiveLines:
    """The lines for one run; nothing where there is no terminal, or one that cannot move its cursor.

    Args:
        out: The console that progress is printed on, which goes on above the lines.
    """

    def __init__(self, out: Console) -> None:
        can_show = out.is_terminal and not out.is_dumb_terminal
        self._live = Live(self, console=out, transient=True, refresh_per_second=FRAMES_A_SECOND) if can_show else None
        self._out = out
        self._trace: Trace | None = None
        self._running: list[Span] = []

    def take(self, blueprint: str, events: Sequence[Event]) -> None:
        """Take the events that the run has had since the last time, in order."""
        if self._live is None:
            return
        self._trace = self._trace or Trace(blueprint, root(blueprint), "running")
        for event in events:
            self._trace.take(event)
        self._running = list(_leaves(self._trace.root))

    def show(self) -> None:
        """Show the lines, until `hide`."""
        if self._live is not None and not self._live.is_started:
            self._live.start()

    def hide(self) -> None:
        """Take the lines away, as a prompt needs the foot of the terminal."""
        if self._live is not None and self._live.is_started:
            self._live.stop()

    def __rich__(self) -> Group:
        """Return the lines as they are now; the terminal asks several times a second."""
        now = datetime.now(UTC)
        spans = [span for span in self._running if _seconds(span, now) >= SHORTEST_SECONDS]
        lines = [_line(span, now, self._out.width) for span in spans[:MOST_LINES]]
        if len(spans) > MOST_LINES:
            lines.append(Text(f"… and {len(spans) - MOST_LINES} more", "dim"))
        return Group(*lines)


def _leaves(span: Span) -> Iterator[Span]:
    """Yield the running steps with nothing running inside them, and maps, which count their items."""
    for child in span.children():
        if child.status == "running":
            inner = list(_leaves(child))
            if child.total is not None or not inner:
                yield child
            yield from inner


def _seconds(span: Span, now: datetime) -> float:
    return 0.0 if span.started is None else (now - span.started).total_seconds()


def _line(span: Span, now: datetime, width: int) -> Text:
    seconds = int(_seconds(span, now))
    length = f"{seconds // 60}:{seconds % 60:02}" if seconds >= 60 else f"{seconds} s"
    line = Text("▸ ", "cyan").append(one_line(span.name)).append(f"  {length}", "dim")
    if span.total is not None:
        line.append(f"  {span.items_done} of {span.total} done", "cyan")
    elif span.spent.requests:
        line.append(f"  turn {span.spent.requests}", "dim")
    if span.title:
        line.append(f"  {preview(span.title)}", "dim")
    line.truncate(width - 1, overflow="ellipsis")
    return line
