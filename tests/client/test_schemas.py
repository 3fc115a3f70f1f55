"""The schemas for editors fit what people write, and every file that is created names its own."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema_rs
import pytest

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.parts import Option
from holdfast.blueprint.source import plain, read
from holdfast.cli.schemas import FOLDER, SCHEMAS, FileKind, make_answer_schema, make_config_schema, make_test_schema
from holdfast.client.answer_files import ENTRY_KEYS
from holdfast.testkit import expectations, files
from tests.client.command import Holdfast
from tests.repository import ROOT


def find_faults(kind: FileKind, value: JSON) -> list[str]:
    return [error.message for error in jsonschema_rs.validator_for(SCHEMAS[kind]()).iter_errors(value)]


def read_yaml(path: Path) -> JSON:
    return plain(read(path.read_text(), path.name)[0])


def test_the_tests_of_every_example_fit_their_schema() -> None:
    written = {path.name: read_yaml(path) for path in ROOT.glob("examples/*/*.test.yaml")}
    assert {name: find_faults(FileKind.TEST, value) for name, value in written.items()} == dict.fromkeys(written, [])


@pytest.mark.parametrize(
    ("kind", "value", "fits"),
    [
        (FileKind.TEST, {"tests": [{"name": "a", "expect": {"outptu": 1}}]}, False),
        (FileKind.TEST, {"tests": []}, False),
        (FileKind.ANSWERS, [{"question": "a", "content": 1}, {"question": "b", "decline": True, "times": 2}], True),
        (FileKind.ANSWERS, [{"question": "a"}], False),
        (FileKind.CONFIG, {"worker": {"imports": ["a.b"]}, "models": {"m": {"model": "echo", "timeout": "30s"}}}, True),
        (FileKind.CONFIG, {"wroker": {}}, False),
        (FileKind.BLUEPRINT, {"steps": [{"name": "a", "wehn": "b"}]}, False),
    ],
)
def test_a_schema_takes_what_may_be_written_and_nothing_else(kind: FileKind, value: JSON, fits: bool) -> None:
    assert (find_faults(kind, value) == []) is fits


def test_the_schema_of_the_configuration_says_what_each_key_means() -> None:
    schema = make_config_schema()
    forms = {"holdfast.toml": schema, **schema["$defs"]}
    assert [
        (name, key)
        for name, form in forms.items()
        for key, one in form["properties"].items()
        if "description" not in one
    ] == []


def test_the_configuration_of_the_examples_fits_its_schema() -> None:
    assert find_faults(FileKind.CONFIG, tomllib.loads((ROOT / "holdfast.toml").read_text())) == []


def read_item(list_schema: JSONObject) -> JSONObject:
    """Return the keys of an item of an expected list."""
    return list_schema["anyOf"][0]["items"]["anyOf"][1]["properties"]


def test_the_schemas_have_the_keys_that_are_read() -> None:
    keys = make_test_schema()["properties"]
    case = keys["tests"]["items"]["properties"]
    expect = case["expect"]["properties"]
    [question, event] = [read_item(expect[key]) for key in ("questions", "events")]
    history, options = read_item(question["history"]), read_item(question["options"])
    found = [keys, case, expect, question, event, history, options, case["answers"]["items"]["properties"]]
    found += [expect["trace"]["additionalProperties"]["properties"], expect["error"]["properties"]]
    found += [make_answer_schema()["items"]["properties"]]
    wanted = [files.FILE_KEYS, files.CASE_KEYS, expectations.EXPECT_KEYS, expectations.QUESTION_KEYS]
    wanted += [expectations.EVENT_KEYS, expectations.HISTORY_KEYS, Option.model_fields]
    wanted += [(*ENTRY_KEYS, *files.ANSWER_KEYS), expectations.SPAN_KEYS, expectations.ERROR_KEYS, ENTRY_KEYS]
    assert [set(part) for part in found] == [set(part) for part in wanted]
    assert set(expect["status"]["enum"]) == set(expectations.STATUSES)


@pytest.mark.slow
def test_files_that_are_created_name_the_schema_that_is_beside_them(holdfast: Holdfast, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    created = holdfast("create", str(folder), "--template", "check_expenses")
    assert created.code == 0, created.err
    first = {path.name: path.read_text().splitlines()[0] for path in folder.iterdir() if path.is_file()}
    assert first["check_expenses.yaml"] == f"# yaml-language-server: $schema={FOLDER}/blueprint.json"
    assert first["check_expenses.test.yaml"] == f"# yaml-language-server: $schema={FOLDER}/test.json"
    assert first["holdfast.toml"] == f"#:schema {FOLDER}/config.json"
    assert sorted(path.name for path in (folder / FOLDER).iterdir()) == ["blueprint.json", "config.json", "test.json"]
    schema = json.loads((folder / FOLDER / "blueprint.json").read_text())
    assert jsonschema_rs.validator_for(schema).is_valid(read_yaml(folder / "check_expenses.yaml"))


@pytest.mark.slow
def test_the_command_prints_a_schema_of_each_kind(holdfast: Holdfast) -> None:
    titles = [holdfast("schema", kind).json["title"] for kind in FileKind]
    assert titles == ["Holdfast blueprint", "Holdfast tests", "Holdfast answers", "holdfast.toml"]


def test_a_schema_that_there_is_not_is_refused_in_plain_words(holdfast: Holdfast) -> None:
    refused = holdfast("schema", "nope")
    assert refused.code == 2
    assert "Invalid value for 'kind': 'nope' is not one of 'blueprint', 'test', 'answers', 'config'." in refused.err
