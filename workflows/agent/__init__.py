"""One agent with tools, in a history of its own: it thinks in turns, and continues as new between them."""

from workflows.agent.workflow import AgentWorkflow

__all__ = ["AgentWorkflow"]
