"""The `parallel` kind: different steps at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from holdfast.blueprint.findings import Findings, check_known, check_path
from holdfast.blueprint.kinds.base import Block, Step
from holdfast.blueprint.kinds.description import PREVIOUS, Drawing, NestedSteps, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion, expand_branches
from holdfast.blueprint.kinds.needs import check_most
from holdfast.blueprint.kinds.phrases import colon_or_nothing
from holdfast.blueprint.kinds.schema_forms import (
    Schema,
    object_form,
)
from holdfast.blueprint.parts import MOST_AT_ONCE, MaxParallel
from holdfast.blueprint.source import PlacedDict
from holdfast.blueprint.words.text import Vocabulary, filled, listed

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
    runs_branches_at_once: ClassVar[bool] = True

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

    def blocks(self) -> Mapping[str, Block]:
        return {f"branches.{name}": Block(tuple(steps)) for name, steps in self.branches.items()}

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
        for branch, paths in (self.field_mapping or {}).items():
            check_known(branch, "branch", self.branches, f"{path}.field_mapping.{branch}", findings)
            for index, target in enumerate(paths):
                check_path(target, f"{path}.field_mapping.{branch}[{index}]", findings)

    def describe(self, names: Vocabulary) -> StepDescription:
        inside = names.after(names.previous if self.input == PREVIOUS else filled(self.input, names))
        sentences = ["runs its branches at the same time."]
        if self.on_branch_failure == "ignore":
            sentences.append("One that fails returns nothing; if all fail, so does the step.")
        if self.merge_strategy != "context_update":
            sentences.append(_MERGED[self.merge_strategy])
        if self.context_include_keys is not None:
            sentences.append(f"They see only {listed(self.context_include_keys)} of the context.")
        for branch, paths in (self.field_mapping or {}).items():
            sentences.append(f"Of what {branch} writes to the context only {listed(paths)} is kept.")
        sentences.append(f"It returns {_REDUCED[self.reduce or '']}.")
        blocks = [
            NestedSteps(f"{name}{colon_or_nothing(steps)}", steps, inside, name, name)
            for name, steps in self.branches.items()
        ]
        return StepDescription(" ".join(sentences), tuple(blocks))

    def draw(self, names: Vocabulary) -> Drawing:
        return Drawing("fork", ["at the same time"], framed=True)
