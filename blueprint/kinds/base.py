"""The base of every step kind, and what a kind says of itself; the rest of the code asks these methods."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from holdfast.blueprint.findings import Findings, check_path
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds.agents import AgentReference, AgentTool
from holdfast.blueprint.kinds.description import Cost, Drawing, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.kinds.knowledge import Branching, Knowledge
from holdfast.blueprint.kinds.people_lists import people_phrase
from holdfast.blueprint.kinds.plan_body import PlanBody
from holdfast.blueprint.kinds.schema_forms import (
    Schema,
)
from holdfast.blueprint.kinds.template_values import TemplateForm
from holdfast.blueprint.parts import Name, Part, Template
from holdfast.blueprint.questions import Asked
from holdfast.blueprint.shape import UNKNOWN, Shape
from holdfast.blueprint.source import PlacedDict
from holdfast.blueprint.words.text import Vocabulary, as_sentence, condition, enumerate_words

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep
    from holdfast.blueprint.kinds.operations import Operation


@dataclass(frozen=True)
class Block:
    """Steps inside a step, with the names only they see."""

    steps: tuple["AnyStep", ...]
    names: frozenset[str] = frozenset()
    """Names defined inside the block, beside those that every step sees."""
    loops: bool = False
    """The block runs repeatedly: a step may read the output of a later one, from the iteration before."""
    reads: Mapping[str, Template] = field(default_factory=dict)
    """Templates rendered inside the block's scope, by their path in the step."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Expressions evaluated inside the block's scope, by their path in the step."""
    choices: Mapping[str, Branching] = field(default_factory=dict)
    """Of `reads`: those that choose what follows, evaluated where the steps have ended."""
    undoes: bool = True
    """What the steps do is undone where that of the step is."""
    on_output: bool = False
    """`reads` are rendered once the step has completed; `output` is its output there."""
    calls: str | None = None
    """The tool that is called with what `reads` give."""


class Fallback(Part):
    """Run another step when this one fails."""

    fallback: "AnyStep" = Field(
        description="The step that runs instead; its output is the failed step's output.",
        examples=[{"name": "plain", "uses": "stringify"}],
    )


class Step(Part):
    """The keys that every step may have, and the defaults of what a kind says of itself."""

    synonyms: ClassVar[Mapping[str, str]] = {"if": "when", "id": "name"}
    other_names: ClassVar[tuple[str, ...]] = ()
    """What others call this kind: a wrong kind gets its name as the hint."""
    renders_agents: ClassVar[bool] = True
    """The instructions of the agents that the step names are rendered in its own scope."""
    input_schema_describes_answer: ClassVar[bool] = False
    """The input schema is the form of an answer, and not of the step's input."""
    passes_input: ClassVar[bool] = False
    """The output is the input: that the step has ended is what others wait for."""
    undos_inside: ClassVar[Literal["kept", "handed_on", "none"]] = "handed_on"
    """What becomes of the undos of steps inside: kept until the step has ended, or handed on to a block around it."""
    keeps_partial_context: ClassVar[bool] = False
    """What the steps inside wrote before one of them failed stays in the context."""

    name: Name = Field(
        description="Unique in its list and the lists around it: letters, digits, _ and -.", examples=["draft"]
    )
    needs: list[Name] = Field(
        [],
        description="Steps of the same list that must have ended before; without any, a list runs in written order.",
        examples=[["draft", "facts"]],
    )
    input: Template = Field(
        "{{ previous_step }}",
        description="What the step gets; default: the previous output.",
        examples=["{{ steps.draft.output }}", {"title": "{{ input }}", "facts": "{{ steps.brief.output }}"}],
    )
    when: str | None = Field(
        None,
        description="A condition; if false the step is skipped and its output is null.",
        examples=["context.tries < 3", "steps.review.output.ok"],
    )
    sink_to: str | None = Field(
        None,
        description="The context path that receives the output, e.g. `stats.total`.",
        examples=["draft", "stats.total"],
    )
    updates_context: bool = Field(
        False,
        description="Write an output that is an object, or a text that is a JSON object, key by key into the context.",
    )
    input_schema: Schema | None = Field(
        None, description="JSON Schema that the input must fit.", examples=[{"type": "object", "required": ["topic"]}]
    )
    output_schema: Schema | None = Field(
        None, description="JSON Schema that the output must fit.", examples=[{"type": "string", "minLength": 1}]
    )
    interrupt_before: bool = Field(False, description="Stop before the step: a person sees the context, may change it.")
    interrupt_after: bool = Field(False, description="Stop after the step: a person sees the context, may change it.")
    on_error: Literal["fail", "continue", "ask"] | Fallback = Field(
        "fail",
        description="What a failure does: fail the list, continue with null, ask a person, run a fallback step.",
        examples=["continue", "ask", {"fallback": {"name": "plain", "uses": "stringify"}}],
    )

    @property
    def input_key(self) -> str:
        """The key of the template whose value the step works on."""
        return "input"

    @property
    def input_template(self) -> Template:
        """The template whose value the step works on."""
        return self.__dict__[self.input_key]

    def reads(self) -> Mapping[str, Template]:
        """Return the templates rendered in the scope of this step, by their path in the step."""
        return {self.input_key: self.input_template}

    def template_forms(self) -> Mapping[str, TemplateForm]:
        """Return what templates of `reads()` must give, by their path in the step."""
        return {}

    def block_forms(self) -> Mapping[str, JSONObject]:
        """Return JSON Schemas of what the steps inside a block must give, by its path."""
        return {}

    def conditions(self) -> Mapping[str, str]:
        """Return the expressions evaluated in the scope of this step, by their path in the step."""
        return {"when": self.when} if self.when is not None else {}

    def blocks(self) -> Mapping[str, Block]:
        """Return the lists of steps inside this step, by their path in the step."""
        return {}

    def agents(self) -> Sequence[AgentReference]:
        """Return the agents that this step itself, not one inside it, runs."""
        return ()

    def tools(self) -> Sequence[AgentTool]:
        """Return the tools that this step itself may have run, beside those of its agents."""
        return ()

    @property
    def uses_any_agent(self) -> bool:
        """True if its agents are known only when it runs: any of the blueprint."""
        return False

    @property
    def asks_people(self) -> bool:
        """True if something that runs in the step may ask people."""
        return False

    @property
    def gives_reply(self) -> bool:
        """True if `steps.NAME.reply` tells who answered what the step asked."""
        return False

    @property
    def reply_remarks(self) -> Mapping[str, JSONObject]:
        """JSON Schemas of what `steps.NAME.reply` has of this step beside the fields of every reply."""
        return {}

    @property
    def undo_tool(self) -> str | None:
        """The tool that undoes what the step has done; None if nothing does."""
        return None

    @property
    def takes_turns(self) -> bool:
        """True if the steps inside run for one item after the other."""
        return False

    @property
    def branching(self) -> Branching | None:
        """How the step chooses among branches; None if it does not, or not by an expression."""
        return None

    @property
    def null_cause(self) -> str | None:
        """Why the output may be null although the run goes on, in words; None: no such cause is known."""
        if self.when is not None:
            return f"{self.name} is skipped where its `when` is false"
        return f"{self.name} may fail (on_error: continue)" if self.on_error == "continue" else None

    def output_shape(self, knowledge: Knowledge) -> Shape:
        """Return what is known of the step's output before it runs; an `output_schema` is known without this."""
        return UNKNOWN

    def inner_shapes(self, key: str, input: Shape, read: Callable[[str], Shape]) -> Mapping[str, Shape]:
        """Return what is known of the names inside a block, where its first step begins.

        Args:
            key: The path of the block.
            input: The input of this step.
            read: Says what an expression in the scope of this step gives.
        """
        return {}

    @property
    def first_writes(self) -> "Sequence[Operation]":
        """The writes to the context before the first iteration of the step."""
        return ()

    @property
    def growing_lists(self) -> Mapping[str, str]:
        """The context paths of lists that grow between the iterations of the step, by their place in it."""
        return {}

    @property
    def output_templates(self) -> Template:
        """The templates of the step's own output, which are rendered after its last iteration."""
        return None

    @property
    def most_at_once(self) -> int | None:
        """The `max_parallel` of the lists of steps inside this step; None if they have none."""
        return self.__dict__.get("max_parallel")

    @property
    def import_alias(self) -> str | None:
        """The alias of the blueprint that the step runs."""
        return None

    @property
    def segment(self) -> str:
        """The type of the step's segment in an address."""
        return str(self.__dict__["kind"])

    @property
    def stops(self) -> bool:
        """True if the step surely waits, for a person or for a time, unless its `when` is false."""
        return self.interrupt_before or self.interrupt_after

    def schemas(self) -> Mapping[str, Schema | None]:
        """Return the JSON Schemas of the step, by their path in it."""
        return {"input_schema": self.input_schema, "output_schema": self.output_schema}

    def sees_context(self) -> bool:
        """Return whether the step reads more of the context than its templates and expressions name."""
        return self.interrupt_before or self.interrupt_after

    @property
    def plan_body(self) -> PlanBody | None:
        """The plan that the step runs."""
        return None

    @classmethod
    def gather(cls, definition: PlacedDict, path: str, expansion: Expansion) -> PlacedDict:
        """Return the definition with its keys where the core form has them, before unknown ones are refused."""
        return definition

    @classmethod
    def expand(cls, step: PlacedDict, path: str, expansion: Expansion) -> None:
        """Expand the short forms of this kind in place."""

    @classmethod
    def allow_short_forms(cls, definitions: Schema) -> None:
        """Allow the short forms of this kind in the JSON Schema; by default there are none."""

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        """Report what this step, and not one inside it, may not say."""
        if self.sink_to is not None:
            check_path(self.sink_to, f"{path}.sink_to", findings)

    def advise(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        """Report what is valid, but hardly as intended."""

    # For people

    @property
    def label(self) -> str:
        """The name of the step for people."""
        return self.name

    @property
    def shown_title(self) -> str | None:
        """The title that the trace shows beside the name."""
        return None

    def people(self, names: Vocabulary) -> str:
        """Return in words who is asked what the step asks; empty if it is anyone."""
        return people_phrase(self.get_assignees(), names)

    def people_line(self, names: Vocabulary) -> list[str]:
        """Return the line of a drawing that says who is asked, if it is not anyone."""
        people = self.people(names)
        return [f"asks {people}"] if people else []

    def get_assignees(self) -> Sequence[str] | str:
        """Return who may answer what the step asks, as its author wrote it; empty: anyone."""
        return ()

    def people_templates(self) -> Mapping[str, Template]:
        """Return the lists of people in the step, by their path in it."""
        return {key: value for key, value in self.reads().items() if key.rpartition(".")[2] in ("assignees", "not_by")}

    @property
    def takes_proof(self) -> bool:
        """True if only answers of people who have signed in are taken."""
        return False

    @property
    def answered_question(self) -> Asked | None:
        """The question whose answer is the step's output, as it is written; None if the output is no answer."""
        return None

    @property
    def gives_plain_answer(self) -> bool:
        """True if the output is what a person gave, and not an object about it."""
        return self.answered_question is not None and not self.answered_question.yes_or_no

    def list_waits(self, names: Vocabulary) -> list[str]:
        """Return in words what the step comes after, beside the step before it."""
        return [names.label(step) for step in self.needs]

    def preconditions(self, names: Vocabulary) -> str:
        """Return the clauses before what the step does: what it comes after, and its condition."""
        waits = self.list_waits(names)
        after = f"after {enumerate_words(waits)}, " if waits else ""
        return after + (f"if {condition(self.when, names)}, " if self.when is not None else "")

    def describe(self, names: Vocabulary) -> StepDescription:
        """Return what the step does, in words; by default the first sentence about its kind."""
        summary = str(type(self).__doc__).partition(".")[0]
        return StepDescription(as_sentence(summary[:1].lower() + summary[1:]))

    def draw(self, names: Vocabulary) -> Drawing:
        """Return how the step stands in a flowchart."""
        return Drawing()

    def cost(self) -> Cost:
        """Return what the step may request of models, beside the agents, imports and steps that it runs."""
        return Cost()

    def result(self, names: Vocabulary) -> str:
        """Return the name of the step's result for the step after it."""
        return "the last result" if self.when is not None else names.name_of_result(self.name)
