"""The clock of a drilled process is off as its file says, also for whoever has imported it before."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from drills.clock import set_clock
from tests.repository import ROOT

HOUR = 3_600
PROGRAM = """
import json, sys, time
from datetime import UTC, date, datetime
from drills.clock import follow_clock, set_clock
from pathlib import Path

def read():
    moments = [datetime.now(UTC), datetime.now(), datetime.utcnow().replace(tzinfo=UTC)]
    return [time.time(), time.time_ns() / 1e9, *(moment.timestamp() for moment in moments)]

first = read()
set_clock(Path(sys.argv[1]), 0)
while read()[0] > first[0] - 1800:
    time.sleep(0.01)
print(json.dumps([first, read(), date.today() == datetime.now().date()]))
"""


def test_the_clock_is_off_and_jumps_back(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    set_clock(tmp_path / "clock", 2 * HOUR)
    command = [sys.executable, "-m", "drills.clock", str(tmp_path / "clock"), str(tmp_path / "program.py")]
    before = time.time()
    told = subprocess.run([*command, str(tmp_path / "clock")], cwd=ROOT, capture_output=True, check=True).stdout
    first, then, is_today = json.loads(told)
    assert all(before + HOUR < moment for moment in first)
    assert all(before < moment < time.time() + 1 for moment in then)
    assert is_today
    assert datetime.now(UTC).timestamp() < before + HOUR
