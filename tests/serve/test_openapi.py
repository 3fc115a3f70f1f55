"""The OpenAPI document is what the API does: made of its routes, and held against what it answers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from holdfast.runtime.config.sections import ServeSection
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.embedded.server import find_temporal_binary
from holdfast.server.record.record import Record
from holdfast.server.record.store import open_store
from holdfast.server.web.api import API, CALLS, openapi
from holdfast.server.web.api.routes import PREFIX
from holdfast.server.web.app import create_app
from holdfast.server.web.credentials import ALL_WEB_SCOPES
from holdfast.server.web.gate import Gate
from tests.conftest import ATTRIBUTES, Harness, worker_for
from tests.serve.ground import blueprint_file, served, site_of_house

RUN = """
name: brief
inputs: {type: object, required: [topic], properties: {topic: {type: string}}}
steps:
  - {kind: hitl, name: tone, message: Which tone?, ask: decision, options: [warm, formal]}
"""

SETTINGS = """
seed = 7
suppress-health-check = ["all"]
headers = {{ Authorization = "Bearer {token}" }}

[generation]
max-examples = 4

# Values that fit may still be refused: of a run that has ended, by then.
[checks.positive_data_acceptance]
enabled = false

[parameters]
"path.run" = {{ dictionary = "runs", probability = 0.8 }}
"path.id" = {{ dictionary = "questions", probability = 0.8 }}

[dictionaries.runs]
values = ["{question.run}"]

[dictionaries.questions]
values = ["{question.id}"]

# A stream lasts as long as its run.
[[operations]]
include-path-regex = "/(events|cancel)$"
enabled = false
"""


def test_every_route_is_in_the_document_and_nothing_else() -> None:
    documented = {(path, method.upper()) for path, methods in openapi()["paths"].items() for method in methods}
    assert documented == {(PREFIX + call.path, call.method) for call in CALLS}
    assert {route.path for route in API} == {path for path, _ in documented} | {PREFIX + "/{rest:path}"}


def test_every_reference_leads_somewhere() -> None:
    components = openapi()["components"]["schemas"]
    references = {part.split('"')[0] for part in str(openapi()).replace("'", '"').split("#/components/schemas/")[1:]}
    assert references - components.keys() == set()


@pytest_asyncio.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Harness]:
    """A house on a server of its own: what other tests leave waiting would make each list slow."""
    environment = await WorkflowEnvironment.start_local(
        dev_server_existing_path=find_temporal_binary(), data_converter=DATA_CONVERTER, search_attributes=ATTRIBUTES
    )
    async with environment:
        harness = Harness(environment.client, "alone", tmp_path)
        async with worker_for(environment.client, "alone"):
            yield harness
            await harness.replay()


@pytest.mark.slow
async def test_no_request_breaks_it_and_every_response_is_as_documented(alone: Harness, tmp_path: Path) -> None:
    """Schemathesis makes requests of the document, fitting and unfit ones, with a token and without."""
    house = alone
    blueprint_file(house.folder / "blueprints", "brief.yaml", RUN)
    question = await house.one(await house.start(RUN, {"topic": "tea"}))
    site = site_of_house(house, serve=ServeSection(blueprints=["blueprints"]))
    record = Record(open_store(site.config.record_place()), house.client)
    site = replace(site, given_runs=site.runs.with_archive(record), record=record)
    gate = Gate.of(site.config, record.store)
    _, token = gate.tokens.create("user:ana", scopes=ALL_WEB_SCOPES, life=None)
    (tmp_path / "schemathesis.toml").write_text(SETTINGS.format(token=token, question=question))
    async with served(create_app(site, gate)) as address:
        command = [Path(sys.executable).parent / "schemathesis", "run", f"{address}{PREFIX}/openapi.json"]
        options = {"cwd": tmp_path, "capture_output": True, "text": True, "env": {**os.environ, "NO_COLOR": "1"}}
        done = await asyncio.to_thread(subprocess.run, command, check=False, **options)
    house.started += [run.run for run in await house.runs.lists.all() if run.run not in house.started]
    assert done.returncode == 0, done.stdout[-6000:]
