"""Workers lost in the middle of a call of every kind: no run fails by it, and no effect is made twice unasked.

Each call may be tried once (`ONCE`), so that the second loss would fail it if losses counted.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml
from temporalio.client import WorkflowExecutionStatus

from holdfast.protocol.runs import LossPolicy
from tests.activities.provider import Provider, Reply, Request
from tests.conftest import Harness, until
from tests.crash.machines import Machines, asked
from tests.tools import calls

pytestmark = pytest.mark.slow

LOSSES = (signal.SIGKILL, signal.SIGTERM) * 2
QUICK = LossPolicy(heartbeat=8, backoff=0.1, factor=1)
ONCE = {"attempts": 1}
MODELS = ("writer", "adviser", "shortener", "planner", "decider")
"""Each hangs in its request."""
TOOLS = ("step", "mcp", "hangs", "function", "condition", "mapper", "loop", "item", "cached", "caller", "plan")
"""Each counts its calls in a file of this name; `hangs` is the node of a graph."""


class Calls:
    """A run with a call of every kind under way, all at the same time, and the workers that are lost in them."""

    def __init__(self, machines: Machines, provider: Provider) -> None:
        self.machines, self.provider, self.folder = machines, provider, machines.folder
        provider.always(self.reply)
        (self.folder / "holdfast.toml").write_text(f'[mcp.slow]\nurl = "{machines.start_mcp_server()}"\n')
        (self.folder / "hang").touch()

    # What the models say

    def reply(self, request: Request) -> Reply:
        name = request.body["model"]
        made = sum(message["role"] == "tool" for message in request.body["messages"])
        if name in ("caller", "plan") and not made:
            return Reply(calls=(("hangs", {"folder": str(self.folder), "name": name}, "c1"),))
        if name == "remote" and not made:
            return Reply(calls=(("slow_wait", {"started": f"{self.folder}/mcp", "until": f"{self.folder}/go"}, "c1"),))
        if name == "longer" and made < 3 and "happened so far" not in json.dumps(request.body["messages"]):
            return Reply(calls=(("counted", {"folder": str(self.folder), "name": f"longer{made}"}, f"c{made}"),))
        if name in MODELS and (self.folder / "hang").exists():
            return Reply(hangs=True)
        if name == "decider":
            return Reply(calls=(("finish", {"output": "decided"}, "c1"),))
        return Reply(text=f"{name} said it")

    # What is run

    def agent(self, name: str, **more: Any) -> dict[str, Any]:
        models = [f"openai-compatible:{model}@{self.provider.url}" for model in (name, "fallback")]
        return {"model": models, "retry": ONCE, **more}

    def tool(self, name: str, **more: Any) -> dict[str, Any]:
        given = {"folder": str(self.folder), "name": name}
        return {"name": name, "uses": "hangs", "input": given, "retry": ONCE, **more}

    def document(self) -> str:
        folder = str(self.folder)
        loop = {"max_loops": 1, "initial_input_mapper": "tests.crash.losing:map_input", "body": [{"name": "echo"}]}
        yes = {"true": {"name": "yes", "input": "yes"}}
        plan = {"goal": "All", "steps": [{"id": "1", "instruction": "Do it", "tools": ["hangs"]}], "agent": "plan"}
        steps = [
            self.tool("step"),
            self.tool("pay", uses="hangs_with_effect"),
            self.tool("graph", uses="tests.graphs:side_by_side", input={"folder": folder, "log": []}),
            {"kind": "conditional", "name": "if", "condition": "tests.crash.losing:is_ready", "branches": yes},
            {"kind": "loop", "name": "mapped", "loop": loop},
            {"kind": "loop", "name": "rounds", "loop": {"max_loops": 1, "body": [self.tool("loop")]}},
            {"kind": "map", "name": "items", "map": {"iterable_input": "{{ [1] }}", "body": [self.tool("item")]}},
            {"kind": "cache", "name": "cache", "wrapped_step": self.tool("cached")},
            {"kind": "plan", "name": "work", "plan": plan},
            {"kind": "agentic_loop", "name": "decide", "planner": "decider", "registry": ["agent:writer"]},
            *({"name": f"ask-{name}", "agent": name} for name in ("function", "adviser", "writer", "planner")),
            *({"name": f"ask-{name}", "agent": name} for name in ("caller", "remote", "longer")),
        ]
        shorter = {"strategy": "summarize", "max_turns": 2, "keep_turns": 1, "agent": "shortener"}
        agents = {
            "function": {"from": "tests.crash.losing:clerk"},
            "adviser": {**self.agent("adviser"), "from": "tests.crash.losing:adviser"},
            "caller": self.agent("caller", tools=[{"name": "hangs", "retry": ONCE}]),
            "remote": self.agent("remote", tools=[{"name": "mcp:slow/wait", "idempotent": True, "retry": ONCE}]),
            "longer": self.agent("longer", tools=["counted"], history_management=shorter),
            "plan": self.agent("plan", tools=[{"name": "hangs", "retry": ONCE}]),
            **{name: self.agent(name) for name in ("writer", "shortener", "planner", "decider")},
        }
        branches = {step["name"]: {"input": folder, **step} for step in steps}
        return yaml.safe_dump(
            {"agents": agents, "steps": [{"kind": "parallel", "name": "all", "branches": branches}]}, sort_keys=False
        )

    # What happens to it

    def start_worker(self) -> None:
        imports = "tests,tests.tools,tests.workers.tools,tests.crash.losing"
        payloads = f"dir:{self.folder / 'payloads'}"
        self.machines.start_worker(HOLDFAST_IMPORTS=imports, HOLDFAST_PAYLOADS=payloads, HOLDFAST_GRACE="0")

    def counts(self) -> dict[str, int]:
        requests = [request.body["model"] for request in self.provider.requests]
        return {name: requests.count(name) for name in MODELS} | {name: calls(self.folder, name) for name in TOOLS}

    async def lose(self, house: Harness, run: str, by: signal.Signals) -> None:
        """Start a worker, and end it once every call is under way."""
        before = self.counts()
        self.start_worker()

        async def are_under_way() -> bool:
            description = await house.client.get_workflow_handle(run).describe()
            assert description.status == WorkflowExecutionStatus.RUNNING, await house.result(run)
            return all(count > before[name] for name, count in self.counts().items())

        try:
            await until(are_under_way, "every call")
        except AssertionError as error:
            waiting = [name for name, count in self.counts().items() if count == before[name]]
            raise AssertionError(f"not called: {waiting}") from error
        os.kill(self.machines.pid("worker"), by)
        await self.machines.ended("worker")

    def let_go(self) -> None:
        (self.folder / "go").touch()
        (self.folder / "hang").unlink()
        self.start_worker()


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[Provider]:
    async with Provider() as provider:
        yield provider


async def test_losses_of_each_call_fail_nothing(machines: Machines, provider: Provider) -> None:
    made = Calls(machines, provider)
    house: Harness = await machines.house()
    run = await house.start(made.document(), loss_policy=QUICK)
    for by in LOSSES:
        await made.lose(house, run, by)
    made.let_go()
    question = await asked(house, run, "The result of hangs_with_effect was lost")
    await house.answer(run, {"outcome": "done", "result": "paid"}, question)
    output = await house.output(run)
    assert (output["pay"], output["ask-writer"], output["ask-longer"]) == ("paid", "writer said it", "longer said it")
    assert output["work"]["status"] == "completed"
    assert (calls(made.folder, "pay"), calls(made.folder, "first"), calls(made.folder, "last")) == (1, 1, 1)
    assert "fallback" not in [request.body["model"] for request in provider.requests]
    await house.replay()
