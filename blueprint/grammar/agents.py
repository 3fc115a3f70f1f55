"""Agents: who answers an `agent` step, and how."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from blueprint.grammar.base import Part, Retry, Schema, Seconds


class Agent(Part):
    """A model with its instructions."""

    model: str = Field(
        description="`scripted:FILE`, `echo`, or a name from `[models]` in holdfast.toml.",
        examples=["scripted:replies.yaml", "echo", "fast"],
    )
    instructions: str = Field("", description="What the model is told before the input (also `system_prompt`).")
    output_schema: Schema | None = Field(None, description="JSON Schema of the output; without it the output is text.")
    settings: dict[str, Any] = Field({}, description="Model settings, such as `temperature`.")
    timeout: Seconds | None = Field(None, description="How long one request may take.")
    retry: Retry | None = Field(None, description="How often a failed request is tried.")
