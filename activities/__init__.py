"""Activities: calls of models and tools, the cache, secrets. They may fail and be retried; replay never runs them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.activities.aliases import ModelAlias
from holdfast.activities.cache import CacheActivities, CacheStore, store_at
from holdfast.activities.interrupt import Interrupt, level, resumed
from holdfast.activities.lookup import LookUpActivities
from holdfast.activities.mcp_servers import McpServer, McpServers
from holdfast.activities.models import ModelActivities
from holdfast.activities.registry import tool
from holdfast.activities.secrets import SecretStore, secret
from holdfast.activities.tools import ToolActivities
from holdfast.protocol.questions import Clarification, Decision, Hold, Input, Permission, Review


def all_activities(
    imports: Sequence[str],
    models: Mapping[str, ModelAlias],
    servers: McpServers | None = None,
    cache: CacheStore | None = None,
    secrets: Mapping[str, SecretStore] | None = None,
) -> list[Callable[..., Any]]:
    """Return every activity of a worker. The caller closes `servers` and `cache`.

    Args:
        imports: The packages whose functions blueprints may call.
        models: The deployment's models by name.
        servers: MCP servers; None: none.
        cache: None: a cache in memory, which lasts as long as the worker.
        secrets: Stores by the name in references, such as `env`.
    """
    servers = servers or McpServers({})
    tools = ToolActivities(imports, servers, secrets or {})
    calls = ModelActivities(models)
    caching = CacheActivities(cache or store_at("sqlite::memory:"))
    return [
        calls.call_model,
        tools.call_tool,
        tools.describe_tools,
        tools.find_tool,
        LookUpActivities(tools, calls, servers).look_up,
        caching.cache_get,
        caching.cache_put,
    ]


__all__ = [
    "CacheStore",
    "Clarification",
    "Decision",
    "Hold",
    "Input",
    "Interrupt",
    "LookUpActivities",
    "McpServer",
    "McpServers",
    "ModelActivities",
    "ModelAlias",
    "Permission",
    "Review",
    "SecretStore",
    "ToolActivities",
    "all_activities",
    "level",
    "resumed",
    "secret",
    "store_at",
    "tool",
]
