"""The key of the embedded set's inbox: made once, for its owner alone, known to its worker."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.blueprint.load import loads
from holdfast.client.answering import Answering, Sender
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer
from holdfast.protocol.events import QuestionAnswered
from holdfast.runtime.config import Config, load_config
from holdfast.runtime.connection import connect
from holdfast.runtime.embedded import stop_all
from holdfast.runtime.embedded.inbox_key import inbox_key, inbox_key_file
from tests.conftest import until
from tests.flows import ONE


def test_it_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as several:
        files = set(several.map(inbox_key_file, [tmp_path] * 8))
    [file] = files
    assert os.listdir(tmp_path) == [file.name]
    assert file.stat().st_mode & 0o777 == 0o600
    assert inbox_key(file) == inbox_key(inbox_key_file(tmp_path))
    assert len(inbox_key(file).secret) == 64 and inbox_key(file).may_prove("person")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "HOLDFAST_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "state"))
    return load_config(tmp_path)


@pytest.mark.slow
async def test_the_worker_of_the_embedded_set_knows_it(config: Config) -> None:
    try:
        connection = await connect(config)
        runs = Runs(connection.client, answering=Answering(inbox=inbox_key(inbox_key_file(config.home))))
        run = await runs.start(loads(ONE, name="one"))
        [question] = await until(lambda: runs.questions(run), "the question")
        await runs.acting_as(Sender("user:ana", proof="person")).answer(
            run, [Answer(question=question.id, content="x")]
        )
        replies = [event.data for event in await runs.watch.events(run) if isinstance(event.data, QuestionAnswered)]
        assert [reply.proved_by for reply in replies] == ["person"]
    finally:
        await stop_all(config)
