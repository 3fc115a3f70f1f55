"""The MCP server: an assistant starts, reads and answers; what needs a consent is put before a person."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult, ResourceListChangedNotification

from holdfast.client.answering import Sender
from holdfast.protocol.questions import Question
from holdfast.runtime.config.sections import ServeSection
from holdfast.server.mcp import tools
from holdfast.server.mcp.http import http_app, runs_by_token
from holdfast.server.mcp.server import AssistantContext
from holdfast.server.web.gate import Gate
from tests.conftest import Harness, until
from tests.serve.assistants import PERMIT, TITLE, Asked, Era, answered, environment_of, text
from tests.serve.ground import blueprint_file, served, site_of_house

TONE = """
name: brief
steps: [{kind: hitl, name: tone, message: Which tone?, ask: decision, options: [warm, formal]}]
"""
REVIEW = "{name: look, steps: [{kind: hitl, name: check, message: Right?, ask: review, input: {n: 1}}]}"
STOP = "{name: stop, steps: [{name: out, uses: passthrough, input: 1, interrupt_before: true}]}"
SECRET = "{name: log_in, steps: [{kind: hitl, name: key, message: The key?, ask: secret}]}"
FOR_TWO = """
name: two
steps:
  - kind: parallel
    name: both
    branches:
      one: [{kind: hitl, name: ana, message: Ana?, assignees: [user:ana]}]
      other: [{kind: hitl, name: bob, message: Bob?, assignees: [user:bob]}]
"""


@asynccontextmanager
async def assistant(house: Harness, person: Asked | None = None, mode: Era = "auto") -> AsyncIterator[Client]:
    """A client of a server for Ana; without a person it cannot ask anybody."""
    blueprint_file(house.folder / "blueprints", "title.yaml", TITLE)
    site = site_of_house(house, serve=ServeSection(blueprints=["blueprints"]))
    server = AssistantContext(
        site.config, site.runs, lambda ctx, scope: site.runs.acting_as(Sender("user:ana"))
    ).server()
    async with Client(server, elicitation_callback=person, mode=mode) as client:
        yield client


@asynccontextmanager
async def over_http(address: str, token: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
        Client(streamable_http_client(f"{address}/mcp", http_client=http)) as client,
    ):
        yield client


async def test_the_server_says_its_version(house: Harness) -> None:
    async with assistant(house) as client:
        assert client.server_info.version == importlib.metadata.version("holdfast")


async def test_the_tool_that_starts_has_the_schemas_of_the_inputs(house: Harness) -> None:
    async with assistant(house) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"start", "runs", "questions", "answer", "result"}
    properties = tools["start"].input_schema["properties"]
    assert properties["blueprint"]["enum"] == ["title"]
    assert (properties["input"]["required"], properties["input"]["title"]) == (["topic"], "title")


async def test_a_run_is_started_answered_and_read(house: Harness) -> None:
    async with assistant(house) as client:
        started = await client.call_tool("start", {"blueprint": "title", "input": {"topic": "tea"}})
        house.started.append(run := started.structured_content["run"])
        question = await house.one(run)
        waiting = (await client.call_tool("questions", {"run": run})).structured_content
        receipts = (await answered(client, question, content="On tea")).structured_content["receipts"]
        result = (await client.call_tool("result", {"run": run, "wait": 60})).structured_content

        async def listed() -> bool:
            rows = (await client.call_tool("runs", {"status": "completed"})).structured_content["runs"]
            return run in [row["run"] for row in rows]

        await until(listed, "the run among the completed ones")
    assert waiting["questions"] == [question.model_dump(mode="json")]
    assert (receipts[0]["status"], receipts[0]["by"]) == ("answered", "user:ana")
    assert (result["status"], result["output"]) == ("completed", "On tea")


async def test_a_run_that_there_is_not_is_told_by_what_an_assistant_has(house: Harness) -> None:
    async with assistant(house) as client:
        result = await client.call_tool("result", {"run": "nope"})
    assert (result.is_error, text(result)) == (True, "no run 'nope'; the tool runs lists them")


@pytest.mark.first_row
@pytest.mark.parametrize("text_of_blueprint", [TONE, REVIEW, PERMIT, STOP])
async def test_without_a_person_no_consent_is_taken(house: Harness, text_of_blueprint: str) -> None:
    question = await house.one(await house.start(text_of_blueprint))
    contents = ["warm", {"verdict": "unchanged"}, {"granted": True}, None]
    async with assistant(house) as client:
        results = [await answered(client, question, content=content) for content in contents]
        results += [await answered(client, question, action="decline")]
    assert all(result.is_error and "needs a person" in text(result) for result in results)
    assert [one.id for one in await house.runs.questions(question.run)] == [question.id]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_decision_is_that_of_the_person_not_of_the_assistant(house: Harness, mode: Era) -> None:
    question = await house.one(await house.start(TONE))
    person = Asked(content={"choice": "formal"})
    async with assistant(house, person, mode) as client:
        result = await answered(client, question, content="warm")
    assert result.structured_content["receipts"][0]["status"] == "answered"
    assert "Which tone?" in person.shown[0].message
    assert await house.output(question.run) == "formal"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("blueprint", "filled", "output"),
    [
        (PERMIT, {"granted": True, "scope": "once"}, True),
        (REVIEW, {"verdict": "edited", "payload": '{"n": 2}'}, {"n": 2}),
        (STOP, {"go_on": True}, 1),
    ],
)
async def test_a_person_fills_a_flat_form(house: Harness, blueprint: str, filled: Any, output: Any) -> None:
    question = await house.one(await house.start(blueprint))
    async with assistant(house, Asked(content=filled)) as client:
        await answered(client, question)
    assert await house.output(question.run) == output


@pytest.mark.parametrize("person", [Asked("cancel"), Asked(content={"go_on": False})])
async def test_nothing_is_sent_for_a_person_who_does_not_decide(house: Harness, person: Asked) -> None:
    question = await house.one(await house.start(STOP))
    async with assistant(house, person) as client:
        result = await answered(client, question)
    assert result.structured_content["receipts"] == []
    assert [one.id for one in await house.runs.questions(question.run)] == [question.id]


async def test_an_answer_that_nobody_was_asked_for_is_not_taken(house: Harness) -> None:
    """The client answers at once, as if a person had been asked: the state that says so is missing."""
    question = await house.one(await house.start(TONE))
    forged = {"answer": ElicitResult(action="accept", content={"choice": "warm"})}
    async with assistant(house, Asked()) as client:
        named = {"run": question.run, "question": question.id}
        result = await client.session.call_tool(
            "answer", named, input_responses=forged, request_state="0" * 64, allow_input_required=True
        )
    assert result.result_type == "input_required"
    assert [one.id for one in await house.runs.questions(question.run)] == [question.id]


async def test_a_secret_never_goes_through_an_assistant(house: Harness) -> None:
    question = await house.one(await house.start(SECRET))
    async with assistant(house, Asked()) as client:
        result = await answered(client, question, content="hunter2")
    assert result.is_error and "no assistant may see" in text(result)


@pytest.mark.slow
async def test_refusals_and_unfit_arguments_are_told_as_results(house: Harness) -> None:
    question = await house.one(await house.start(TITLE, {"topic": "tea"}))
    async with assistant(house) as client:
        unfit = await answered(client, question, content=7)
        unknown = await client.call_tool("result", {"run": "nowhere"})
        with pytest.raises(MCPError, match="there are: start"):
            await client.call_tool("steer", {})
    assert unfit.is_error and text(unfit).startswith("invalid_answer: ")
    assert unknown.is_error and "no run 'nowhere'" in text(unknown)


@pytest.mark.slow
async def test_lists_of_tools_and_resources_go_on_by_a_cursor(house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "PAGE_ROWS", 1)
    name = f"title-{house.unique}"  # of runs of others there may be thousands
    titled = TITLE.replace("name: title\n", f"name: {name}\n", 1)
    asked = [await house.one(await house.start(titled, {"topic": "tea"})) for _ in range(2)]
    ids = {question.id for question in asked}
    async with assistant(house) as client:

        async def whole(of: str, key: str, **only: str) -> bool:
            listed, cursor, pages = [], None, 0
            while pages == 0 or cursor is not None:
                page = (await client.call_tool(of, {"after": cursor, **only})).structured_content
                listed, cursor, pages = [*listed, *page[of]], page["next"], pages + 1
            values = [row.get(key) for row in listed]
            wanted = ids if key == "id" else {question.run for question in asked}
            return wanted <= set(values) and len(values) == len(set(values)) == pages

        await until(lambda: whole("questions", "id"), "the questions, page by page")
        await until(lambda: whole("runs", "run", blueprint=name), "the runs, page by page")
        resources = await client.list_resources()
        assert (await client.list_resources(cursor=resources.next_cursor)).resources != resources.resources
        with pytest.raises(MCPError, match="not a cursor of this list"):
            await client.list_resources(cursor="2")
        by_number = await client.call_tool("runs", {"page": 2})
        other_list = await client.call_tool("runs", {"after": resources.next_cursor})
    assert by_number.is_error and "page" in text(by_number)
    assert other_list.is_error and text(other_list).startswith("not a cursor of this list")


async def test_the_list_leaves_out_what_the_same_run_asks_others(house: Harness) -> None:
    run = await house.start(FOR_TWO)

    async with assistant(house) as client:

        async def listed() -> list[str]:
            rows = (await client.call_tool("questions", {})).structured_content["questions"]
            return [row["message"] for row in rows if row["run"] == run]

        assert await until(listed, "the list to have the run") == ["Ana?"]


async def test_open_questions_are_resources(house: Harness) -> None:
    question = await house.one(await house.start(TITLE, {"topic": "tea"}))
    uri = f"holdfast://questions/{question.id}"
    async with assistant(house) as client:

        async def listed() -> bool:
            return uri in [str(one.uri) for one in (await client.list_resources()).resources]

        await until(listed, "visibility")
        [content] = (await client.read_resource(uri)).contents
    assert Question.model_validate_json(content.text) == question


@pytest.mark.slow
async def test_over_http_a_token_says_who_and_what_for(house: Harness) -> None:
    question = await house.one(await house.start(TITLE, {"topic": "tea"}))
    site = site_of_house(house)
    gate = Gate.of(site.config)
    _, reading = gate.tokens.create("user:bob", scopes={"read"}, life=None)
    _, answering = gate.tokens.create("user:bob", scopes={"read", "answer"}, life=None)
    app = http_app(AssistantContext(site.config, site.runs, runs_by_token(site, gate)).server(), gate)
    async with served(app, lifespan="on") as address:
        async with over_http(address, reading) as client:
            with pytest.raises(MCPError, match="no scope 'answer'"):
                await answered(client, question, content="x")
        async with over_http(address, answering) as client:
            result = await answered(client, question, content="x")
        with pytest.raises(BaseExceptionGroup):
            async with over_http(address, "hft_wrong"):
                pass
    assert result.structured_content["receipts"][0]["by"] == "user:bob"


@pytest.mark.slow
async def test_the_command_serves_over_stdio_and_tells_of_new_questions(house: Harness) -> None:
    heard: list[object] = []

    async def hear(message: object) -> None:
        heard.append(message)

    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "holdfast.cli", "mcp", "--as", "ana"],
        env=environment_of(house),
        cwd=house.folder,
    )
    async with Client(command, message_handler=hear, mode="legacy") as client:
        await client.list_resources()
        question = await house.one(await house.start(TITLE, {"topic": "tea"}))

        async def told() -> bool:
            return any(isinstance(one, ResourceListChangedNotification) for one in heard)

        await until(told, "a notice")
        result = await answered(client, question, content="On tea")
    assert result.structured_content["receipts"][0]["by"] == "user:ana"
