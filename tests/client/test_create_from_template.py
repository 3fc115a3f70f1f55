"""`holdfast create --template`: an example becomes a project of its own."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from holdfast.blueprint.load import parse_file
from holdfast.blueprint.requirements import list_requirements
from holdfast.cli.from_template import template_files, template_names
from tests.client.command import Holdfast


@pytest.fixture
def create(tmp_path: Path) -> Holdfast:
    """Commands in a folder of its own: no server is needed."""
    return Holdfast(tmp_path)


@pytest.mark.parametrize("name", template_names())
def test_a_template_is_whole_in_a_folder_of_its_own(name: str, tmp_path: Path) -> None:
    texts = template_files(name)
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
    parsed = parse_file(tmp_path / f"{name}.yaml")
    assert (parsed.problems, "examples" in "".join(texts.values())) == ([], False)
    assert parsed.blueprint is not None
    configuration = tomllib.loads(texts.get("holdfast.toml", ""))
    code = "".join(texts[f] for f in texts if f.endswith(".py"))
    defined = re.findall(r"^(?:(?:async )?def (?=\w)|(?=\w+ = ))(\w+)", code, re.MULTILINE)  # functions and graphs
    for need in list_requirements(parsed.blueprint):
        if need.kind == "tool":
            assert need.name.rpartition(":")[2] in defined
        if need.kind == "group":
            assert need.name.removeprefix("group:") in configuration["groups"]
    assert set(configuration.get("worker", {}).get("imports", [])) == {f[:-3] for f in texts if f.endswith(".py")}


@pytest.mark.slow
def test_it_writes_a_folder_and_prints_the_command_that_runs_it(create: Holdfast) -> None:
    made = create("create", "my pay", "--template", "pay_invoice", "--json").json
    names = ["holdfast.toml", "pay_invoice.test.yaml", "pay_invoice.yaml", "payments.py", "replies.yaml"]
    assert sorted(made["files"]) == [f"my pay/{name}" for name in names]
    assert shlex.split(made["command"])[:6] == ["cd", "my pay", "&&", "holdfast", "run", "pay_invoice.yaml"]
    tested = Holdfast(create.folder / "my pay")("test", ".")
    assert tested.code == 0, tested


def test_a_template_is_not_written_where_a_file_is_named(create: Holdfast) -> None:
    refused = create("create", "order.yaml", "--template", "approve_payment")
    assert (refused.code, "name one, such as order, and not order.yaml" in refused.err) == (2, True)
    assert not list(create.folder.iterdir())


def test_nothing_is_overwritten(create: Holdfast) -> None:
    (create.folder / "approve_payment").mkdir()
    refused = create("create", "--template", "approve_payment")
    assert (refused.code, "approve_payment already exists" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--template", "aprove_payment"], "no template 'aprove_payment'; did you mean 'approve_payment'?"),
        (["--template", "approve_payment", "--wizard"], "--template cannot be combined with --wizard"),
        ([], "approve_payment, book_flight"),
    ],
)
def test_a_template_that_cannot_be_made_is_named_with_exit_code_2(
    create: Holdfast, words: list[str], told: str
) -> None:
    ran = create("create", *words)
    assert (ran.code, told in ran.err) == (2, True), ran
