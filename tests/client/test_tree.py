"""Asking workflows where the server or a worker loses what was asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.tree import Tree
from holdfast.client.workers import NoWorker


@pytest.fixture
def tree(temporal: Client) -> Tree:
    return Tree(temporal, "nowhere")


@pytest.fixture
def loses(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets queries end so, one after the other, and answers those behind them."""

    def lose(*statuses: RPCStatusCode) -> None:
        ends = list(statuses)

        async def query(*_: object) -> Any:
            if ends:
                raise RPCError("lost", ends.pop(0), b"")
            return "found"

        monkeypatch.setattr(tree, "_query", query)

    return lose


@pytest.mark.parametrize(
    "lost",
    [
        [RPCStatusCode.DEADLINE_EXCEEDED],
        [RPCStatusCode.UNAVAILABLE] * 3,
        [RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED],
    ],
)
async def test_a_query_that_was_lost_is_asked_again(
    tree: Tree, loses: Callable[..., None], lost: list[RPCStatusCode]
) -> None:
    loses(*lost)
    assert await tree.query("run", "view", None, str) == "found"


@pytest.mark.parametrize(
    "lost",
    [
        [RPCStatusCode.DEADLINE_EXCEEDED] * 2,
        [RPCStatusCode.CANCELLED],
        [RPCStatusCode.FAILED_PRECONDITION],
    ],
)
async def test_where_nobody_answers_twice_there_is_no_worker(
    tree: Tree, loses: Callable[..., None], lost: list[RPCStatusCode]
) -> None:
    loses(*lost)
    with pytest.raises(NoWorker, match="nowhere"):
        await tree.query("run", "view", None, str)


async def test_a_server_that_goes_on_dropping_queries_is_not_taken_for_a_missing_worker(
    tree: Tree, loses: Callable[..., None]
) -> None:
    loses(*[RPCStatusCode.UNAVAILABLE] * 4)
    with pytest.raises(RPCError, match="lost"):
        await tree.query("run", "view", None, str)
