"""Interrupts, for tool authors: a tool stops, people are asked, and it runs again with their answers and its state.

@tool
def book(flight: str) -> str:
    seat = resumed(str)
    if not seat.has_data:
        raise Interrupt("Which seat?")
    return f"{flight}, seat {seat.data}"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import to_json, to_jsonable_python

from holdfast.activities.failure_types import replace_surrogates
from holdfast.activities.registry import Tool, wrong
from holdfast.activities.typed_dicts import make_readable
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema, validator
from holdfast.blueprint.model_problems import describe_problem
from holdfast.blueprint.questions import (
    QUESTION_KINDS,
    Asked,
    Confirmation,
    CustomQuestion,
    Input,
    PayloadConfirmation,
    QuestionKind,
    define_kind,
)
from holdfast.protocol import guard
from holdfast.protocol.address import segment
from holdfast.protocol.agents import InterruptAnswer, Interrupted, Parent, RaisedInterrupt, ToolRequest
from holdfast.protocol.answers import Refusal
from holdfast.protocol.size_limits import check_bytes, check_value

Data = TypeVar("Data")
State = TypeVar("State")

_request: ContextVar[ToolRequest | None] = ContextVar("request", default=None)
_path: ContextVar[str] = ContextVar("path", default="")
_made: ContextVar[list[Interrupt] | None] = ContextVar("made", default=None)
_misfits: ContextVar[dict[str, str]] = ContextVar("misfits", default={})  # noqa: B039 only read outside a call
"""By path: why the answer there is not of the type in which it was read last."""
MOST_REASON = 500
"""Characters of the reason for which an answer is given back."""
APPROVAL = segment("level", "leave")
"""Path of a library's request for approval, in a tool that has raised another interrupt before."""


class Interrupt(BaseException):
    """A stop of the tool until a person has answered. The tool then runs again from its beginning.

    It is not an `Exception`, so that an author's `except Exception` does not take it for a failure.

    Args:
        asked: A question (`Input`, `Decision`, `Permission`, …), or JSON to show to a person, who may then answer
            anything or nothing.
        state: JSON that `resumed()` returns in the next run, so that work done before the interrupt is not done twice.
    """

    def __init__(self, asked: object = None, state: JSON = None) -> None:
        super().__init__("a person is asked")
        self.path = _path.get()
        self.asked: Asked | None = asked if isinstance(asked, Asked) else question_about(asked)
        self.info: JSON = None
        self.state = state
        self.parts: tuple[Interrupt, ...] = ()
        self.ends: Literal["", "denied", "answered"] = ""
        self.permit = ""
        misfit = _misfits.get().get(self.path)
        self.returned: dict[str, str] = {} if misfit is None else {self.path: misfit}
        """By path: why the answer there is given back."""
        if (made := _made.get()) is not None:
            made.append(self)

    @classmethod
    def all(cls, parts: Sequence[object], *, info: JSON = None, state: JSON = None) -> Interrupt:
        """Return one interrupt for several, each of which is a question of its own.

        Args:
            parts: Interrupts among other values, which are ignored: the results of
                `asyncio.gather(…, return_exceptions=True)` as they are. Any other exception among them is raised.
            info: Shown with each question as its parent's.
            state: Kept for the composite itself.

        Raises `ValueError` if no part is an interrupt.
        """
        for part in parts:
            if isinstance(part, BaseException) and not isinstance(part, Interrupt):
                raise part
        composite = cls(None, state)
        composite.asked, composite.info, composite.returned = None, info, {}
        composite.parts = tuple(part for part in parts if isinstance(part, Interrupt))
        if not composite.parts:
            raise ValueError("Interrupt.all: none of the parts is an interrupt")
        return composite


class BadAnswer(Interrupt):
    """An answer that the tool cannot use: it is given back, and its question is asked again with the reason.

    The tool then runs again from its beginning, so raise it before the tool has done anything that must not be done
    twice. It concerns the answers at the current level and inside it.

    Args:
        reason: What is wrong with it, for the person.
    """

    def __init__(self, reason: str) -> None:
        super().__init__()
        request = _request.get()
        self.asked = None
        self.returned = {} if request is None else {path: reason for path in request.given if _is_in(path, self.path)}

    @classmethod
    def at(cls, reasons: Mapping[str, str]) -> BadAnswer:
        """Return one for the answers at these paths within the tool, each with its reason."""
        made = cls("")
        made.returned = dict(reasons)
        return made


@dataclass(frozen=True)
class Resumed(Generic[Data, State]):
    """The earlier interrupts of the call at the current level: answer, state, and whether there were any."""

    was_interrupted: bool = False
    """True if this level, or one inside it, has interrupted this call before."""
    is_target: bool = False
    """True if an answer to this level, or to one inside it, has come; if not, interrupt again to go on waiting."""
    has_data: bool = False
    """True if the answer is a value of the requested type."""
    has_state: bool = False
    """True if a state of the requested type was kept."""
    state: State | None = None
    by: str | None = None
    """The person who answered."""
    approved: bool = False
    """True if a person has granted a permission: at this level, or for a library that requires approval."""
    value: Data | None = None
    misfit: str = ""
    """Why the answer is of another type; empty if it is not."""

    @property
    def data(self) -> Data | None:
        """The answer; None if there is none. Raises `BadAnswer` if it is of another type: it is then given back."""
        if self.misfit:
            raise BadAnswer(self.misfit)
        return self.value


def resumed(data: type[Data] | Any = Any, state: type[State] | Any = Any) -> Resumed[Any, Any]:
    """Return answer and state of the current level of the tool.

    Args:
        data: Type of the answer. One of another type counts as none; to read it, or to interrupt again, gives it back.
        state: Type of the state, likewise.
    """
    request, path = _request.get(), _path.get()
    if request is None:
        return Resumed()
    answer = request.given.get(path)
    has_data, value, misfit = _read_typed(data, None if answer is None else answer.content)
    has_state, kept, _ = _read_typed(state, request.states.get(path))
    _misfits.get().pop(path, None)
    if misfit:
        _misfits.get()[path] = misfit
    return Resumed(
        was_interrupted=_inside(path, request.interrupted),
        is_target=_inside(path, request.given),
        has_data=has_data,
        value=value,
        misfit=misfit,
        has_state=has_state,
        state=kept,
        by=None if answer is None else answer.by,
        approved=_is_approval(answer) or _is_approval(request.given.get(APPROVAL)),
    )


def has_approval(request: ToolRequest) -> bool:
    """Return whether a person has granted the approval that a library requires."""
    return _is_approval(request.given.get("")) or _is_approval(request.given.get(APPROVAL))


def _is_approval(answer: InterruptAnswer | None) -> bool:
    return answer is not None and isinstance(answer.content, dict) and answer.content.get("granted") is True


@contextmanager
def level(name: str) -> Iterator[None]:
    """Open a level inside the tool, with an address, a state and an answer of its own: `…;level:<name>`.

    Tasks that are started in the block, and `asyncio.to_thread`, inherit the level; a bare `threading.Thread` does not.
    """
    outer = _path.get()
    inner = segment("level", name)
    token = _path.set(f"{outer};{inner}" if outer else inner)
    try:
        yield
    finally:
        _path.reset(token)


@contextmanager
def resume_tool(request: ToolRequest) -> Iterator[None]:
    """Let `resumed()` read this request inside the block."""
    tokens = _request.set(request), _misfits.set({}), _made.set([])
    try:
        yield
    finally:
        _request.reset(tokens[0])
        _misfits.reset(tokens[1])
        _made.reset(tokens[2])


def raise_swallowed() -> None:
    """Raise what stopped a tool within this call, if a library around it has not let it out.

    Strands, for one, calls its tools in tasks whose exceptions nobody looks at: nobody would be asked.
    """
    made = _made.get() or []
    parts = {id(part) for interrupt in made for part in interrupt.parts}
    by_path = {interrupt.path: interrupt for interrupt in made if id(interrupt) not in parts}
    if by_path:
        raise Interrupt.all(list(by_path.values())) if len(by_path) > 1 else next(iter(by_path.values()))


def make_interrupted(interrupt: Interrupt, tool: str) -> Interrupted:
    """Return an interrupt for the workflow: its questions with their parents, and the states by path."""
    questions: list[RaisedInterrupt] = []
    states: JSONObject = {}
    returned: dict[str, str] = {}
    _collect(interrupt, (), questions, states, returned, tool)
    paths = [question.path for question in questions]
    for path in paths:
        if paths.count(path) > 1:
            place = path or "the tool itself"
            raise wrong("bad_interrupt", f"{tool}: two interrupts at one place ({place}); give each its level(name)")
    return Interrupted(questions=questions, states=states, returned=returned)


def _collect(
    interrupt: Interrupt,
    parents: tuple[Parent, ...],
    questions: list[RaisedInterrupt],
    states: JSONObject,
    returned: dict[str, str],
    tool: str,
) -> None:
    """Add an interrupt and its parts to `questions`, `states` and `returned`."""
    if isinstance(interrupt, BadAnswer) and not interrupt.returned:
        place = interrupt.path or "the tool itself"
        raise wrong("bad_interrupt", f"{tool}: BadAnswer, but there is no answer at {place} to give back")
    returned |= {path: replace_surrogates(reason)[:MOST_REASON] for path, reason in interrupt.returned.items()}
    if interrupt.state is not None:
        states[interrupt.path] = _json(interrupt.state, tool)
    if interrupt.asked is not None:
        _check_question(interrupt.asked, tool)
        questions.append(
            RaisedInterrupt(
                path=interrupt.path,
                asked=interrupt.asked,
                parents=list(parents),
                ends=interrupt.ends,
                permit=interrupt.permit,
            )
        )
    above = (*parents, Parent(path=interrupt.path, info=_json(interrupt.info, tool)))
    for part in interrupt.parts:
        _collect(part, above, questions, states, returned, tool)


def translate(tool: Tool, value: object) -> Interrupt | None:
    """Return the interrupt that an exception or a result of a library stands for, by the tool's table."""
    translation = tool.translation(value)
    if translation is None:
        return None
    try:
        asked = translation.question(value)
    except Exception as error:  # noqa: BLE001 an author's function may raise anything
        text = f"the question for {type(value).__name__} cannot be made: {type(error).__name__}: {error}"
        raise wrong("bad_interrupt", f"{tool.name}: {text}") from None
    return asked if isinstance(asked, Interrupt) else Interrupt(asked)


def _check_question(asked: Asked, tool: str) -> None:
    """Refuse a question that no workflow can read, or that no answer could ever fit."""
    if QUESTION_KINDS.get(asked.kind) is not type(asked):
        # Its own fields would be unknown to the kind that it calls itself, and the workflow would wait for ever.
        text = f"{type(asked).__name__} is not a kind of question: give it its own `kind`, and `@question_kind`"
        raise wrong("bad_interrupt", f"{tool}: {text}")
    _json(asked.model_dump(), tool)
    if not asked.message.strip():
        raise wrong("bad_interrupt", f"{tool}: the question has no message")
    if asked.offers_nothing:
        raise wrong("bad_interrupt", f"{tool}: a question of kind {asked.kind!r} needs options to choose from")
    try:
        validator(asked.schema())
    except BadSchema as error:
        raise wrong("bad_interrupt", f"{tool}: the question's schema is not a JSON Schema: {error}") from None


def _json(value: object, tool: str) -> JSON:
    """Return the value as JSON. Raises a failure `bad_interrupt` for one that is too large or that JSON cannot hold."""
    try:
        # Two checks that pydantic does not make: NaN would come back as null, and a lone surrogate cannot be encoded.
        plain = to_jsonable_python(value)
        check_value(plain, guard.DEPLOYMENT.limits.result, "an interrupt")
        check_bytes(len(to_json(plain)), guard.DEPLOYMENT.limits.result)
    except Refusal as refusal:
        held = "too much" if refusal.code == "too_large" else "something that is not JSON"
        raise wrong("bad_interrupt", f"{tool}: an interrupt holds {held}: {refusal.message}") from None
    except ValueError as error:
        raise wrong("bad_interrupt", f"{tool}: an interrupt holds something that is not JSON: {error}") from None
    return plain


def question_about(info: object) -> Asked:
    """Return a question that shows `info` and takes any answer; for a kind of an author's, or ADK's, that question."""
    if isinstance(info, QuestionKind):
        return _of_kind(info)
    try:
        value = to_jsonable_python(info, fallback=str)
        if (confirmation := _read_confirmation(value)) is not None:
            return confirmation
        message = (value.get("message") or value.get("question")) if isinstance(value, dict) else value
        text = message if isinstance(message, str) else write_text(value)
        return Input(message="May it go on?" if value is None or not text.strip() else text, info=value, optional=True)
    except ValueError as error:
        raise wrong("bad_interrupt", f"an interrupt holds something that is not JSON: {error}") from None


def _of_kind(question: QuestionKind) -> Asked:
    try:
        return CustomQuestion.define(define_kind(question), question.message, question.default, question.info)
    except (ValueError, NotImplementedError) as error:
        raise wrong("bad_interrupt", f"the kind {question.kind!r} cannot be asked: {error}") from None


def _read_confirmation(value: JSON) -> Asked | None:
    """Return the question of a function call by which ADK asks for a confirmation; None for anything else."""
    args = value.get("args") if isinstance(value, dict) and value.get("name") == "adk_request_confirmation" else None
    call = args.get("originalFunctionCall") if isinstance(args, dict) else None
    if not isinstance(args, dict) or not isinstance(call, dict):
        return None
    wanted, name = args.get("toolConfirmation") or {}, call.get("name")
    # The hint that ADK makes by itself tells a programmer which response to send.
    is_made = str(wanted.get("hint")).startswith(f"Please approve or reject the tool call {name}() by responding")
    message = f"May {name} be called?" if is_made or not wanted.get("hint") else str(wanted["hint"])
    info = {"action": name, "args": call.get("args")}
    if (payload := wanted.get("payload")) is None:
        return Confirmation(message=message, info=info)
    return PayloadConfirmation(message=message, payload=payload, info=info)


def _inside(path: str, places: Mapping[str, InterruptAnswer] | Sequence[str]) -> bool:
    """Return whether one of the places is at the path or inside it."""
    return any(_is_in(place, path) for place in places)


def _is_in(place: str, path: str) -> bool:
    return not path or place == path or place.startswith(f"{path};")


def _read_typed(wanted: Any, value: Any) -> tuple[bool, Any, str]:
    """Return whether there is a value of that type, the value, and why a value is of another type."""
    if value is None:
        return False, None, ""
    if wanted is Any:
        return True, value, ""
    # A person who types 42 where text is wanted means the text.
    adapter = (
        TypeAdapter(wanted, config=ConfigDict(coerce_numbers_to_str=True))
        if wanted is str
        else TypeAdapter(make_readable(wanted))
    )
    try:
        return True, adapter.validate_json(to_json(value)), ""
    except ValidationError as error:
        return False, None, describe_problem(error)
    except Exception as error:  # noqa: BLE001 a validator of the author's may raise anything
        return False, None, f"{type(error).__name__}: {error}"
