"""`holdfast.Plugin` in the client and the worker of a team that has workflows, a codec and interceptors of its own."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration
from temporalio.api.common.v1 import Payload
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import PydanticPayloadConverter, pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.service import RPCError
from temporalio.worker import Replayer, Worker

from holdfast import Answer, Plugin, Runs, loads
from holdfast.client.history import histories
from holdfast.runtime.config import ConfigError, load_config
from holdfast.runtime.errors import ServerUnreachable
from tests.conftest import until
from tests.guest import Booking, Counted, Zlib, book

AGENT_ASKS = """
agents: {writer: {model: echo}}
steps:
- {name: draft, agent: writer, input: Dear Ana}
- {kind: hitl, name: review, message: "{{ previous_step }}?"}
"""
CONVERTERS = {"default": DataConverter.default, "pydantic": pydantic_data_converter}


@dataclass
class Guest:
    client: Client
    queue: str
    interceptor: Counted

    @property
    def runs(self) -> Runs:
        return Runs(self.client, self.queue)

    async def answer(self, run: str, content: object) -> None:
        [question] = await until(lambda: self.runs.questions(run), "a question")
        await self.runs.answer(run, [Answer(question=question.id, content=content)])


@pytest_asyncio.fixture(params=CONVERTERS)
async def guest(temporal: Client, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Guest]:
    converter = replace(CONVERTERS[request.param], payload_codec=Zlib())
    plugin, queue, interceptor = Plugin(load_config(tmp_path)), f"guest-{uuid.uuid4().hex[:8]}", Counted()
    client = await Client.connect(
        temporal.service_client.config.target_host,
        namespace=temporal.namespace,
        data_converter=converter,
        plugins=[plugin],
    )
    worker = Worker(
        client,
        task_queue=queue,
        workflows=[Booking],
        activities=[book],
        activity_executor=ThreadPoolExecutor(2),
        interceptors=[interceptor],
    )
    async with worker:
        yield Guest(client, queue, interceptor)
    replayer = Replayer(workflows=[Booking], data_converter=converter, plugins=[plugin])
    async for started in client.list_workflows(f"TaskQueue = '{queue}'"):
        async for history in histories(client, started.id):
            await replayer.replay_workflow(history)


@pytest.mark.slow
async def test_a_blueprint_runs_on_a_worker_of_the_teams_own(guest: Guest) -> None:
    run = await guest.runs.start(loads(AGENT_ASKS, name="letter"))
    await guest.answer(run, "fine")
    assert (await guest.runs.result(run)).output == "fine"
    assert guest.interceptor.names == ["call_model"]


@pytest.mark.slow
async def test_the_teams_workflow_asks_through_its_own_codec(guest: Guest) -> None:
    handle = await guest.client.start_workflow(Booking.run, "Room 4", id=guest.queue, task_queue=guest.queue)
    await guest.answer(guest.queue, "yes")
    assert await handle.result() == "booked Room 4"
    assert "Room 4" not in (await handle.fetch_history()).to_json()


async def test_a_worker_whose_client_has_no_plugin_is_refused(temporal: Client, tmp_path: Path) -> None:
    plain = await Client.connect(temporal.service_client.config.target_host, namespace=temporal.namespace)
    with pytest.raises(ConfigError, match="must be a plugin of the worker's client"):
        Worker(plain, task_queue="q", workflows=[Booking], plugins=[Plugin(load_config(tmp_path))])


@pytest.fixture
async def bare(temporal: Client, tmp_path: Path) -> Client:
    """A client with the plugin, in a namespace that has none of our search attributes."""
    namespace = f"bare-{uuid.uuid4().hex[:8]}"
    retention = Duration(seconds=24 * 3600)
    request = RegisterNamespaceRequest(namespace=namespace, workflow_execution_retention_period=retention)
    await temporal.workflow_service.register_namespace(request)
    await until(lambda: _is_known(temporal, namespace), "the namespace")
    host, plugin = temporal.service_client.config.target_host, Plugin(load_config(tmp_path))
    return await Client.connect(host, namespace=namespace, plugins=[plugin])


async def _is_known(temporal: Client, namespace: str) -> bool:
    try:
        await temporal.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace=namespace))
    except RPCError:
        return False
    return True


async def test_a_namespace_without_the_search_attributes_is_refused(bare: Client) -> None:
    with pytest.raises(ServerUnreachable, match="are not registered in namespace .*; run: holdfast setup"):
        async with Worker(bare, task_queue="bare", workflows=[Booking], activities=[book]):
            await asyncio.Event().wait()


async def test_a_worker_that_is_run_without_the_search_attributes_is_refused(bare: Client) -> None:
    with pytest.raises(ServerUnreachable, match="are not registered in namespace"):
        await Worker(bare, task_queue="bare", workflows=[Booking], activities=[book]).run()


class Loud(PydanticPayloadConverter):
    """A payload converter that a team has made: it writes texts in capitals."""

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        return super().to_payloads([value.upper() if isinstance(value, str) else value for value in values])


async def test_a_client_keeps_its_payload_converter_for_values_of_its_own(temporal: Client, tmp_path: Path) -> None:
    converter = DataConverter(payload_converter_class=Loud)
    host, plugin = temporal.service_client.config.target_host, Plugin(load_config(tmp_path))
    client = await Client.connect(host, data_converter=converter, plugins=[plugin])
    answer = Answer(question="q", content="fine")
    payloads = client.data_converter.payload_converter.to_payloads(["hello", answer])
    assert client.data_converter.payload_converter.from_payloads(payloads, [str, Answer]) == ["HELLO", answer]
    assert b"accept" not in payloads[1].data  # defaults of ours are left out
