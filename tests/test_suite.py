"""What the test suite does for its tests: it ends what they leave, replays their runs, and lets no skip pass."""

from __future__ import annotations

import asyncio
import ctypes
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from temporalio.client import WorkflowHistory

from holdfast.runtime.embedded.server import OPTIONS, find_temporal_binary
from holdfast.testkit.environment import DYNAMIC_CONFIG
from tests.conftest import Harness, Replays
from tests.python_environment import WITHOUT_PLUGINS
from tests.repository import ROOT
from tests.server import SETTINGS
from tests.skips import IN_TMP, VARIABLE
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


EMBEDDED = [value for flag, value in zip(OPTIONS, OPTIONS[1:], strict=False) if flag == "--dynamic-config-value"]
DEPLOYED = yaml.safe_load((ROOT / "deploy/dynamicconfig/holdfast.yaml").read_text())
NAMES = sorted({setting.split("=")[0] for setting in (*EMBEDDED, *SETTINGS, *DYNAMIC_CONFIG, *DEPLOYED)})


@pytest.fixture(scope="module")
def server_binary() -> mmap.mmap:
    with Path(find_temporal_binary()).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@pytest.mark.parametrize("name", NAMES)
def test_the_server_knows_a_setting(server_binary: mmap.mmap, name: str) -> None:
    assert server_binary.find(name.encode()) > 0, f"the server has no setting {name}"


def test_an_unknown_name_would_be_seen(server_binary: mmap.mmap) -> None:
    assert server_binary.find(b"history.continueAsNewMinInterval") < 0


NAME = "SET_BY_A_TEST"
PRINTS = [sys.executable, "-c", f"import os; print(os.environ.get('{NAME}'))"]


def in_the_c_library(name: str) -> bytes | None:
    read = ctypes.CDLL(None).getenv
    read.restype = ctypes.c_char_p
    return read(name.encode())


def test_a_variable_that_a_test_sets_is_not_in_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "a")
    monkeypatch.delenv("PATH")
    assert (os.environ[NAME], in_the_c_library(NAME)) == ("a", None)
    assert "PATH" not in os.environ and in_the_c_library("PATH")


async def test_a_process_that_a_test_starts_has_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "a")
    assert subprocess.check_output(PRINTS) == b"a\n"
    assert subprocess.check_output(PRINTS, env=os.environ | {NAME: "b"}) == b"b\n"
    process = await asyncio.create_subprocess_exec(*PRINTS, stdout=subprocess.PIPE)
    assert (await process.communicate())[0] == b"a\n"


TESTS = f"""
import pytest

@pytest.mark.skipif(True, reason="no such program")
def test_marked(): ...

def test_called():
    pytest.skip("no such program")

@pytest.mark.skipif(True, reason={IN_TMP!r})
def test_allowed(): ...

def test_passes(): ...
"""


@pytest.mark.parametrize(
    ("value", "outcome"),
    [("1", "1 failed, 1 passed, 1 skipped, 1 error"), ("", "1 passed, 3 skipped")],
    ids=["ci", "elsewhere"],
)
def test_a_skip_is_a_failure_where_nothing_may_be_missing(tmp_path: Path, value: str, outcome: str) -> None:
    (tmp_path / "conftest.py").write_text("from tests.skips import pytest_runtest_makereport")
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | WITHOUT_PLUGINS | {VARIABLE: value},
        capture_output=True,
        text=True,
    )
    assert outcome in done.stdout, done.stdout + done.stderr


ASK = "steps: [{kind: loop, name: l, loop: {max_loops: 2, body: [{name: a}]}}]"


async def test_a_run_that_does_not_replay_names_its_test(house: Harness) -> None:
    run = await house.start(ASK, "x")
    await house.output(run)
    replays = Replays()
    good, child = await house.recorded()
    broken = WorkflowHistory.from_json("broken", good.to_json().replace("loop:l", "loop:other"))
    replays.add("test_good", [child])
    replays.add("test_broken", [broken])
    [failure] = await replays.failures()
    assert failure.startswith("a run of test_broken does not replay: ")
