"""One person has one name: capitals, and the ways in which an accent is written, tell nobody apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.people import canonical_name
from holdfast.client.reading import person
from holdfast.protocol import guard
from holdfast.protocol.answers import Refusal
from holdfast.protocol.people import People, read_user
from holdfast.runtime.config import ConfigError, load_config
from holdfast.server.web.gate import read_groups
from tests.conftest import Harness, until

JOSE = "user:jos\u00e9"
WRITTEN = ["user:jos\u00e9", "user:jose\u0301", "user:JOS\u00c9", "user:JOSE\u0301", "Jos\u00e9"]
ASK = "steps: [{{kind: hitl, name: ask, message: Go?, {people}}}]"


@pytest.fixture(autouse=True)
def groups() -> Iterator[None]:
    yield
    guard.DEPLOYMENT.groups = {}


@pytest.mark.parametrize("name", WRITTEN)
def test_every_spelling_is_the_same_user(name: str) -> None:
    assert read_user(name) == person(name) == JOSE
    assert canonical_name(canonical_name(name)) == canonical_name(name)


def test_names_that_are_others_stay_others() -> None:
    assert canonical_name("user:jose") != JOSE
    assert canonical_name("user:\u30cf\u3099") == canonical_name("user:\u30d0")
    assert canonical_name("user:STRASSE") == canonical_name("user:stra\u00dfe")


@pytest.mark.first_row
@pytest.mark.parametrize("by", WRITTEN)
async def test_an_assignee_answers_in_any_spelling(house: Harness, by: str) -> None:
    run = await house.start(ASK.format(people='assignees: ["user:JOSE\\u0301"]'))
    assert (await house.one(run)).assignees == [JOSE]
    receipt = await house.answer(run, "go", by=by)
    assert read_user(receipt.by) == JOSE
    await house.output(run)


async def test_nobody_accepts_twice_in_another_spelling(house: Harness) -> None:
    run = await house.start(ASK.format(people="quorum: 2"))
    await house.answer(run, "go", by="user:Jos\u00e9")
    with pytest.raises(Refusal, match="accepted by user:jos\u00e9 before"):
        await house.answer(run, "go", by="user:jose\u0301")
    await house.answer(run, "go", by="user:ana")


async def test_who_started_a_run_is_kept_from_it_in_any_spelling(house: Harness) -> None:
    run = await house.start(ASK.format(people="not_by: [requester]"), started_by="user:JOSE\u0301")
    with pytest.raises(Refusal, match="may not answer"):
        await house.answer(run, "go", by="jos\u00e9")
    await house.answer(run, "go", by="user:ana")


async def test_who_may_steer_may_in_any_spelling(house: Harness) -> None:
    run = await house.start('access: {steer: ["user:JOSE\\u0301"]}\nsteps: [{kind: hitl, name: a, message: A}]')
    await house.one(run)
    assert (await house.runs.control.pause(run, "user:Jos\u00e9")).left == []
    await house.runs.control.cancel(run, by="user:Jos\u00e9")


async def test_visibility_finds_them_in_any_spelling(house: Harness) -> None:
    run = await house.start(ASK.format(people='assignees: ["user:JOSE\\u0301"]'))
    await house.one(run)

    async def listed() -> list[list[str]]:
        return [
            row.waiting_for for row in (await house.runs.lists.find_waiting(user="user:Jos\u00e9"))[0] if row.run == run
        ]

    assert await until(listed) == [[JOSE]]
    await house.runs.control.cancel(run)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = '[groups]\n"\u00c9diteurs" = ["user:JOSE\u0301"]\n[people."Jose\u0301"]\nemail = "jose@example.com"\n'
    (tmp_path / "holdfast.toml").write_text(text, encoding="utf-8")
    return tmp_path


async def test_groups_of_the_file_hold_them_in_any_spelling(house: Harness, folder: Path) -> None:
    config = load_config(folder)
    assert (dict(config.groups), list(config.people)) == ({"\u00e9diteurs": [JOSE]}, ["jos\u00e9"])
    guard.DEPLOYMENT.groups = dict(config.groups)
    run = await house.start(ASK.format(people='assignees: ["group:E\\u0301DITEURS"]'))
    await house.answer(run, "go", by="user:Jos\u00e9")
    await house.output(run)
    assert (
        await house.runs.look_up(house.load(ASK.format(people='assignees: ["group:E\\u0301diteurs"]')))
    ).problems == []


def test_two_groups_of_one_name_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text('[groups]\neditors = ["user:a"]\nEditors = ["user:b"]\n')
    with pytest.raises(ConfigError, match=r"holdfast.toml:\d+: groups: must have names that differ by more than"):
        load_config(tmp_path)


def test_proved_groups_and_people_have_one_spelling() -> None:
    assert read_groups(["E\u0301diteurs", "group:\u00c9DITEURS"]) == ("group:\u00e9diteurs",)
    assert People(assignees=["user:JOSE\u0301"], not_by=["group:A"]) == People(assignees=[JOSE], not_by=["group:a"])


def test_a_quorum_counts_spellings_once(house: Harness) -> None:
    text = ASK.format(people='assignees: ["user:Ana", "user:ana"], quorum: 2')
    with pytest.raises(BlueprintError, match="a quorum of 2 cannot be reached: user:ana may answer"):
        house.load(text)
