"""The look-up before a start: checks that this worker has the tools, models and groups that a blueprint names.

Clients call it as an activity, and the worker's command `--look-up` without a server.
"""

from __future__ import annotations

import asyncio
import json

from temporalio import activity
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.exceptions import ApplicationError

from holdfast.activities.agents import AgentActivities
from holdfast.activities.attempts import run_attempt
from holdfast.activities.mcp_calls import MCP
from holdfast.activities.mcp_servers import McpServers
from holdfast.activities.models import ModelActivities
from holdfast.activities.registry import nearest_tool, wrong
from holdfast.activities.tools import ToolActivities
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.people import canonical_name
from holdfast.protocol.agent_objects import ObjectReference
from holdfast.protocol.agents import ToolSpec
from holdfast.protocol.guard import DEPLOYMENT
from holdfast.protocol.lookup import LOOK_UP, LookedUp, LookUp, Missing, RequiredName, ToolForm
from holdfast.protocol.tool_rules import OwnerRule

UNKNOWN_TOOL = "unknown_tool"


class ToolLists:
    """The tools of MCP servers, each of which is asked once."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers
        self._lists: dict[str, list[ToolSpec]] = {}

    async def tools(self, server: str) -> list[ToolSpec]:
        """Return the tools of a server."""
        if server not in self._lists:
            self._lists[server] = await self._servers.tools(server)
        return self._lists[server]


class LookUpActivities:
    """The activity that looks names up. It calls no tool and no model."""

    def __init__(
        self, tools: ToolActivities, models: ModelActivities, servers: McpServers, agents: AgentActivities
    ) -> None:
        self._tools, self._models, self._servers, self._agents = tools, models, servers, agents

    @activity.defn(name=LOOK_UP)
    async def look_up(self, request: LookUp) -> LookedUp:
        """Return the missing names, in the order of the request."""
        async with run_attempt(request):
            return await self.find_missing(request)

    async def find_missing(self, request: LookUp) -> LookedUp:
        """Return the same outside an activity, where heartbeats are impossible."""
        lists = ToolLists(self._servers) if request.connect else None
        missing: list[Missing] = []
        rules: dict[str, OwnerRule] = {}
        forms: dict[str, ToolForm] = {}
        local: list[str] = []
        for wanted in request.wanted:
            is_of_server = wanted.kind == "tool" and wanted.name.startswith(MCP)
            try:
                if is_of_server:
                    forms |= await self._find_mcp_forms(wanted.name, lists)
                else:
                    await self._check(wanted, lists)
            except ApplicationError as error:
                missing.append(Missing(wanted=wanted, code=error.type or UNKNOWN_TOOL, message=error.message))
            else:
                if wanted.kind != "tool" or is_of_server:
                    continue
                if (rule := self._tools.find_rule(wanted.name)) is not None:
                    rules[wanted.name] = rule
                if (form := self._tools.find_form(wanted.name)) is not None:
                    forms[wanted.name] = form
                if self._tools.is_local(wanted.name):
                    local.append(wanted.name)
        return LookedUp(missing=missing, rules=rules, forms=forms, local=local)

    async def _check(self, wanted: RequiredName, lists: ToolLists | None) -> None:
        """Raise the `ApplicationError` that a step would fail with if the worker does not have the name.

        Args:
            wanted: The name.
            lists: The tools of MCP servers; None: without a connection to them.
        """
        match wanted.kind:
            case "model":
                await self._models.check(wanted.name)
            case "group":
                _check_group(wanted.name)
            case "agent":
                await self._agents.describe(_make_reference(wanted))
            case "agent_tool":
                await self._agents.check_tool(wanted.about, wanted.name)
            case "own_workflow":
                await _check_polled(wanted)
            case "tool_argument" | "tool_input" if wanted.name.startswith(MCP):
                if lists is not None:
                    await self._tools.check_mcp_fixed(wanted.name, json.loads(wanted.about), lists)
            case "tool_argument" | "tool_input":
                given, by_name = json.loads(wanted.about), wanted.kind == "tool_argument"
                await asyncio.to_thread(self._tools.check_fixed, wanted.name, given, by_name=by_name)
            case _ if wanted.name.startswith(MCP):
                await self._find_mcp_forms(wanted.name, lists)
            case _:
                await self._check_tool(wanted)

    async def _find_mcp_forms(self, name: str, lists: ToolLists | None) -> dict[str, ToolForm]:
        """Return what the tools of a server take, by their names; nothing without a connection. Raises as `_check`."""
        self._servers.check(name.removeprefix(MCP).partition("/")[0])
        specs = [] if lists is None else await self._tools.describe(name, lists)
        return {spec.reference: ToolForm(parameters=spec.parameters) for spec in specs}

    async def _check_tool(self, wanted: RequiredName) -> None:
        try:
            # In a thread: it may import the author's module, and heartbeats go on meanwhile.
            await asyncio.to_thread(self._tools.check, wanted.name, idempotent=wanted.idempotent)
        except ApplicationError as error:
            if wanted.among is None or error.type != UNKNOWN_TOOL:
                raise
            if nearest_tool(wanted.about, "", wanted.among, wanted.name) is None:
                raise


def _make_reference(wanted: RequiredName) -> ObjectReference:
    """Return the agent with what the blueprint says beside it, as far as a look-up asks for it."""
    keys = wanted.about.split()
    model, deps = ("given" if key in keys else None for key in ("model", "deps"))
    of_turns = [key for key in keys if key != "model"]
    return ObjectReference(reference=wanted.name, model=model or "", deps=deps, keys=of_turns)


def _check_group(name: str) -> None:
    groups = sorted(DEPLOYMENT.groups)
    if canonical_name(name) in groups or not DEPLOYMENT.knows_all_groups:
        return
    hint = did_you_mean(name, groups) or f"known: {', '.join(groups) or 'none'}"
    raise wrong("unknown_group", f"no group {name!r} ({hint}; groups are named in [groups] of holdfast.toml)")


async def _check_polled(wanted: RequiredName) -> None:
    """Raise an error if no worker polls the task queue of a workflow; which types it knows cannot be asked."""
    if not wanted.about or not activity.in_activity():  # the run's own queue, or no server to ask
        return
    client = activity.client()
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=wanted.about),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    if not (await client.workflow_service.describe_task_queue(request, retry=True)).pollers:
        message = f"no worker polls the task queue {wanted.about!r}, for the workflow {wanted.name!r}"
        raise wrong("no_worker", f"{message}: check its name, or start the worker first")
