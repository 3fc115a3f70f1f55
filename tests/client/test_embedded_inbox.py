"""The inbox beside the embedded server: started by `run`, found again, replaced, stopped."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from holdfast.runtime.embedded.inbox import InboxProcess, find_inbox
from tests.client.command import PATIENCE, Process, Screen
from tests.conftest import until

pytestmark = pytest.mark.slow

ASK = "{name: ask, steps: [{kind: hitl, name: ask, message: Well?}]}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    command = Process(tmp_path_factory.mktemp("inbox"))
    yield command
    command("down")


def running(project: Process) -> InboxProcess:
    found = find_inbox(project.folder / "state")
    assert found is not None
    return found


def link_of(text: str) -> str:
    return next(word for word in text.split() if "?once=" in word)


def test_run_starts_it_and_an_answer_through_it_is_proved_by_a_person(project: Process) -> None:
    ran = project("run", project.write("ask.yaml", ASK), "--json")
    run, [question], link = ran.json["run"], ran.json["questions"], link_of(ran.err)
    base = running(project).url
    assert (ran.code, link.startswith(f"{base}/questions/")) == (3, True)
    with httpx.Client(base_url=base, follow_redirects=True, timeout=PATIENCE) as browser:
        page = browser.get(link).text
        assert "user:ana" in page
        [csrf] = set(re.findall(r'name="csrf" value="(\w+)"', page))
        answer = {"answers": [{"question": question["id"], "content": "yes"}]}
        sent = browser.post(f"/api/v1/runs/{run}/answers", json=answer, headers={"X-CSRF-Token": csrf})
    assert sent.status_code == 200, sent.text
    [row] = project("history", run, "--json").json
    assert (row["by"], row["proved_by"]) == ("user:ana", "person")
    state = project.folder / "state"
    ours = [state / name for name in ("serve.key", "record.sqlite", "inbox.log", "once")]
    assert [oct(os.stat(path).st_mode & 0o077) for path in ours] == ["0o0"] * 4


def test_the_next_run_finds_it_and_one_with_other_settings_replaces_it_on_its_port(project: Process) -> None:
    project("run", project.write("ask.yaml", ASK))
    loop = f"{{kind: loop, name: l, loop: {{max_loops: 2, body: {ASK.partition('steps: ')[2][:-1]}}}}}"
    before = running(project)
    ran = project("run", project.write("nested.yaml", f"{{name: nested, steps: [{loop}]}}"))
    [address] = re.findall("in Temporal's UI, at (.*)", ran.err)
    assert address.endswith("%2Floop%3Al")
    assert running(project) == before
    project.write("holdfast.toml", '[serve]\nuser = "user:bob"\n')
    project("run", project.write("ask.yaml", ASK))
    (project.folder / "holdfast.toml").unlink()
    after = running(project)
    assert (after.port, after.pid != before.pid) == (before.port, True)


def test_at_a_terminal_run_says_so_before_it_asks(project: Process) -> None:
    screen = Screen(project, "run", project.write("ask.yaml", ASK))
    try:
        screen.until("answer here, or at http://127.0.0.1:")
        screen.until("Well?")
        screen.type("yes\n")
        assert screen.leave() == 0
    finally:
        screen.close()


def test_serve_takes_its_place_and_is_kept(project: Process) -> None:
    project("run", project.write("ask.yaml", ASK))
    serve = subprocess.Popen(
        project.command(("serve", "--port", "0", "--json")), stdout=-1, text=True, **project.place()
    )
    try:
        assert serve.stdout
        url = json.loads(serve.stdout.readline())["url"]
        ran = project("run", project.write("ask.yaml", ASK))
        assert link_of(ran.err).startswith(url.partition("?")[0])
        assert (running(project).pid, running(project).is_background) == (serve.pid, False)
        assert project("serve").code == 2
    finally:
        serve.terminate()
        serve.wait(PATIENCE)


NOTIFY = """
[notify.ops]
command = ["sh", "-c", "cat >> told.json"]
events = ["asked"]
"""


async def test_down_stops_it_run_works_without_it_and_start_brings_it_back_to_notify_people(project: Process) -> None:
    project("run", project.write("ask.yaml", ASK))
    project("down")
    assert find_inbox(project.folder / "state") is None
    code = "import sys; sys.modules['starlette'] = None; from holdfast.cli.__main__ import main; main()"
    words = [sys.executable, "-c", code, "run", project.write("ask.yaml", ASK)]
    ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, **project.place())
    assert (ran.returncode, "browser" in ran.stderr) == (3, False)
    assert find_inbox(project.folder / "state") is None
    settings, notices = project.folder / "holdfast.toml", project.folder / "told.json"
    settings.write_text(NOTIFY)

    async def notified() -> bool:
        return notices.exists() and "Well?" in notices.read_text()

    # `start` shows no inbox, and without one nobody was notified.
    project("start", project.write("ask.yaml", ASK), "--id", "ask-1")
    await until(notified, "the notice")
    settings.unlink()
