"""The document: the keys at the top of a blueprint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import Field

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds.agents import Agent
from holdfast.blueprint.kinds.deadlines import Deadline, OnDeadline
from holdfast.blueprint.parts import Access, Limits, MaxParallel, Name, Part, Schema, Template

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep


class Blueprint(Part):
    """A whole pipeline, in core form: every import read in, every short form spelled out."""

    version: Literal["0.1"] = Field("0.1", description="The language's version.")
    name: Name = Field(description="Default: the file's stem.", examples=["brief"])
    description: str = Field(
        "", description="What it is for, in a sentence.", examples=["Agree on a brief, then write it."]
    )
    inputs: Schema | None = Field(
        None,
        description="JSON Schema of the run's input.",
        examples=[{"type": "object", "required": ["topic"], "properties": {"topic": {"type": "string"}}}],
    )
    context: JSONObject = Field({}, description="First value of the run's context.", examples=[{"tries": 0}])
    context_schema: Schema | None = Field(
        None,
        description="JSON Schema that the context must always fit. A property may say `reduce`: append, merge, sum, "
        "max or min, which is how branches and items that both changed it are joined.",
        examples=[{"type": "object", "properties": {"notes": {"type": "array", "reduce": "append"}}}],
    )
    agents: dict[Name, Agent] = Field(
        {},
        description="Named agents.",
        examples=[{"editor": {"model": "openai:gpt-5.2", "instructions": "Write briefly.", "tools": ["search"]}}],
    )
    imports: dict[Name, Blueprint] = Field(
        {}, description="Other blueprints, by path relative to this file.", examples=[{"review": "./review.yaml"}]
    )
    limits: Limits | None = Field(None, description="How much a run may spend.")
    access: Access | None = Field(
        None,
        description="Who may see, answer, start and steer its runs; default: as the deployment says.",
    )
    steps: list[AnyStep] = Field(
        min_length=1,
        description="What happens, in order.",
        examples=[
            [{"kind": "hitl", "name": "topic", "message": "What is it about?"}, {"name": "write", "agent": "editor"}]
        ],
    )
    max_parallel: MaxParallel = None
    deadline: Deadline = None
    on_deadline: OnDeadline = "fail"
    output: Template | None = Field(
        None,
        description="The run's output; default: the last step's output.",
        examples=["{{ steps.write.output }}", {"text": "{{ steps.write.output }}", "tries": "{{ context.tries }}"}],
    )


class HasBlueprint(Protocol):
    """What Python built: `holdfast.build.Pipeline`."""

    @property
    def blueprint(self) -> Blueprint: ...


BlueprintSource = Blueprint | HasBlueprint
"""What can be run."""


def read_blueprint(source: BlueprintSource) -> Blueprint:
    """Return a blueprint, or that of a pipeline."""
    return source if isinstance(source, Blueprint) else source.blueprint
