"""What a client starts a run with."""

from __future__ import annotations

from typing import Any, cast

from temporalio.client import Client

from holdfast.blueprint.load import loads
from holdfast.client.starting import start_pipeline
from holdfast.protocol.access import RunAccess
from holdfast.protocol.runs import Definition, PipelineState
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.workflows.pipeline import read_definition


class Starts:
    """In place of a client: keeps the definitions that runs are started with, as bytes."""

    data_converter = DATA_CONVERTER

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    async def start_workflow(self, workflow: str, *, args: list[Any], **options: Any) -> None:
        self.sent.append(DATA_CONVERTER.payload_converter.to_payloads(args)[0].data)


async def test_runs_of_one_blueprint_share_its_definition_on_a_worker() -> None:
    client, blueprint = Starts(), loads("name: one\nsteps: [{kind: hitl, name: ask, message: Go?}]\n", name="one")
    for run in ("a", "b"):
        definition = Definition(run=run, blueprint=blueprint)
        await start_pipeline(cast(Client, client), "queue", definition, PipelineState(), RunAccess())
    first, second = map(read_definition, client.sent)
    assert first is second
