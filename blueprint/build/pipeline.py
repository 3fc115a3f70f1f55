"""Pipelines: the document that `with` blocks build. It is judged at each step: a mistake raises where it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, Unpack

from pydantic import BaseModel

from holdfast.blueprint.build.agents import NamedAgent
from holdfast.blueprint.build.places import find_folder, find_place, to_placed
from holdfast.blueprint.build.references import (
    StepResult,
    ValueReference,
    read_expression,
    read_path,
    read_template,
    refer,
)
from holdfast.blueprint.build.schemas import SchemaForm, read_form_of_people
from holdfast.blueprint.core import write_core, write_yaml
from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.load import Parsed, parse_document
from holdfast.blueprint.positions import Parts, path_text
from holdfast.blueprint.source import PlacedDict, PlacedList, Position, plain

_open: ContextVar[Pipeline | None] = ContextVar("open_pipeline", default=None)


class PipelineKeys(TypedDict, total=False):
    """The keys at the top of a blueprint, beside those that `Pipeline` names; see docs/blueprint.md."""

    description: str
    context: JSONObject
    context_schema: SchemaForm
    limits: JSONObject
    access: JSONObject
    max_parallel: int
    deadline: str | float | ValueReference
    on_deadline: Literal["fail", "finish", "ask"]


class Pipeline:
    """A blueprint from Python: steps that are written inside its `with` are its own.

    Args:
        name: The name of the blueprint.
        inputs: What a run gets: a pydantic model, or a JSON Schema; None: any value.
        keys: See `PipelineKeys`.
    """

    def __init__(self, name: str, *, inputs: SchemaForm | None = None, **keys: Unpack[PipelineKeys]) -> None:
        place = find_place()
        written: dict[str, object] = {"name": name, **keys}
        if inputs is not None:
            written["inputs"] = inputs
        for key in ("inputs", "context_schema"):
            if key in written:
                written[key] = read_form_of_people(written[key])  # type: ignore[arg-type]  # what the parameters say
        self._folder = find_folder(place)
        self._document = _place(written, place)
        self._agents: dict[str, NamedAgent[Any]] = {}
        self._lists: list[tuple[PlacedList, Parts]] = []
        self._token: Token[Pipeline | None] | None = None
        self._parsed: Parsed | None = None
        self.name = name
        self.input = refer("input", inputs)
        """The input of the run."""

    @property
    def parsed(self) -> Parsed:
        """The blueprint with its warnings. Raises `RuntimeError` inside its own `with`."""
        if self._parsed is None:
            raise RuntimeError(f"the pipeline {self.name!r} is not finished: use it after its `with`")
        return self._parsed

    @property
    def blueprint(self) -> Blueprint:
        """The blueprint in core form."""
        return self.parsed.valid()

    def to_yaml(self) -> str:
        """Return the same document as YAML, with paths relative to the folder of the Python file."""
        assert self.parsed
        written = plain(self._document)
        return write_yaml({key: written[key] for key in Blueprint.model_fields if key in written})

    def gives(self, value: object) -> None:
        """Set the output of the run: a template, or a mapping of templates; by default that of the last step."""
        place = find_place()
        self._document.put("output", to_placed(read_template(value), place), place)

    def __enter__(self) -> Self:
        if (outer := _open.get()) is not None:
            raise RuntimeError(f"the pipeline {self.name!r} begins inside {outer.name!r}: write it before")
        if self._parsed is not None:
            raise RuntimeError(f"the pipeline {self.name!r} is finished")
        self._token = _open.set(self)
        steps = PlacedList(self._document.place)
        self._document.put("steps", steps, self._document.place)
        self._lists.append((steps, ("steps",)))
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._token is not None
        _open.reset(self._token)
        self._lists.pop()
        if error is not None:
            return
        parsed = self._parse()
        if parsed.problems:
            raise BlueprintError(parsed.problems)
        self._parsed = parsed

    def add(self, step: PlacedDict) -> Parts:
        """Add a step to the list at work; return its path."""
        steps, path = self._lists[-1]
        steps.add(step, step.place)
        return (*path, len(steps) - 1)

    def judge(self, path: Parts) -> None:
        """Raise `BlueprintError` for what is wrong with the step at a path."""
        text = path_text(path)
        if problems := [problem for problem in self._parse().problems if _is_inside(problem, text)]:
            steps, _ = self._lists[-1]
            steps.drop_last()
            raise BlueprintError(problems)

    def begin(self, steps: PlacedList, path: Parts) -> None:
        """Add what follows to a list inside a step."""
        self._lists.append((steps, path))

    def end(self) -> None:
        """Add what follows to the list around it."""
        self._lists.pop()

    def use_agent(self, agent: NamedAgent[Any], place: Position) -> None:
        """Name an agent, and those that it calls, among the agents of the blueprint."""
        for name, one in agent.family.items():
            if (other := self._agents.setdefault(name, one)) is not one:
                message = f"two agents are called {name!r}: the other one is in line {other.place.line}"
                raise BlueprintError([place.problem(f"agents.{name}", "duplicate_name", message, "rename one")])
            same_folder = find_folder(one.place) == self._folder
            self._put("agents", name, one.document if same_folder else write_core(one.definition), one.place)

    def use_import(self, other: Pipeline, place: Position) -> None:
        """Name another pipeline among the imports of the blueprint.

        Paths in one of another folder are absolute: what is imported here has no folder of its own.
        """
        document = other._document if other._folder == self._folder else write_core(other.blueprint)
        assert other.parsed
        self._put("imports", other.name, document, place)

    def _put(self, key: str, name: str, value: object, place: Position) -> None:
        if key not in self._document:
            self._document.put(key, PlacedDict(place), place)
        self._document[key].put(name, value, place)

    def _parse(self) -> Parsed:
        copy = to_placed(self._document, self._document.place)
        assert isinstance(copy, PlacedDict)
        return parse_document(copy, folder=self._folder, name=self.name)


def find_open() -> Pipeline:
    """Return the pipeline whose `with` is at work. Raises `RuntimeError`."""
    pipeline = _open.get()
    if pipeline is None:
        raise RuntimeError("a step belongs into a pipeline: write it inside `with Pipeline(…):`")
    return pipeline


class StepKeys(TypedDict, total=False):
    """The keys that every step may have, beside its input; see docs/reference.md."""

    when: ValueReference | str
    sink_to: ValueReference | str
    needs: Sequence[StepResult | str] | StepResult
    updates_context: bool
    input_schema: SchemaForm
    output_schema: SchemaForm
    interrupt_before: bool
    interrupt_after: bool
    on_error: str | JSONObject


class BlockKeys(StepKeys, total=False):
    """The keys that every block may have."""

    input: object


_EXPRESSIONS = ("when", "condition_expression", "iterable_input", "exit_expression")
_SCHEMAS = ("input_schema", "output_schema", "schema")


def add_step(keys: Mapping[str, object]) -> tuple[PlacedDict, Parts]:
    """Add a step to the pipeline at work, not judged yet; return its document and its path."""
    pipeline, place = find_open(), find_place()
    written = {key: _read_key(key, value) for key, value in keys.items()}
    document = _place(written, place)
    return document, pipeline.add(document)


def _read_key(key: str, value: object) -> JSON:
    """Return the value of a key as a blueprint has it."""
    if key in _EXPRESSIONS and isinstance(value, ValueReference | bool):
        return read_expression(value)
    if key in _SCHEMAS and isinstance(value, type) and issubclass(value, BaseModel):
        return read_form_of_people(value)
    if key == "sink_to":
        return read_path(value)
    if key == "needs" and isinstance(value, StepResult):
        return [value.name]
    if key == "needs" and isinstance(value, list | tuple):
        return [one.name if isinstance(one, StepResult) else one for one in value]
    return read_template(value)


def _is_inside(problem: Problem, path: str) -> bool:
    return problem.path == path or problem.path.startswith((f"{path}.", f"{path}["))


def _place(written: Mapping[str, object], place: Position) -> PlacedDict:
    document = to_placed(written, place)
    assert isinstance(document, PlacedDict)
    return document
