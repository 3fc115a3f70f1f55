"""Steps from Python, and the questions: each is added to the pipeline at work, and judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Unpack

from holdfast.blueprint.build.agents import NamedAgent
from holdfast.blueprint.build.pipeline import Pipeline, StepKeys, add_step, find_open
from holdfast.blueprint.build.places import find_place
from holdfast.blueprint.build.references import StepResult, ValueReference
from holdfast.blueprint.build.schemas import SchemaForm
from holdfast.blueprint.json_values import JSONObject

Work = NamedAgent[Any] | Pipeline | Callable[..., Any] | str
"""An agent, another pipeline, a function of a package that the worker lists, or the name of a tool."""
Options = Mapping[str, str] | Sequence[str | JSONObject] | ValueReference
"""Labels by id, texts, objects as in a blueprint, or what gives a list of them."""

People = Sequence[str | ValueReference] | ValueReference
"""Names such as `user:ana`, references to a name or to a list of them, or what gives a list."""


class WorkKeys(StepKeys, total=False):
    """The keys of a step that does one thing, beside those that `step` names; see docs/blueprint.md."""

    arguments: Mapping[str, object]
    undo: Mapping[str, object]
    ends_with_tool: bool
    tool_errors: JSONObject
    idempotent: bool
    retry: JSONObject
    timeout: str | float
    config: JSONObject
    attachments: Sequence[JSONObject]
    assignees: People


class AskKeys(StepKeys, total=False):
    """The keys of a question, beside those that the methods of `ask` name; see docs/blueprint.md."""

    allow_custom: bool
    multiple: bool | int
    default: object
    on_timeout: Literal["fail", "default", "skip", "escalate"]
    risk: str | ValueReference
    action: object
    details: object
    timeout: str | float | ValueReference
    assignees: People
    quorum: int | str | ValueReference
    not_by: People
    proof: Literal["person"]
    remind_every: str | float | ValueReference
    escalate: Sequence[JSONObject]
    attachments: Sequence[JSONObject]
    verify: JSONObject | str
    notify: Sequence[str] | bool
    on_decline: Literal["fail", "continue", "abort"]


def step(name: str, work: Work | None = None, input: object = None, **keys: Unpack[WorkKeys]) -> StepResult:
    """Add a step that does one thing.

    Args:
        name: Its name.
        work: What does it; None: it passes its input on.
        input: What it gets; None: the previous output.
        keys: See `WorkKeys`.

    Raises:
        BlueprintError: With its problems.
    """
    written: dict[str, object] = {"name": name, **_name_work(work)}
    if input is not None:
        written["input"] = input
    return _add(written | {**keys}, work.model if isinstance(work, NamedAgent) else None)


def add(name: str, **keys: object) -> StepResult:
    """Add a step of any kind, with the keys that a blueprint has: `add("pause", kind="timer", **{"for": "1h"})`.

    Raises:
        BlueprintError: With its problems.
    """
    kind = {"kind": keys.pop("kind")} if "kind" in keys else {}
    return _add({**kind, "name": name, **keys})


def _add(keys: Mapping[str, object], type_: object = None) -> StepResult:
    _, path = add_step(keys)
    find_open().judge(path)
    return StepResult(str(keys["name"]), type_)


def _name_work(work: Work | None) -> dict[str, object]:
    """Return the key that says what does the work, once the blueprint knows it."""
    match work:
        case None:
            return {}
        case NamedAgent():
            find_open().use_agent(work, find_place())
            return {"agent": work.name}
        case Pipeline():
            find_open().use_import(work, find_place())
            return {"uses": f"imports.{work.name}"}
        case str():
            return {"uses": work}
    return {"uses": f"{work.__module__}:{work.__qualname__}"}


class QuestionBuilder:
    """The questions of a pipeline, by kind: `ask.permission("pay", "Pay it?")`."""

    def __call__(
        self,
        kind: str,
        name: str,
        message: object = None,
        *,
        options: Options = (),
        schema: SchemaForm | None = None,
        input: object = None,
        **keys: Unpack[AskKeys],
    ) -> StepResult:
        """Add a question.

        Args:
            kind: Its kind, also one of a package of yours.
            name: The name of the step.
            message: What is asked; None: the previous output.
            options: What may be chosen.
            schema: JSON Schema of the answer, or a pydantic model.
            input: What it is about; None: the previous output.
            keys: See `AskKeys`.

        Raises:
            BlueprintError: With its problems.
        """
        written: dict[str, object] = {"kind": "hitl", "name": name, "ask": kind}
        if message is not None:
            written["message"] = message
        if isinstance(options, ValueReference) or options:
            written["options"] = _list_options(options)
        if schema is not None:
            written["input_schema"] = schema
        if input is not None:
            written["input"] = input
        return _add(written | {**keys}, schema)

    def input(self, name: str, message: object = None, **more: Unpack[QuestionKeys]) -> StepResult:
        """Ask for a text, or for what fits a schema."""
        return self("input", name, message, **more)

    def clarification(self, name: str, message: object = None, **more: Unpack[QuestionKeys]) -> StepResult:
        """Ask for one of some options, or own words."""
        return self("clarification", name, message, **more)

    def decision(self, name: str, message: object = None, **more: Unpack[QuestionKeys]) -> StepResult:
        """Ask for one of some options."""
        return self("decision", name, message, **more)

    def permission(self, name: str, message: object = None, **more: Unpack[QuestionKeys]) -> StepResult:
        """Ask for a yes; the output is true or false."""
        return self("permission", name, message, **more)

    def review(self, name: str, message: object = None, **more: Unpack[QuestionKeys]) -> StepResult:
        """Show the `input`, which a person approves, changes or rejects; the output is what was approved, or null."""
        return self("review", name, message, **more)

    def secret(self, name: str, message: object = None, **more: Unpack[QuestionKeys]) -> StepResult:
        """Ask for a secret; the output is a reference to it."""
        return self("secret", name, message, **more)


class QuestionKeys(AskKeys, total=False):
    """The keys of a question whose kind is known."""

    options: Options
    schema: SchemaForm
    input: object


def _list_options(options: Options) -> object:
    if isinstance(options, Mapping):
        return [{"id": key, "label": label} for key, label in options.items()]
    return options


ask = QuestionBuilder()
"""The questions of the pipeline at work."""
