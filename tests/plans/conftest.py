"""Plans of the tests: a harness with their tools, the log that these write, and words for what a model does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Harness

DRIVERS = ("engine", "agent")
SAYS_INSTRUCTION = "{{ messages[-1].content }}"


class Plans:
    """Runs plans from Python values, with a script of what the model says."""

    def __init__(self, harness: Harness, log: Path) -> None:
        self.harness, self.log = harness, log

    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def tools(self) -> list[str]:
        return [call["tool"] for call in self.calls()]

    async def start(self, plan: dict[str, Any], script: dict[str, Any] | list[Any] | None = None, **how: Any) -> str:
        """Start a plan; `script` holds the model's replies by step."""
        if script is not None:
            self.harness.script(json.dumps(script))
        whole = {"goal": "A test", "agent": "scripted:replies.yaml", **plan}
        return await self.harness.start(json.dumps(whole), **how)

    async def output(self, plan: dict[str, Any], script: dict[str, Any] | list[Any] | None = None) -> dict[str, Any]:
        output: dict[str, Any] = await self.harness.output(await self.start(plan, script))
        return output

    async def ended(self, plan: dict[str, Any], script: dict[str, Any] | list[Any] | None = None) -> dict[str, Any]:
        """What a plan gives, also if it fails."""
        outcome = await self.harness.result(await self.start(plan, script))
        output: dict[str, Any] = outcome.output
        return output

    async def requests(self, run: str) -> list[dict[str, Any]]:
        """Every request to a model of the run, by workflow, in its order."""
        found = []
        for history in await self.harness.histories(run):
            for event in history.events:
                if event.HasField("activity_task_scheduled_event_attributes"):
                    payloads = event.activity_task_scheduled_event_attributes.input.payloads
                    [request] = await self.harness.client.data_converter.decode(payloads)
                    if "messages" in request:
                        found.append(request)
        return found

    async def told(self, run: str) -> list[dict[str, Any]]:
        """What the control calls were told, in their order: the results in the last conversation with the model."""
        results: list[dict[str, Any]] = []
        for request in await self.requests(run):
            found = [one["content"] for one in request["messages"] if one["role"] == "tool"]
            results = max(results, found, key=len)
        return results

    def wants(self, tool: str, **args: Any) -> dict[str, Any]:
        """A reply to a step of an engine-driven plan: a call of a tool, which is to write into the log."""
        return {"output": "done", "tool_calls": [{"name": tool, "args": {"log": str(self.log), **args}}]}

    def runs(self, step: str, tool: str, **args: Any) -> dict[str, Any]:
        """The same by an agent that drives the plan."""
        return call("execute_step_tool", step_id=step, tool_name=tool, parameters={"log": str(self.log), **args})


@pytest.fixture
def plans(house: Harness, tmp_path: Path) -> Plans:
    return Plans(house, tmp_path / "calls.jsonl")


def says(*ids: str, **replies: Any) -> dict[str, Any]:
    """A script in which the model gives back what these steps instruct it to do."""
    return {**dict.fromkeys(ids, SAYS_INSTRUCTION), **replies}


def step(id_: str, instruction: str = "Do it", **more: Any) -> dict[str, Any]:
    return {"id": id_, "instruction": instruction, **more}


def loop(over: Any, *steps: str, **more: Any) -> dict[str, Any]:
    return {"over": over, "steps": list(steps), **more}


def statuses(output: dict[str, Any]) -> dict[str, str]:
    return {id_: told["status"] for id_, told in output["steps"].items()}


def reasons(output: dict[str, Any]) -> dict[str, str]:
    return {id_: told["reason"] for id_, told in output["steps"].items() if told.get("reason")}


def call(name: str, **args: Any) -> dict[str, Any]:
    """A reply of a model that calls one control tool."""
    return {"tool_calls": [{"name": name, "args": args}]}


def finish(step: str, summary: str = "done") -> dict[str, Any]:
    return call("finish_step", step_id=step, result_summary=summary)


def begin(loop_id: str) -> dict[str, Any]:
    return call("start_loop", loop_id=loop_id)


def advance(loop_id: str, **more: Any) -> dict[str, Any]:
    return call("advance_loop", loop_id=loop_id, **more)


def ask(question: str, **more: Any) -> dict[str, Any]:
    return call("request_user_info", question=question, **more)
