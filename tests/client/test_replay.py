"""`holdfast replay --open`: what a new version would break is told before it is rolled out."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from holdfast.blueprint.load import loads
from holdfast.client.runs import Runs
from holdfast.runtime.config import WorkerSettings
from holdfast.runtime.encryption import EncryptionCodec, KeyRing
from holdfast.runtime.replay import find_reason
from holdfast.runtime.workers import make_current
from holdfast.workflows import RUNNER
from tests.client.command import LOOP, Holdfast
from tests.conftest import until, worker_for
from tests.own import Approvals
from tests.replay import recordings
from tests.server import COMMANDS, NAME, connected

CHANGED = """
import asyncio
from temporalio import workflow
from holdfast import HumanInTheLoop


@workflow.defn
class Approvals(HumanInTheLoop):
    @workflow.run
    async def run(self, n: int) -> None:
        await asyncio.sleep(1)
        await self.human.ask(f"Approve {n}?")
"""


@pytest.fixture
async def own_run(holdfast: Holdfast, server: str) -> AsyncIterator[str]:
    """An author's own workflow, at its question."""
    client = await connected(server, NAME + COMMANDS)
    run = f"own-{uuid4().hex[:8]}"
    async with Worker(client, task_queue=run, workflows=[Approvals], workflow_runner=RUNNER):
        handle = await client.start_workflow(Approvals.run, 1, id=run, task_queue=run)

        async def is_listed() -> bool:
            listed = client.list_workflows(f"WorkflowId = '{run}' AND HoldfastWaitingFor IS NOT NULL")
            return [execution.id async for execution in listed] == [run]

        await until(is_listed, "the question in visibility")
        yield run
        await handle.terminate()


async def replayed(holdfast: Holdfast, *words: str) -> tuple[int, dict[str, bool]]:
    done = await asyncio.to_thread(holdfast.as_process(), "replay", "--open", "--json", *words)
    return done.code, {row["workflow"]: row["ok"] for row in done.json}


@pytest.mark.slow
async def test_the_open_runs_that_a_change_breaks_are_found(holdfast: Holdfast, own_run: str) -> None:
    path = holdfast.write(f"loop-{own_run}.yaml", LOOP)
    started = await asyncio.to_thread(holdfast.as_process(), "start", path, "--id", f"open-{own_run}")
    assert started.code == 0
    holdfast.write("same.py", "from tests.own import Approvals as Approvals\n")
    holdfast.write("changed.py", CHANGED)
    _, rows = await replayed(holdfast, "--workflows", "same")
    assert rows[own_run] and rows[f"open-{own_run}"] and rows[f"open-{own_run}/loop:clarify"]
    code, rows = await replayed(holdfast, "--workflows", "changed")
    assert (code, rows[own_run], rows[f"open-{own_run}"]) == (1, False, True)
    told = (await asyncio.to_thread(holdfast.as_process(), "replay", "--open", "--workflows", "changed")).out
    assert re.search(rf"{own_run} \(.*\) is NOT followed: \[TMPRL1100\] ", told)


@pytest.mark.slow
async def test_workflows_that_are_not_known_here_and_pinned_ones_are_not_called_broken(
    holdfast: Holdfast, own_run: str, server: str
) -> None:
    client = await connected(server, NAME + COMMANDS)
    queue = f"pinned-{own_run}"
    build = WorkerSettings(build_id="a", deployment=queue, versioning="pinned")
    async with worker_for(client, queue, settings=build):
        await make_current(client, queue, "a")
        run = await Runs(client, queue).start(loads(LOOP, name="pinned"), None)
        await until(lambda: _is_listed(client, run), "the pin in visibility")
    _, rows = await replayed(holdfast)
    assert (rows[own_run], rows[run]) == (None, None)
    told = (await asyncio.to_thread(holdfast.as_process(), "replay", "--open")).out
    assert "no workflow of type 'Approvals' here; name its module by --workflows" in told
    assert f"is not replayed: pinned to {queue}:a, whose workers must stay" in told
    await client.get_workflow_handle(run).terminate()  # which ends its children


async def _is_listed(client: Client, run: str) -> bool:
    pinned = "TemporalWorkflowVersioningBehavior = 'Pinned'"
    return run in [execution.id async for execution in client.list_workflows(f"{pinned} AND WorkflowId = '{run}'")]


def test_it_takes_a_run_or_all_that_are_open(holdfast: Holdfast) -> None:
    assert [holdfast("replay", "look", "--open").code, holdfast("replay").code] == [2, 2]


@pytest.mark.slow
def test_a_module_that_is_not_there_is_named(holdfast: Holdfast) -> None:
    one = '{"events": [{"eventId": "1", "workflowExecutionStartedEventAttributes": {}}]}'
    done = holdfast.as_process()("replay", holdfast.write("one.json", one), "--workflows", "nowhere")
    assert (done.code, "--workflows: No module named 'nowhere'" in done.err) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("id_", "value", "reason"),
    [
        ("new", "n" * 40, "it is encrypted with the key 'old'; add it to keys in [encryption]"),
        pytest.param(
            *("old", "n" * 40, "a value cannot be decrypted with the key 'old' of [encryption]"), marks=pytest.mark.slow
        ),
    ],
)
def test_a_key_that_is_missing_or_wrong_is_told_in_words(tmp_path: Path, id_: str, value: str, reason: str) -> None:
    holdfast = Holdfast(tmp_path)  # its configuration is not that of the other tests
    holdfast.write("holdfast.toml", f'[encryption]\nkeys = [{{id = "{id_}", env = "REPLAY_KEY"}}]\n')
    path = holdfast.write("run.json", _encrypted("choice", KeyRing({"old": "o" * 40})))
    done = holdfast.having(REPLAY_KEY=value).as_process()("replay", path)
    assert (done.code, reason in done.out, "Encoded failure" in done.out) == (1, True, False)


def test_a_codec_that_is_missing_is_named() -> None:
    unread = (
        'Some(Failure { message: "it was written with a codec", source: "", info: Some(Info { r#type: "NotReadable" '
    )
    around = f'Failure {{ message: "Failed decoding arguments", source: "", cause: {unread}'
    assert find_reason(RuntimeError(around)) == "it was written with a codec"


def _encrypted(name: str, ring: KeyRing) -> str:
    """Return a recorded history whose run was started with encrypted arguments."""
    history = next(recordings.histories(name))
    arguments = history.events[0].workflow_execution_started_event_attributes.input.payloads
    sealed = [EncryptionCodec(ring).encrypt(payload) for payload in arguments]
    del arguments[:]
    arguments.extend(sealed)
    return history.to_json()
