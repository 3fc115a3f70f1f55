"""Forms of secret and plain fields, and the store: encrypted, rotated, removed. No value stands anywhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.load import loads
from holdfast.blueprint.questions.secret import reference_in
from holdfast.protocol.answers import Answer, Refusal
from holdfast.runtime.config import Config, ConfigError
from holdfast.runtime.config.sections import SecretsSection
from holdfast.runtime.encryption import make_environment_source, make_file_source
from holdfast.runtime.secrets import MARK, SecretCipher, SecretDirectory, SecretUnreadable, keeper, open_backends
from tests.conftest import Harness
from tests.people.raw_answers import straight
from tests.people.secret_house import everything, has, house, store

__all__ = ["house", "store"]
FORM = """
steps:
  - kind: hitl
    name: account
    ask: secret
    message: The account, please
    input_schema:
      type: object
      required: [user, key]
      properties:
        user: {type: string, secret: false, minLength: 3, placeholder: shop-admin}
        key: {type: string, pattern: "^sk-", maxLength: 40, description: On the page}
        port: {type: integer, secret: false}
  - {name: use, uses: opens, input: {key: "{{ steps.account.output.key }}", how: length}}
"""
VALUE = "sk-hunter2"
KEY = "k" * 40


def content(**values: Any) -> dict[str, Any]:
    return {"user": "shop", "key": VALUE, **values}


async def test_plain_fields_stand_in_the_answer_and_secret_ones_as_references(house: Harness, store: Any) -> None:
    run = await house.start(FORM)
    await house.answer(run, content(port=8080), by="user:ana")
    assert await house.output(run) == len(VALUE)
    [answered] = [event.data for event in await house.runs.watch.events(run) if event.type == "question.answered"]
    assert (answered.content["user"], answered.content["port"]) == ("shop", 8080)
    reference = reference_in(answered.content["key"])
    assert reference is not None
    assert store.read(reference.id) == VALUE
    assert not has(await everything(house, run))


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"user": "ab"}, "user"),
        ({"port": "many"}, "port"),
        ({"key": "hunter2 without its beginning"}, "key: must have the form ^sk-"),
        ({"key": "sk-hunter2" + "x" * 40}, "key: must have at most 40 characters"),
        ({"other": "hunter2"}, "no other keys than user, key, port"),
    ],
)
async def test_what_does_not_fit_is_refused_before_it_is_stored_and_not_repeated(
    house: Harness, store: SecretDirectory, wrong: dict[str, Any], path: str
) -> None:
    run = await house.start(FORM)
    refusal = await house.refused(run, content(**wrong))
    assert (refusal.code, path in refusal.message, has(refusal.message)) == ("invalid_answer", True, False)
    assert store.list() == []
    await house.runs.control.cancel(run)


async def test_the_workflow_itself_takes_no_value_for_a_secret_field(house: Harness) -> None:
    run = await house.start(FORM)
    question = await house.one(run)
    assert question.requestedSchema["properties"]["user"]["minLength"] == 3
    assert question.requestedSchema["properties"]["key"]["writeOnly"] is True
    assert question.asked.fields["key"]["pattern"] == "^sk-"
    error = await straight(house, question, {"question": question.id, "content": content()})
    assert (error.type, "rotate it" in error.message, has(error.message)) == ("invalid_answer", True, False)
    error = await straight(house, question, {"question": question.id, "content": content(user="a", key="secret:env/K")})
    assert "user" in error.message
    await house.answer(run, content(key="secret:env/LISTED"), question)
    await house.result(run)


async def test_the_same_answer_under_its_key_gets_its_receipt_again(house: Harness, store: SecretDirectory) -> None:
    run = await house.start(FORM)
    first = await house.answer(run, content(), key="k")
    question = first.question
    [again] = await house.runs.answer(run, [Answer(question=question, content=content())], key="k")
    assert again == first
    with pytest.raises(Refusal, match="key_conflict|another answer"):
        await house.runs.answer(run, [Answer(question=question, content=content(user="other"))], key="k")
    assert len(store.list()) == 1
    await house.result(run)


@pytest.mark.parametrize(
    ("field", "found"),
    [
        ("{type: integer}", "must be {type: string}"),
        ("{type: string, enum: [a]}", "must be {type: string}"),
        ("{type: string, secret: maybe}", "'secret' must be true or false"),
        ("{type: string, secret: false}", "no field of ask: secret is one"),
    ],
)
def test_a_form_that_hides_nothing_or_cannot_be_checked_is_an_error(field: str, found: str) -> None:
    text = (
        "steps: [{kind: hitl, name: a, ask: secret, input_schema: {type: object, properties: {KEY: %s}}, message: K?}]"
    )
    with pytest.raises(BlueprintError, match=found):
        loads(text % field, name="test")


# The store


def cipher(folder: Path, key: str = KEY) -> SecretDirectory:
    return SecretDirectory(folder, SecretCipher(lambda _: key))


def test_a_value_is_encrypted_and_bound_to_its_name(tmp_path: Path) -> None:
    store = cipher(tmp_path / "s")
    first, second = (reference_in(store.put(VALUE)) for _ in range(2))
    assert first is not None
    assert second is not None
    files = [(tmp_path / "s" / one.id).read_bytes() for one in (first, second)]
    assert all(file.startswith(MARK) and b"hunter2" not in file for file in files)
    assert files[0] != files[1]
    assert store.read(first.id) == VALUE
    (tmp_path / "s" / first.id).write_bytes(files[1])
    with pytest.raises(SecretUnreadable):
        store.read(first.id)


def test_another_key_and_a_missing_one_open_nothing(tmp_path: Path) -> None:
    reference = reference_in(cipher(tmp_path / "s").put(VALUE))
    assert reference is not None
    with pytest.raises(SecretUnreadable, match="another key"):
        cipher(tmp_path / "s", "other" * 10).read(reference.id)
    with pytest.raises(SecretUnreadable, match="no key"):
        SecretDirectory(tmp_path / "s").read(reference.id)


def test_values_from_before_the_key_stay_readable_and_rotating_encrypts_them(tmp_path: Path) -> None:
    reference = reference_in(SecretDirectory(tmp_path / "s").put(VALUE))
    assert reference is not None
    store = cipher(tmp_path / "s")
    assert (store.read(reference.id), [kept.is_encrypted for kept in store.list()]) == (VALUE, [False])
    assert store.rotate(reference.id, "sk-new") is True
    assert (store.read(reference.id), [kept.is_encrypted for kept in store.list()]) == ("sk-new", [True])
    assert (store.drop(reference.id), store.drop(reference.id), store.list()) == (True, False, [])
    assert store.rotate(reference.id, "sk-again") is False


def test_the_embedded_set_makes_a_key_that_its_worker_finds(tmp_path: Path) -> None:
    config = Config(folder=tmp_path, home=tmp_path / "home")
    store = keeper(config, embedded=True)
    assert store is not None
    reference = reference_in(store.put(VALUE))
    assert reference is not None
    key = tmp_path / "home" / "secrets.key"
    assert key.stat().st_mode & 0o777 == 0o600
    beside = config.model_copy(update={"secrets": SecretsSection(store=f"dir:{tmp_path / 'home' / 'secrets'}")})
    assert open_backends(beside)["dir"].read(reference.id) == VALUE
    key.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        open_backends(beside)["dir"].read(reference.id)


def test_a_key_is_made_once_by_whoever_is_first(tmp_path: Path) -> None:
    path = tmp_path / "home" / "secrets.key"
    assert make_file_source(path, "the key", makes=True)(False) is None
    made = make_file_source(path, "the key", makes=True)(True)
    assert (
        make_file_source(path, "the key", makes=True)(True),
        make_file_source(path, "the key", makes=False)(False),
    ) == (
        made,
        made,
    )
    assert [one.name for one in path.parent.iterdir()] == ["secrets.key"]


@pytest.mark.parametrize("value", [None, "short"])
def test_a_key_that_is_missing_or_short_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("HOUSE_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("HOUSE_KEY", value)
    with pytest.raises(ConfigError, match="HOUSE_KEY is .*openssl rand -base64 32"):
        make_environment_source("HOUSE_KEY", "[secrets] key_env")(True)
