"""What touches the world: models, tools, the cache. May fail, may be tried again, is never replayed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from activities.cache import CacheActivities, CacheStore, store_at
from activities.interrupt import Interrupt, level, resumed
from activities.mcp_servers import McpServer, McpServers
from activities.models import ModelActivities, ModelAlias
from activities.registry import tool
from activities.secrets import SecretStore, secret
from activities.tools import ToolActivities
from protocol.questions import Clarification, Decision, Hold, Input, Permission, Review


def all_activities(
    imports: Sequence[str],
    models: Mapping[str, ModelAlias],
    servers: McpServers | None = None,
    cache: CacheStore | None = None,
    secrets: Mapping[str, SecretStore] | None = None,
) -> list[Callable[..., Any]]:
    """Every activity of a worker that lists these packages and names these models.

    The caller closes the servers and the cache; without one, what is kept lasts as long as the worker.
    """
    tools = ToolActivities(imports, servers or McpServers({}), secrets or {})
    kept = CacheActivities(cache or store_at("sqlite::memory:"))
    return [
        ModelActivities(models).call_model,
        tools.call_tool,
        tools.describe_tools,
        tools.find_tool,
        kept.cache_get,
        kept.cache_put,
    ]


__all__ = [
    "CacheStore",
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
    "SecretStore",
    "all_activities",
    "level",
    "resumed",
    "secret",
    "store_at",
    "tool",
]
