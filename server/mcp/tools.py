"""The tools of the MCP server: what each takes, and what it gives; `server` connects them to the protocol."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Blueprint
from holdfast.client.catalogue import Allows, Offered, find_offered, list_offered
from holdfast.client.runs import Runs
from holdfast.protocol.names import LONGEST_RUN_ID
from holdfast.protocol.views import Status
from holdfast.runtime.config import Config

MOST_WAIT = 60.0
LOOK_SECONDS = 0.5
PAGE_ROWS = 50
"""The runs of a page, or the workflows whose questions are on it."""
AFTER: Any = Field(
    None,
    min_length=1,
    max_length=2000,
    description="`next` of the page before, with the same filters; null: the first.",
)
"""The place in a list from which a tool goes on."""


class ToolInput(BaseModel):
    """The base class of the arguments of a tool: unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class StartTool(ToolInput):
    """Start a run of a blueprint. It goes on by itself, and stops where a person must answer."""

    blueprint: str = Field(min_length=1, max_length=1000)
    input: JSON = None
    id: str | None = Field(None, min_length=1, max_length=LONGEST_RUN_ID, description="Of the run; may be left out.")


class RunsTool(ToolInput):
    """List runs, open ones first, then the newest, fifty a page."""

    blueprint: str | None = Field(None, max_length=200)
    status: Status | None = None
    after: str | None = AFTER


class QuestionsTool(ToolInput):
    """List open questions: of a run, or of all runs, those of fifty workflows a page."""

    run: str | None = Field(None, max_length=200)
    after: str | None = AFTER


class AnswerTool(ToolInput):
    """Answer an open question. A permission, a review, a decision or a stop is put before a person first."""

    run: str = Field(min_length=1, max_length=200)
    question: str = Field(min_length=1, max_length=2000, description="Its id, address, or the name of its step.")
    action: Literal["accept", "decline", "cancel"] = "accept"
    content: JSON = Field(None, description="What requestedSchema of the question asks for.")
    comment: str | None = Field(None, max_length=2000)


class ResultTool(ToolInput):
    """Show how a run ended, or where it stands."""

    run: str = Field(min_length=1, max_length=200)
    wait: float = Field(0, ge=0, le=MOST_WAIT, description="Seconds to wait until it has ended or waits for a person.")


TOOLS: dict[str, type[ToolInput]] = {
    "start": StartTool,
    "runs": RunsTool,
    "questions": QuestionsTool,
    "answer": AnswerTool,
    "result": ResultTool,
}
"""The arguments of each tool, by its name."""


def start_schema(config: Config, allows: Allows | None) -> JSONObject:
    """Return the schema of `start`: the names of the blueprints, and what each takes as its input.

    Args:
        config: The configuration.
        allows: Which blueprints the person may start; None: all.
    """
    schema = StartTool.model_json_schema()
    blueprints = {offer.name: blueprint for offer in list_offered(config, allows) if (blueprint := _read(offer))}
    schema["properties"]["blueprint"]["enum"] = list(blueprints)
    inputs = [
        {**(blueprint.inputs or {}), "title": name}
        for name, blueprint in blueprints.items()
        if _stands_alone(blueprint.inputs)
    ]
    if len(inputs) == len(blueprints) and inputs:
        schema["properties"]["input"] = inputs[0] if len(inputs) == 1 else {"anyOf": inputs}
    lines = [f"{name}: {blueprint.description or 'no description'}" for name, blueprint in blueprints.items()]
    schema["properties"]["blueprint"]["description"] = "\n".join(lines)
    return schema


def _read(offer: Offered) -> Blueprint | None:
    """Return the blueprint; None for one with mistakes, which cannot be started."""
    try:
        return offer.read()
    except BlueprintError:
        return None


def _stands_alone(schema: JSONObject | None) -> bool:
    """Return whether a schema means the same inside another: its references would lead elsewhere."""
    return "$ref" not in str(schema)


async def start(runs: Runs, config: Config, arguments: StartTool) -> JSONObject:
    """Start a run and return its id. Raises as `Runs.start`, and `BadInput` for a name that is not offered."""
    offer = await asyncio.to_thread(find_offered, config, arguments.blueprint, runs.access.start_filter)
    blueprint = await asyncio.to_thread(offer.read)
    return {"run": await runs.start(blueprint, arguments.input, run=arguments.id, check=True)}


async def list_runs(runs: Runs, arguments: RunsTool) -> JSONObject:
    """Return a page of runs. Raises `BadCursor`."""
    rows, cursor = await runs.lists.page(
        arguments.after, blueprint=arguments.blueprint, status=arguments.status, size=PAGE_ROWS
    )
    return {"runs": [row.to_json() for row in rows], "next": cursor}


async def list_questions(runs: Runs, arguments: QuestionsTool) -> JSONObject:
    """Return the open questions of a run, or a page of those that the user may answer. Raises `BadCursor`."""
    if arguments.run is not None:
        questions = await runs.access.visible_questions(arguments.run)
        return {"questions": [question.model_dump(mode="json") for question in questions], "next": None}
    user = runs.answering.find_sender(None)
    rows, cursor = await runs.lists.find_waiting(user, cursor=arguments.after, size=PAGE_ROWS)
    return {"questions": [entry for row in rows for entry in row.to_json()], "next": cursor}


async def show_result(runs: Runs, arguments: ResultTool) -> JSONObject:
    """Return the outcome of a run, at the latest after the time that is to be waited."""
    over = time.monotonic() + arguments.wait
    await runs.access.require("see", arguments.run)
    outcome = await runs.outcome(arguments.run)
    while outcome.status == "running" and time.monotonic() < over:
        await asyncio.sleep(LOOK_SECONDS)
        outcome = await runs.outcome(arguments.run)
    return {**outcome.to_json(await runs.watch.steps_before(outcome))}
