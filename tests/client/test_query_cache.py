"""Queries that those share who ask the same workflow at the same time."""

import asyncio

from holdfast.client.query_cache import QueryCache
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.names import VIEW
from holdfast.protocol.views import WorkflowView
from tests.conftest import Harness


async def test_a_query_of_open_workflows_only_is_not_shared_with_who_reads_ended_ones(house: Harness) -> None:
    tree = Tree(house.client, house.runs.tree.task_queue, cache=QueryCache(house.client))
    run = await house.start("{name: go, steps: [{kind: hitl, name: ask, message: Go?}]}")
    question = await house.one(run)
    seen = await tree.describe(run)  # as two readers see it who look just before it ends
    await house.answer(run, "yes", question)
    await house.result(run)
    if_open, always = await asyncio.gather(
        tree.query(run, VIEW, 0, WorkflowView, unless_ended=True, described=seen),
        tree.query(run, VIEW, 0, WorkflowView, described=seen),
        return_exceptions=True,
    )
    assert isinstance(if_open, UnknownRun)
    assert isinstance(always, WorkflowView) and always.status == "completed"
