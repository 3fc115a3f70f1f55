"""Clients that keep large payloads elsewhere, and the replay of what they recorded."""

from __future__ import annotations

from temporalio.client import (
    Client,
)
from temporalio.converter import DataConverter
from temporalio.worker import Replayer

from holdfast.runtime.connection import make_converter
from holdfast.workflows import OWN_RUNNER, RUNNER, WORKFLOWS
from tests.conftest import Harness


def storing(client: Client, place: str) -> Client:
    config = client.config()
    config["data_converter"] = make_converter(place)
    return Client(**config)


async def replay(house: Harness, run: str, data_converter: DataConverter) -> None:
    replayer = Replayer(
        workflows=WORKFLOWS,
        workflow_runner=RUNNER,
        unsandboxed_workflow_runner=OWN_RUNNER,
        data_converter=data_converter,
    )
    for history in await house.histories(run):
        await replayer.replay_workflow(history)
