"""The workflow of one agent with tools.

Started as a child by `workflows.agents.run_agent`; `workflows.plan.agent_workflow` extends it.
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.address import Address
from holdfast.protocol.children import AgentDefinition, AgentResult, AgentState
from holdfast.protocol.names import AGENT_WORKFLOW
from holdfast.workflows.agent.mailbox import Mailbox
from holdfast.workflows.agent.turns import AgentTurns
from holdfast.workflows.handlers import handles
from holdfast.workflows.run import RunWorkflow
from holdfast.workflows.sizes import can_be_sent


@workflow.defn(name=AGENT_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
@handles(Mailbox)
class AgentWorkflow(RunWorkflow):
    """A workflow that runs one agent."""

    definition: AgentDefinition
    state: AgentState

    @workflow.init
    def __init__(self, definition: AgentDefinition, state: AgentState) -> None:
        super().__init__(definition, state, definition.history_limits.rounds)
        self.host.view.find_hearer = lambda: self.hearer
        self.mailbox = Mailbox(self.host, self.address, state.told)
        self.turns = self.make_turns()

    def make_turns(self) -> AgentTurns:
        """Return what takes the agent's turns."""
        return AgentTurns(self, self.definition, self.mailbox)

    @property
    def hearer(self) -> Address | None:
        """Return the agent's address while it takes messages."""
        return self.mailbox.hearer

    def collect_state(self) -> dict[str, Any]:
        """See base class."""
        return self.turns.collect_state()

    def current_context(self) -> JSONObject:
        if self.definition.registry is None:
            return {}
        return {"command_log": [entry.model_dump(mode="json") for entry in self.state.log]}

    @workflow.run
    async def run(self, definition: AgentDefinition, state: AgentState) -> AgentResult:
        result = await self.run_to_result(self.turns.take(), self._make_result)
        return self._make_cancelled() if result is None else result

    def _make_cancelled(self) -> AgentResult:
        """Return what an agent did that was cancelled; if that is too much, without what its tools returned."""
        result = self._make_result(None)
        if can_be_sent(result, self.host.identity.history_limits.value):
            return result
        return result.model_copy(update={"returned": [], "log": []})

    def _make_result(self, output: JSON) -> AgentResult:
        return self.turns.make_result(output, **self.collect_result())

    def list_failure_fields(self, error: BaseException) -> dict[str, Any]:
        """See base class."""
        return self.turns.list_failure_fields(error)
