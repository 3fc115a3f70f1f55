"""Secrets: a history, an event, a query, a log holds references; tools alone get to see the values."""

from __future__ import annotations

import asyncio
import logging
import stat
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.answering import Answering
from holdfast.client.memory import QuestionMemory
from holdfast.client.runs import Runs
from holdfast.client.tree import Tree
from holdfast.protocol.answers import Answer, Refusal
from holdfast.runtime.config import Config, ConfigError
from holdfast.runtime.config.sections import SecretsSection
from holdfast.runtime.errors import NothingSent
from holdfast.runtime.secrets import SecretDirectory, open_backends
from holdfast.runtime.workers import NoWorker
from tests.answering import answer_by
from tests.conftest import Harness, until
from tests.people.raw_answers import straight
from tests.people.secret_house import everything, has
from tests.people.secret_house import house as house
from tests.people.secret_house import store as store

VALUE = "hunter2 'and' \"more\" é"
KEY = """
steps:
  - kind: hitl
    name: key
    ask: secret
    message: The key, please
    input_schema: {type: object, required: [API_KEY], properties: {API_KEY: {type: string, description: Yours}}}
    sink_to: keys
  - {name: use, uses: opens, input: {key: "{{ steps.key.output.API_KEY }}", how: HOW}}
"""
ONE = "steps: [{kind: hitl, name: key, ask: secret, message: Key?}]"
TWO = """
steps:
  - {kind: hitl, name: plain, message: Name?}
  - {kind: hitl, name: key, ask: secret, message: Key?}
"""


async def test_a_secret_reaches_the_tool_and_nothing_else(house: Harness, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    run = await house.start(KEY.replace("HOW", "length"))
    await house.one(run)
    await house.answer(run, {"API_KEY": VALUE})
    assert await house.output(run) == len(VALUE)
    assert not has(await everything(house, run))
    assert not has(caplog.text)
    assert not has((house.folder / "questions.json").read_text())


async def test_an_unnamed_secret_is_a_reference_in_the_store(house: Harness, store: SecretDirectory) -> None:
    run = await house.start(ONE)
    await house.answer(run, VALUE)
    reference = await house.output(run)
    id_ = reference.removeprefix("secret:dir/")
    assert (len(id_), store.read(id_)) == (32, VALUE)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (store.folder, store.folder / id_)]
    assert modes == [0o700, 0o600]


@pytest.mark.first_row
@pytest.mark.parametrize("content", ["hunter2", {"API_KEY": "hunter2"}, {"hunter2": "x"}, {"API_KEY": 17}, {}, None])
async def test_a_raw_value_by_update_is_refused_and_leaves_no_trace(house: Harness, content: object) -> None:
    run = await house.start(KEY.replace("HOW", "length"))
    question = await house.one(run)
    refusal = await straight(house, question, {"question": question.id, "content": content})
    assert refusal.type == "invalid_answer"
    assert "rotate it" in refusal.message
    assert not has(refusal.message)
    assert not has(await everything(house, run))
    await house.answer(run, {"API_KEY": VALUE})
    assert await house.output(run) == len(VALUE)


async def test_a_raw_value_by_signal_is_refused_and_to_be_rotated(house: Harness) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    await house.client.get_workflow_handle(run).signal("answer", {"question": question.id, "content": "hunter2"})

    async def refused() -> Any:
        return (await house.runs.tree.view(run)).refused

    [told] = await until(refused)
    assert (told.code, "rotate it" in told.message) == ("not_allowed", True)
    described = await house.client.get_workflow_handle(run).describe()
    told_of = (await house.runs.tree.view(run)).model_dump_json() + str(described.raw_description)
    assert not has(told_of)
    await house.answer(run, VALUE)
    assert (await house.output(run)).startswith("secret:dir/")


async def test_the_client_sends_no_secret_by_signal(house: Harness, store: SecretDirectory) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    with pytest.raises(NothingSent, match="cannot be sent by signal"):
        await house.answer(run, VALUE, question, signal=True)
    assert not has(await everything(house, run))
    assert not store.folder.exists()
    await house.answer(run, VALUE, question)


@pytest.mark.slow
@pytest.mark.parametrize("remembered", [True, False])
async def test_where_no_worker_is_nothing_is_sent(house: Harness, tmp_path: Path, remembered: bool) -> None:
    question = await house.one(await house.start(ONE))
    alone = Runs(house.client, f"nobody-{tmp_path.name}", Answering(memory=QuestionMemory(tmp_path / "seen.json")))
    run = await alone.start(house.load(ONE))
    if remembered:
        alone.answering.memory.keep([question.model_copy(update={"run": run, "owner": run})])
    with pytest.raises(NothingSent, match="nothing was sent") as caught:
        await alone.answer(run, [Answer(question=question.id, content=VALUE)], owner=run)
    assert "secret" in str(caught.value)
    history = await alone.client.get_workflow_handle(run).fetch_history()
    assert [event for event in history.events if event.HasField("workflow_execution_signaled_event_attributes")] == []
    await alone.client.get_workflow_handle(run).terminate()
    await house.answer(question.run, VALUE, question)


async def test_without_a_store_the_setting_is_named_and_nothing_is_sent(house: Harness) -> None:
    run = await house.start(ONE)
    kept = house.runs.answering
    answer_by(house.runs, Answering())
    with pytest.raises(ConfigError, match=r"store in \[secrets\].*HOLDFAST_SECRETS") as caught:
        await house.answer(run, VALUE)
    assert not has(str(caught.value))
    answer_by(house.runs, kept)
    await house.answer(run, VALUE)


async def test_a_reference_to_a_variable_needs_no_store(house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTED", "hunter2")
    answer_by(house.runs, Answering())
    run = await house.start(KEY.replace("HOW", "length"))
    await house.answer(run, {"API_KEY": "secret:env/LISTED"})
    assert await house.output(run) == 7


@pytest.mark.parametrize("name", ["UNLISTED", "LISTED"])
async def test_a_variable_that_is_not_listed_or_not_set_is_unknown(
    house: Harness, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("UNLISTED", "hunter2")
    run = await house.start(KEY.replace("HOW", "length"))
    await house.answer(run, {"API_KEY": f"secret:env/{name}"})
    error = (await house.result(run)).error
    assert error is not None
    assert (error.type, f"secret:env/{name} is not there" in error.message) == ("unknown_secret", True)


async def test_a_value_that_is_gone_is_unknown(house: Harness) -> None:
    run = await house.start(KEY.replace("HOW", "length"))
    await house.answer(run, {"API_KEY": "secret:dir/" + "0" * 32})
    error = (await house.result(run)).error
    assert error is not None
    assert error.type == "unknown_secret"


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("how", ["return", "key", "json", "raise", "cause", "details", "interrupt", "many"])
async def test_a_tool_that_gives_a_secret_away_fails(
    house: Harness, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    run = await house.start(KEY.replace("HOW", how))
    await house.answer(run, {"API_KEY": VALUE})
    error = (await house.result(run)).error
    assert error is not None
    assert error.type == "secret_leaked"
    assert not has(await everything(house, run))
    assert not has(caplog.text)


async def test_a_failure_that_tells_no_secret_is_itself(house: Harness) -> None:
    run = await house.start(KEY.replace("HOW", "other"))
    await house.answer(run, {"API_KEY": VALUE})
    error = (await house.result(run)).error
    assert error is not None
    assert (error.type, error.message) == ("tool_error", "opens: ValueError: no such way")


async def test_the_same_key_and_value_again_get_the_same_receipt(house: Harness) -> None:
    run = await house.start(TWO)
    await house.answer(run, "Ana")
    question = await house.one(run)
    first = await house.answer(run, VALUE, question, key="k")
    assert await house.answer(run, VALUE, question, key="k") == first
    with pytest.raises(Refusal) as other:
        await house.answer(run, "another", question, key="k")
    assert other.value.code == "key_conflict"
    with pytest.raises(Refusal) as late:
        await house.answer(run, "another", question, key="k2")
    assert late.value.code in ("already_answered", "run_closed")


async def test_of_many_at_the_same_instant_one_is_kept(house: Harness, store: SecretDirectory) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    sent = [house.answer(run, f"{VALUE} {n}", question) for n in range(8)]
    taken = [one for one in await asyncio.gather(*sent, return_exceptions=True) if not isinstance(one, Exception)]
    assert len(taken) == 1
    reference = await house.output(run)
    assert [path.name for path in store.folder.iterdir()] == [reference.removeprefix("secret:dir/")]


class Unanswered(Tree):
    """A run that no worker answers for."""

    async def query(self, *_: object, **__: object) -> Any:
        raise NoWorker(self.task_queue)


async def test_of_one_too_late_nothing_is_kept_even_if_no_worker_tells_who_was_first(
    house: Harness, store: SecretDirectory
) -> None:
    run = await house.start(ONE)
    question = await house.one(run)
    found = await house.runs.open_questions(run)
    await house.answer(run, VALUE, question)
    reference = await house.output(run)
    late = Runs(house.client, house.runs.task_queue, house.runs.answering)
    late.tree = Unanswered(house.client, house.runs.task_queue)
    with pytest.raises(Refusal, match="was answered"):  # as the history says, which needs no worker
        await late.answer(run, [Answer(question=question.id, content=f"{VALUE} 2")], open_questions=found)
    assert [path.name for path in store.folder.iterdir()] == [reference.removeprefix("secret:dir/")]


@pytest.mark.parametrize(("says", "status"), [("fail", "failed"), ("continue", "completed")])
async def test_declining_is_as_on_decline_says(house: Harness, says: str, status: str) -> None:
    run = await house.start(ONE.replace("Key?", f"Key?, on_decline: {says}"))
    await house.decline(run)
    assert (await house.result(run)).status == status


def test_a_folder_that_others_may_look_into_keeps_no_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o755)
    open_backends(Config(home=tmp_path, folder=tmp_path, secrets=SecretsSection(store=f"dir:{tmp_path}")))
    assert "chmod 700" in caplog.text  # as a worker starts
    with pytest.raises(ConfigError, match="chmod 700"):
        SecretDirectory(tmp_path).put("x")
    assert list(tmp_path.iterdir()) == []
