"""The codec server: by it Temporal's tools read encrypted payloads, for those whom `[encryption] readers` names."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import uuid
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict, Parse
from temporalio.api.common.v1 import Payloads
from temporalio.client import Client
from temporalio.converter import DataConverter

from holdfast.runtime.config.sections import EncryptionSection
from holdfast.runtime.embedded.server import find_temporal_binary
from holdfast.server.web.site import Site
from tests.conftest import Harness
from tests.encryption.encrypted_house import ASK, DECODE, ENCODE, MARK, OLD, house_of, secretive
from tests.serve.ground import WHO, app_of, client_of, person, served, site_of_house

UI = "https://temporal.example.com"
SETTINGS = EncryptionSection(readers=["user:ana", "group:ops"], ui=UI)


@pytest.fixture
def site(temporal: Client, tmp_path: Path) -> Site:
    house = Harness(secretive(temporal, tmp_path, OLD), "none", tmp_path)
    return site_of_house(house, encryption=SETTINGS, groups={"ops": ["user:bob"]})


async def encoded(site: Site, *values: object) -> dict[str, object]:
    payloads = Payloads(payloads=await site.runs.client.data_converter.encode(values))
    assert MARK.encode() not in payloads.SerializeToString()
    return MessageToDict(payloads)


async def test_a_reader_sees_small_and_large_values(site: Site) -> None:
    async with client_of(site) as browser:
        reply = await browser.post(DECODE, json=await encoded(site, MARK, MARK * 9000))
        payloads = Parse(reply.text, Payloads()).payloads
    assert [payload.data.decode() for payload in payloads] == [f'"{MARK}"', f'"{MARK * 9000}"']


async def test_what_a_reader_sends_is_encrypted(site: Site) -> None:
    plain = MessageToDict(Payloads(payloads=DataConverter.default.payload_converter.to_payloads([MARK])))
    async with client_of(site) as browser:
        sent = await browser.post(ENCODE, json=plain)
        read = await browser.post(DECODE, json=sent.json())
    assert MARK.encode() not in Parse(sent.text, Payloads()).SerializeToString()
    assert Parse(read.text, Payloads()).payloads[0].data == f'"{MARK}"'.encode()


@pytest.mark.parametrize("path", [DECODE, ENCODE])
@pytest.mark.parametrize(("who", "status"), [("ana", 200), ("bob", 200), ("eve", 403), ("-", 401)])
async def test_nobody_else_does(site: Site, path: str, who: str, status: int) -> None:
    async with client_of(site, person("bob")) as browser:
        reply = await browser.post(path, json=await encoded(site, MARK), headers={WHO: who})
    assert reply.status_code == status
    assert status == 200 or "data" not in reply.text


async def test_only_the_pages_of_the_ui_may_read_it_in_a_browser(site: Site) -> None:
    async with client_of(site) as browser:
        for origin, allowed in ((UI, UI), ("https://evil.example.com", None)):
            asked = await browser.options(DECODE, headers={"Origin": origin, WHO: "-"})
            given = await browser.post(DECODE, json=await encoded(site, MARK), headers={"Origin": origin})
            for reply in (asked, given):
                assert reply.headers.get("Access-Control-Allow-Origin") == allowed


@pytest.mark.parametrize("content", ["{", '{"payloads": 3}', '{"payload": []}', "\xff"])
async def test_what_is_no_payload_is_told(site: Site, content: str) -> None:
    async with client_of(site) as browser:
        reply = await browser.post(DECODE, content=content)
    assert (reply.status_code, reply.json()["detail"][:31]) == (400, "the body must be payloads as JS")


@pytest.mark.slow
async def test_the_temporal_command_reads_and_answers_a_run_by_it(temporal: Client, site: Site, tmp_path: Path) -> None:
    address = ["--address", temporal.service_client.config.target_host, "--namespace", temporal.namespace]
    async with (
        house_of(temporal, tmp_path, OLD, f"test-{uuid.uuid4().hex[:8]}") as house,
        served(app_of(site)) as url,
    ):
        by_codec = [*address, "--codec-endpoint", f"{url}/api/codec"]
        run = await house.start(ASK)
        question = await house.one(run)
        answer = json.dumps({"question": question.id, "content": f"{MARK} yes"})
        told = await output_of(
            "workflow", "update", "execute", "-w", run, "--name", "answer", "--input", answer, *by_codec
        )
        assert question.id in told and "answered" in told
        await house.result(run)
        plain, decoded = [
            await output_of("workflow", "show", "-w", run, "-o", "json", *more) for more in (address, by_codec)
        ]
    assert MARK not in plain
    assert MARK in decoded


async def output_of(*words: str) -> str:
    """What the command shows, with the data of its payloads."""
    process = await asyncio.create_subprocess_exec(find_temporal_binary(), *words, stdout=asyncio.subprocess.PIPE)
    shown = (await process.communicate())[0].decode()
    return shown + str([base64.b64decode(data) for data in re.findall(r'"data": "([^"]*)"', shown)])
