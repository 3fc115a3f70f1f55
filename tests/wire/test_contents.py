"""Images, documents, the cache of a prompt and the format of an output over each of the four wires."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from holdfast.activities.aliases import ModelAlias
from holdfast.activities.files import FileActivities
from holdfast.activities.models import ModelActivities
from holdfast.protocol.agents import Message, MessageFile, ToolSpec
from tests.activities.model_calls import asked, call, failed
from tests.wire.apis import APIS
from tests.wire.fake import Fake

pytestmark = pytest.mark.matrix

PNG, PDF = b"\x89PNG\r\n\x1a\nrest", b"%PDF-1.7 rest"
WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
SEARCH = ToolSpec(name="search", description="Looks things up.", parameters=WORD)


@pytest.fixture
def models(fake: Fake) -> ModelActivities:
    return ModelActivities({"fast": fake.alias})


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def with_files(*files: MessageFile, content: str = "Look.") -> Any:
    return asked(messages=[Message(role="user", content=content, files=list(files))])


IMAGE = MessageFile(name="a.png", type="image/png", data=encoded(PNG))


async def test_an_image_a_document_and_a_text_go_to_the_model(fake: Fake, models: ModelActivities) -> None:
    fake.text("seen")
    document = MessageFile(name="b.pdf", type="application/pdf", data=encoded(PDF))
    notes = MessageFile(name="c.md", type="text/markdown", text="# Notes")
    assert (await call(models, with_files(IMAGE, document, notes))).output == "seen"
    sent = str(fake.requests[0].body)
    assert fake.refused == []
    assert all(part in sent for part in ("Look.", "a.png", encoded(PNG), "b.pdf", encoded(PDF), "# Notes"))


async def test_files_without_a_text_and_of_two_messages_in_a_row_go_together(
    fake: Fake, models: ModelActivities
) -> None:
    fake.text("seen")
    other = IMAGE.model_copy(update={"name": "second.png"})
    messages = [Message(role="user", content="", files=[IMAGE]), Message(role="user", content="And?", files=[other])]
    await call(models, asked(messages=messages))
    assert fake.refused == [] and "second.png" in str(fake.requests[0].body)


async def test_a_file_of_the_worker_is_read_for_the_request(fake: Fake, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    models = ModelActivities({"fast": fake.alias}, FileActivities([tmp_path]))
    fake.text("seen")
    await call(models, with_files(MessageFile(name="a.png", type="image/png", file="a.png")))
    assert fake.refused == [] and encoded(PNG) in str(fake.requests[0].body)
    outside = with_files(MessageFile(name="x.png", type="image/png", file="../x.png"))
    assert (await failed(models, outside)).type == "attachment_missing"


# Google's library downloads it, from public addresses only.
@pytest.mark.parametrize("fake", [name for name in APIS if name != "google"], indirect=True)
async def test_an_image_on_the_web_goes_by_its_address(fake: Fake, models: ModelActivities) -> None:
    fake.text("seen")
    await call(models, with_files(MessageFile(name="a.png", type="image/png", url="https://example.com/a.png")))
    assert fake.refused == [] and "https://example.com/a.png" in str(fake.requests[0].body)


async def test_content_that_is_not_what_its_type_says_is_refused(fake: Fake, models: ModelActivities) -> None:
    error = await failed(models, with_files(IMAGE.model_copy(update={"data": encoded(PDF)})))
    assert (error.type, fake.requests) == ("bad_attachment", [])
    assert "a.png: its content is not image/png" in error.message


@pytest.mark.parametrize("fake", ["chat"], indirect=True)
async def test_a_file_that_the_model_does_not_take_is_refused_before_it_is_sent(fake: Fake) -> None:
    document = MessageFile(name="b.pdf", type="application/pdf", data=encoded(PDF))
    error = await failed(ModelAlias("vllm:llama", "TEST_KEY", fake.alias.base_url), with_files(document))
    assert (error.type, error.non_retryable, fake.requests) == ("attachment_refused", True, [])
    assert "takes no files of type application/pdf (b.pdf)" in error.message


NUMBER = {"type": "integer", "minimum": 1}
NESTED = {"type": "object", "properties": {"list": {"type": "array", "items": WORD}}, "required": ["list"]}


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("schema", "text", "output"),
    [(WORD, '{"word": "a"}', {"word": "a"}), (NUMBER, '{"result": 3}', 3), (NESTED, '{"list": []}', {"list": []})],
)
async def test_an_output_in_the_format_of_the_provider(
    fake: Fake, models: ModelActivities, schema: Any, text: str, output: Any
) -> None:
    fake.text(text)
    reply = await call(models, asked(output_schema=schema, native_output=True))
    assert (reply.output, reply.problem, fake.refused) == (output, None, [])
    assert "tools" not in fake.requests[0].body
    assert "'schema'" in str(fake.requests[0].body) or "responseJsonSchema" in str(fake.requests[0].body)


@pytest.mark.slow
async def test_an_output_in_that_format_beside_tools(fake: Fake, models: ModelActivities) -> None:
    request = asked(output_schema=WORD, native_output=True, tools=[SEARCH])
    if fake.api.name == "google":
        error = await failed(models, request)
        assert error.type == "model_rejected" and "output_mode: native" in error.message
        return
    fake.calls(("search", {"word": "a"}))
    assert [one.name for one in (await call(models, request)).tool_calls] == ["search"]
    assert fake.refused == []


CACHES = {"anthropic": 3}
"""Marks that a request with tools and instructions carries: of the others none needs any."""


@pytest.mark.first_row
@pytest.mark.parametrize("cache", [True, "5m", "1h", {"messages": False}])
async def test_the_cache_of_a_prompt_is_asked_for_where_there_is_one(
    fake: Fake, models: ModelActivities, cache: Any
) -> None:
    fake.text("hi")
    await call(models, asked(tools=[SEARCH], settings={"cache": cache}))
    marks = str(fake.requests[0].body).count("cache_control")
    assert fake.refused == []
    assert marks == CACHES.get(fake.api.name, 0) - (1 if fake.api.name in CACHES and isinstance(cache, dict) else 0)
