"""The `step` kind: do one thing with the input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field

from holdfast.blueprint.kinds.agents import Agent, AgentReference
from holdfast.blueprint.kinds.base import Step
from holdfast.blueprint.kinds.parts import Part, Requirement, Retry, Seconds, Template

IMPORT = "imports."
"""What stands before the alias of an import."""

BUILTINS = frozenset(
    {
        "stringify",
        "passthrough",
        "context_set",
        "context_get",
        "context_merge",
        "select_fields",
        "flatten",
        "check_user_confirmation",
    }
)
"""Tools that run in workflow code and cost no activity."""


class ImportConfig(Part):
    """The input of an imported blueprint, and the outputs taken from it."""

    input: Template | None = Field(
        None, description="The import's input; default: the step's input.", examples=["{{ steps.draft.output }}"]
    )
    outputs: dict[str, str] = Field(
        {}, description="Child context path -> parent context path.", examples=[{"verdict": "review.verdict"}]
    )


class PlainStep(Step):
    """Do one thing: an agent, a tool, a function, an imported blueprint, or nothing (pass the input on)."""

    kind: Literal["step"]
    uses: str | None = Field(
        None,
        description="A tool by name, `pkg.mod:function`, `agents.<name>` or `imports.<alias>`.",
        examples=["stringify", "my_tools:search", "agents.editor", "imports.review"],
    )
    agent: str | Agent | None = Field(
        None,
        description="A named agent, or one written here.",
        examples=["editor", {"model": "openai:gpt-5.2", "instructions": "Be brief."}, {"id": "search"}],
    )
    config: ImportConfig | None = Field(
        None,
        description="Only with `uses: imports.<alias>`.",
        examples=[{"input": "{{ steps.draft.output }}", "outputs": {"verdict": "review.verdict"}}],
    )
    timeout: Seconds | None = Field(None, description="How long one attempt may take.")
    retry: Retry | None = Field(None, description="How often the activity is tried.")

    def requires(self) -> Iterator[Requirement]:
        if self.uses is not None and self.uses not in BUILTINS:
            yield Requirement("tool", self.uses, ("uses",))

    def reads(self) -> Mapping[str, Template]:
        mapped = {} if self.config is None or self.config.input is None else {"config.input": self.config.input}
        instructions = {"agent.instructions": self.agent.instructions} if isinstance(self.agent, Agent) else {}
        return {**super().reads(), **mapped, **instructions}

    def agents(self) -> Sequence[AgentReference]:
        return () if self.agent is None else (AgentReference(self.agent, "agent"),)

    @property
    def import_alias(self) -> str | None:
        is_import = self.uses is not None and self.uses.startswith(IMPORT)
        return self.uses.removeprefix(IMPORT) if self.uses is not None and is_import else None

    @property
    def segment(self) -> str:
        if self.agent is not None:
            return "agent"
        return "step" if self.import_alias is None else "import"

    def sees_context(self) -> bool:
        return super().sees_context() or self.uses in ("context_get", "context_merge")
