"""Worker versioning: runs that are parked under one build, and workers of the next one."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from holdfast.cli.doctor.server import Deployment
from holdfast.cli.doctor.worker import check_pins
from holdfast.runtime.config import Config, WorkerSettings
from holdfast.runtime.config.sections import WorkerSection
from holdfast.runtime.embedded.server import find_temporal_binary
from holdfast.runtime.workers import Version, describe_queue, list_polling_versions, make_current
from tests.conftest import Harness, until, worker_for

LOOP = """
steps:
  - kind: loop
    name: talk
    loop: {max_loops: 2, checkpoint_every: 1, body: [{kind: hitl, name: ask, message: "{{ iteration }}?"}]}
output: "{{ steps.talk.output }}"
"""


async def test_a_run_that_is_parked_under_one_build_ends_under_the_next(nobody: Harness, queue: str) -> None:
    client, build = nobody.client, WorkerSettings(build_id="a", deployment=queue)
    async with worker_for(client, queue, settings=build):
        await make_current(client, queue, "a")
        run = await nobody.start(LOOP)
        assert (await nobody.one(run)).message == "1?"
    async with worker_for(client, queue, settings=build.model_copy(update={"build_id": "b"})):
        await make_current(client, queue, "b")
        await nobody.answered(run, "one", "two")
        assert await nobody.output(run) == "two"


@pytest.mark.slow
async def test_a_pinned_run_waits_for_its_own_build(nobody: Harness, queue: str) -> None:
    client, build = nobody.client, WorkerSettings(build_id="a", deployment=queue, versioning="pinned")
    async with worker_for(client, queue, settings=build):
        await make_current(client, queue, "a")
        run = await nobody.start(LOOP)
        question = await nobody.one(run)
        async with worker_for(client, queue, settings=build.model_copy(update={"build_id": "b"})):
            await make_current(client, queue, "b")
            later = await nobody.start(LOOP)
            await nobody.answer(later, "one")
            await nobody.answer(run, "one", question)
            await nobody.answered(run, "two")
            await nobody.answered(later, "two")
            assert [await nobody.output(one) for one in (run, later)] == ["two", "two"]
            assert [await build_of(nobody, one) for one in (run, later)] == ["a", "b"]


@pytest.mark.slow
async def test_a_run_whose_build_is_gone_is_named_and_moved_by_the_printed_command(
    nobody: Harness, queue: str, tmp_path: Path
) -> None:
    client, build = nobody.client, WorkerSettings(build_id="a", deployment=queue, versioning="pinned")
    async with worker_for(client, queue, settings=build):
        await make_current(client, queue, "a")
        run = await nobody.start(LOOP)
        question = await nobody.one(run)
    async with worker_for(client, queue, settings=build.model_copy(update={"build_id": "b"})):
        await make_current(client, queue, "b")

        async def is_polled() -> bool:
            return Version(queue, "b") in list_polling_versions(await describe_queue(client, queue))

        await until(is_polled, "a worker of build b")
        reply = await describe_queue(client, queue)
        for poller in [one for one in reply.pollers if one.deployment_options.build_id == "a"]:
            reply.pollers.remove(poller)  # the server remembers it for minutes
        config = Config(home=tmp_path, folder=tmp_path, worker=WorkerSection(task_queue=queue))

        async def found() -> list[str]:
            return [finding.message for finding in await check_pins(Deployment(client, config, embedded=False), reply)]

        [told] = await until(found, "the runs that are pinned")
        assert told == f"no worker of {queue}:a polls, and {run} is pinned to it"
        silence = str(await nobody.runs.tree.silence(question.owner))
        assert f"the run is pinned to version {queue}/a" in silence and "set-current-version" not in silence
        [command] = re.findall(r"temporal (workflow update-options .* --yes)", silence)
        address = client.service_client.config.target_host
        temporal = [find_temporal_binary(), *shlex.split(command), "--address", address, "-n", client.namespace]
        await asyncio.to_thread(subprocess.run, temporal, check=True, capture_output=True)

        async def are_moved() -> bool:
            described = [await client.get_workflow_handle(one).describe() for one in (run, question.owner)]
            found = [one.raw_description.workflow_execution_info.versioning_info for one in described]
            return all(info.HasField("versioning_override") for info in found)

        await until(are_moved, "the end of the batch")
        await nobody.answered(run, "one", "two")
        assert await nobody.output(run) == "two"


async def build_of(house: Harness, run: str) -> str:
    """The build that has ended a run."""

    async def known() -> str:
        described = await house.client.get_workflow_handle(run).describe()
        info = described.raw_description.workflow_execution_info.versioning_info
        return str(info.deployment_version.build_id)

    return str(await until(known, "the build"))
