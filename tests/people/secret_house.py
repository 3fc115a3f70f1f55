"""A house with a secret store, and all that is kept of its runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from holdfast.activities import Interrupt, all_activities, secret, tool
from holdfast.client.answering import Answering
from holdfast.client.events import all_events
from holdfast.client.memory import QuestionMemory
from holdfast.client.runs import Runs
from holdfast.protocol.names import CONTEXT
from holdfast.runtime.secrets import EnvironmentSecrets, SecretDirectory
from holdfast.worker import create_worker
from tests.conftest import TOOLS, Harness, Replays


@tool
def opens(key: str, how: str) -> object:
    """Reads a secret, and gives it away in one way or another, or not."""
    value = secret(key)
    match how:
        case "length":
            return len(value)
        case "return":
            return f"It is {value}!"
        case "key":
            return {"a": [{value: 1}]}
        case "json":
            return json.dumps({"body": {"key": value}}, ensure_ascii=False)
        case "raise":
            raise ValueError(f"{value} is wrong")
        case "cause":
            try:
                raise KeyError(value)
            except KeyError:
                raise ValueError("it is wrong") from None
        case "details":
            raise ApplicationError("it is wrong", {"key": value})
        case "interrupt":
            raise Interrupt(f"Is {value} right?")
        case "many":
            raise ExceptionGroup("several", [ValueError("a"), ValueError(value)])
    raise ValueError("no such way")


@pytest.fixture
def store(tmp_path: Path) -> SecretDirectory:
    return SecretDirectory(tmp_path / "secrets")


@pytest_asyncio.fixture
async def house(
    temporal: Client, replays: Replays, tmp_path: Path, store: SecretDirectory, request: pytest.FixtureRequest
) -> AsyncIterator[Harness]:
    """As everywhere, but client and worker have a secret store."""
    queue = f"secrets-{tmp_path.name}"
    harness = Harness(temporal, queue, tmp_path)
    harness.runs = Runs(temporal, queue, Answering(memory=QuestionMemory(tmp_path / "questions.json"), secrets=store))
    readers = {"dir": store, "env": EnvironmentSecrets(["LISTED"])}
    activities = all_activities([TOOLS], {}, secrets=readers)
    async with create_worker(temporal, task_queue=queue, activities=activities):
        yield harness
        await harness.close(replays, request.node.nodeid)


def has(text: str, value: str = "hunter2") -> bool:
    return value in text


async def everything(house: Harness, run: str) -> str:
    """All that is kept of a run and told of it: histories with their payloads, events, views, the context."""
    told = [history.to_json() for history in await house.histories(run)]
    for history in await house.histories(run):
        for event in history.events:
            told.append(event.SerializeToString().decode(errors="replace"))
    told += [event.model_dump_json() for event in await all_events(house.runs.tree, run)]
    told += [view.model_dump_json() for view in await house.runs.tree.views(run)]
    told.append(json.dumps(await house.runs.tree.query(run, CONTEXT, None, dict[str, Any])))
    described = await house.client.get_workflow_handle(run).describe()
    told.append(str(described.raw_description))
    return "\n".join(told)
