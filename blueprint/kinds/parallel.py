"""The `parallel` kind: different steps at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from holdfast.blueprint.findings import Findings, check_known, check_path, is_literal
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds.base import Block, Step
from holdfast.blueprint.kinds.description import PREVIOUS, Drawing, NestedSteps, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion, expand_branches
from holdfast.blueprint.kinds.knowledge import Knowledge
from holdfast.blueprint.kinds.needs import check_most
from holdfast.blueprint.kinds.phrases import colon_or_nothing
from holdfast.blueprint.kinds.schema_forms import (
    Schema,
    object_form,
)
from holdfast.blueprint.kinds.shared_writes import find_writes, warn_of_branches
from holdfast.blueprint.kinds.template_values import TemplateForm
from holdfast.blueprint.kinds.walk import placed_steps
from holdfast.blueprint.parts import MOST_AT_ONCE, MaxParallel, Template
from holdfast.blueprint.reducers import is_below, split_keys
from holdfast.blueprint.shape import LIST, UNKNOWN, Shape, join_shapes, make_object, make_shape
from holdfast.blueprint.source import PlacedDict
from holdfast.blueprint.words.text import Vocabulary, condition, enumerate_words, say_template, say_unquoted

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep

MergeStrategy = Literal["context_update", "overwrite", "keep_first", "error_on_conflict", "no_merge"]
Reducer = Literal["keys", "values", "union", "concat", "dedupe", "first", "last", "majority_vote"]


_MERGED = {
    "overwrite": "Where two write the same place of the context, the later one counts.",
    "keep_first": "Where two write the same place of the context, the first one counts.",
    "error_on_conflict": "If two write the same place of the context, it fails.",
    "no_merge": "What they write to the context is dropped.",
}
_JOINED = {"union": "object", "concat": "array", "dedupe": "array"}
"""What every branch must give, by the reducer."""
_RACED = "the names of the winners, and the result of each by its name"
_REDUCED = {
    "": "the result of each by its name",
    "keys": "their names",
    "values": "the list of their results",
    "union": "their results as one object, where later ones count",
    "concat": "their lists as one",
    "dedupe": "their lists as one, without repetitions",
    "first": "the first result",
    "last": "the last result",
    "majority_vote": "the result that most of them have",
}


class Parallel(Step):
    """Run branches at once, each on its own fork of the context; the output is an object of theirs."""

    other_names: ClassVar[tuple[str, ...]] = ("fork", "concurrent", "gather")

    kind: Literal["parallel"]
    branches: dict[str, list[AnyStep]] = Field(
        min_length=1,
        max_length=MOST_AT_ONCE,
        description="Branch name -> steps; at most 50 branches.",
        examples=[{"facts": [{"name": "search", "uses": "search"}], "tone": [{"name": "ask", "kind": "hitl"}]}],
    )
    merge_strategy: MergeStrategy = Field(
        "context_update",
        description="How the branches' contexts are joined: context_update (a path that two change differently is an "
        "error), overwrite (later wins), keep_first, error_on_conflict (no path may be changed twice), no_merge.",
    )
    reduce: Reducer | None = Field(
        None, description="One value from the outputs, in declared order, instead of an object of them."
    )
    until: Literal["first"] | Annotated[int, Field(strict=True)] | str | None = Field(
        None,
        description="Go on before all have ended: once the `first` branch, or so many, have completed with a result, "
        "or once an expression on the outputs so far holds (`output`, by branch). The others are cancelled.",
        examples=["first", 2, "output.by_hand is defined or output | length >= 2"],
    )
    choose: Template = Field(
        None,
        description="The branches that run: a template of a list of their names, or of one name; default: all.",
        examples=["{{ steps.triage.output.teams }}", ["legal", "money"]],
    )
    on_branch_failure: Literal["propagate", "ignore"] = Field(
        "propagate", description="A failing branch cancels the others and fails the step; or its output is null."
    )
    field_mapping: dict[str, list[str]] | None = Field(
        None,
        description="Branch name -> context paths: of that branch only these are taken over.",
        examples=[{"facts": ["context.facts"]}],
    )
    context_include_keys: list[str] | None = Field(
        None, description="The context keys that branches see; default: all.", examples=[["topic", "audience"]]
    )

    max_parallel: MaxParallel = None

    @property
    def until_expression(self) -> str | None:
        """The expression on the outputs so far that ends the step; None if it counts them, or waits for all."""
        return self.until if isinstance(self.until, str) and self.until != "first" else None

    @property
    def winners_wanted(self) -> int | None:
        """How many branches must complete with a result; None if an expression decides, or all must end."""
        return 1 if self.until == "first" else self.until if isinstance(self.until, int) else None

    def reads(self) -> Mapping[str, Template]:
        return {**super().reads(), "choose": self.choose}

    def blocks(self) -> Mapping[str, Block]:
        branches = {f"branches.{name}": Block(tuple(steps)) for name, steps in self.branches.items()}
        # In a block of its own, as `output` is not the previous step's there.
        ends = (
            {} if self.until_expression is None else {"until": Block((), conditions={"until": self.until_expression})}
        )
        return {**branches, **ends}

    def inner_shapes(self, key: str, input: Shape, read: Callable[[str], Shape]) -> Mapping[str, Shape]:
        if key == "until":
            return {"previous_step": make_object(dict.fromkeys(self.branches, UNKNOWN))}
        return {"previous_step": input}

    def block_forms(self) -> Mapping[str, JSONObject]:
        type_ = _JOINED.get(self.reduce or "")
        return {} if type_ is None else {f"branches.{name}": {"type": type_} for name in self.branches}

    def template_forms(self) -> Mapping[str, TemplateForm]:
        return {**super().template_forms(), "choose": TemplateForm({"type": ["array", "string"]}, self._read_chosen)}

    def _read_chosen(self, value: object) -> object:
        for name in value if isinstance(value, list) else [value]:
            if name not in self.branches:
                raise ValueError(f"no branch is named {name!r}; there are {', '.join(self.branches)}")
        return value

    def output_shape(self, knowledge: Knowledge) -> Shape:
        outputs = {name: knowledge.last[f"branches.{name}"] for name in self.branches}
        match self.reduce:
            case None if self.until is not None:
                winner = make_shape("list", element=make_shape("text", values=outputs))
                return make_object({"winner": winner, "outputs": make_object(outputs)})
            case None:
                return make_object(outputs)
            case "keys":
                return make_shape("list", element=make_shape("text", values=outputs))
            case "values":
                return make_shape("list", element=join_shapes(list(outputs.values())))
            case "concat" | "dedupe":
                return LIST
            case "first" | "last" | "majority_vote":
                return join_shapes(list(outputs.values()))
        return make_object({}, is_closed=False) if self.reduce == "union" else UNKNOWN

    @classmethod
    def gather(cls, definition: PlacedDict, path: str, expansion: Expansion) -> PlacedDict:
        """Move keys under `parallel:` beside `name`."""
        return expansion.without_block(definition, "parallel", path)

    @classmethod
    def expand(cls, step: PlacedDict, path: str, expansion: Expansion) -> None:
        expand_branches(step, path, expansion)

    @classmethod
    def allow_short_forms(cls, definitions: Schema) -> None:
        """Allow the keys of `parallel` under `parallel:` too."""
        parallel = definitions[cls.__name__]
        own = [key for key in cls.model_fields if key not in (*Step.model_fields, "kind")]
        keys: Schema = parallel["properties"]
        nested = object_form("The same keys, nested.", {key: keys[key] for key in own}, ["branches"])
        keys["parallel"] = {**nested, "examples": [{"branches": branches} for branches in keys["branches"]["examples"]]}
        parallel["required"].remove("branches")

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        instead = "remove it: branches all run at once"
        check_most(self.max_parallel, list(self.branches.values()), f"{path}.", findings, instead)
        if isinstance(self.until, int) and not 1 <= self.until <= len(self.branches):
            message = f"'until' waits for {self.until} branches, but there are {len(self.branches)}"
            findings.add(f"{path}.until", "bad_value", message, f"write a number from 1 to {len(self.branches)}")
        if isinstance(self.until, str) and self.until.strip().isdecimal():
            message = f"'until' is a number from 1 to {len(self.branches)} without quotes, and not {self.until!r}"
            findings.add(f"{path}.until", "bad_value", message, "until: 1")
        chosen = [self.choose] if isinstance(self.choose, str) else self.choose
        for name in chosen if isinstance(chosen, list) and is_literal(chosen) else []:
            check_known(str(name), "branch", self.branches, f"{path}.choose", findings)
        for branch, paths in (self.field_mapping or {}).items():
            check_known(branch, "branch", self.branches, f"{path}.field_mapping.{branch}", findings)
            for index, target in enumerate(paths):
                check_path(target, f"{path}.field_mapping.{branch}[{index}]", findings)

    def advise(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        if self.merge_strategy not in ("context_update", "error_on_conflict") or self.until or self.choose is not None:
            return
        writes = {
            name: list(find_writes(placed_steps(steps, f"{path}.branches.{name}"), blueprint))
            for name, steps in self.branches.items()
        }
        for name, paths in (self.field_mapping or {}).items():
            kept = [split_keys(one) for one in paths]
            writes[name] = [write for write in writes[name] if is_below(write.path, kept)]
        warn_of_branches(writes, findings)

    def describe(self, names: Vocabulary) -> StepDescription:
        inside = names.after(names.previous if self.input == PREVIOUS else say_template(self.input, names))
        chosen = "" if self.choose is None else f" that are named by {say_template(self.choose, names)}"
        sentences = [f"runs {'those of ' if chosen else ''}its branches{chosen} at the same time."]
        if self.until is not None:
            sentences.append(f"It goes on once {self._end(names)}; the others are then cancelled.")
        if self.on_branch_failure == "ignore":
            sentences.append("One that fails returns nothing; if all fail, so does the step.")
        if self.merge_strategy != "context_update":
            sentences.append(_MERGED[self.merge_strategy])
        if self.context_include_keys is not None:
            sentences.append(f"They see only {enumerate_words(self.context_include_keys)} of the context.")
        for branch, paths in (self.field_mapping or {}).items():
            sentences.append(f"Of what {branch} writes to the context only {enumerate_words(paths)} is kept.")
        returned = _RACED if self.until is not None and self.reduce is None else _REDUCED[self.reduce or ""]
        sentences.append(f"It returns {returned}.")
        blocks = [
            NestedSteps(f"{name}{colon_or_nothing(steps)}", steps, inside, name, name)
            for name, steps in self.branches.items()
        ]
        return StepDescription(" ".join(sentences), tuple(blocks))

    def draw(self, names: Vocabulary) -> Drawing:
        lines = ["at the same time"]
        if self.choose is not None:
            lines.append(f"those named by {say_unquoted(self.choose, names)}")
        if self.until is not None:
            lines.append(f"until {self._end(names)}")
        return Drawing("fork", lines, framed=True)

    def _end(self, names: Vocabulary) -> str:
        """Return the clause that says when the step goes on."""
        if self.until_expression is not None:
            so_far = "the results so far"
            return condition(self.until_expression, names.with_roots(output=so_far, previous_step=so_far))
        wanted = self.winners_wanted or 1
        return f"{'one' if wanted == 1 else wanted} of them {'has' if wanted == 1 else 'have'} a result"
