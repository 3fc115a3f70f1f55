"""Runs with `[encryption]`: nothing that was said can be read where it lies, and keys change while a run waits."""

from __future__ import annotations

import logging
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from holdfast.activities import tool
from holdfast.client.memory import QuestionMemory
from holdfast.runtime import encryption
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.embedded.server import find_temporal_binary
from holdfast.runtime.encryption import KeyRing
from holdfast.runtime.workers import NoWorker
from holdfast.server.record.entries import RecordEntry
from holdfast.server.record.recorder import Recorder
from holdfast.server.record.store import open_store
from holdfast.server.record.verification import verify
from tests.conftest import ATTRIBUTES, until
from tests.encryption.encrypted_house import MARK, NEW, OLD, house_of
from tests.graphs import State, chain
from tests.record.ground import KEY, NOON
from tests.record.ground import RUN as RUN_ROW

HERE = __name__
RUN = f"""
name: secretive
agents:
  clerk: {{model: echo}}
steps:
  - {{name: said, agent: clerk, input: "{{{{ input }}}}"}}
  - {{name: longer, uses: "{HERE}:lengthened", input: "{{{{ input }}}}"}}
  - {{kind: cache, name: kept, wrapped_step: {{name: copied, agent: clerk, input: "{{{{ input }}}}"}}}}
  - {{name: graph, uses: "{HERE}:asking", input: {{log: ["{{{{ input }}}}"]}}}}
  - {{kind: hitl, name: ask, message: "Is {MARK} right?"}}
  - {{name: broken, uses: "{HERE}:breaks", input: "{{{{ steps.ask.output }}}}", on_error: continue}}
output: "{{{{ steps.ask.output }}}} {{{{ steps.longer.output[:30] }}}}"
"""


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """The SDK's log as it was, after a worker that encrypts."""
    yield
    for name in encryption._LOGGERS:
        logging.getLogger(name).removeFilter(encryption._remove_content)


@tool(idempotent=True)
def lengthened(text: str) -> str:
    return text * 2000


@tool(idempotent=True)
def breaks(text: str) -> str:
    raise ValueError(f"cannot do {text}")


NODES: list[str] = []
"""The nodes that have run."""


def first(state: State) -> State:
    NODES.append("first")
    return {"log": [f"{MARK} of a node"]}


def ask(state: State) -> State:
    return {"log": [interrupt(f"Which way, {state['log'][-1]}?")]}


asking = chain(first, ask, checkpointer=InMemorySaver())


@pytest.mark.slow
async def test_keys_are_changed_while_a_run_waits(temporal: Client, tmp_path: Path) -> None:
    queue = f"test-{uuid.uuid4().hex[:8]}"
    async with house_of(temporal, tmp_path, OLD, queue) as house:
        run = await house.start(RUN, f"{MARK} one ")
        kept = [await house.one(run)]
    NODES.clear()
    memory = QuestionMemory(tmp_path / "questions.json", KeyRing(OLD))
    memory.keep(kept)
    assert (memory.of(run), QuestionMemory(tmp_path / "questions.json").of(run)) == (kept, [])
    assert MARK not in (tmp_path / "questions.json").read_text()
    async with house_of(temporal, tmp_path, {**NEW, **OLD}, queue) as house:
        await house.answered(run, f"{MARK} left", f"{MARK} two")
        assert NODES == []  # the graph goes on from a checkpoint under the key of before
        assert (await house.output(run)).startswith(f"{MARK} two {MARK} one")
        assert MARK in str(await house.runs.watch.events(run))


@pytest.mark.slow
async def test_a_key_that_a_worker_lacks_is_named_to_the_client_and_in_the_log(
    temporal: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue = f"test-{uuid.uuid4().hex[:8]}"
    named = "a value is encrypted with the key 'old', and the keys here are: new"
    async with house_of(temporal, tmp_path, OLD, queue) as house:
        run = await house.start(RUN, f"{MARK} one ")
        await house.one(run)
    async with house_of(temporal, tmp_path, NEW, queue) as house:

        async def is_told() -> bool:
            try:
                await house.runs.state(run)
            except NoWorker as error:
                return f"{run} cannot be asked; its worker says: {named}" in str(error)
            return False

        await until(is_told, "the name of the key")
        await house.client.get_workflow_handle(run).terminate()
    assert f"NotDecrypted: {named}" in caplog.text


def test_the_record_and_the_outbox_are_encrypted_and_old_rows_are_read(tmp_path: Path) -> None:
    place = f"sqlite:{tmp_path / 'record.sqlite'}"
    for keys in ({}, OLD, {**NEW, **OLD}):
        store = open_store(place, KeyRing(keys))
        entry = RecordEntry(
            RUN_ROW.run, f"key-{len(keys)}", "question.asked", "", NOON, {"data": {"said": f"{MARK} 1"}}
        )
        store.append(RUN_ROW, [entry])
        texts = [entry.content for entry in store.entries()]
        assert texts == [{"data": {"said": f"{MARK} 1"}}] * len(texts)
        store.close()
    with sqlite3.connect(tmp_path / "record.sqlite") as raw:
        contents = [row[0] for row in raw.execute("SELECT content FROM record_entries ORDER BY id")]
    assert [content[:4] for content in contents] == ['{"da', "enc:", "enc:"]
    assert verify(open_store(place, KeyRing({**NEW, **OLD})), []).faults == []


@pytest.mark.slow
async def test_nothing_that_was_said_can_be_read_where_it_lies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    database, queue = tmp_path / "temporal.db", "secretive"
    ring, place = KeyRing(OLD), f"sqlite:{tmp_path / 'record.sqlite'}"
    async with (
        await WorkflowEnvironment.start_local(
            dev_server_existing_path=find_temporal_binary(),
            data_converter=DATA_CONVERTER,
            search_attributes=ATTRIBUTES,
            dev_server_database_filename=str(database),
        ) as environment,
        house_of(environment.client, tmp_path, OLD, queue) as house,
    ):
        run = await house.start(RUN, f"{MARK} one ")
        await house.answer(run, f"{MARK} left")
        await house.answer(run, f"{MARK} two", comment=f"{MARK} three")
        failed = await house.start(RUN.replace(", on_error: continue", ""), f"{MARK} four ")
        await house.answered(failed, f"{MARK} right", f"{MARK} five")
        assert MARK in await house.output(run)
        assert MARK in str((await house.result(failed)).error)
        store = open_store(place, ring)
        recorder = Recorder(house.runs.tree, store, KEY, queue)
        assert await recorder.catch_up(run) + await recorder.catch_up(failed) > 10
        assert MARK in str([entry.content for entry in store.entries()])
        assert verify(store, [KEY.public]).faults == []
        store.close()
    assert {"cache.db", "00000000"} <= {path.name for path in tmp_path.rglob("*")}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    readable = [path.name for path in files if MARK.encode() in path.read_bytes()]
    assert readable == []
    assert MARK not in caplog.text
