"""Short forms that are objects of their own: an author may write them, a loaded blueprint holds none."""

from __future__ import annotations

from pydantic import Field

from holdfast.blueprint.parts import Part, Template


class FromFile(Part):
    """A text that stands in a file, in the place of the text."""

    from_file: str = Field(description="The file's path, relative to the blueprint.", examples=["editor.md"])


class ToolById(Part):
    """A tool, in the place of an agent."""

    id: str = Field(description="The tool's name.", examples=["search"])


class StartWith(Part):
    """The start of a conversation: the output of a step before the loop."""

    from_step: str = Field(description="The step's name.", examples=["get_goal"])
    prefix: str = Field("", description="What stands before the output.", examples=["User: "])


class FirstTurn(Part):
    """The first turn of a conversation."""

    start_with: StartWith = Field(
        description="Where it comes from.", examples=[{"from_step": "get_goal", "prefix": "User: "}]
    )


class FirstNotes(Part):
    """The value of `context.scratchpad.notes` before iteration 1."""

    set: Template = Field(description="A template, or a mapping of them.", examples=["{{ input.notes }}"])


SHORTHAND: tuple[type[Part], ...] = (FromFile, ToolById, StartWith, FirstTurn, FirstNotes)
