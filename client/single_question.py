"""Ask people one question from any program: a run of one step, the same for the same key. Programs import `ask`."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

from pydantic import BaseModel, ValidationError

from holdfast.blueprint.ask_options import (
    AnswerForm,
    AskOptions,
    check_options,
    read_instance,
    read_ladder,
    read_schema,
    read_seconds,
)
from holdfast.blueprint.build.places import to_placed
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.load import parse_document
from holdfast.blueprint.model_problems import describe_problem
from holdfast.blueprint.questions import list_kinds_for_steps
from holdfast.blueprint.questions.kind import write_returned
from holdfast.blueprint.questions.options import read_options
from holdfast.blueprint.source import PlacedDict, Source
from holdfast.client.answering import Answering
from holdfast.client.outcomes import archived_end
from holdfast.client.outgoing import read_json
from holdfast.client.runs import Runs
from holdfast.client.starting import new_run_id
from holdfast.client.states import Outcome
from holdfast.protocol.answers import Refusal
from holdfast.protocol.names import LONGEST_RUN_ID
from holdfast.runtime.connection import connect
from holdfast.runtime.errors import BadInput, RunExists

Model = TypeVar("Model", bound=BaseModel)
NAME = "question"
"""The name of the blueprint and of its step."""
SHORTEST_SECONDS = 1.0
"""The time for what is asked again behind the deadline: it may have been asked and answered before."""
MOST_TRIES = 100
"""Questions about one answer, each with the reason why the last answer breaks a rule of its model."""


class AskError(Exception):
    """A question that has ended without an answer that the program may act on."""

    def __init__(self, message: str, run: str) -> None:
        super().__init__(message)
        self.run = run
        """The run of the question, where `holdfast show` tells more."""


class AskExpired(AskError):
    """Nobody answered in time, and there was no default."""


class AskDeclined(AskError):
    """A person declined to answer; or said no, where `on_decline` is `fail`."""


class AskCancelled(AskError):
    """The question was withdrawn, or its run was cancelled."""


_ENDS: Mapping[str, type[AskError]] = {
    "question_expired": AskExpired,
    "question_declined": AskDeclined,
    "question_cancelled": AskCancelled,
    "cancelled": AskCancelled,
    "terminated": AskCancelled,
}
"""By the type of the run's failure; any other is an `AskError`."""


@overload
async def ask(
    message: str,
    *,
    schema: type[Model],
    key: str | None = None,
    by: str | None = None,
    runs: Runs | None = None,
    **options: Unpack[AskOptions],
) -> Model: ...


@overload
async def ask(
    message: str,
    *,
    schema: JSONObject | None = None,
    key: str | None = None,
    by: str | None = None,
    runs: Runs | None = None,
    **options: Unpack[AskOptions],
) -> Any: ...


async def ask(
    message: str,
    *,
    schema: AnswerForm | None = None,
    key: str | None = None,
    by: str | None = None,
    runs: Runs | None = None,
    **options: Unpack[AskOptions],
) -> Any:
    """Ask people a question, wait for as long as it takes, and return the answer.

    Args:
        message: The text of the question.
        schema: JSON Schema of the answer, of a reviewed payload or of the secrets asked for; or a pydantic model.
        key: The question's own name: under the same key it is asked once, and its answer is returned to everyone who
            asks it, in another process and after the answer, too. Without a key each call asks anew, and a call that
            is cancelled withdraws its question. The run `question-KEY` asks; if an answer breaks a rule of the model,
            `question-KEY~2` asks again, and so on.
        by: Who asks, such as `user:ana`.
        runs: The runs of the deployment; by default of the configured one, else the embedded server, which is started.
        options: What else is said of the question: see `AskOptions`.

    Returns:
        As `self.human.ask` of an author's workflow does: text, an option's id (a list with `multiple`), True or False
        of a permission, the approved payload of a review, or a value that fits the schema: an instance, if that is a
        model.

    Raises:
        AskError: `AskExpired`, `AskDeclined` or `AskCancelled`; itself where the run failed of something else.
        BadInput: The options cannot be used; or no answer fits the model.
        TypeError: There is no such option.
        Refusal: `key_conflict`: another question was asked under the key.
    """
    check_options(options)
    blueprint, begun = make_blueprint(message, schema, options), None
    runs = runs or await _connect()
    for attempt in range(1, MOST_TRIES + 1):
        run = new_run_id(blueprint) if key is None else _make_id(key, attempt)
        output = _read_output(await _ask_once(runs, blueprint, run, by, again=begun is not None, withdraw=key is None))
        try:
            return None if output is None else read_instance(schema, options.get("kind", "input"), output)
        except ValidationError as error:  # the model has rules that its JSON Schema cannot say
            text = write_returned(message, describe_problem(error))
        begun = begun or await _find_begin(runs, run)
        blueprint = make_blueprint(text, schema, _shorten_times(options, begun))
    raise BadInput(f"no answer to {message!r} fits the model in {MOST_TRIES} tries; the last was that of the run {run}")


def make_blueprint(message: str, schema: AnswerForm | None, options: AskOptions) -> Blueprint:
    """Return the blueprint of one question. Raises `BadInput` for options that cannot be used.

    What people read stands in the context: there a text with braces is no template.
    """
    try:
        offered = read_options(options.get("options", ()))
    except ValueError as error:
        raise BadInput(f"options: {error}") from None
    shown = {
        "message": message,
        "options": [option.model_dump(mode="json", exclude_defaults=True) for option in offered],
        "payload": read_json(options.get("payload"), "payload"),
        "default": read_json(options.get("default"), "default"),
    }
    try:
        form = read_schema(schema)
    except (TypeError, BadSchema) as error:
        raise BadInput(f"schema: {error}") from None
    step: dict[str, Any] = {"kind": "hitl", "name": NAME, "message": "{{ context.message }}"}
    step |= {"input": "{{ context.payload }}", "input_schema": form, **_list_keys(options)}
    step = {key: value for key, value in step.items() if value is not None}
    place = Source(NAME, "").at(0)
    document = to_placed({"name": NAME, "description": " ".join(message.split()), "context": shown}, place)
    assert isinstance(document, PlacedDict)
    document.put("steps", to_placed([step], place), place)
    parsed = parse_document(document, folder=Path.cwd(), name=NAME)
    if parsed.problems:
        raise BadInput("; ".join(f"{one.path.removeprefix('steps[0].')}: {one.message}" for one in parsed.problems))
    _check_default(schema, options, shown["default"])
    return parsed.valid()


def _check_default(schema: AnswerForm | None, options: AskOptions, default: JSON) -> None:
    """Raise `BadInput` for a default that breaks a rule of the model: it would be given back at each deadline."""
    kind = options.get("kind", "input")
    if default is None or list_kinds_for_steps()[kind].consents:  # that of a consent is a no
        return
    try:
        read_instance(schema, kind, default)
    except ValidationError as error:
        raise BadInput(f"default: {describe_problem(error)}") from None


def _list_keys(options: AskOptions) -> dict[str, Any]:
    """Return the keys of the step that the options say."""
    same: dict[str, Any] = {
        key: value
        for key, value in options.items()
        if key in ("multiple", "allow_custom", "not_by", "assignees", "quorum", "proof", "on_decline")
    }
    for key in ("not_by", "assignees"):
        if key in same:
            same[key] = list(same[key])
    same["ask"] = options.get("kind", "input")
    if options.get("options"):
        same["options"] = "{{ context.options }}"
    if "default" in options:
        same["default"] = "{{ context.default }}"
    return same | _list_times(options)


def _list_times(options: AskOptions) -> dict[str, Any]:
    try:
        timeout, every = read_seconds(options, "timeout"), read_seconds(options, "remind_every")
        rungs = read_ladder(options)
    except ValueError as error:
        raise BadInput(str(error)) from None
    times: dict[str, Any] = {"timeout": timeout, "remind_every": every}
    if rungs:
        times["escalate"] = [{"after": after, "assignees": list(names)} for after, names in rungs]
        times["on_timeout"] = "escalate"
    return times


async def _find_begin(runs: Runs, run: str) -> datetime:
    """Return the time at which a question was asked for the first time."""
    return min((event.time for event in await runs.watch.events(run)), default=datetime.now(UTC))


def _shorten_times(options: AskOptions, begun: datetime) -> AskOptions:
    """Return the options of what is asked again, with the deadline and the escalation of the first time, `begun`."""
    waited = (datetime.now(UTC) - begun).total_seconds()
    later = options.copy()
    if (timeout := read_seconds(options, "timeout")) is not None:
        later["timeout"] = max(timeout - waited, SHORTEST_SECONDS)
    rungs = read_ladder(options)
    for after, names in rungs:
        if after <= waited:
            later["assignees"] = names
    later["escalate"] = [(after - waited, names) for after, names in rungs if after > waited]
    return later


def _make_id(key: str, attempt: int) -> str:
    """Return the id of the run that asks under a key; a key that no id may hold is digested."""
    later = "" if attempt == 1 else f"~{attempt}"
    plain = f"{NAME}-{key}{later}"
    if key.strip() and "/" not in key and "~" not in key and len(plain.encode()) <= LONGEST_RUN_ID:
        return plain
    return f"{NAME}-{hashlib.sha256(key.encode()).hexdigest()}{later}"


async def _ask_once(
    runs: Runs, blueprint: Blueprint, run: str, by: str | None, *, again: bool, withdraw: bool
) -> Outcome:
    """Start the run of a question, or find it, and return how it ended."""
    if await archived_end(runs.tree, run) is not None:
        await _check_same(runs, blueprint, run, again=again)
    else:
        try:
            await runs.start(blueprint, run=run, started_by=by)
        except RunExists:
            await _check_same(runs, blueprint, run, again=again)
    try:
        return await runs.result(run)
    except asyncio.CancelledError:
        if withdraw:
            await runs.control.cancel(run, wait=0)
        raise


async def _check_same(runs: Runs, blueprint: Blueprint, run: str, *, again: bool) -> None:
    """Raise `Refusal` (`key_conflict`) if the run asks another question; the times of one asked `again` differ."""
    parts = {"context"} if again else None
    asked = await runs.watch.blueprint(run)
    if asked.model_dump(mode="json", include=parts) != blueprint.model_dump(mode="json", include=parts):
        raise Refusal("key_conflict", f"run {run} asks another question under this key; use a new key")


def _read_output(outcome: Outcome) -> Any:
    if outcome.error is None:
        return outcome.output
    raise _ENDS.get(outcome.error.type, AskError)(outcome.error.message, outcome.run)


async def _connect() -> Runs:
    """Return the runs of the configured deployment."""
    connection = await connect()
    config = connection.config
    answering = Answering(keys=config.answer_keys(), groups=config.groups, limits=config.limits)
    return Runs(connection.client, connection.task_queue, answering)
