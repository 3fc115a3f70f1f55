"""`questions`, `answer`, `history`, `pause`, `resume`, `cancel`."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tests.tools  # noqa: F401 registers the tools
from holdfast.cli import control
from holdfast.cli.answer import TypedAnswer
from holdfast.client.reading import BadUsage
from holdfast.protocol.undos import UndoProgress
from tests.client.command import FORM, LOOP, TONE, Holdfast


def test_a_wrong_answer_is_refused_and_the_right_one_then_works(holdfast: Holdfast) -> None:
    run = holdfast.park(TONE)["run"]
    wrong = holdfast("answer", run, "cold", "--json")
    assert (wrong.code, wrong.json["error"]["type"]) == (4, "invalid_answer")
    right = holdfast("answer", run, "formal", "--json")
    assert right.code == 0
    assert [(one["status"], one["by"]) for one in right.json] == [("answered", "user:ana")]


@pytest.mark.slow
def test_a_question_is_named_by_id_prefix_address_or_step(holdfast: Holdfast) -> None:
    parked = holdfast.park(LOOP)
    run = parked["run"]
    assert holdfast("answer", run, parked["questions"][0]["id"][:6], "by prefix").code == 0
    asked = holdfast.rest(run)["questions"][0]
    assert holdfast("answer", run, asked["address"], "--content", '"by address"', "--by", "bob").code == 0
    asked = holdfast.rest(run)["questions"][0]
    assert holdfast("answer", run, "more", "stop", "--comment", "enough").code == 0
    assert holdfast("result", run, "--wait", "--json").json["output"] == "stop"
    history = holdfast("history", run, "--json").json
    assert [(one["content"], one["by"], one["via"]) for one in history] == [
        ("by prefix", "user:ana", "update"),
        ("by address", "user:bob", "update"),
        ("stop", "user:ana", "update"),
    ]
    assert (history[2]["question"], history[2]["comment"]) == (asked["id"], "enough")


@pytest.mark.slow
@pytest.mark.parametrize("named", [[], ["more"]])
def test_who_means_a_question_that_somebody_else_has_answered_answers_no_other(
    holdfast: Holdfast, named: list[str]
) -> None:
    run, bob = holdfast.park(LOOP)["run"], holdfast.having(HOLDFAST_HOME="bob")
    assert run in bob("show", run).out
    assert holdfast("answer", run, *named, "first").code == 0
    second = holdfast.rest(run)["questions"][0]
    late = bob("answer", run, *named, "for the first")
    assert (late.code, "the question that you saw, " in late.err, second["id"] in late.err) == (4, True, True)
    assert bob("answer", run, *named, "for the second").code == 0  # which the refusal has shown
    assert holdfast("answer", run, *named, "stop").code == 4  # the second one was seen here, and the third was not
    assert holdfast("answer", run, *named, "stop").code == 0


@pytest.mark.slow
def test_one_answer_after_another_needs_no_look_in_between(holdfast: Holdfast) -> None:
    run, elsewhere = holdfast.park(LOOP)["run"], holdfast.having(HOLDFAST_HOME="elsewhere")
    for content in ("first", "second", "stop"):
        assert holdfast("answer", run, content).code == 0
        elsewhere.rest(run)
    assert holdfast("result", run, "--wait", "--json").json["output"] == "stop"


AGAIN = """
steps:
  - {kind: loop, name: pay, loop: {body: [{kind: hitl, name: send, ask: permission, message: Pay?}], max_loops: 3}}
"""
TWO_PERMISSIONS = """
steps:
  - {kind: hitl, name: read, ask: permission, message: Read the file?}
  - {kind: hitl, name: delete, ask: permission, message: Delete the file?}
"""
FOLLOWING = """
steps:
  - {kind: hitl, name: one, ask: clarification, message: One?}
  - {kind: hitl, name: two, ask: clarification, message: Two?}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("blueprint", "words", "name"),
    [
        (TWO_PERMISSIONS, ["yes"], "delete"),
        (AGAIN, ["yes"], "send"),
        (AGAIN, ["send", "yes"], "send"),
        (FOLLOWING, ["a text"], "two"),
    ],
)
def test_the_same_command_again_answers_no_question_that_was_not_shown(
    holdfast: Holdfast, blueprint: str, words: list[str], name: str
) -> None:
    run, elsewhere = holdfast.park(blueprint)["run"], holdfast.having(HOLDFAST_HOME="elsewhere")
    assert holdfast("answer", run, *words).code == 0
    [second] = elsewhere.rest(run)["questions"]
    again = holdfast("answer", run, *words)
    assert (again.code, f"answer {run} {second['id']}" in again.err) == (4, True)
    assert second["address"].endswith(f"hitl:{name}")
    assert holdfast("answer", run, *words).code == 0  # the refusal has shown it


def test_a_yes_to_a_question_that_is_not_open_is_refused(holdfast: Holdfast) -> None:
    parked = holdfast.park("steps: [{kind: hitl, name: go, ask: permission, message: Go?}]")
    run, [asked] = parked["run"], parked["questions"]
    other = holdfast("answer", run, "stop", "--yes", "--json")
    assert (other.code, other.json["error"]["type"]) == (4, "unknown_question")
    assert holdfast("answer", run, "go", "--yes").code == 0
    holdfast("result", run, "--wait")
    elsewhere = holdfast.having(HOLDFAST_HOME="elsewhere")  # where nobody remembers the question
    for named, code in {asked["address"]: "already_answered", "go": "run_closed"}.items():
        late = elsewhere("answer", run, named, "--no", "late", "--json")
        assert (late.code, late.json["error"]["type"]) == (4, code)


@pytest.mark.slow
def test_the_same_key_counts_once_and_other_content_under_it_is_a_conflict(holdfast: Holdfast) -> None:
    parked = holdfast.park(LOOP)
    run, asked = parked["run"], parked["questions"][0]["id"]
    first = holdfast("answer", run, asked, "42", "--key", "k", "--json")
    assert holdfast("answer", run, asked, "42", "--key", "k", "--json").json == first.json
    assert holdfast("answer", run, asked, "43", "--key", "k", "--json").json["error"]["type"] == "key_conflict"
    late = holdfast("answer", run, asked, "44", "--json")
    assert (late.code, late.json["error"]["type"]) == (4, "already_answered")
    assert "user:ana" in late.err


@pytest.mark.slow
def test_an_answer_by_step_repeated_under_its_key_is_not_one_to_the_next_question(holdfast: Holdfast) -> None:
    run = holdfast.park(LOOP)["run"]
    first = holdfast("answer", run, "more", "42", "--key", "k", "--json")
    asked = holdfast.rest(run)["questions"]
    again = holdfast("answer", run, "more", "42", "--key", "k", "--json")
    assert (again.code, again.json) == (0, first.json)
    assert holdfast.rest(run)["questions"] == asked != []


@pytest.mark.slow
def test_a_refused_signal_repeated_under_its_key_is_no_answer_to_the_next_question(holdfast: Holdfast) -> None:
    tone = "{kind: hitl, name: tone, ask: decision, message: Tone?, options: [warm, formal]}"
    loop = f"{{kind: loop, name: l, loop: {{max_loops: 1, body: {tone}}}}}"
    parked = holdfast.park(f"steps: [{loop}, {{kind: hitl, name: title, message: A title?}}]")
    run, [tone_asked] = parked["run"], parked["questions"]
    answer = {"question": tone_asked["id"], "content": "cold", "by": "user:ana", "key": "k"}
    holdfast.signal(tone_asked["owner"], "answer", answer)
    assert holdfast("answer", run, "warm").code == 0
    title_asked = holdfast.rest(run)["questions"]
    again = holdfast("answer", run, "cold", "--key", "k", "--json")
    assert (again.code, again.json["error"]["type"]) == (4, "already_answered")
    assert holdfast.rest(run)["questions"] == title_asked != []


def test_a_file_answers_what_is_open_and_says_what_is_not(holdfast: Holdfast) -> None:
    run = holdfast.park(FORM)["run"]
    holdfast.write("answers.yaml", "# nothing yet\n")
    empty = holdfast("answer", run, "--file", "answers.yaml")
    assert (empty.code, "answers.yaml: the file is empty; expected a list" in empty.err) == (2, True)
    holdfast.write("answers.yaml", "[{question: nobody, content: x}]")
    assert holdfast("answer", run, "--file", "answers.yaml", "--json").json["error"]["type"] == "unknown_question"
    holdfast.write("answers.yaml", "[{question: 't*p', content: {city: Rome, days: 2}}]")
    assert holdfast("answer", run, "--file", "answers.yaml").code == 0
    assert holdfast.rest(run)["output"] == {"city": "Rome", "days": 2}


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (TypedAnswer([]), "No answer: give a VALUE"),
        (TypedAnswer(["tone", "warm", "kind"]), "Too many arguments: 'kind'"),
        (TypedAnswer(["warm"], decline=True, cancel=True), "give only one of"),
        (TypedAnswer(["warm"], file=Path("answers.yaml")), "Too many arguments: 'warm'"),
    ],
)
def test_what_cannot_be_meant_is_bad_usage(typed: TypedAnswer, told: str) -> None:
    with pytest.raises(BadUsage, match=told):
        typed.check()


def test_a_file_may_hold_the_answer_and_is_none_by_mistake(holdfast: Holdfast) -> None:
    run = holdfast.park(TONE)["run"]
    holdfast("answer", run, "tone", "warm")
    holdfast.write("title.txt", "Tea & Co\n")
    told = holdfast("answer", run, "title", "@title.txt")
    assert (told.code, "--content @title.txt" in told.err) == (2, True)
    assert holdfast("answer", run, "title", "--content", "@title.txt").code == 0
    assert holdfast("result", run, "--wait", "--json").json["output"]["title"] == "Tea & Co\n"


def test_a_run_that_is_not_there_and_content_that_is_no_json_are_bad_usage(holdfast: Holdfast) -> None:
    assert holdfast("answer", "no-such-run", "x", "--json").json["error"]["type"] == "unknown_run"
    run = holdfast.park(TONE)["run"]
    wrong = holdfast("answer", run, "--content", "{", "--json")
    assert (wrong.code, wrong.json["error"]["type"]) == (2, "bad_usage")


def test_what_is_no_text_is_bad_usage_that_names_the_place(holdfast: Holdfast) -> None:
    bytes_ = b"a\xff".decode(errors="surrogateescape")
    for words in (["answer", "r", bytes_], ["tell", "r", bytes_], ["start", "x.yaml", "--input", bytes_]):
        said = holdfast(*words)
        assert (said.code, f"argument {len(words)} ('a\\udcff') is not UTF-8 text" in said.err) == (2, True), said
    parked = holdfast.park("steps: [{kind: hitl, name: ask, message: Go?}]")
    said = holdfast("answer", parked["run"], "--content", r'{"a": "\ud800"}')
    assert (said.code, "--content: a: half a character" in said.err) == (2, True), said
    said = holdfast("start", "parked.yaml", "--input", r'"\ud800"')
    assert (said.code, "half a character" in said.err) == (2, True), said


@pytest.mark.slow
def test_a_run_that_has_ended_takes_no_answer(holdfast: Holdfast) -> None:
    run = holdfast.park(TONE)["run"]
    assert holdfast("cancel", run, "--json").json == {"run": run, "status": "cancelled", "left": []}
    closed = holdfast("answer", run, "warm", "--json")
    assert (closed.code, closed.json["error"]["type"]) == (4, "run_closed")
    assert holdfast("pause", run).code == 4


LAST_WORD = """
steps:
  - kind: block
    name: all
    steps: [{kind: hitl, name: ask, message: Go on?}]
    finally: [{kind: hitl, name: last, message: Any last word?}]
"""


@pytest.mark.slow
def test_a_run_that_was_asked_to_end_and_has_not_ended_says_so(holdfast: Holdfast) -> None:
    run = holdfast.park(LAST_WORD)["run"]
    assert holdfast("show", run, "--json").json["cancel_requested"] is False
    holdfast("cancel", run, "--wait", "0")
    holdfast.rest(run)
    assert f"{run}  waiting, cancel requested" in holdfast("show", run).out
    assert holdfast("show", run, "--json").json["cancel_requested"] is True
    assert holdfast("answer", run, "last", "none").code == 0
    assert holdfast("result", run, "--wait", "--json").json["status"] == "cancelled"
    assert holdfast("show", run, "--json").json["cancel_requested"] is False


UNDOING = """
steps:
  - kind: block
    name: all
    steps:
      - {name: pay, uses: stringy, input: {text: paid}, undo: {uses: fails_always, arguments: {}}}
      - {kind: hitl, name: ask, message: Go on?}
"""


@pytest.mark.slow
def test_a_cancel_says_how_far_it_undoes_and_force_what_it_leaves(holdfast: Holdfast) -> None:
    run = holdfast.park(UNDOING)["run"]
    holdfast("cancel", run, "--wait", "0")
    holdfast.rest(run)  # it asks about the undo, which fails
    asked = holdfast("cancel", run, "--wait", "0")
    assert asked.code == 1
    assert f"run {run} is undoing 1 of 1; these have not ended" in asked.err
    assert holdfast("show", run, "--json").json["undoing"] == {"number": 1, "total": 1}
    assert f"{run}  waiting, undoing 1 of 1\n" in holdfast("show", run).out
    forced = holdfast("cancel", run, "--force")
    assert forced.code == 0
    told = [line.strip() for line in forced.err.splitlines()]
    assert told[:2] == [
        f"run {run} has done this, which will not be undone:",
        "parked · all · pay (undone by fails_always)",
    ]
    assert told[-1].startswith(f"run {run} was terminated")  # before it, how long it waits, if that is long
    assert "step.undoing" in holdfast("follow", run).out


async def test_each_undo_is_said_once_while_a_cancel_waits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "UNDOING_SECONDS", 0.0)
    ended = asyncio.get_running_loop().create_future()
    looks = [None, UndoProgress(number=1, total=2), UndoProgress(number=1, total=2), UndoProgress(number=2, total=2)]

    async def read_undoing(run: str) -> UndoProgress | None:
        if len(looks) == 1:
            ended.set_result(None)
        return looks.pop(0)

    runs: Any = SimpleNamespace(control=SimpleNamespace(read_undoing=read_undoing))
    await control.show_undoing(runs, "run", ended)
    assert capsys.readouterr().err.split("\n") == ["undoing 1 of 2", "undoing 2 of 2", ""]


@pytest.mark.slow
def test_a_paused_run_takes_answers_and_goes_on_when_resumed(holdfast: Holdfast) -> None:
    run = holdfast.park(TONE)["run"]
    assert holdfast("pause", run, "--json").json == {"run": run, "status": "paused", "left": []}
    assert holdfast("answer", run, "warm").code == 0
    seen = holdfast("show", run, "--json").json
    assert (seen["status"], seen["questions"]) == ("paused", [])
    holdfast.listed(run, "paused")
    assert holdfast("resume", run[:-2]).code == 0
    assert holdfast.rest(run)["questions"][0]["message"] == "A title?"


@pytest.mark.slow
def test_all_runs_of_a_blueprint_are_paused_resumed_and_cancelled_at_once(holdfast: Holdfast) -> None:
    text = "name: batch\nsteps: [{kind: hitl, name: ask, message: Go?}]"
    runs = sorted(holdfast.park(text)["run"] for _ in range(2))
    for word, status, listed in (
        ("pause", "paused", "waiting"),
        ("resume", "running", "paused"),
        ("cancel", "cancelled", "waiting"),
    ):
        for run in runs:
            holdfast.listed(run, listed)
        done = holdfast(word, "--blueprint", "batch", "--json")
        assert done.code == 0, done
        expected = [{"run": run, "status": status, "left": []} for run in runs]
        assert sorted(done.json, key=lambda one: one["run"]) == expected
    for run in runs:
        holdfast.listed(run, "cancelled")
    assert holdfast("cancel", "--blueprint", "batch", "--json").json == []
    assert holdfast("cancel", runs[0], "--all").code == 2
    assert holdfast("pause").code == 2


def test_a_run_that_refuses_a_command_keeps_no_other_from_it(holdfast: Holdfast) -> None:
    name = "several-one-refuses"
    limited = f"name: {name}\naccess: {{steer: ['user:olga']}}\nsteps: [{{kind: hitl, name: ask, message: Go?}}]"
    free = f"name: {name}\nsteps: [{{kind: hitl, name: ask, message: Go?}}]"
    runs = [holdfast.park(text)["run"] for text in (free, limited, free)]
    for run in runs:
        holdfast.listed(run, "waiting")
    done = holdfast("pause", "--blueprint", name, "--by", "ana", "--json")
    told = {one["run"]: one.get("status") or one["error"]["type"] for one in done.json}
    assert (done.code, [told[run] for run in runs]) == (1, ["paused", "not_allowed", "paused"])


@pytest.mark.slow
def test_questions_without_a_run_tell_who_waits_where(holdfast: Holdfast) -> None:
    asked = holdfast.park(TONE)["questions"][0]
    holdfast.listed(asked["run"])
    [row] = [row for row in holdfast("questions", "--json").json if row["run"] == asked["run"]]
    assert {key: row[key] for key in asked} == asked
    assert row["waiting_for"] == ["anyone"]
    assert row.keys() - asked.keys() == {"waiting_for", "since"}
    assert asked["id"] in holdfast("questions").out


def test_an_answer_by_signal_says_sent_and_names_the_owner(holdfast: Holdfast) -> None:
    run = holdfast.park(TONE)["run"]
    sent = holdfast("answer", run, "warm", "--signal", "--json")
    assert [(one["status"], one["owner"]) for one in sent.json] == [("sent", run)]
    assert holdfast.rest(run)["questions"][0]["message"] == "A title?"
    assert [one["via"] for one in holdfast("history", run, "--json").json] == ["signal"]


@pytest.mark.slow
@pytest.mark.parametrize("content", ['{"city": "Rome", "days": 1e999}', '{"city": "Rome", "city": "Oslo"}'])
def test_what_would_be_changed_in_silence_is_refused_before_it_is_sent(holdfast: Holdfast, content: str) -> None:
    run = holdfast.park(FORM)["run"]
    said = holdfast("answer", run, "--content", content)
    assert (said.code, "days" in said.err or "city" in said.err) == (2, True), said
    assert holdfast("run", FORM, "--input", content).code == 2
    assert holdfast("answer", run, "--content", '{"city": "Rome", "days": 2}').code == 0


def test_a_permission_that_shows_a_value_which_is_no_object_is_answered(holdfast: Holdfast) -> None:
    ask = "{kind: hitl, name: sign, ask: permission, message: Pay?, input: true}"
    run = holdfast.park(f"steps: [{ask}]")["run"]
    said = holdfast("answer", run, "yes")
    assert (said.code, "Traceback" in said.err) == (0, False), said
