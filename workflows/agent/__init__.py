"""The workflow of an agent with tools; registered by the worker."""

from holdfast.workflows.agent.workflow import AgentWorkflow

__all__ = ["AgentWorkflow"]
