"""The `step` kind: do one thing with the input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from holdfast.blueprint.expressions.parse import is_plain
from holdfast.blueprint.findings import Findings, check_known, check_path
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import flujo
from holdfast.blueprint.kinds.agents import Agent, AgentReference
from holdfast.blueprint.kinds.asking import AskingStep
from holdfast.blueprint.kinds.attachments import ModelAttachment, check_contents, check_model_types
from holdfast.blueprint.kinds.base import Block
from holdfast.blueprint.kinds.description import PREVIOUS, Drawing, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.kinds.fixed import list_fixed
from holdfast.blueprint.kinds.knowledge import Knowledge
from holdfast.blueprint.kinds.phrases import agent_phrase, attempts, context_path, error_sentences
from holdfast.blueprint.kinds.references import BUILTINS, IMPORT, MCP, check_callable_name, model, tool_name
from holdfast.blueprint.kinds.schema_forms import (
    TEXT,
    Schema,
    set_form,
)
from holdfast.blueprint.kinds.undo import Undo
from holdfast.blueprint.parts import Part, Requirement, Retry, Seconds, Template, ToolErrors
from holdfast.blueprint.shape import LIST, UNKNOWN, Shape, make_shape
from holdfast.blueprint.shape import TEXT as SOME_TEXT
from holdfast.blueprint.source import PlacedDict
from holdfast.blueprint.words.text import Vocabulary, as_sentence, enumerate_words, one_line, say_template, say_unquoted


class ImportConfig(Part):
    """The input of an imported blueprint, and the outputs taken from it."""

    @classmethod
    def hint_for(cls, key: str) -> str | None:
        return flujo.OF_IMPORTS.get(key)

    input: Template | None = Field(
        None, description="The import's input; default: the step's input.", examples=["{{ steps.draft.output }}"]
    )
    outputs: dict[str, str] = Field(
        {}, description="Child context path -> parent context path.", examples=[{"verdict": "review.verdict"}]
    )


_OF_AGENTS = ("model", "instructions", "system_prompt", "tools", "settings", "human", "max_turns", "permissions")
"""Keys of an agent that authors look for at the step."""


class PlainStep(AskingStep):
    """Do one thing: an agent, a tool, a function, an imported blueprint, or nothing (pass the input on)."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **AskingStep.synonyms,
        **dict.fromkeys(("tool", "function", "call", "run", "action"), "uses"),
        **dict.fromkeys(("args", "params", "parameters", "with"), "arguments"),
        "prompt": "input",
    }
    other_names: ClassVar[tuple[str, ...]] = ("agent", "tool", "task", "function", "llm", "action")

    @classmethod
    def hint_for(cls, key: str) -> str | None:
        return f"it belongs to the agent, as agent.{key}" if key in _OF_AGENTS else None

    kind: Literal["step"]
    uses: str | None = Field(
        None,
        description="A tool by name, `pkg.mod:function`, `mcp:<server>/<tool>`, `agents.<name>` or `imports.<alias>`.",
        examples=["stringify", "my_tools:search", "mcp:tickets/create", "agents.editor", "imports.review"],
    )
    agent: str | Agent | None = Field(
        None,
        description="A named agent, or one written here.",
        examples=["editor", {"model": "openai:gpt-5.2", "instructions": "Be brief."}, {"id": "search"}],
    )
    arguments: dict[str, Template] | None = Field(
        None,
        description="The tool's arguments by their names, in place of `input`.",
        examples=[{"to": "{{ item.address }}", "subject": "Welcome"}],
    )
    ends_with_tool: bool = Field(
        False,
        description="Of an agent with one tool: its first successful result is the output, without a last request.",
    )
    config: ImportConfig | None = Field(
        None,
        description="Only with `uses: imports.<alias>`.",
        examples=[{"input": "{{ steps.draft.output }}", "outputs": {"verdict": "review.verdict"}}],
    )
    attachments: list[ModelAttachment] = Field(
        [],
        max_length=20,
        description="Files and data that the agent's model sees beside the input.",
        examples=[[{"name": "scan.png", "file": "in/scan.png"}, {"name": "photo.jpg", "url": "{{ input.photo }}"}]],
    )
    timeout: Seconds | None = Field(None, description="How long one attempt may take.")
    retry: Retry | None = Field(None, description="How often the activity is tried.")
    tool_errors: ToolErrors | None = Field(
        None, description="What follows an error of the tool, or of the agent's tools; default: the step fails."
    )
    undo: Undo | None = Field(
        None,
        description="In a block: the call that undoes what the step did, if the block fails or the run is cancelled.",
        examples=[{"uses": "cancel_flight", "arguments": {"id": "{{ output.id }}"}}],
    )
    idempotent: bool | None = Field(
        None, description="Of a tool or a graph: may a call be run again if it was lost? Default: what the tool says."
    )

    def requires(self) -> Iterator[Requirement]:
        if self.uses is not None and self.uses not in BUILTINS:
            among = () if self.finds_tool else None
            yield Requirement("tool", self.uses, ("uses",), self.uses, self.idempotent, among)
            yield from list_fixed(self.uses, self.arguments, self.input)
        yield from super().requires()

    @property
    def finds_tool(self) -> bool:
        """Return whether another tool is looked for in place of a missing one."""
        return self.tool_errors is not None and self.tool_errors.missing == "find"

    @property
    def undo_tool(self) -> str | None:
        return None if self.undo is None else self.undo.uses

    def blocks(self) -> Mapping[str, Block]:
        # In a block of its own, as `output` is the step's there, and not the previous one's.
        if self.undo is None:
            return {}
        reads = {f"undo.{self._undo_key}": self.undo.template}
        return {"undo": Block((), reads=reads, on_output=True, calls=self.undo.uses)}

    @property
    def _undo_key(self) -> str:
        return "input" if self.undo is None or self.undo.arguments is None else "arguments"

    @property
    def input_key(self) -> str:
        """See base class: a call's arguments by name are its input."""
        return "input" if self.arguments is None else "arguments"

    def reads(self) -> Mapping[str, Template]:
        mapped = {} if self.config is None or self.config.input is None else {"config.input": self.config.input}
        instructions = {"agent.instructions": self.agent.instructions} if isinstance(self.agent, Agent) else {}
        files = {"attachments": [source.model_dump(exclude={"type"}) for source in self.attachments]}
        return {**super().reads(), **mapped, **instructions, **files}

    def agents(self) -> Sequence[AgentReference]:
        return () if self.agent is None else (AgentReference(self.agent, "agent", may_be_object=True),)

    @property
    def asks_people(self) -> bool:
        """See base class: an import's own steps say whom they ask."""
        return self.agent is not None or (
            self.uses is not None and self.uses not in BUILTINS and self.import_alias is None
        )

    @property
    def import_alias(self) -> str | None:
        is_import = self.uses is not None and self.uses.startswith(IMPORT)
        return self.uses.removeprefix(IMPORT) if self.uses is not None and is_import else None

    def output_shape(self, knowledge: Knowledge) -> Shape:
        if self.agent is not None:
            agent = knowledge.blueprint.agents.get(self.agent) if isinstance(self.agent, str) else self.agent
            if agent is None or agent.source is not None or self.ends_with_tool:
                return UNKNOWN
            return SOME_TEXT if agent.output_schema is None else Shape(agent.output_schema)
        if self.uses is None or self.uses == "passthrough":
            return knowledge.input
        if self.import_alias is not None:
            return knowledge.imports.get(self.import_alias, UNKNOWN)
        return _BUILTIN_SHAPES.get(self.uses, knowledge.tools.results.get(self.uses, UNKNOWN))

    @property
    def segment(self) -> str:
        if self.agent is not None:
            return "agent"
        return "step" if self.import_alias is None else "import"

    def sees_context(self) -> bool:
        return super().sees_context() or self.uses in ("context_get", "context_merge")

    @classmethod
    def expand(cls, step: PlacedDict, path: str, expansion: Expansion) -> None:
        flujo.callable_of_agent(step)
        flujo.expand_agent_or_tool(step, path, expansion)
        uses = step.get("uses")
        if isinstance(uses, str) and uses.startswith(flujo.PREFIX):
            step["uses"] = flujo.builtin(uses, step.value_place("uses"), f"{path}.uses", expansion)
        elif isinstance(uses, str) and uses.startswith("agents.") and "agent" not in step:
            _, places = step.take("uses")
            step.put("agent", uses.removeprefix("agents."), places)
        flujo.without_second_write(step)
        flujo.config_core(step, path, expansion)

    @classmethod
    def allow_short_forms(cls, definitions: Schema) -> None:
        own = definitions[cls.__name__]
        own["required"].remove("kind")
        forms = ({"$ref": f"#/$defs/{name}"} for name in ("Agent", "ToolById"))
        set_form(own, "agent", {"anyOf": [TEXT, *forms, {"type": "null"}]})

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        if self.uses is not None and self.agent is not None:
            findings.add_key(f"{path}.uses", "conflict", "'uses' and 'agent' both say what runs", "keep one of them")
        if self.uses is not None:
            _check_uses(self.uses, f"{path}.uses", blueprint, findings)
        _check_arguments(self, path, findings)
        _check_end(self, path, blueprint, findings)
        _check_attachments(self, path, findings)
        _check_config(self, path, findings)
        _check_activity(self, path, findings)
        if self.undo is not None:
            _check_undo(self, path, findings)

    def describe(self, names: Vocabulary) -> StepDescription:
        input_text = say_template(self.input_template, names)
        if self.agent is not None:
            input_text = "the conversation" if names.conversing and self.input == PREVIOUS else input_text
            beside = self._beside(names)
            text = f"{agent_phrase(self.agent)} works on {input_text}{beside}.{attempts(self.timeout, self.retry)}"
            text += " It ends with the result of its tool." if self.ends_with_tool else ""
            text += self._undo_sentence
            text += "".join(f" {sentence}" for sentence in error_sentences(self.tool_errors))
            text += self.asked_sentence(names)
            return StepDescription(text)
        if self.uses is None:
            return StepDescription(
                f"passes on {input_text}." if self.input == PREVIOUS else as_sentence(f"returns {input_text}")
            )
        if self.uses.startswith(IMPORT):
            return self._describe_import(self.uses.removeprefix(IMPORT), input_text, names)
        if self.uses in BUILTINS:
            return StepDescription(f"{_builtin(self.uses, self.input, input_text, names)}.")
        text = f"calls {_tool_phrase(self.uses)} with {input_text}.{attempts(self.timeout, self.retry)}"
        text += "".join(f" {sentence}" for sentence in error_sentences(self.tool_errors))
        text += " A person agrees before another tool is called in its place." if self.finds_tool else ""
        text += f"{self._undo_sentence}{self.asked_sentence(names)}"
        return StepDescription(text, calls=True)

    @property
    def _undo_sentence(self) -> str:
        return "" if self.undo is None else f" It is undone by {one_line(self.undo.uses, 80)}."

    def _beside(self, names: Vocabulary) -> str:
        return (
            f", with {enumerate_words([say_unquoted(each.name, names) for each in self.attachments])}"
            if self.attachments
            else ""
        )

    def _describe_import(self, alias: str, input_text: str, names: Vocabulary) -> StepDescription:
        config = self.config or ImportConfig()
        input_text = input_text if config.input is None else say_template(config.input, names)
        back = enumerate_words(
            [f"its {context_path(child)} as {context_path(parent)}" for child, parent in config.outputs.items()]
        )
        kept = f" It saves {back} in the context." if config.outputs else ""
        return StepDescription(f"runs the blueprint {alias} (below) with {input_text}.{kept}")

    def draw(self, names: Vocabulary) -> Drawing:
        people = self.people_line(names)
        match self.agent:
            case str(name):
                return Drawing("agent", [f"agent {name}", *people])
            case Agent() as agent:
                return Drawing("agent", [f"agent: {model(agent.title)}", *people])
        if self.import_alias is not None:
            return Drawing("tool", [f"the blueprint {self.import_alias}"])
        if self.uses is None:
            return Drawing("plain", [] if self.input == PREVIOUS else [say_unquoted(self.input, names)])
        if self.uses in BUILTINS:
            return Drawing("plain", [self.uses])
        return Drawing("tool", [*([self.uses] if self.uses != self.name else []), *people])


def _check_undo(step: PlainStep, path: str, findings: Findings) -> None:
    assert step.undo is not None
    step.undo.check(f"{path}.undo", findings)
    if step.agent is None and (step.uses is None or step.uses in BUILTINS):
        message = "'undo' belongs to steps that do something outside of the run"
        findings.add_key(f"{path}.undo", "conflict", message, "remove it")


def _check_attachments(step: PlainStep, path: str, findings: Findings) -> None:
    if step.attachments and step.agent is None:
        message = "'attachments' belongs to steps that run an agent"
        findings.add_key(f"{path}.attachments", "conflict", message, "remove it, or give the input of the step")
    check_contents(step.attachments, path, findings)
    check_model_types(step.attachments, path, findings)


def _check_arguments(step: PlainStep, path: str, findings: Findings) -> None:
    """Refuse `arguments` beside an input, and in steps that call no tool."""
    if step.arguments is None:
        return
    if "input" in step.model_fields_set:
        message = "'input' and 'arguments' both say what the tool gets"
        findings.add_key(f"{path}.input", "conflict", message, "keep one of them")
    if step.uses is None or step.import_alias is not None or step.uses in BUILTINS:
        message = "'arguments' belongs to steps that call a tool"
        findings.add_key(f"{path}.arguments", "conflict", message, "write input: with the same mapping")


def _check_end(step: PlainStep, path: str, blueprint: Blueprint, findings: Findings) -> None:
    """Refuse `ends_with_tool` where it is not clear with what the step ends."""
    if not step.ends_with_tool:
        return
    agent = blueprint.agents.get(step.agent) if isinstance(step.agent, str) else step.agent
    if agent is None:
        if step.agent is None:
            message = "'ends_with_tool' belongs to steps that run an agent"
            findings.add_key(f"{path}.ends_with_tool", "conflict", message, "remove it")
        return
    tools = [tool.name for tool in agent.tools]
    if agent.source is not None or len(tools) != 1 or (tools[0].startswith(MCP) and "/" not in tools[0]):
        message = "'ends_with_tool' belongs to an agent with one tool"
        findings.add_key(f"{path}.ends_with_tool", "conflict", message, "give it an agent with the tool that ends it")
    elif agent.output_schema is not None:
        message = "the agent has an 'output_schema', but the step ends with the result of its tool"
        hint = "remove it from the agent; the step may have an output_schema"
        findings.add_key(f"{path}.ends_with_tool", "conflict", message, hint)


def _check_config(step: PlainStep, path: str, findings: Findings) -> None:
    if step.config is None:
        return
    if step.import_alias is None:
        message = "'config' belongs to steps that run an import"
        findings.add_key(f"{path}.config", "conflict", message, "write uses: imports.<alias>, or remove it")
    for source, target in step.config.outputs.items():
        check_path(source, f"{path}.config.outputs.{source}", findings)
        check_path(target, f"{path}.config.outputs.{source}", findings)


def _check_uses(uses: str, path: str, blueprint: Blueprint, findings: Findings) -> None:
    if uses.startswith("imports."):
        check_known(uses.removeprefix("imports."), "import", blueprint.imports, path, findings)
    elif not uses.strip():
        findings.add(path, "bad_value", "'uses' is empty", "name a tool, a function, an agent or an import")
    else:
        check_callable_name(uses, path, findings)


def _tool_phrase(uses: str) -> str:
    if uses.startswith(MCP):
        return f"the tool {tool_name(uses)}"
    return f"{'the function' if ':' in uses else 'the tool'} {one_line(uses, 80)}"


def _check_activity(step: PlainStep, path: str, findings: Findings) -> None:
    """Refuse `timeout`, `retry` and `idempotent` in steps that do not run one activity."""
    if step.agent is None and step.finds_tool and step.arguments is None:
        message = "another tool gets what this one would get by the names of its arguments"
        findings.add(f"{path}.tool_errors.missing", "bad_value", message, "write arguments, or missing: fail")
    if step.agent is not None:
        if step.idempotent is not None:
            message = "'idempotent' belongs to steps that call a tool: a request to a model may always be repeated"
            findings.add_key(f"{path}.idempotent", "conflict", message, "remove it, or say it of a tool of the agent")
        return
    if step.uses is None:
        reason = "this one only passes its input on"
    elif step.uses.startswith("imports."):
        reason = "an import runs many: give them to its steps"
    elif step.uses in BUILTINS:
        reason = f"{step.uses} runs in the workflow itself"
    else:
        return
    for key in ("timeout", "retry", "idempotent", "tool_errors"):
        if getattr(step, key) is not None:
            message = f"{key!r} belongs to steps that run one activity: {reason}"
            findings.add_key(f"{path}.{key}", "conflict", message, "remove it")


_BUILTIN_SHAPES = {
    "stringify": SOME_TEXT,
    "flatten": LIST,
    "check_user_confirmation": make_shape("text", values=("approved", "denied")),
}
_BUILTIN = {
    "stringify": "turns {} into text",
    "passthrough": "passes on {}",
    "context_set": "writes to the context: {}",
    "context_get": "reads from the context: {}",
    "context_merge": "merges into the context: {}",
    "select_fields": "keeps some of the keys: {}",
    "flatten": "makes one list of {}",
    "check_user_confirmation": "returns 'approved' if {} is an explicit yes, else 'denied'",
}


def _builtin(name: str, input_: JSON, input_text: str, names: Vocabulary) -> str:
    match name, input_:
        case "context_set", {"path": str(path)} if is_plain(path):
            return f"sets {context_path(path)} in the context to {say_template(input_.get('value'), names)}"
        case "context_merge", {"path": str(path)} if is_plain(path):
            return f"merges {say_template(input_.get('value'), names)} into {context_path(path)} in the context"
        case ("context_get", str(path)) | ("context_get", {"path": str(path)}) if is_plain(path):
            return f"returns {context_path(path)} from the context"
    return _BUILTIN.get(name, f"uses {name} on {{}}").replace("{}", input_text, 1)
