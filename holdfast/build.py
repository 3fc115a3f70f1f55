"""Blueprints from Python: what authors import; see docs/python.md."""

from holdfast.blueprint.build import NamedAgent, agent

__all__ = ["NamedAgent", "agent"]
