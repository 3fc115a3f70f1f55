"""`history`, `comment`, `erase`: what people read of the record and do to it."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.command import TONE, Holdfast, with_worker
from tests.server import COMMANDS, NAME


@pytest.fixture(scope="module")
def recorded(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Holdfast]:
    """Commands in a folder whose configuration names a record."""
    folder = tmp_path_factory.mktemp("record")
    (folder / "holdfast.toml").write_text('[record]\nstore = "sqlite:record.sqlite"\n')
    with with_worker(folder, server, NAME + COMMANDS) as command:
        yield command


def answered(holdfast: Holdfast) -> str:
    run = holdfast.park(TONE)["run"]
    holdfast("answer", run, "warm", "--by", "ana", "--comment", "kinder")
    holdfast("answer", run, "title", "Dear all", "--by", "bob")
    return str(run)


@pytest.mark.slow
def test_the_history_names_steps_and_questions(recorded: Holdfast) -> None:
    run = answered(recorded)
    rows = recorded("history", run, "--json").json
    assert [(row["step"], row["message"], row["by"], row["content"]) for row in rows] == [
        ("tone", "Which tone?", "user:ana", "warm"),
        ("title", "A title?", "user:bob", "Dear all"),
    ]
    assert "Which tone?" in recorded("history", run).out


def test_a_refused_answer_stands_in_the_history(recorded: Holdfast) -> None:
    run = recorded.park(TONE)["run"]
    assert recorded("answer", run, "purple", "--by", "eve").code == 4
    [row] = [row for row in recorded("history", run, "--json").json if row["action"] == "refuse"]
    assert (row["by"], row["content"].partition(":")[0]) == ("user:eve", "invalid_answer")


def test_a_refusal_is_told_though_the_record_cannot_be_written(recorded: Holdfast, tmp_path: Path) -> None:
    run = recorded.park(TONE)["run"]
    (tmp_path / "holdfast.toml").write_text('[record]\nstore = "sqlite:record.sqlite"\n')
    (tmp_path / "record.sqlite").write_text("no database, whatever its name says")
    broken = recorded.having()
    broken.folder = tmp_path
    answer = broken("answer", run, "purple", "--by", "eve")
    assert answer.code == 4
    assert "the refused answer was not recorded" in answer.err


def test_a_comment_stands_in_the_history_with_its_question(recorded: Holdfast) -> None:
    run = recorded.park(TONE)["run"]
    assert recorded("comment", run, "tone", "Bob knows", "--by", "ana").code == 0
    [row] = recorded("history", run, "--json").json
    assert (row["action"], row["message"], row["comment"]) == ("comment", "Which tone?", "Bob knows")


@pytest.mark.slow
@pytest.mark.parametrize(("option", "action"), [([], "cancel run"), (["--force"], "terminate run")])
def test_who_ended_a_run_stands_in_its_history(recorded: Holdfast, option: list[str], action: str) -> None:
    run = recorded.park(TONE)["run"]
    assert recorded("cancel", run, *option, "--by", "ana").code == 0
    [row] = [row for row in recorded("history", run, "--json").json if row["question"] is None]
    assert (row["action"], row["by"], row["proved_by"]) == (action, "user:ana", None)


@pytest.mark.slow
def test_pausing_and_resuming_take_who_does_it(recorded: Holdfast) -> None:
    run = recorded.park(TONE)["run"]
    assert recorded("pause", run, "--by", "ana").code == 0
    assert recorded("resume", run, "--by", "ana").code == 0


def test_a_comment_on_no_question_is_refused(recorded: Holdfast) -> None:
    run = recorded.park(TONE)["run"]
    ran = recorded("comment", run, "nonsense", "x")
    assert (ran.code, "no question 'nonsense'" in ran.err) == (2, True)


@pytest.mark.slow
def test_a_run_is_exported_as_lines_and_as_a_table(recorded: Holdfast) -> None:
    run = answered(recorded)
    lines = recorded("history", run, "--jsonl").lines
    rows = list(csv.DictReader(io.StringIO(recorded("history", run, "--csv").out)))
    assert [(line["id"], line["type"]) for line in lines] == [(int(row["id"]), row["type"]) for row in rows]
    assert [json.loads(row["content"]) for row in rows] == [line["content"] for line in lines]


@pytest.mark.slow
def test_a_record_is_verified_and_its_checkpoint_kept_elsewhere(recorded: Holdfast, tmp_path: Path) -> None:
    answered_run = answered(recorded)
    recorded("history", answered_run)
    (tmp_path / "checkpoint.json").write_text(recorded("history", "--checkpoint").out)
    ran = recorded("history", "--verify", "--against", str(tmp_path / "checkpoint.json"), "--json")
    assert (ran.code, ran.json["ok"], ran.json["faults"]) == (0, True, [])


@pytest.mark.slow
def test_a_copy_of_the_record_is_verified_where_there_is_no_temporal(recorded: Holdfast, tmp_path: Path) -> None:
    answered_run = answered(recorded)
    recorded("history", answered_run)
    copy = tmp_path / "copy.sqlite"
    with sqlite3.connect(recorded.folder / "record.sqlite") as source, sqlite3.connect(copy) as target:
        source.backup(target)
    alone = recorded.having(TEMPORAL_ADDRESS="127.0.0.1:1")
    ran = alone("history", "--verify", "--record", f"sqlite:{copy}", "--json")
    assert (ran.code, ran.json["faults"], ran.json["entries"] > 0) == (0, [], True)
    target.execute("DELETE FROM record_checkpoints")
    target.commit()
    ran = alone("history", "--verify", "--record", f"sqlite:{copy}", "--json")
    assert (ran.code, {fault["fault"] for fault in ran.json["faults"]}) == (1, {"checkpoint"})


@pytest.mark.slow
def test_an_answer_that_a_run_keeps_of_the_one_before_stands_in_its_history(recorded: Holdfast) -> None:
    fork = recorded("fork", answered(recorded), "--at", "title", "--no-wait", "--json").json["run"]
    [row] = recorded("history", fork, "--json").json
    assert (row["action"], row["step"], row["by"], row["content"]) == ("keep", "tone", "user:ana", "warm")


@pytest.mark.slow
def test_an_erased_run_keeps_what_happened_and_when(recorded: Holdfast) -> None:
    run = recorded.park(TONE)["run"]
    recorded("answer", run, "purple", "--by", "eve")
    recorded("answer", run, "warm", "--by", "ana")
    recorded("answer", run, "title", "Dear all", "--by", "bob")
    recorded("result", run, "--wait")  # nothing is erased before the end
    recorded("history", run)
    assert recorded("erase", run, "--by", "ana", "--json").json["erased"] > 5
    rows = recorded("history", run, "--json").json
    erased = ("erase", "user:ana", None)
    contents = [(row["action"], row["by"], row["content"]) for row in rows]
    assert contents == [("refuse", None, None), *[("accept", None, None)] * 2, erased]
    assert [row["is_erased"] for row in rows] == [True, True, True, False]
    assert recorded("history", run).out.count("(erased)") == 3
    assert recorded("history", "--verify").code == 0
    late = recorded("comment", run, "title", "A word more")
    assert (late.code, "was erased, and nothing is written there again" in late.err) == (2, True)
    kept = [path.read_text() for path in recorded.folder.rglob("questions.*.json")]
    assert kept and not [text for text in kept if run in text]


@pytest.mark.slow
def test_who_erases_a_run_is_told_all_that_temporal_has_of_it(recorded: Holdfast) -> None:
    run = answered(recorded)
    fork = recorded("fork", run, "--at", "title", "--no-wait", "--json").json["run"]
    second = recorded("fork", fork, "--at", "title", "--no-wait", "--json").json["run"]
    recorded("result", run, "--wait")
    recorded("history", run)
    told = recorded("erase", run).err
    assert f"RootWorkflowId = '{run}' OR WorkflowId STARTS_WITH '{run}/'" in told.replace("'\"'\"'", "'")
    assert f"erase and delete them, too: {fork}, {second}" in told
    address = recorded.environment["TEMPORAL_ADDRESS"]
    assert f"temporal workflow delete --yes --address {address} --namespace " in told


def test_a_run_under_way_is_not_erased(recorded: Holdfast) -> None:
    run = recorded.park(TONE)["run"]
    recorded("history", run)
    assert recorded("erase", run).code == 2


SECRET = "name: key\nsteps: [{kind: hitl, name: key, ask: secret, message: The key?}]\n"


def test_no_secret_is_in_the_record(recorded: Holdfast) -> None:
    run = recorded.park(SECRET)["run"]
    assert recorded("answer", run, "hunter2-in-clear").code == 0
    assert "key" in recorded("history", run).out
    assert recorded("comment", run, "key", "It is the old one").code == 0  # by its step's name, though it is closed
    [stored] = recorded("secret", "list", "--json").json
    assert recorded("erase", run, "--json").json["secrets"] == [stored["reference"]]
    assert not any(b"hunter2" in file.read_bytes() for file in recorded.folder.glob("record.sqlite*"))
