"""`runs`, `show`, `follow`, `result`, and the words that need no run."""

import json
import shlex
from pathlib import Path
from typing import NoReturn

import pytest

from holdfast.client.facets.watch import RunWatch
from holdfast.client.states import RunState
from holdfast.runtime.encryption import EncryptionCodec, KeyRing
from holdfast.server.record.store import open_store
from tests.client.command import LOOP, TONE, Holdfast, Process
from tests.record.ground import full_disk


@pytest.fixture(scope="module")
def waiting(holdfast: Holdfast) -> str:
    """A run in its second iteration, where it waits."""
    assert holdfast("run", holdfast.write("loop.yaml", LOOP), "--id", "look-waits", typed="one\n").code == 3
    return "look-waits"


@pytest.fixture(scope="module")
def ended(holdfast: Holdfast) -> str:
    assert holdfast("run", holdfast.write("loop.yaml", LOOP), "--id", "look-ended", typed="one\nstop\n").code == 0
    return "look-ended"


@pytest.mark.slow
def test_show_has_exactly_its_keys_and_the_loop_as_one_span(holdfast: Holdfast, waiting: str) -> None:
    seen = holdfast("show", waiting, "--json").json
    keys = "run status blueprint context questions events children stuck cancel_requested undoing usage"
    assert " ".join(seen) == f"{keys} result error trace past retried_as silence"
    assert (seen["run"], seen["status"], seen["blueprint"]) == (waiting, "waiting", "talk")
    assert seen["children"] == [{"workflow": f"{waiting}/loop:clarify", "status": "waiting", "iteration": 2}]
    [loop] = seen["trace"]["steps"]
    assert (loop["kind"], [one["n"] for one in loop["iterations"]]) == ("loop", [1, 2])


def test_show_for_people_is_a_tree_with_the_command_that_answers(holdfast: Holdfast, waiting: str) -> None:
    shown = holdfast("show", waiting).out
    assert "✓ more  'one'" in shown
    assert f"holdfast answer {waiting} " in shown
    assert "\x1b" not in shown


@pytest.mark.slow
def test_show_of_what_has_ended_has_the_result(holdfast: Holdfast, ended: str) -> None:
    seen = holdfast("show", ended, "--json").json
    assert (seen["status"], seen["result"], seen["questions"]) == ("completed", "stop", [])
    assert seen["children"] == [{"workflow": f"{ended}/loop:clarify", "status": "completed"}]


@pytest.mark.slow
def test_show_of_what_has_ended_tells_its_end_where_no_worker_answers(
    holdfast: Holdfast, ended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def trace(watch: RunWatch, state: RunState, last: int | None) -> NoReturn:
        raise await watch._tree.silence(state.run)

    monkeypatch.setattr(RunWatch, "trace", trace)
    shown = holdfast("show", ended)
    assert shown.code == 5
    assert shown.out.startswith(f"{ended}  completed\nblueprint talk\n") and "result  stop\n" in shown.out
    assert f"{ended} has ended" in shown.err and "waits for it" not in shown.err
    told = holdfast("show", ended, "--json")
    assert (told.code, told.json["status"], told.json["result"]) == (5, "completed", "stop")
    assert f"{ended} has ended" in told.json["silence"]


@pytest.mark.parametrize(
    "words", [["show", ""], ["result", " "], ["pause", ""], ["questions", ""], ["answer", "", "id", "yes"]]
)
def test_an_empty_name_of_a_run_is_refused_and_takes_none(holdfast: Holdfast, waiting: str, words: list[str]) -> None:
    done = holdfast(*words)
    assert (done.code, "no run is named" in done.err) == (2, True)


def test_result_says_how_it_stands_by_its_exit_code(holdfast: Holdfast, waiting: str, ended: str) -> None:
    stands = holdfast("result", waiting, "--json")
    assert (stands.code, stands.json["status"]) == (3, "waiting")
    assert list(stands.json) == ["run", "status", "output", "context", "error"]
    over = holdfast("result", ended)
    assert (over.out, over.code) == ("stop\n", 0)


@pytest.mark.slow
def test_runs_are_listed_and_found_by_the_beginning_of_their_id(holdfast: Holdfast, waiting: str, ended: str) -> None:
    holdfast.listed(waiting)
    holdfast.listed(ended, "completed")
    listed = {row["run"]: row["status"] for row in holdfast("runs", "--blueprint", "talk", "--json").json}
    assert (listed[waiting], listed[ended]) == ("waiting", "completed")
    assert ended not in [row["run"] for row in holdfast("runs", "--waiting", "--json").json]
    assert holdfast("result", "look-e", "--json").json["run"] == ended
    several = holdfast("result", "look-", "--json")
    assert (several.code, several.json["error"]["type"]) == (2, "ambiguous")
    assert holdfast("show", "look-nobody").code == 2


@pytest.mark.slow
def test_follow_gives_the_events_with_contiguous_offsets(holdfast: Holdfast, ended: str) -> None:
    events = holdfast("follow", ended, "--json").lines
    assert [event["offset"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events][-1] == "run.completed"
    assert holdfast("follow", ended, "--after", str(len(events) - 2), "--json").lines == events[-1:]


@pytest.mark.slow
def test_in_a_pipe_an_event_is_a_line_and_no_value_is_cut(holdfast: Holdfast) -> None:
    text = "steps: [{name: say, input: '" + "long " * 60 + "'}]"
    holdfast("start", holdfast.write("long.yaml", text), "--id", "look-long")
    assert holdfast("result", "look-long", "--wait").code == 0
    followed, events = holdfast("follow", "look-long"), holdfast("follow", "look-long", "--json").lines
    data = [json.loads(line[line.index("{") :]) if "{" in line else {} for line in followed.out.splitlines()]
    assert data == [event["data"] for event in events]
    assert "long " * 60 in holdfast("show", "look-long").out


@pytest.mark.slow
def test_replay_follows_what_was_recorded_and_finds_what_was_changed(holdfast: Holdfast, ended: str) -> None:
    replayed = holdfast.as_process()("replay", ended, "--json")
    assert (replayed.code, [row["ok"] for row in replayed.json]) == (0, [True, True])
    [recorded, _] = holdfast.histories(ended)
    holdfast.write("history.json", recorded.to_json().replace("loop:clarify", "loop:another"))
    changed = holdfast.as_process()("replay", "history.json", "--json")
    assert (changed.code, [row["ok"] for row in changed.json]) == (1, [False])


@pytest.mark.slow
def test_replay_names_the_key_that_a_history_is_encrypted_with(holdfast: Holdfast, ended: str) -> None:
    [recorded, _] = holdfast.histories(ended)
    [definition, *_] = recorded.events[0].workflow_execution_started_event_attributes.input.payloads
    definition.CopyFrom(EncryptionCodec(KeyRing({"old": "o" * 40})).encrypt(definition))
    holdfast.write("sealed.json", recorded.to_json())
    replayed = holdfast.as_process()("replay", "sealed.json", "--json")
    assert (replayed.code, [row["ok"] for row in replayed.json]) == (1, [False])
    assert "encrypted with the key 'old'; add it to keys" in replayed.json[0]["error"]


@pytest.mark.slow
def test_a_file_that_holds_no_whole_history_is_told(holdfast: Holdfast) -> None:
    assert (
        holdfast.as_process()("replay", holdfast.write("none.json", "{}"), "--json").json["error"]["type"]
        == "bad_usage"
    )
    part = holdfast.as_process()("replay", holdfast.write("part.json", '{"events": [{"eventId": "2"}]}'))
    assert (part.code, "does not begin with its start" in part.err) == (2, True)


def test_setup_says_what_it_did(holdfast: Holdfast) -> None:
    done = holdfast("setup", "--json").json
    assert (done["registered"], done["retention_days"], done["trouble"]) == ([], 90, None)


def test_validate_tells_every_problem_and_expands(holdfast: Holdfast) -> None:
    good = holdfast("validate", holdfast.write("tone.yaml", TONE), "--json")
    assert (good.code, good.json) == (0, {"ok": True, "problems": []})
    expanded = holdfast("validate", "tone.yaml", "--expand")
    assert holdfast("validate", holdfast.write("expanded.yaml", expanded.out)).code == 0
    holdfast.write("bad.yaml", "steps: [{name: a, wen: x}, {name: b, kind: aproval}]")
    bad = holdfast("validate", "bad.yaml", "--json")
    assert (bad.code, bad.json["ok"]) == (2, False)
    assert list(bad.json["problems"][0]) == ["file", "line", "column", "path", "code", "message", "hint", "severity"]
    assert {problem["path"] for problem in bad.json["problems"]} >= {"steps[0].wen", "steps[1].kind"}


@pytest.mark.slow
def test_schema_version_and_an_unknown_command(holdfast: Holdfast) -> None:
    assert "properties" in holdfast("schema").out
    assert holdfast("--version").out.startswith("holdfast ")
    unknown = holdfast("anwser")
    assert (unknown.code, "Did you mean 'answer'" in unknown.err) == (2, True)


@pytest.mark.slow
def test_down_stops_and_the_next_command_finds_every_run(embedded: Process) -> None:
    run = embedded.park(LOOP)["run"]
    assert embedded("down", "--json").json == {"stopped": True}
    assert (stopped := embedded("questions", run)).code == 5 and "holdfast dev" in stopped.err
    assert embedded("attach", run, "--json").json["questions"][0]["message"] == "Round 1?"


@pytest.mark.slow
def test_json_may_be_asked_for_before_the_command_and_says_who_is_awaited(holdfast: Holdfast) -> None:
    run = holdfast.park(TONE)["run"]
    holdfast.listed(run)
    [listed] = [one for one in holdfast("--json", "runs", "--waiting").json if one["run"] == run]
    assert (listed["status"], listed["waiting_for"]) == ("waiting", ["anyone"])


@pytest.mark.slow
def test_the_history_names_the_steps_that_asked(holdfast: Holdfast) -> None:
    run = holdfast.park(TONE)["run"]
    holdfast("answer", run, "tone", "warm")
    assert "brief · tone" in holdfast("history", run).out


def test_the_history_of_temporal_says_what_proves_who_answered(holdfast: Holdfast, tmp_path: Path) -> None:
    holdfast = holdfast.having(HOLDFAST_HOME=str(tmp_path))  # where no record is
    run = holdfast.park(TONE)["run"]
    holdfast("answer", run, "tone", "warm", "--by", "user:ana")
    title, answer = (line.split() for line in holdfast("history", run).out.splitlines())
    assert title[:5] == ["WHEN", "WHO", "PROVED", "BY", "QUESTION"]
    assert answer[2:4] == ["user:ana", "nothing"]


@pytest.mark.slow
def test_the_history_is_read_where_the_records_disk_is_full(holdfast: Holdfast, tmp_path: Path) -> None:
    holdfast = holdfast.having(HOLDFAST_HOME=str(tmp_path))
    run = holdfast.park(TONE)["run"]
    holdfast("answer", run, "tone", "warm", "--by", "user:ana")
    open_store(f"sqlite:{tmp_path / 'record.sqlite'}").close()
    holdfast("history", run)
    holdfast("answer", run, "title", "Tea", "--by", "user:bob")
    with full_disk():
        told = holdfast("history", run)
    assert (told.code, "record.sqlite cannot be written" in told.err) == (0, True)
    assert "user:ana" in told.out and "Traceback" not in told.err


@pytest.mark.slow
def test_what_the_record_has_is_read_while_temporal_is_away(holdfast: Holdfast, tmp_path: Path) -> None:
    holdfast = holdfast.having(HOLDFAST_HOME=str(tmp_path))
    run = holdfast.park(TONE)["run"]
    holdfast("answer", run, "tone", "warm", "--by", "user:ana")
    open_store(f"sqlite:{tmp_path / 'record.sqlite'}").close()
    holdfast("history", run)
    away = holdfast.having(TEMPORAL_ADDRESS="127.0.0.1:9")
    told = away("history", run)
    assert (told.code, "user:ana" in told.out, "from the record only" in told.err) == (0, True, True), told
    assert "user:ana" in away("history", run, "--jsonl").out
    assert {away(*words).code for words in (["history", "nobody-knows"], ["show", run], ["result", run])} == {5}
    holdfast("cancel", run)
    holdfast("history", run)
    for words in ("show", "follow", "result", "graph --run"):
        told = away(*words.split(), run)
        assert (words, told.code, "from the record only" in told.err) == (words, words == "result", True)
        assert "warm" in told.out + told.err or words == "graph --run"


def test_the_history_of_a_broken_record_is_that_of_temporal(holdfast: Holdfast, tmp_path: Path) -> None:
    holdfast = holdfast.having(HOLDFAST_HOME=str(tmp_path))
    run = holdfast.park(TONE)["run"]
    holdfast("answer", run, "tone", "warm", "--by", "user:ana")
    (tmp_path / "record.sqlite").write_text("no database" * 1000)
    told = holdfast("history", run)
    assert (told.code, "from Temporal's histories" in told.err, "user:ana" in told.out) == (0, True, True)


@pytest.mark.slow
def test_the_history_of_temporal_says_that_signals_may_have_been_refused(holdfast: Holdfast, tmp_path: Path) -> None:
    holdfast = holdfast.having(HOLDFAST_HOME=str(tmp_path))  # where no record is
    run = holdfast.park(TONE)["run"]
    holdfast("answer", run, "warm", "--signal")
    holdfast.rest(run)
    assert "1 of these came by signal" in holdfast("history", run).err


@pytest.mark.slow
def test_runs_and_questions_are_listed_by_the_page_with_the_command_for_more(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {holdfast.park(TONE, "--id", name)["run"] for name in ("paged-1", "paged-2")}
    for run in runs:
        holdfast.listed(run)
    monkeypatch.setattr("holdfast.cli.runs.PAGE_ROWS", 1)
    monkeypatch.setattr("holdfast.cli.questions.PAGE_ROWS", 1)
    for command in (["runs", "--waiting"], ["questions"]):
        first = holdfast(*command, "--json")
        more = shlex.split(first.err.partition("more: holdfast ")[2])
        second = holdfast(*more, "--json")
        assert {row["run"] for row in [*first.json, *second.json]} == runs
        assert more[:-1] == [*command, "--after"]
        # of another list
        assert holdfast("runs", "--blueprint", "other", *more[-2:], "--json").code == 2
