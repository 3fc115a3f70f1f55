"""The lines that show what a run is doing, at the foot of a terminal."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console

from holdfast.cli.live_lines import LiveLines
from holdfast.protocol.events import EVENT_TYPES, Event


def event(type_: str, address: str, ago: float, **data: Any) -> Event:
    time = datetime.now(UTC) - timedelta(seconds=ago)
    return Event(offset=0, time=time, type=type_, address=address, data=EVENT_TYPES[type_](**data))


def started(name: str, ago: float, within: str = "pipeline:p", kind: str = "step") -> Event:
    return event("step.started", f"{within};{kind}:{name}", ago, name=name, kind=kind)


def shown(*events: Event) -> list[str]:
    """The lines after these events, without colours."""
    out = Console(file=io.StringIO(), force_terminal=True, width=60, _environ={"TERM": "xterm"})
    lines = LiveLines(out)
    lines.take("p", events)
    return [str(line) for line in lines.__rich__().renderables]


def test_a_running_step_is_shown_with_its_time() -> None:
    [line] = shown(started("think", 75))
    assert re.fullmatch(r"▸ think  \d+:\d\d", line)


def test_short_and_ended_steps_are_not_shown() -> None:
    ended = event("step.completed", "pipeline:p;step:a", 5, name="a", kind="step")
    assert shown(started("a", 9), ended, started("b", -60)) == []


def test_a_map_counts_its_items_and_shows_what_runs_in_them() -> None:
    items = [event("item.started", f"pipeline:p;map:m:{n}", 8, index=n, total=40) for n in range(3)]
    over = event("item.completed", "pipeline:p;map:m:0", 5, index=0)
    inner = started("pay", 4, "pipeline:p;map:m:1")
    first, second = shown(started("m", 9, kind="map"), *items, over, inner)
    assert "m" in first and "1 of 40" in first and "pay" in second


def test_many_steps_are_cut_to_a_few_lines() -> None:
    lines = shown(*(started(f"s{n}", 9) for n in range(9)))
    assert len(lines) == 7 and lines[-1] == "… and 3 more"


def test_nothing_is_shown_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    lines = LiveLines(Console(file=out))
    lines.take("p", [started("think", 75)])
    lines.show()
    lines.hide()
    assert out.getvalue() == ""
