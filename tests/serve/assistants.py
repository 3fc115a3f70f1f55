"""An assistant's client of the MCP server, and the person at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from mcp import Client
from mcp_types import ElicitResult

from holdfast.protocol.questions import Question
from tests.conftest import Harness

TITLE = """
name: title
description: Find a title.
inputs: {type: object, required: [topic], properties: {topic: {type: string}}}
steps: [{kind: hitl, name: title, message: "A title about {{ input.topic }}?"}]
output: "{{ steps.title.output }}"
"""
PERMIT = "{name: may, steps: [{kind: hitl, name: ask, message: May it be sent?, ask: permission}]}"
Era = Literal["auto", "legacy"]


@dataclass
class Asked:
    """A person at the assistant's client: what they are shown, and how they fill the form."""

    action: str = "accept"
    content: dict[str, Any] | None = None
    shown: list[Any] = field(default_factory=list)

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.shown.append(params)
        return ElicitResult(action=self.action, content=self.content if self.action == "accept" else None)


async def answered(client: Client, question: Question, **arguments: Any) -> Any:
    named = {"run": question.run, "question": question.id, **arguments}
    return await client.call_tool("answer", named)


def environment_of(house: Harness) -> dict[str, str]:
    """The environment in which a command finds the house's server."""
    return {
        "TEMPORAL_ADDRESS": house.client.service_client.config.target_host,
        "TEMPORAL_NAMESPACE": house.client.namespace,
        "HOLDFAST_TASK_QUEUE": house.runs.task_queue,
        "HOLDFAST_HOME": str(house.folder / ".holdfast"),
    }


def text(result: Any) -> str:
    return result.content[0].text
