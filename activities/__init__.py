"""Activities: calls of models and tools, the cache, secrets. They may fail and be retried; replay never runs them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from holdfast.activities.agents import AgentActivities
from holdfast.activities.aliases import ModelAlias
from holdfast.activities.cache import CacheActivities, CacheStore, store_at
from holdfast.activities.checkup import CheckActivities
from holdfast.activities.early_store import StoreInterceptor
from holdfast.activities.events import deliver_event
from holdfast.activities.files import FileActivities
from holdfast.activities.graphs import CheckpointStore, MemoryCheckpoints, NoCheckpoints
from holdfast.activities.interrupt import BadAnswer, Interrupt, level, resumed
from holdfast.activities.lookup import LookUpActivities
from holdfast.activities.mcp_servers import McpServer, McpServers
from holdfast.activities.metrics import MetricsInterceptor
from holdfast.activities.models import ModelActivities
from holdfast.activities.registry import agent, tool
from holdfast.activities.secrets import SecretStore, secret
from holdfast.activities.sizes import SizeInterceptor
from holdfast.activities.tools import ToolActivities
from holdfast.blueprint.questions import Clarification, Decision, Hold, Input, Permission, Review


def all_activities(
    imports: Sequence[str],
    models: Mapping[str, ModelAlias],
    servers: McpServers | None = None,
    cache: CacheStore | None = None,
    secrets: Mapping[str, SecretStore] | None = None,
    folders: Sequence[Path] = (),
    checkpoints: CheckpointStore | None = None,
    encryption: Mapping[str, bytes] | None = None,
) -> list[Callable[..., object]]:
    """Return every activity of a worker. The caller closes `servers` and `cache`.

    Args:
        imports: The packages whose functions blueprints may call.
        models: The deployment's models by name.
        servers: MCP servers; None: none.
        cache: None: a cache in memory, which lasts as long as the worker.
        secrets: Stores by the name in references, such as `env`.
        folders: The folders whose files questions may show, and models may see.
        checkpoints: None: the checkpoints of graphs are kept in memory, for as long as the worker lasts.
        encryption: What `doctor` compares of the keys by which the worker reads what is encrypted, by id.
    """
    servers = servers or McpServers({})
    agents = AgentActivities(imports, models)
    tools = ToolActivities(imports, servers, secrets or {}, checkpoints, agents)
    files = FileActivities(folders)
    calls = ModelActivities(models, files, agents)
    cache = cache or store_at("sqlite::memory:")
    caching = CacheActivities(cache)
    return [
        calls.call_model,
        tools.call_tool,
        tools.describe_tools,
        tools.find_tool,
        LookUpActivities(tools, calls, servers, agents).look_up,
        agents.describe_agent,
        caching.cache_get,
        caching.cache_put,
        files.read_file,
        deliver_event,
        CheckActivities(cache, secrets or {}, encryption).check,
    ]


__all__ = [
    "AgentActivities",
    "BadAnswer",
    "CacheStore",
    "CheckpointStore",
    "Clarification",
    "Decision",
    "Hold",
    "Input",
    "Interrupt",
    "LookUpActivities",
    "McpServer",
    "McpServers",
    "MemoryCheckpoints",
    "MetricsInterceptor",
    "ModelActivities",
    "ModelAlias",
    "NoCheckpoints",
    "Permission",
    "Review",
    "SecretStore",
    "SizeInterceptor",
    "StoreInterceptor",
    "ToolActivities",
    "agent",
    "all_activities",
    "level",
    "resumed",
    "secret",
    "store_at",
    "tool",
]
