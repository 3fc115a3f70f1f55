"""The look-up before a start: checks that this worker has the tools, models and groups that a blueprint names.

Clients call it as an activity, and the worker's command `--look-up` without a server.
"""

from __future__ import annotations

import asyncio
import difflib

from temporalio import activity
from temporalio.exceptions import ApplicationError

from holdfast.activities.heartbeat import heartbeating
from holdfast.activities.mcp_servers import McpServers
from holdfast.activities.models import ModelActivities
from holdfast.activities.registry import nearest_tool, wrong
from holdfast.activities.tools import MCP, ToolActivities
from holdfast.protocol.guard import DEPLOYMENT
from holdfast.protocol.lookup import LOOK_UP, LookedUp, LookUp, Missing, Wanted

UNKNOWN_TOOL = "unknown_tool"


class LookUpActivities:
    """The activity that looks names up. It calls no tool and no model."""

    def __init__(self, tools: ToolActivities, models: ModelActivities, servers: McpServers) -> None:
        self._tools, self._models, self._servers = tools, models, servers

    @activity.defn(name=LOOK_UP)
    async def look_up(self, request: LookUp) -> LookedUp:
        """Return the missing names, in the order of the request."""
        async with heartbeating():
            return await self.missing(request)

    async def missing(self, request: LookUp) -> LookedUp:
        """Return the same outside an activity, where heartbeats are impossible."""
        missing: list[Missing] = []
        for wanted in request.wanted:
            try:
                await self._check(wanted, request.connect)
            except ApplicationError as error:
                missing.append(Missing(wanted=wanted, code=error.type or UNKNOWN_TOOL, message=error.message))
        return LookedUp(missing=missing)

    async def _check(self, wanted: Wanted, connect: bool) -> None:
        """Raise the `ApplicationError` that a step would fail with if the worker does not have the name."""
        match wanted.kind:
            case "model":
                await self._models.check(wanted.name)
            case "group":
                _check_group(wanted.name)
            case _ if wanted.name.startswith(MCP):
                await self._check_mcp(wanted.name, connect)
            case _:
                await self._check_tool(wanted)

    async def _check_mcp(self, name: str, connect: bool) -> None:
        self._servers.check(name.removeprefix(MCP).partition("/")[0])
        if connect:
            await self._tools.described(name)

    async def _check_tool(self, wanted: Wanted) -> None:
        try:
            # In a thread: it may import the author's module, and heartbeats go on meanwhile.
            await asyncio.to_thread(self._tools.check, wanted.name)
        except ApplicationError as error:
            replaceable = wanted.kind == "plan_tool" and error.type == UNKNOWN_TOOL
            if not replaceable or nearest_tool(wanted.about, "", missing=wanted.name) is None:
                raise


def _check_group(name: str) -> None:
    known = sorted(DEPLOYMENT.groups)
    if name in known:
        return
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known) or 'none'}"
    raise wrong("unknown_group", f"no group {name!r} ({hint}; groups are named in [groups] of holdfast.toml)")
