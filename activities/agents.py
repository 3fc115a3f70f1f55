"""Agents of a team's own code: found for the workflow, and for the activities that ask models and call tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from temporalio import activity

from holdfast.activities.aliases import ModelAlias
from holdfast.activities.attempts import run_attempt
from holdfast.activities.imports import import_alone
from holdfast.activities.registry import agent_names, find_members, registered_agent, wrong
from holdfast.protocol.agent_objects import DESCRIBE_AGENT, AgentDescription, ObjectReference

if TYPE_CHECKING:
    from holdfast.activities.agent_objects import AgentObjects

UNKNOWN = "unknown_agent"


class AgentActivities:
    """The activity that finds agents of a team's own code.

    Args:
        allowed: The packages whose agents blueprints may name.
        aliases: The models of the deployment, by the name that blueprints use.
    """

    def __init__(self, allowed: Sequence[str], aliases: Mapping[str, ModelAlias]) -> None:
        self._allowed, self._aliases = allowed, aliases
        self._objects: AgentObjects | None = None

    @activity.defn(name=DESCRIBE_AGENT)
    async def describe_agent(self, reference: ObjectReference) -> AgentDescription:
        """Return what an agent is. Raises `unknown_agent`, `not_allowed` or `agent_unsupported`."""
        async with run_attempt(reference):
            return await self.describe(reference)

    async def describe(self, reference: ObjectReference) -> AgentDescription:
        """Return the same outside an activity, where heartbeats are impossible."""
        if ":" not in reference.reference:
            return _function(reference.reference, reference)
        # In a thread: it may import the team's module, and heartbeats go on meanwhile.
        members, name = await asyncio.to_thread(find_members, reference.reference, self._allowed, UNKNOWN)
        if (function := registered_agent(members.get(name))) is not None:
            return _function(function.name, reference)
        return (await self.objects()).check(reference)

    async def check_tool(self, reference: str, name: str) -> None:
        """Raise `unknown_agent` if the agent has no tool of this name. Whether there is the agent is not looked at."""
        (await self.objects()).check_tool(reference, name)

    async def objects(self) -> AgentObjects:
        """Return the agents of the team's own library."""
        if self._objects is None:
            # Importing the library takes a second or more: with the first blueprint that names such an agent.
            module = await asyncio.to_thread(import_alone, "holdfast.activities.agent_objects")
            self._objects = self._objects or module.AgentObjects(self._allowed, self._aliases)
        return self._objects


def _function(name: str, reference: ObjectReference) -> AgentDescription:
    """Return the description of a function that is an agent. Raises `unknown_agent`, and what it cannot have."""
    if (tool := registered_agent(name)) is None:
        names = ", ".join(agent_names()) or "none"
        hint = f"write package.module:agent, or the name of a function with @agent (there are: {names})"
        raise wrong(UNKNOWN, f"no agent {name!r}; {hint}")
    if reference.keys:
        keys = ", ".join(map(repr, reference.keys))
        text = f"{reference.reference}: {keys}: of no effect, as this agent is a function, which takes no turns"
        raise wrong("agent_unsupported", f"{text}; leave it out, or say it in the function")
    return AgentDescription(kind="function", name=name, idempotent=tool.idempotent)
