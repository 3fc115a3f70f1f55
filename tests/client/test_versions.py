"""Worker versioning: runs that are parked under one build, and workers of the next one."""

from __future__ import annotations

import pytest

from holdfast.runtime.config import WorkerSettings
from holdfast.runtime.workers import make_current
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


async def build_of(house: Harness, run: str) -> str:
    """The build that has ended a run."""

    async def known() -> str:
        described = await house.client.get_workflow_handle(run).describe()
        info = described.raw_description.workflow_execution_info.versioning_info
        return str(info.deployment_version.build_id)

    return str(await until(known, "the build"))
