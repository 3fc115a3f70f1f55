"""The setup that a namespace needs: search attributes, and a retention that outlasts a run; and quoting in queries.

Used by `connection`, by `setup`, and by the embedded server as it starts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from holdfast.protocol.names import ATTRIBUTE_TYPES

# `start-dev` keeps closed runs for 24 hours, and Temporal's own default is 72: a loop that has ended would vanish while
# its parent still waits.
RETENTION = timedelta(days=90)
"""How long closed runs are to be kept."""
_OF_TYPE: dict[str, tuple[IndexedValueType.ValueType, Callable[[str], SearchAttributeKey[Any]]]] = {
    "Keyword": (IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD, SearchAttributeKey.for_keyword),
    "KeywordList": (IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST, SearchAttributeKey.for_keyword_list),
    "Text": (IndexedValueType.INDEXED_VALUE_TYPE_TEXT, SearchAttributeKey.for_text),
    "Datetime": (IndexedValueType.INDEXED_VALUE_TYPE_DATETIME, SearchAttributeKey.for_datetime),
}
ATTRIBUTES = {name: _OF_TYPE[type_][0] for name, type_ in ATTRIBUTE_TYPES.items()}
ATTRIBUTE_KEYS: tuple[SearchAttributeKey[Any], ...] = tuple(
    _OF_TYPE[type_][1](name) for name, type_ in ATTRIBUTE_TYPES.items()
)
"""Our search attributes, for a server that registers them as it starts."""


async def find_missing_search_attributes(client: Client, namespace: str) -> list[str]:
    """Return the names of our search attributes that are not registered in a namespace, or have another type."""
    request = ListSearchAttributesRequest(namespace=namespace)
    reply = await client.operator_service.list_search_attributes(request, retry=True)
    return [name for name, kind in ATTRIBUTES.items() if reply.custom_attributes.get(name) != kind]


async def register_search_attributes(client: Client, namespace: str) -> list[str]:
    """Register the attributes that are missing, and return those that still are: the caches of the server lag."""
    try:
        missing = await find_missing_search_attributes(client, namespace)
        if missing:
            wanted = {name: ATTRIBUTES[name] for name in missing}
            request = AddSearchAttributesRequest(namespace=namespace, search_attributes=wanted)
            await client.operator_service.add_search_attributes(request, retry=True)
            missing = await find_missing_search_attributes(client, namespace)
    except RPCError as error:
        # Somebody else is registering them now, or the server has hardly begun: whoever asked looks again.
        if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.ALREADY_EXISTS, RPCStatusCode.UNAVAILABLE):
            raise
        return list(ATTRIBUTES)
    return missing


async def read_retention(client: Client, namespace: str) -> timedelta:
    """Return how long a namespace keeps closed runs."""
    request = DescribeNamespaceRequest(namespace=namespace)
    described = await client.workflow_service.describe_namespace(request, retry=True)
    return described.config.workflow_execution_retention_ttl.ToTimedelta()


async def extend_retention(client: Client, namespace: str) -> None:
    """Have a namespace keep closed runs for `RETENTION`. Raises `RPCError` where that is not permitted."""
    ttl = Duration()
    ttl.FromTimedelta(RETENTION)
    config = NamespaceConfig(workflow_execution_retention_ttl=ttl)
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(namespace=namespace, config=config), retry=True
    )


def quote(text: str) -> str:
    """Escape text for the quotes of a visibility query."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def match_workflows(run: str) -> str:
    """Return the query of Temporal's lists for all workflows of a run: its own, and those below it.

    >>> match_workflows("o-1")
    "RootWorkflowId = 'o-1' OR WorkflowId STARTS_WITH 'o-1/'"
    """
    return f"RootWorkflowId = '{quote(run)}' OR WorkflowId STARTS_WITH '{quote(run)}/'"
