"""What touches the world: models and tools. May fail, may be tried again, is never replayed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from activities.interrupt import Interrupt, level, resumed
from activities.mcp_servers import McpServer, McpServers
from activities.models import ModelActivities, ModelAlias
from activities.registry import tool
from activities.tools import ToolActivities
from protocol.questions import Clarification, Decision, Hold, Input, Permission, Review


def all_activities(
    imports: Sequence[str], models: Mapping[str, ModelAlias], servers: McpServers | None = None
) -> list[Callable[..., Any]]:
    """Every activity of a worker that lists these packages and names these models; the caller closes the servers."""
    tools = ToolActivities(imports, servers or McpServers({}))
    return [ModelActivities(models).call_model, tools.call_tool, tools.describe_tools]


__all__ = [
    "Clarification",
    "Decision",
    "Hold",
    "Input",
    "Interrupt",
    "McpServer",
    "McpServers",
    "ModelAlias",
    "Permission",
    "Review",
    "all_activities",
    "level",
    "resumed",
    "tool",
]
