"""Commands where no server is configured: which start the local one, and how its state folder is found."""

from pathlib import Path

import pytest

from holdfast.cli.answer import only_question
from holdfast.client.catalogue import list_offered, offer_project
from holdfast.client.open_questions import OpenQuestions
from holdfast.runtime.config import load_config
from holdfast.runtime.errors import NothingSent
from tests.client.command import TONE, Holdfast

READING = [
    "runs",
    "questions",
    "questions x",
    "show x",
    "follow x",
    "result x",
    "history x",
    "plan x",
    "graph --run x",
    "replay x",
    "replay --open",
    "schedule list",
]
ACTING = ["answer x yes", "attach x", "pause x", "cancel x", "tell x hello", "claim x", "release x q"]


@pytest.fixture
def alone(tmp_path: Path) -> Holdfast:
    """Commands in a folder of their own, where no server is configured."""
    return Holdfast(tmp_path, HOLDFAST_HOME="")


@pytest.mark.parametrize("words", [*READING, *ACTING])
def test_without_runs_a_command_says_so_and_starts_nothing(alone: Holdfast, words: str) -> None:
    ran = alone(*words.split())
    assert (ran.code, ran.out) == (5, "")
    assert f"no state folder .holdfast in {alone.folder} or a folder above it" in ran.err
    assert list(alone.folder.iterdir()) == []


@pytest.mark.parametrize("words", READING)
def test_a_command_that_reads_does_not_start_a_server_that_was_stopped(alone: Holdfast, words: str) -> None:
    home = alone.folder / ".holdfast"
    home.mkdir()
    (home / "server.json").write_text("{}")
    ran = alone(*words.split())
    assert (ran.code, f"the local server of {home} does not run; its runs are kept" in ran.err) == (5, True)
    assert [path.name for path in home.iterdir()] == ["server.json"]


def test_where_it_cannot_run_every_command_says_so(alone: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.cli.app.sys.platform", "win32")
    ran = alone("runs")
    monkeypatch.undo()
    assert (ran.code, "runs on Linux and macOS. On Windows use it in WSL" in ran.err) == (2, True)


def test_who_starts_a_run_that_no_worker_takes_is_told(holdfast: Holdfast) -> None:
    started = holdfast.having(HOLDFAST_TASK_QUEUE="nobody-works")(
        "start", holdfast.write("tone.yaml", TONE), "--no-check"
    )
    assert (started.code, "task queue 'nobody-works'" in started.err) == (0, True)


def test_who_answers_a_run_of_which_no_worker_can_tell_gets_the_reason() -> None:
    with pytest.raises(NothingSent, match="none is current"):
        only_question(OpenQuestions("run", [], silence="a version polls, and none is current"))


def test_a_local_inbox_offers_the_blueprints_of_the_project_without_hidden_folders(tmp_path: Path) -> None:
    for name in ("tone.yaml", "letters/brief.yaml", ".venv/lib/other.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(TONE)
    config = load_config(tmp_path)
    assert list_offered(config) == []
    assert [blueprint.name for blueprint in list_offered(offer_project(config))] == ["letters/brief", "tone"]


@pytest.mark.slow
def test_runs_are_found_from_folders_below_and_from_where_they_were_started(alone: Holdfast) -> None:
    project = alone.folder / "project"
    (project / "deep").mkdir(parents=True)
    (project / "holdfast.toml").touch()
    (project / "tone.yaml").write_text(TONE)
    inside = Holdfast(project / "deep", HOLDFAST_HOME="").as_process()
    try:
        started = alone.as_process()("run", "project/tone.yaml", "--id", "first", "--json")
        assert (started.code, "cd project" in started.err) == (3, True)
        assert [path.name for path in alone.folder.iterdir()] == ["project"]
        for command in (inside, alone.as_process()):
            assert [row["run"] for row in command("runs", "--json").json] == ["first"]
    finally:
        inside("down")
