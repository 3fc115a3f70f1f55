"""A secret that somebody types in the inbox stands in its store, and nowhere else: not in what is kept, nor shown, nor
told, nor logged."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from holdfast.protocol.questions import Question
from holdfast.runtime.config import NotifySection, NotifyTable
from holdfast.server.record.entries import ENDED
from holdfast.server.record.record import Record
from holdfast.server.record.store import RecordStore
from holdfast.server.web.addresses import question_address
from holdfast.server.web.background import run_background
from tests.conftest import Harness, until
from tests.record.conftest import store
from tests.record.ground import KEY
from tests.serve.ground import client_of
from tests.serve.pages import Desk, inbox_of

__all__ = ["store"]
VALUE, WRONG = "hunter2-and-more", "hunter2-in-a-field-that-there-is-not"
ASK = """
name: asks
steps:
  - kind: hitl
    name: key
    ask: secret
    message: The key?
    input_schema: {type: object, required: [KEY], properties: {KEY: {type: string, pattern: '-'}}}
  - {kind: hitl, name: last, message: Done?}
"""
TELL = "import sys; open(sys.argv[1], 'ab').write(sys.stdin.buffer.read() + b'\\n')"


@pytest_asyncio.fixture
async def ana(house: Harness, store: RecordStore) -> AsyncIterator[Desk]:
    """Ana at the inbox of a server that records, and tells a program of everything."""
    command = ["python3", "-c", TELL, str(house.folder / "told.jsonl")]
    told = NotifySection(command=command, events=["asked", "answered"])
    site = inbox_of(house)
    record = Record(store, house.client, KEY)
    config = site.config.model_copy(update={"notify": NotifyTable(ops=told)})
    site = replace(site, config=config, given_runs=site.runs.with_archive(record), record=record)
    async with run_background(site, record), client_of(site) as client:
        yield Desk(client)


async def pages(client: httpx.AsyncClient, question: Question) -> dict[str, str]:
    """What pages and API show of the run of a question, by address."""
    run, api = f"/runs/{question.run}", f"/api/v1/runs/{question.run}"
    addresses = ["/", question_address(question), f"/api/v1/questions/{question.id}/comments"]
    addresses += [run + below for below in ("", "/history", "/context", "/graph")]
    addresses += [api + below for below in ("", "/history", "/result", "/events", "/graph")]
    return {address: (await client.get(address)).text for address in addresses}


def kept(folder: Path) -> dict[str, bytes]:
    """What was written, by file, but for the store of the secrets."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.parent.name != "secrets"]
    return {file.name: file.read_bytes() for file in files}


async def test_a_secret_stands_in_its_store_and_nowhere_else(
    house: Harness, ana: Desk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    question = await house.one(await house.start(ASK))
    refused = await ana.send(question, "answer", **{"s:KEY": "hunter2", "s:OTHER": WRONG})
    assert refused.status_code == 422
    assert (await ana.send(question, "answer", **{"s:KEY": VALUE})).status_code == 303
    await house.answer(question.run, "yes")
    await house.output(question.run)

    async def finished() -> bool:
        told = (house.folder / "told.jsonl").read_text() if (house.folder / "told.jsonl").exists() else ""
        return told.count('"holdfast.question.answered"') == 2 and ENDED.encode() in b"".join(kept(tmp_path).values())

    await until(finished, "the record and the notices")
    shown = {**await pages(ana.client, question), "the refusal": refused.text, "the log": caplog.text}
    histories = enumerate(await house.histories(question.run))
    shown |= {f"history {n}": json.dumps(one.to_json_dict()) for n, one in histories}
    written = kept(house.folder) | kept(tmp_path)
    assert {"told.jsonl", "record.sqlite"} <= written.keys() and len(shown) > 12
    assert [where for where, text in shown.items() if "hunter2" in text] == []
    assert [name for name, data in written.items() if b"hunter2" in data] == []
    secrets = await asyncio.to_thread(lambda: [one.read_text() for one in (house.folder / "secrets").iterdir()])
    assert secrets == [VALUE]
