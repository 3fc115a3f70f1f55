"""The calls that list what can be started, and start it."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

from pydantic import Field
from typing_extensions import TypedDict

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Blueprint
from holdfast.client.catalogue import Offered, find_offered, offered
from holdfast.client.history import input_of
from holdfast.protocol.answers import Refusal
from holdfast.protocol.runs import LONGEST_RUN_ID
from holdfast.protocol.values import digest_of
from holdfast.runtime.errors import RunExists
from holdfast.server.web.api.bodies import WebInput
from holdfast.server.web.api.calls import ApiCall, Exchange


class BlueprintRow(TypedDict):
    """A blueprint that can be started."""

    blueprint: str
    """The name to start it by."""
    description: str
    inputs: dict[str, Any] | None
    """JSON Schema of its input; None: any."""
    problems: list[str]
    """The mistakes that keep it from starting."""


class StartInput(WebInput):
    """A run to start."""

    blueprint: str = Field(min_length=1, max_length=1000, description="A name from /blueprints.")
    input: JSON = None
    id: str | None = Field(None, min_length=1, max_length=LONGEST_RUN_ID, description="Of the run.")


class StartedJSON(TypedDict):
    """The run that was started, as `start --json` has it."""

    run: str


async def list_blueprints(exchange: Exchange) -> list[BlueprintRow]:
    """List the blueprints that can be started, each with the schema of its input."""
    site, allows = exchange.site, exchange.runs.start_filter
    return await asyncio.to_thread(lambda: [blueprint_row(offer) for offer in offered(site.config, allows)])


def blueprint_row(offer: Offered) -> BlueprintRow:
    """Return the row of a blueprint, with its problems where it has mistakes."""
    try:
        blueprint = offer.read()
    except BlueprintError as error:
        return {"blueprint": offer.name, "description": "", "inputs": None, "problems": list(map(str, error.problems))}
    return {
        "blueprint": offer.name,
        "description": blueprint.description or "",
        "inputs": blueprint.inputs,
        "problems": [],
    }


async def start_run(exchange: Exchange) -> StartedJSON:
    """Start a run. The same `Idempotency-Key` with the same body gives the same run again."""
    body: StartInput = exchange.body
    runs, by, key = exchange.runs, exchange.identity.user, exchange.key()
    offer = await asyncio.to_thread(find_offered, exchange.site.config, body.blueprint, runs.start_filter)
    blueprint = await asyncio.to_thread(offer.read)
    run = body.id or (None if key is None else _id_for(blueprint, by, key))
    try:
        run = await runs.start(blueprint, body.input, run=run, started_by=by, check=True)
    except RunExists:
        if run is None or key is None:
            raise
        await _check_same(exchange, run, blueprint)
    exchange.headers["Location"] = f"{exchange.request.url.path}/{quote(run, safe='')}"
    return {"run": run}


def _id_for(blueprint: Blueprint, by: str, key: str) -> str:
    """Return the id of the run that a person starts under a key: the same for each try."""
    name = blueprint.name.encode()[: LONGEST_RUN_ID - 17].decode(errors="ignore")
    return f"{name.replace('/', '-')}-{digest_of(by, key)}"


async def _check_same(exchange: Exchange, run: str, blueprint: Blueprint) -> None:
    """Raise `Refusal` (`key_conflict`) unless this person has started the run with the blueprint and the input."""
    runs, body = exchange.runs, exchange.body
    state = await input_of(runs.client, run)
    same_start = (state.input, state.started_by) == (body.input, exchange.identity.user)
    if not same_start or (await runs.blueprint(run)).name != blueprint.name:
        raise Refusal("key_conflict", f"run {run} was started with another input or blueprint; use a new key")


START_CALLS = [
    ApiCall("GET", "/blueprints", list_blueprints, list[BlueprintRow]),
    ApiCall(
        "POST",
        "/runs",
        start_run,
        StartedJSON,
        scope="steer",
        status=201,
        body=StartInput,
        size="input",
        takes_key=True,
        problems=(409, 422, 503),
    ),
]
