"""`run`, `start`, `attach`, and what only a process of its own can show: exit codes, pipes, two at a time."""

import json
import os
import re
import subprocess
from types import SimpleNamespace

import pytest

from holdfast.cli import app
from tests.client.command import FORM, LOOP, PATIENCE, TONE, Holdfast


def test_piped_lines_answer_one_question_each_and_the_result_is_printed(holdfast: Holdfast) -> None:
    ran = holdfast("run", holdfast.write("tone.yaml", TONE), typed="Warm and kind\nOn 'Tone' & <é>\n")
    assert ran.code == 0
    assert ran.json == {"tone": "warm", "title": "On 'Tone' & <é>"}
    assert "Which tone?" in ran.err


def test_without_a_command_all_commands_are_listed(holdfast: Holdfast) -> None:
    ran = holdfast()
    assert (ran.code, ran.out) == (2, "")
    assert "validate" in ran.err


def test_an_input_that_was_not_given_is_told_from_one_that_does_not_fit(holdfast: Holdfast) -> None:
    file = holdfast.write("text.yaml", "{inputs: {type: string}, steps: [{name: a}]}")
    assert "--input VALUE" in holdfast("run", file).err
    assert "--input VALUE" not in holdfast("run", file, "--input", "[1]").err


@pytest.mark.slow
def test_a_refused_line_is_told_and_the_next_one_is_taken(holdfast: Holdfast) -> None:
    ran = holdfast("run", holdfast.write("tone.yaml", TONE), "--json", typed="cold\nwarm\n\nA title\n")
    assert (ran.code, ran.json["status"]) == (0, "completed")
    assert ran.json["output"] == {"tone": "warm", "title": "A title"}
    assert "'cold' is not one of the options: warm, formal" in ran.err
    assert "blank" in ran.err


@pytest.mark.slow
def test_text_is_printed_as_it_is(holdfast: Holdfast) -> None:
    ran = holdfast("run", holdfast.write("loop.yaml", LOOP), typed="more\nstop\n")
    assert (ran.code, ran.out) == (0, "stop\n")
    assert "clarify 2" in ran.err


@pytest.mark.slow
def test_at_the_end_of_input_it_parks_and_attach_goes_on(holdfast: Holdfast) -> None:
    parked = holdfast("run", holdfast.write("loop.yaml", LOOP), "--id", "parks", typed="one\ntwo\n")
    assert (parked.code, parked.out) == (3, "")
    assert "Round 3?" in parked.err
    assert re.search(r"holdfast answer parks [0-9a-f]{16} VALUE", parked.err)
    assert "holdfast attach parks" in parked.err
    ended = holdfast("attach", "parks", "--json", typed="stop\n")
    assert (ended.code, ended.json["output"]) == (0, "stop")
    iterations = holdfast("show", "parks", "--json").json["trace"]["steps"][0]["iterations"]
    assert [one["n"] for one in iterations] == [1, 2, 3]


def test_a_parked_run_is_one_json_value_with_its_questions(holdfast: Holdfast) -> None:
    ran = holdfast("run", holdfast.write("tone.yaml", TONE), "--json", "--id", "parks-json")
    assert ran.code == 3
    assert ran.json.keys() == {"run", "status", "questions"}
    assert (ran.json["run"], ran.json["status"]) == ("parks-json", "waiting")
    assert [question["message"] for question in ran.json["questions"]] == ["Which tone?"]


@pytest.mark.slow
def test_a_file_of_answers_is_used_in_order_of_asking(holdfast: Holdfast) -> None:
    holdfast.write(
        "answers.yaml", "- {question: more, content: again, times: 2}\n- {question: '*hitl:m*', content: stop}"
    )
    ran = holdfast("run", holdfast.write("loop.yaml", LOOP), "--answers", "answers.yaml", "--json")
    assert (ran.code, ran.json["output"]) == (0, "stop")
    assert "clarify 3" in ran.err


def test_answers_that_are_left_over_are_named(holdfast: Holdfast) -> None:
    holdfast.write(
        "answers.yaml",
        "- {question: tone, content: warm}\n- {question: titel, content: x}\n- {question: title, content: A, times: 3}",
    )
    ran = holdfast("run", holdfast.write("tone.yaml", TONE), "--answers", "answers.yaml", "--json")
    assert (ran.code, ran.json["status"]) == (0, "completed")
    assert "unused answers in answers.yaml: [1] titel; [2] title, 2 of 3 times" in ran.err


def test_a_question_that_the_file_does_not_answer_parks(holdfast: Holdfast) -> None:
    holdfast.write("answers.yaml", "- {question: tone, content: cold}\n- {question: nobody, content: x}")
    ran = holdfast("run", holdfast.write("tone.yaml", TONE), "--answers", "answers.yaml", "--json")
    assert (ran.code, ran.json["questions"][0]["message"]) == (3, "Which tone?")
    assert "the file's answer was refused" in ran.err


@pytest.mark.slow
def test_a_declined_question_fails_the_run(holdfast: Holdfast) -> None:
    holdfast.write("answers.yaml", "- {question: title, decline: true}\n- {question: tone, content: warm}")
    ran = holdfast("run", holdfast.write("tone.yaml", TONE), "--answers", "answers.yaml", "--json")
    assert (ran.code, ran.json["status"], ran.json["output"]) == (1, "failed", None)
    assert ran.json["error"].keys() == {"type", "message", "address", "reason", "raised_at"}
    assert ran.json["error"]["type"] == "question_declined"


@pytest.mark.slow
def test_a_run_that_failed_tells_its_context_and_what_it_has_done(holdfast: Holdfast) -> None:
    steps = "[{name: first, input: one, sink_to: first}, {name: boom, input: '{{ 1 / 0 }}'}]"
    ran = holdfast("run", holdfast.write("boom.yaml", f"steps: {steps}"), "--json")
    done = [{"address": "pipeline:boom;step:first", "name": "first", "kind": "step", "output": "one"}]
    assert (ran.code, ran.json["context"], ran.json["done"]) == (1, {"first": "one"}, done)
    again = holdfast("result", ran.json["run"], "--json")
    assert (again.code, again.json) == (1, ran.json)
    assert "✓ boom · first  'one'" in holdfast("result", ran.json["run"]).err
    assert "first" in holdfast("show", ran.json["run"]).out


@pytest.mark.slow
def test_the_answer_of_a_form_is_a_line_of_json(holdfast: Holdfast) -> None:
    ran = holdfast("run", holdfast.write("form.yaml", FORM), typed='Rome\n{"city": "Rome", "days": 2}\n')
    assert (ran.code, ran.json) == (0, {"city": "Rome", "days": 2})
    assert "expected an object" in ran.err or "must be an object" in ran.err


def test_start_prints_the_id_and_a_second_run_of_it_is_refused(holdfast: Holdfast) -> None:
    file = holdfast.write("tone.yaml", TONE)
    assert holdfast("start", file, "--id", "twice", "--json").json == {"run": "twice"}
    again = holdfast("start", file, "--id", "twice", "--json")
    assert (again.code, again.json["error"]["type"]) == (2, "run_exists")
    assert "holdfast attach twice" in again.err


@pytest.mark.slow
def test_input_is_text_where_text_is_wanted_and_else_json(holdfast: Holdfast) -> None:
    steps = "steps: [{name: echo}]\n"
    text = holdfast.write("text.yaml", "inputs: {type: string}\n" + steps)
    holdfast.write("in.yaml", "a: [yes, 2]")
    assert holdfast("run", text, "--input", "42").out == "42\n"
    assert holdfast("run", holdfast.write("any.yaml", steps), "--input", "@in.yaml").json == {"a": ["yes", 2]}
    wrong = holdfast("run", holdfast.write("number.yaml", "inputs: {type: integer}\n" + steps), "--input", "many")
    assert wrong.code == 2
    assert "does not fit" in wrong.err


def test_an_unreadable_file_and_a_wrong_blueprint_are_told_before_anything_starts(holdfast: Holdfast) -> None:
    assert holdfast("run", "nowhere.yaml").code == 2
    wrong = holdfast("run", holdfast.write("wrong.yaml", "steps: [{name: a, kind: aproval}, {name: a}]"), "--json")
    assert (wrong.code, wrong.json["error"]["type"]) == (2, "blueprint_invalid")
    assert len(wrong.json["error"]["problems"]) >= 1
    answers = holdfast(
        "run", holdfast.write("tone.yaml", TONE), "--answers", holdfast.write("a.yaml", "- {qestion: a}")
    )
    assert answers.code == 2
    assert "a.yaml:1:4 [0].qestion: unknown key 'qestion' (did you mean 'question'?)" in answers.err


def test_a_server_that_is_not_there_is_exit_code_5(holdfast: Holdfast) -> None:
    ran = holdfast.having(TEMPORAL_ADDRESS="127.0.0.1:1")("runs", "--json")
    assert (ran.code, ran.json["error"]["type"]) == (5, "server_unreachable")
    assert "TEMPORAL_ADDRESS" in ran.err


@pytest.mark.slow
def test_a_process_ends_with_the_exit_code_of_its_command(holdfast: Holdfast) -> None:
    process = holdfast.as_process()
    file = process.write("tone.yaml", TONE)
    done = process("run", file, typed="Warm and kind\nOn 'Tone' & <é>\n")
    assert (done.code, done.json) == (0, {"tone": "warm", "title": "On 'Tone' & <é>"})
    assert process("run", "nowhere.yaml").code == 2


@pytest.mark.parametrize("system", ["win32", "cygwin"])
def test_a_system_that_is_not_supported_is_told_the_way_out(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    monkeypatch.setattr(app, "sys", SimpleNamespace(platform=system))
    ran = holdfast("runs")
    assert (ran.code, ran.err.partition(":")[0]) == (
        2,
        "Holdfast runs on Linux and macOS. On Windows use it in WSL",
    )


@pytest.mark.slow
def test_each_outcome_has_its_exit_code(holdfast: Holdfast) -> None:
    file = holdfast.write("tone.yaml", TONE)
    assert holdfast("run", file, "--answers", holdfast.write("no.yaml", "- {question: tone, decline: true}")).code == 1
    parked = holdfast("run", file, "--json")
    assert (parked.code, parked.json["status"]) == (3, "waiting")
    assert holdfast("answer", parked.json["run"], "cold").code == 4


@pytest.mark.slow
def test_a_reader_who_leaves_is_no_error(holdfast: Holdfast) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(holdfast.command(("schema",)), stdout=writing, stderr=-1, text=True, **holdfast.place())
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
def test_one_question_answered_elsewhere_is_told_and_the_run_goes_on(holdfast: Holdfast) -> None:
    run = holdfast.park(LOOP)["run"]
    attached = subprocess.Popen(
        holdfast.command(("attach", run, "--json")), stdin=-1, stdout=-1, stderr=-1, text=True, **holdfast.place()
    )
    assert attached.stderr is not None
    while "Round 1?" not in attached.stderr.readline():
        pass
    assert holdfast("answer", run, "elsewhere").code == 0
    out, err = attached.communicate("late\nstop\n", timeout=PATIENCE)
    assert (attached.returncode, json.loads(out)["output"]) == (0, "stop")
    assert "was closed in the meantime" in err
    assert "Round 2?" in err
