"""An agent at work: what the parts of its workflow share, and change."""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.address import Address
from holdfast.protocol.agents import Message
from holdfast.protocol.children import AgentDefinition, AgentState, Command
from holdfast.workflows.agent import commands
from holdfast.workflows.agent.mailbox import Mailbox
from holdfast.workflows.frame import ContextStore, Frame, Scope
from holdfast.workflows.handlers import Host
from holdfast.workflows.request_counts import RequestCounts
from holdfast.workflows.toolbox import Toolbox


class AgentPlace(Protocol):
    """Where an agent works: a workflow of its own (`AgentWorkflow`), or that of its run (`AgentInRun`)."""

    host: Host
    address: Address
    request_counts: RequestCounts

    @property
    def state(self) -> AgentState: ...

    def frame(self, store: ContextStore, scope: Scope, names: dict[str, Any], **where: Any) -> Frame:
        """Return a frame at the agent's address."""

    def advance(self, **changes: Any) -> None:
        """Replace fields of the state that continue-as-new carries over."""

    async def next_round(self) -> None:
        """Begin a turn; end the work here if the history is too long for one."""


class AgentWork:
    """One agent, with its state, its tools and what came of it.

    Args:
        place: Where it works.
        definition: The agent.
        mailbox: Messages of people that no turn has read yet.
    """

    def __init__(self, place: AgentPlace, definition: AgentDefinition, mailbox: Mailbox) -> None:
        self._place, self.definition, self.mailbox = place, definition, mailbox
        self.agent, self.host, self.address = definition.agent, place.host, place.address
        self.request_counts, self.bounds = place.request_counts, definition.bounds
        self.tools = self.agent.tools if definition.registry is None else definition.registry
        self.output: tuple[JSON] | None = None
        """The output, once there is one."""
        self.declined = False
        """Whether it ended by the no of a person."""
        # Else the number of a request would depend on the order in which calls that run at once wake.
        self.fork_counts = self.request_counts.make_fork()

    @property
    def state(self) -> AgentState:
        return self._place.state

    def fork_requests(self) -> None:
        """Count the requests of the next calls, which are made at once, from where the turn begins."""
        self.fork_counts = self.request_counts.make_fork()

    def advance(self, **changes: Any) -> None:
        """Replace fields of the state that continue-as-new carries over."""
        self._place.advance(**changes)

    def frame(self) -> Frame:
        """Return a frame at the agent's own address, with the names that its agents' instructions read."""
        definition = self.definition
        names = dict(definition.names)
        inputs = {name: names.pop(name, None) for name in ("previous_step", "output", "resume_input", "history")}
        store = ContextStore(names.pop("context", {}))
        scope = Scope(names.pop("steps", {}), resume_input=inputs["resume_input"])
        return self._place.frame(
            store,
            scope,
            names,
            previous=inputs["previous_step"] if inputs["output"] is None else inputs["output"],
            iteration=definition.iteration,
            place=definition.place,
        )

    @property
    def toolbox(self) -> Toolbox:
        rules = self.agent.tool_errors
        unsure_is_final = rules is not None and rules.timeout is not None
        return Toolbox(self.agent, self.tools, self.state.tools or [], unsure_is_final=unsure_is_final)

    def say(self, *messages: Message) -> None:
        self.advance(messages=[*self.state.messages, *messages])

    def finish(self, output: object) -> None:
        if self.definition.registry is not None:
            self.log(commands.FINISH, {"output": output}, output)
        self.output = (output,)

    def log(self, command: str, args: JSONObject, result: object) -> None:
        entry = Command(
            turn=self.state.turn,
            command=command,
            args=commands.shorten_value(args),
            result=commands.shorten_value(result),
        )
        self.advance(log=[*self.state.log, entry])
