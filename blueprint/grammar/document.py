"""The document: what stands at the top of a blueprint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from blueprint.grammar.agents import Agent
from blueprint.grammar.base import Limits, Name, Part, Schema, Template

if TYPE_CHECKING:
    from blueprint.grammar import AnyStep


class Blueprint(Part):
    """A whole pipeline, in core form: every import read in, every short form spelled out."""

    version: Literal["0.1"] = Field("0.1", description="The language's version.")
    name: Name = Field(description="Default: the file's stem.")
    description: str = Field("", description="What it is for, in a sentence.")
    inputs: Schema | None = Field(None, description="JSON Schema of the run's input.")
    context: dict[str, Any] = Field({}, description="First value of the run's context.")
    context_schema: Schema | None = Field(None, description="JSON Schema that the context must always fit.")
    agents: dict[Name, Agent] = Field({}, description="Named agents.")
    imports: dict[Name, Blueprint] = Field({}, description="Other blueprints, by path relative to this file.")
    limits: Limits | None = Field(None, description="How much a run may spend.")
    steps: list[AnyStep] = Field(min_length=1, description="What happens, in order.")
    output: Template | None = Field(None, description="The run's output; default: the last step's output.")
