"""How what a step did is undone: the `undo` of a step in a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from pydantic import Field

from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds.fixed import list_fixed
from holdfast.blueprint.kinds.references import BUILTINS, IMPORT, check_callable_name
from holdfast.blueprint.parts import Part, Requirement, Retry, Seconds, Template


class Undo(Part):
    """The call of a tool that undoes what the step did; what it gets is fixed when the step has completed."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("tool", "function", "call", "run"), "uses"),
        **dict.fromkeys(("args", "params", "parameters", "with"), "arguments"),
    }

    uses: str = Field(
        description="A tool by name, `pkg.mod:function`, or `mcp:<server>/<tool>`.", examples=["cancel_flight"]
    )
    input: Template = Field(
        "{{ output }}", description="What the tool gets; `output` is the step's.", examples=["{{ output.id }}"]
    )
    arguments: dict[str, Template] | None = Field(
        None,
        description="The tool's arguments by their names, in place of `input`.",
        examples=[{"id": "{{ output.id }}"}],
    )
    timeout: Seconds | None = Field(None, description="How long one attempt may take.")
    retry: Retry | None = Field(None, description="How often the call is tried.")

    def requires(self) -> Iterator[Requirement]:
        yield Requirement("tool", self.uses, ("uses",))
        yield from list_fixed(self.uses, self.arguments, self.input)

    @property
    def template(self) -> Template:
        """The template of what the tool gets."""
        return self.input if self.arguments is None else self.arguments

    def check(self, path: str, findings: Findings) -> None:
        """Report what is no tool, and two forms of what it gets."""
        if self.arguments is not None and "input" in self.model_fields_set:
            message = "'input' and 'arguments' both say what the tool gets"
            findings.add_key(f"{path}.input", "conflict", message, "keep one of them")
        if not self.uses.strip() or self.uses in BUILTINS or self.uses.startswith(("agents.", IMPORT)):
            message = f"{self.uses!r} cannot undo anything: an undo is one call of a tool"
            findings.add(f"{path}.uses", "bad_value", message, "name a tool, or a function as pkg.mod:function")
        else:
            check_callable_name(self.uses, f"{path}.uses", findings)
