"""`holdfast validate`: warnings do not stop anybody, and SARIF is what code hosts read."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.blueprint.codes import CODES
from holdfast.blueprint.jsonschemas import list_misfits
from holdfast.cli.sarif import sarif_log
from tests.client.command import Holdfast

WARNED = "name: flow\nagents:\n  old: {model: echo}\nsteps: [{name: greet}]\n"
BAD = "steps: [{name: a, wen: true}, {name: b, kind: aproval}]"
TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
POSITIVE = {"type": "integer", "minimum": 1}
LOCATION = {
    "type": "object",
    "properties": {
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation"],
            "properties": {
                "artifactLocation": {"properties": {"uri": {"type": "string", "pattern": "^[^ ]+$"}}},
                "region": {"properties": {"startLine": POSITIVE, "startColumn": POSITIVE}},
            },
        },
        "logicalLocations": {"items": {"properties": {"fullyQualifiedName": {"type": "string"}}}},
    },
}
RULE = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "string"}, "shortDescription": TEXT},
}
RESULT = {
    "type": "object",
    "required": ["message", "ruleId", "level"],
    "properties": {"message": TEXT, "level": LEVEL, "locations": {"type": "array", "items": LOCATION}},
}
DRIVER = {
    "type": "object",
    "required": ["name"],
    "properties": {"rules": {"type": "array", "items": RULE, "uniqueItems": True}},
}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "$schema": {"type": "string"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool"],
                "properties": {
                    "tool": {"type": "object", "required": ["driver"], "properties": {"driver": DRIVER}},
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {"type": "array", "items": RESULT},
                },
            },
        },
    },
}
"""What SARIF 2.1.0 requires of the parts that we write."""


@pytest.mark.parametrize("text", [WARNED, BAD, "steps: [{name: greet}]", "a: [", ""])
def test_sarif_has_what_its_schema_requires_and_every_rule(holdfast: Holdfast, text: str) -> None:
    log = holdfast("validate", holdfast.write("a flow.yaml", text), "--sarif").json
    assert list(list_misfits(SARIF, log)) == []
    [run] = log["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(CODES)
    for result in run["results"]:
        assert list(CODES)[result["ruleIndex"]] == result["ruleId"]


def test_a_problem_stands_in_sarif_at_its_line_with_its_way_out(holdfast: Holdfast) -> None:
    ran = holdfast("validate", holdfast.write("a flow.yaml", WARNED), "--sarif")
    [result] = ran.json["runs"][0]["results"]
    [place] = result["locations"]
    assert (ran.code, result["ruleId"], result["level"]) == (0, "unused_agent", "warning")
    assert result["message"]["text"] == "nothing uses the agent 'old' (remove it, or use it in a step)"
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "a%20flow.yaml"},
        "region": {"startLine": 3, "startColumn": 3},
    }
    assert place["logicalLocations"] == [{"fullyQualifiedName": "agents.old"}]


def test_a_file_that_cannot_be_read_has_no_region(holdfast: Holdfast) -> None:
    ran = holdfast("validate", "nowhere.yaml", "--sarif")
    [result] = ran.json["runs"][0]["results"]
    assert (ran.code, result["ruleId"], result["level"]) == (2, "unreadable_file", "error")
    assert result["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": "nowhere.yaml"}}}]


def test_a_log_without_problems_says_so() -> None:
    assert sarif_log([])["runs"][0]["results"] == []


def test_a_warning_is_told_and_changes_no_exit_code(holdfast: Holdfast) -> None:
    ran = holdfast("validate", holdfast.write("flow.yaml", WARNED))
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.splitlines() == [
        "flow.yaml:3:3 agents.old: warning: nothing uses the agent 'old' "
        "(remove it, or use it in a step) [unused_agent]",
        "flow.yaml: flow is fine, with 1 warning",
    ]
    shown = holdfast("validate", "flow.yaml", "--json").json
    assert (shown["ok"], [one["severity"] for one in shown["problems"]]) == (True, ["warning"])
    assert holdfast("validate", "flow.yaml", "--expand").out.startswith("name: flow\n")


def test_a_comment_makes_it_silent(holdfast: Holdfast) -> None:
    silent = WARNED.replace("echo}", "echo}  # holdfast: ignore unused_agent")
    assert holdfast("validate", holdfast.write("silent.yaml", silent), "--json").json == {"ok": True, "problems": []}


def test_errors_are_told_with_their_severity(holdfast: Holdfast) -> None:
    bad = holdfast("validate", holdfast.write("bad.yaml", BAD), "--json", "--expand")
    assert (bad.code, bad.json["ok"], "expanded" in bad.json) == (2, False, False)
    assert {one["severity"] for one in bad.json["problems"]} == {"error"}


def test_sarif_is_a_form_of_its_own(holdfast: Holdfast) -> None:
    ran = holdfast("validate", holdfast.write("flow.yaml", WARNED), "--sarif", "--json")
    assert (ran.code, ran.out) == (2, "")


def test_a_hook_that_starts_the_blueprint_is_checked(holdfast: Holdfast) -> None:
    settings = 'blueprint = "flow"\nsecret_env = "BILLS_SECRET"\ninput = {nummer = "{{ bdy.no }}"}'
    holdfast.write("holdfast.toml", f'[serve]\nblueprints = ["."]\n[hooks.bills]\n{settings}\n')
    inputs = "{type: object, required: [number], additionalProperties: false, properties: {number: {}}}"
    file = holdfast.write("flow.yaml", f"inputs: {inputs}\nsteps: [{{name: greet}}]")
    ran = holdfast("validate", file)
    assert ran.code == 2
    assert [line.partition(" hooks.bills.input: ")[2] for line in ran.err.splitlines()] == [
        "unknown name 'bdy'; there are: body, headers",
        "'number' is missing, which the inputs of flow require",
        "'nummer' is not one of the inputs of flow (did you mean 'number'?)",
    ]
    assert holdfast("validate", file, "--no-check").code == 0


@pytest.fixture
def empty_config(holdfast: Holdfast) -> Iterator[None]:
    """Let no configuration of one test reach another: they share a folder."""
    holdfast.write("holdfast.toml", "")
    yield
    holdfast.write("holdfast.toml", "")


@pytest.mark.usefixtures("empty_config")
@pytest.mark.parametrize("text", ["steps: [{name: greet}]", "steps: [{name: a, uses: stringify}]"])
def test_a_configuration_that_cannot_be_used_is_a_problem(holdfast: Holdfast, text: str) -> None:
    holdfast.write("holdfast.toml", "[worker]\ntask_queue = 5\n")
    file = holdfast.write("flow.yaml", text)
    ran = holdfast("validate", file, "--json")
    problem = ran.json["problems"][0]
    assert (ran.code, ran.json["ok"]) == (2, False)
    assert (problem["line"], problem["path"], problem["code"]) == (2, "worker.task_queue", "config_invalid")
    assert problem["file"].endswith("holdfast.toml")
    assert holdfast("validate", file, "--no-check").code == 0


@pytest.mark.usefixtures("empty_config")
@pytest.mark.parametrize("command", ["validate", "explain", "graph"])
def test_a_kind_of_question_in_a_configuration_that_cannot_be_used(holdfast: Holdfast, command: str) -> None:
    holdfast.write("holdfast.toml", '[worker]\nimports = "my_kinds"\n')
    file = holdfast.write("flow.yaml", "steps: [{kind: hitl, name: ok, ask: trust, message: Ok?}]")
    ran = holdfast(command, file)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert "holdfast.toml:2:" in ran.err and "worker.imports: must be a list in brackets" in ran.err


@pytest.mark.usefixtures("empty_config")
def test_a_configuration_that_is_no_toml_is_a_problem(holdfast: Holdfast) -> None:
    holdfast.write("holdfast.toml", "[worker]\nimports = x\n")
    ran = holdfast("validate", holdfast.write("flow.yaml", "steps: [{name: greet}]"))
    assert (ran.code, "holdfast.toml:2:11: not valid TOML" in ran.err, "is fine" in ran.err) == (2, True, False)


@pytest.mark.usefixtures("empty_config")
def test_an_address_that_is_none_is_a_problem(holdfast: Holdfast) -> None:
    file = holdfast.write("flow.yaml", "steps: [{name: greet}]")
    ran = holdfast.having(TEMPORAL_ADDRESS="https://h")("validate", file)
    assert (ran.code, "TEMPORAL_ADDRESS: 'https://h' is a URL" in ran.err, "is fine" in ran.err) == (2, True, False)


@pytest.mark.usefixtures("empty_config")
def test_what_was_not_checked_is_not_told_as_fine(holdfast: Holdfast) -> None:
    plain = holdfast.having(TEMPORAL_ADDRESS="127.0.0.1:1")
    ran = plain("validate", holdfast.write("flow.yaml", "steps: [{name: a, uses: no_such_tool}]"))
    assert (ran.code, ran.err.splitlines()[-1]) == (0, "flow.yaml: flow is fine as far as it was checked")


def test_several_files_and_folders_are_checked_at_once(holdfast: Holdfast) -> None:
    (holdfast.folder / "flows/deep").mkdir(parents=True)
    holdfast.write("flows/good.yaml", "steps: [{name: a}]")
    holdfast.write("flows/deep/braces.json", '{"steps": [{"name": "a"}]}')
    holdfast.write("flows/replies.yaml", "a: [reply]")
    holdfast.write("flows/.hidden.yaml", "steps: []")
    ran = holdfast("validate", "flows", holdfast.write("flow.yaml", WARNED), "--no-check")
    fine = ("flows/deep/braces.json: braces is fine", "flows/good.yaml: good is fine", "flow.yaml: flow is fine")
    assert ran.code == 0 and all(line in ran.err for line in fine) and "replies" not in ran.err
    holdfast.write("flows/bad.yaml", BAD)
    ran = holdfast("validate", "flows", "--no-check", "--json")
    assert (ran.code, ran.json["ok"]) == (2, False)
    assert {problem["file"] for problem in ran.json["problems"]} == {"flows/bad.yaml"}


def test_keys_prove_who_answered(holdfast: Holdfast) -> None:
    first = "{kind: hitl, name: first, message: '?'}"
    second = "{kind: hitl, name: second, message: '?', not_by: ['{{ steps.first.reply.by }}']}"
    file = holdfast.write("eyes.yaml", f"steps: [{first}, {second}]")
    assert "unproved_person" in holdfast("validate", file).err
    guarded = holdfast.having(KEY="a" * 32)
    settings = Path(holdfast.write("holdfast.toml", '[answers]\nkey_env = "KEY"\n'))
    try:
        assert "unproved_person" not in guarded("validate", file).err
    finally:
        (holdfast.folder / settings).unlink()  # the folder is that of all tests of the command line


def test_a_file_of_tests_is_told_from_a_blueprint(holdfast: Holdfast) -> None:
    place = holdfast.write("brief.test.yaml", "tests: []\n")
    refused = holdfast("validate", place)
    assert (refused.code, "holdfast test" in refused.err) == (2, True)


def test_a_folder_that_goes_while_it_is_read_is_named(
    holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "brief.yaml").write_text(WARNED)
    (tmp_path / "gone").mkdir()
    scandir = os.scandir

    def scan(path: str) -> object:
        if str(path).endswith("gone"):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    done = holdfast("validate", "--no-check", str(tmp_path))
    assert (done.code, "gone" in done.err) == (0, True)


@pytest.mark.parametrize("command", ["validate", "run", "start", "explain", "graph"])
def test_every_command_judges_alike(holdfast: Holdfast, command: str) -> None:
    inputs = "{type: object, additionalProperties: false, properties: {amount: {type: number}}}"
    holdfast.write("pay.yaml", f"inputs: {inputs}\nsteps: [{{name: a, input: '{{{{ input.amont }}}}'}}]")
    ran = holdfast(command, "pay.yaml")
    told = "steps[0].input: input has no 'amont' (did you mean 'amount'?)"
    assert (ran.code, told in ran.err) == (2, True), ran
