"""Agents of LangChain whose middleware stops for people, as its documentation has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

FOLDER = Path()
"""Where the tools keep what they have done; set by the test."""


class Scripted(BaseChatModel):
    """Calls two tools, and then says what they gave."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **how: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **how: Any) -> ChatResult:
        gave = [str(message.content) for message in messages if isinstance(message, ToolMessage)]
        calls = [
            {"name": "send_email", "args": {"to": "bob", "text": "hi"}, "id": "c1"},
            {"name": "delete_file", "args": {"path": "report"}, "id": "c2"},
        ]
        reply = AIMessage(content=" | ".join(gave)) if gave else AIMessage(content="", tool_calls=calls)
        reply.usage_metadata = {"input_tokens": 20, "output_tokens": 1, "total_tokens": 21}
        return ChatResult(generations=[ChatGeneration(message=reply)])


def _note(line: str) -> str:
    with (FOLDER / "done").open("a") as file:
        file.write(f"{line}\n")
    return line


@tool
def send_email(to: str, text: str) -> str:
    """Send an e-mail."""
    return _note(f"sent {text} to {to}")


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    return _note(f"deleted {path}")


def _agent(**how: Any) -> Any:
    deciding = {"send_email": True, "delete_file": {"allowed_decisions": ["approve", "reject"]}}
    return create_agent(
        Scripted(),
        tools=[send_email, delete_file],
        middleware=[HumanInTheLoopMiddleware(interrupt_on=deciding, **how)],
        checkpointer=InMemorySaver(),
    )


batched = _agent()
per_call = _agent(interrupt_mode="per_call")
