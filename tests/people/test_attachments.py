"""Files and data beside a question: what the view says of them, their content, and which files are never read."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client

from holdfast.activities import all_activities
from holdfast.blueprint.errors import BlueprintError
from holdfast.cli.render import question_text
from holdfast.protocol.answers import Refusal
from holdfast.protocol.attachments import LARGEST_ATTACHMENT
from holdfast.runtime.errors import BadInput
from tests.conftest import TOOLS, Harness, Replays, worker_for
from tests.flows import repeat, written

PIXEL = b"\x89PNG\r\n\x1a\n\x00\xff"
PIXEL64 = base64.b64encode(PIXEL).decode()


def ask(*attachments: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "hitl", "name": "ask", "message": "Sign?", "attachments": list(attachments), **more}


TEXT = {"name": "draft-{{ input.n }}.md", "text": "{{ input.draft }}"}
DATA = {"name": "scan.png", "data": "{{ input.scan }}"}
FILE = {"name": "contract.pdf", "file": "{{ input.path }}"}


@pytest_asyncio.fixture
async def files(
    temporal: Client, replays: Replays, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Harness]:
    """A worker that may show the files of one folder."""
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "contract.pdf").write_bytes(b"%PDF-1.7")
    (tmp_path / "private.pdf").write_bytes(b"hunter2")
    os.symlink(tmp_path / "private.pdf", shown / "link.pdf")
    harness = Harness(temporal, f"files-{tmp_path.name}", tmp_path)
    activities = all_activities([TOOLS], {}, folders=[shown])
    async with worker_for(temporal, harness.runs.task_queue, activities=activities):
        yield harness
        await harness.close(replays, request.node.nodeid)


async def test_a_question_lists_its_attachments_and_gives_their_content(house: Harness) -> None:
    run = await house.start(written(ask(TEXT, DATA)), {"n": 7, "draft": "Dear é", "scan": PIXEL64})
    question = await house.one(run)
    assert [(one.n, one.name, one.type, one.bytes) for one in question.attachments] == [
        (1, "draft-7.md", "text/markdown", 7),
        (2, "scan.png", "image/png", len(PIXEL)),
    ]
    assert await house.runs.watch.attachment(question, 1) == "Dear é".encode()
    assert await house.runs.watch.attachment(question, 2) == PIXEL
    assert "attachment 2: scan.png (image/png, 10 bytes)" in question_text(question).plain
    with pytest.raises(BadInput, match="has no attachment 3"):
        await house.runs.watch.attachment(question, 3)
    await house.answer(run, "yes", question)
    await house.result(run)
    with pytest.raises(Refusal, match="not open any more"):
        await house.runs.watch.attachment(question, 1)


async def test_the_digest_covers_the_attachments(house: Harness) -> None:
    digests = []
    for draft in ("one", "two"):
        run = await house.start(written(ask(TEXT)), {"n": 1, "draft": draft})
        digests.append((await house.one(run)).digest)
        await house.answer(run, "yes")
    assert digests[0] != digests[1]


@pytest.mark.slow
async def test_an_attachment_in_a_loop_that_has_continued_as_new(house: Harness) -> None:
    source = {"name": "n.txt", "text": "round {{ iteration }}"}
    run = await house.start(written(repeat(ask(source), most=2)))
    await house.answered(run, "yes")
    question = await house.one(run)
    assert await house.runs.watch.attachment(question, 1) == b"round 2"
    await house.answer(run, "yes", question)


@pytest.mark.parametrize("attached", [{"scan": "no base64!"}, {"scan": 7}])
async def test_data_that_is_no_base64_fails_the_step(house: Harness, attached: dict[str, Any]) -> None:
    run = await house.start(written(ask(DATA)), attached)
    error = (await house.result(run)).error
    assert error is not None
    assert (error.type, "scan.png" in error.message) == ("bad_attachment", True)


async def test_a_file_below_the_folders_of_the_worker_is_shown(files: Harness) -> None:
    run = await files.start(written(ask(FILE)), {"path": "contract.pdf"})
    question = await files.one(run)
    assert question.attachments[0].type == "application/pdf"
    assert await files.runs.watch.attachment(question, 1) == b"%PDF-1.7"
    await files.answer(run, "yes")


@pytest.mark.first_row
@pytest.mark.parametrize("path", ["../private.pdf", "/etc/hostname", "link.pdf", "none.pdf", ".", "a\x00b", ""])
async def test_no_other_file_is_read(files: Harness, path: str) -> None:
    run = await files.start(written(ask(FILE)), {"path": path})
    error = (await files.result(run)).error
    assert error is not None
    assert error.type == "attachment_missing"


async def test_a_file_that_is_too_large_is_named(files: Harness) -> None:
    with (files.folder / "shown" / "big.bin").open("wb") as file:
        file.truncate(LARGEST_ATTACHMENT + 1)
    run = await files.start(written(ask(FILE)), {"path": "big.bin"})
    error = (await files.result(run)).error
    assert error is not None
    assert error.type == "attachment_too_large"


async def test_a_worker_without_folders_shows_no_files(house: Harness) -> None:
    run = await house.start(written(ask(FILE)), {"path": "contract.pdf"})
    error = (await house.result(run)).error
    assert error is not None
    assert (error.type, "[worker]" in error.message) == ("attachment_refused", True)


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (ask({"name": "a"}), "the attachment has no content"),
        (ask({"name": "a", "text": "x", "file": "y"}), "the attachment has text and file"),
        (ask({"name": "a", "text": "x", "type": "pdf"}), "type"),
        (ask({"name": "a", "data": "scan.pdf"}), "the data is not base64"),
        (ask({"name": "a", "text": "x"}, ask="hold"), "'attachments' cannot be combined with ask: hold"),
        (ask({"name": "a", "text": "{{ inptu }}"}), "unknown name 'inptu'"),
    ],
)
def test_an_attachment_that_cannot_be_shown_is_an_error_at_load(
    house: Harness, step: dict[str, Any], found: str
) -> None:
    with pytest.raises(BlueprintError, match=found):
        house.load(written(step))
