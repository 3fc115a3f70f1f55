"""What a test run leaves behind is ended, also when the run is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.watch import MARK, marked

RUN = (
    "import subprocess, time, tests.watch as w; w.watched(); subprocess.Popen(['sleep', '600'], start_new_session=True)"
)


def test_what_a_killed_run_has_started_ends(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    script = f"{RUN}; print(w.os.environ[w.MARK], flush=True); time.sleep(600)"
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    assert run.stdout is not None
    mark = run.stdout.readline().strip()
    while len(marked(mark)) < 2:  # of a process that has only just begun its environment cannot be read yet
        pass
    run.kill()
    run.wait()
    run.stdout.read()  # to its end: everything that held it is gone
    assert [pid for pid in marked(mark) if pid != run.pid] == []
