"""Assistants over HTTP, by the real client: notices, a person who is asked, tokens that are wrong, expired, revoked."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ResourceListChangedNotification

from holdfast.server.mcp.http import http_app, runs_by_token
from holdfast.server.mcp.server import AssistantContext
from holdfast.server.web.gate import Gate
from tests.conftest import Harness, until
from tests.serve.assistants import PERMIT, TITLE, Asked, Era, answered, environment_of, text
from tests.serve.ground import served, site_of_house

ALL = {"read", "answer", "steer"}


@dataclass
class Office:
    """The MCP server over HTTP, and the gate that makes its tokens."""

    gate: Gate
    address: str

    def token(self, **how: Any) -> str:
        return self.gate.tokens.create("user:bob", **{"scopes": ALL, "life": None, **how})[1]

    @asynccontextmanager
    async def client(self, token: str, **how: Any) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(f"{self.address}/mcp", http_client=http), **how) as client,
        ):
            yield client


@asynccontextmanager
async def office(house: Harness) -> AsyncIterator[Office]:
    site = site_of_house(house)
    gate = Gate.of(site.config)
    app = http_app(AssistantContext(site.config, site.runs, runs_by_token(site, gate)).server(), gate)
    async with served(app, lifespan="on") as address:
        yield Office(gate, address)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_person_is_asked_over_http(house: Harness, mode: Era) -> None:
    question = await house.one(await house.start(PERMIT))
    person = Asked(content={"granted": True, "scope": "once"})
    async with office(house) as here, here.client(here.token(), elicitation_callback=person, mode=mode) as client:
        result = await answered(client, question, content={"granted": False})
    receipt = result.structured_content["receipts"][0]
    assert (receipt["status"], receipt["by"]) == ("answered", "user:bob")
    assert "May it be sent?" in person.shown[0].message
    assert await house.output(question.run) is True


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_without_a_person_no_consent_is_taken_over_http(house: Harness, mode: Era) -> None:
    question = await house.one(await house.start(PERMIT))
    async with office(house) as here, here.client(here.token(), mode=mode) as client:
        result = await answered(client, question, content={"granted": True})
    assert result.is_error and "needs a person" in text(result)
    assert [one.id for one in await house.runs.questions(question.run)] == [question.id]


@pytest.mark.slow
async def test_a_service_may_not_consent_whoever_fills_its_form(house: Harness) -> None:
    question = await house.one(await house.start(PERMIT))
    person = Asked(content={"granted": True, "scope": "once"})
    async with office(house) as here:
        token = here.token(is_service=True)
        async with here.client(token, elicitation_callback=person) as client:
            result = await answered(client, question)
    assert result.is_error and "is a service" in text(result) and person.shown == []


@pytest.mark.slow
async def test_nobody_is_shown_the_form_of_a_question_that_is_closed(house: Harness) -> None:
    question = await house.one(await house.start(PERMIT))
    person = Asked(content={"granted": True, "scope": "once"})
    async with office(house) as here, here.client(here.token(), elicitation_callback=person) as client:
        await client.call_tool("questions", {})  # from then on it is known there
        await house.answer(question.run, False, question)
        result = await answered(client, question)
    assert result.is_error and "already" in text(result) and person.shown == []


@pytest.mark.slow
async def test_a_service_declines_without_a_person(house: Harness) -> None:
    question = await house.one(await house.start(PERMIT))
    async with office(house) as here, here.client(here.token(is_service=True)) as client:
        result = await answered(client, question, action="decline")
    assert result.structured_content["receipts"][0]["status"] == "answered"
    assert await house.output(question.run) is False


@pytest.mark.slow
async def test_a_client_that_listens_hears_of_new_questions(house: Harness) -> None:
    async with (
        office(house) as here,
        here.client(here.token()) as client,
        client.listen(resources_list_changed=True) as changes,
    ):
        question = await house.one(await house.start(TITLE, {"topic": "tea"}))
        uri = f"holdfast://questions/{question.id}"
        async for _ in changes:
            listed = await client.list_resources(cache_mode="bypass")
            if uri in [str(one.uri) for one in listed.resources]:
                break


@pytest.mark.slow
async def test_every_client_of_the_older_protocol_hears_of_new_questions(house: Harness) -> None:
    heard: list[list[object]] = [[], []]

    def hears(n: int):
        async def hear(message: object) -> None:
            heard[n].append(message)

        return hear

    async with office(house) as here, AsyncExitStack() as clients:
        for n in range(2):
            entering = here.client(here.token(), message_handler=hears(n), mode="legacy")
            await (await clients.enter_async_context(entering)).list_resources()
        await house.one(await house.start(TITLE, {"topic": "tea"}))

        async def told() -> bool:
            return all(any(isinstance(one, ResourceListChangedNotification) for one in each) for each in heard)

        await until(told, "a notice to both")


@pytest.mark.slow
async def test_a_token_that_is_wrong_expired_or_revoked_opens_nothing(house: Harness) -> None:
    async with office(house) as here:
        revoked, secret = here.gate.tokens.create("user:bob", scopes=ALL, life=None)
        here.gate.tokens.revoke(revoked.id)
        expired = here.token(life=-1.0)
        async with httpx2.AsyncClient() as http:
            for token in ("nothing", "hft_wrong", secret, expired):
                body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
                answer = await http.post(f"{here.address}/mcp", json=body, headers={"Authorization": f"Bearer {token}"})
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.slow
async def test_a_token_that_is_revoked_ends_what_its_client_does(house: Harness) -> None:
    question = await house.one(await house.start(TITLE, {"topic": "tea"}))
    async with office(house) as here:
        token, secret = here.gate.tokens.create("user:bob", scopes=ALL, life=None)
        async with here.client(secret) as client:
            await client.call_tool("runs", {})
            here.gate.tokens.revoke(token.id)
            with pytest.raises(Exception, match=r"."):
                await answered(client, question, content="x")
    assert [one.id for one in await house.runs.questions(question.run)] == [question.id]


@pytest.mark.slow
async def test_the_command_serves_http_and_says_where(house: Harness) -> None:
    question = await house.one(await house.start(TITLE, {"topic": "tea"}))
    site = site_of_house(house)
    _, token = Gate.of(site.config).tokens.create("user:bob", scopes=ALL, life=None)
    command = [sys.executable, "-m", "holdfast.cli", "mcp", "--http", "0"]
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **environment_of(house)}, cwd=house.folder, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        said = (await asyncio.wait_for(process.stderr.readline(), 120)).decode()
        address = said.split("MCP server at ")[1].partition("/mcp")[0]
        async with Office(Gate.of(site.config), address).client(token) as client:
            result = await answered(client, question, content="On tea")
    finally:
        process.terminate()
        await process.wait()
    assert result.structured_content["receipts"][0]["by"] == "user:bob"
