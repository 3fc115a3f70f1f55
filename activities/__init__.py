"""What touches the world: models and tools. May fail, may be tried again, is never replayed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from activities.models import ModelActivities
from activities.registry import tool
from activities.tools import ToolActivities


def all_activities(imports: Sequence[str], models: Mapping[str, str]) -> list[Callable[..., Any]]:
    """Every activity of a worker that lists these packages and names these models."""
    return [ModelActivities(models).call_model, ToolActivities(imports).call_tool]


__all__ = ["all_activities", "tool"]
