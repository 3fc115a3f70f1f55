"""Requests of an author's workflow to people, checked and made into a question: the kind, its form, and the people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from holdfast.blueprint.ask_options import (
    AnswerForm,
    AskOptions,
    check_options,
    read_instance,
    read_ladder,
    read_schema,
    read_seconds,
)
from holdfast.blueprint.json_values import JSON, JSONObject, to_json
from holdfast.blueprint.jsonschemas import BadSchema
from holdfast.blueprint.kinds.question_times import QuestionTimes, find_time_problems
from holdfast.blueprint.model_problems import describe_problem
from holdfast.blueprint.parts import Option
from holdfast.blueprint.people import is_person
from holdfast.blueprint.questions import Asked, Draft, InvalidAnswer, list_kinds_for_steps
from holdfast.blueprint.questions.options import read_options
from holdfast.protocol.address import Address
from holdfast.protocol.people import People, Rung, say_unreachable
from holdfast.workflows.failures import failure

Time = TypeVar("Time")
_TIME_FAILURES = {"timeout": "bad_timeout", "remind_every": "bad_reminder", "escalate": "bad_escalation"}


@dataclass(frozen=True)
class Wording:
    """The parts of a question as an author's code gives them; see `Human.ask`."""

    message: str
    kind: str
    options: Sequence[str | JSONObject | Option]
    schema: AnswerForm | None
    payload: JSON
    multiple: bool | int
    allow_custom: bool | None

    @classmethod
    def read(cls, message: str, schema: AnswerForm | None, options: AskOptions) -> Wording:
        """Return what the options say of the question itself."""
        return cls(
            message,
            options.get("kind", "input"),
            options.get("options") or (),
            schema,
            options.get("payload"),
            options.get("multiple", False),
            options.get("allow_custom"),
        )

    def read_answer(self, output: Any) -> Any:
        """Return an output as its model has it, if there is one. Raises `ValidationError` if it does not fit."""
        return read_instance(self.schema, self.kind, output)

    def read_default(self, asked: Asked) -> Any:
        """Return what the question gives if nobody answers. Raises as `read_answer`, or `InvalidAnswer`."""
        if asked.default is None:
            return asked.output_without_answer
        if isinstance(self.schema, type) and not asked.yes_or_no:
            return self.read_answer(asked.default)  # as strictly as its model has it: a "3" may be a number
        return self.read_answer(asked.read_output(asked.accept(asked.default)))


@dataclass(frozen=True)
class Audience:
    """The people a question is for, and when they are reminded; times are in seconds. See `Human.ask`."""

    assignees: Sequence[str]
    not_by: Sequence[str]
    quorum: int
    proof: Literal["person"] | None
    escalate: Sequence[tuple[float, Sequence[str]]]
    remind_every: float | None

    @classmethod
    def read(cls, options: AskOptions, address: Address) -> Audience:
        """Return what the options say of the people. Raises a failure for times that cannot be read."""
        return cls(
            options.get("assignees", ()),
            options.get("not_by", ()),
            options.get("quorum", 1),
            options.get("proof"),
            _read("escalate", lambda: read_ladder(options), address),
            _read("remind_every", lambda: read_seconds(options, "remind_every"), address),
        )


def read_timeout(options: AskOptions, address: Address) -> float | None:
    """Return the seconds until the question expires, None for never. Raises a failure if they cannot be read."""
    return _read("timeout", lambda: read_seconds(options, "timeout"), address)


def _read(key: str, read: Callable[[], Time], address: Address) -> Time:
    """Return what is read. Raises a failure in place of a `ValueError`, with which a workflow would hang."""
    try:
        return read()
    except ValueError as error:
        raise failure(_TIME_FAILURES[key], str(error), address) from None


def check_names(options: AskOptions, address: Address) -> None:
    """Raise a failure for an option that no question has, and for a list of people that names nobody."""
    try:
        check_options(options)
    except TypeError as error:
        raise failure("unknown_option", str(error), address) from None
    if "assignees" in options:
        _check_names("assignees", options["assignees"], address)
    if "not_by" in options:
        _check_names("not_by", options["not_by"], address)


def make_question(wording: Wording, default: object, address: Address) -> Asked:
    """Return the question. Raises a failure for a kind, an option, a message or a default that cannot be used."""
    kinds = list_kinds_for_steps()
    if (kind := kinds.get(wording.kind)) is None:
        raise failure("unknown_kind", f"unknown kind {wording.kind!r}; known: {', '.join(kinds)}", address)
    if wording.options and not kind.takes_options:
        raise failure("bad_options", f"a question of kind {wording.kind!r} has no options", address)
    if not wording.message.strip():
        raise failure("empty_message", "the message is empty; a person must see what is asked", address)
    options = _make_options(wording.options, address)
    most = len(options) if wording.multiple is True else int(wording.multiple)
    draft = Draft(
        wording.message,
        read_json(default, "default", address),
        read_json(wording.payload, "payload", address),
        _read_schema(wording.schema, address),
        options,
        wording.allow_custom,
        max(most, 1),
    )
    asked = kind.of(draft)
    if asked.offers_nothing:
        raise failure("bad_options", f"a question of kind {wording.kind!r} needs options to choose from", address)
    if asked.yes_or_no and asked.default is not None:
        _check_refusal(asked, asked.default, address)
    try:
        wording.read_default(asked)
    except (ValidationError, InvalidAnswer) as error:  # told now, and not in months when nobody has answered
        reason = describe_problem(error) if isinstance(error, ValidationError) else error
        raise failure("bad_default", f"the default is not a valid answer: {reason}", address) from None
    return asked


def read_json(value: object, key: str, address: Address) -> JSON:
    """Return the JSON value of what an author's code gives. Raises a failure where there is none."""
    try:
        return to_json(value)
    except ValueError as error:
        raise failure(f"bad_{key}", f"{key}: {error}", address) from None


def _read_schema(form: AnswerForm | None, address: Address) -> JSONObject | None:
    """Return the JSON Schema of a form. Raises a failure for what is none."""
    try:
        return read_schema(form)
    except (TypeError, BadSchema) as error:
        raise failure("bad_schema", f"schema: {error}", address) from None


def _check_refusal(asked: Asked, default: JSON, address: Address) -> None:
    """Raise a failure for the default of a consent that does not refuse it."""
    try:
        if asked.says_no(asked.accept(default)):
            return
    except InvalidAnswer as error:
        raise failure("bad_default", f"the default is not a valid answer: {error}", address) from None
    raise failure("bad_default", "the default would approve: only people may", address)


def _make_options(options: Sequence[str | JSONObject | Option], address: Address) -> list[Option]:
    try:
        return read_options(options)
    except ValueError as error:
        raise failure("bad_options", str(error), address) from None


def make_people(audience: Audience, address: Address) -> People:
    """Return who may answer. Raises a failure for names, numbers and times that cannot be used."""
    _check_audience(audience, address)
    people = People(
        assignees=list(audience.assignees),
        not_by=list(audience.not_by),
        quorum=audience.quorum,
        proof=audience.proof,
        remind_every=audience.remind_every,
        ladder=[Rung(after=after, assignees=list(names)) for after, names in audience.escalate],
    )
    if problem := say_unreachable(people):  # it would be asked for ever
        raise failure("bad_quorum", problem, address)
    return people


def _check_audience(audience: Audience, address: Address) -> None:
    if not isinstance(audience.quorum, int) or audience.quorum < 1:
        raise failure("bad_quorum", f"a quorum is at least 1, not {audience.quorum!r}", address)
    times = QuestionTimes(remind_every=audience.remind_every, rungs=[after for after, _ in audience.escalate])
    for problem in find_time_problems(times, has_default=False):
        raise failure(_TIME_FAILURES[problem.key.partition("[")[0]], problem.message, address)
    for _, names in audience.escalate:
        _check_names("escalate", names, address)


def _check_names(key: str, names: Sequence[str], address: Address) -> None:
    if isinstance(names, str) or not isinstance(names, Collection) or not names or not all(map(is_person, names)):
        text = f"{key} must be a list of user:NAME and group:NAME, not {names!r}"
        raise failure("bad_assignees", text if names else f"{text}; without {key} anyone may answer", address)
