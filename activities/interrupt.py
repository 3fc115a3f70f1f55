"""Interrupts, for tool authors: stop here, let people be asked, and run again with what they said and what was kept.

@tool
def book(flight: str) -> str:
    seat = resumed(str)
    if not seat.has_data:
        raise Interrupt("Which seat?")
    return f"{flight}, seat {seat.data}"
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import to_json, to_jsonable_python

from activities.registry import wrong
from blueprint.expressions import text_of
from blueprint.jsonschemas import BadSchema, validator
from protocol.address import segment
from protocol.agents import Given, Interrupted, Parent, Raised, ToolRequest
from protocol.questions import Asked, Input

Data = TypeVar("Data")
State = TypeVar("State")

_request: ContextVar[ToolRequest | None] = ContextVar("request", default=None)
_path: ContextVar[str] = ContextVar("path", default="")
LEAVE = segment("level", "leave")
"""Where a library's wish for leave stands in a tool that has asked something else before."""


class Interrupt(BaseException):
    """Stops the tool until a person has answered; then the tool runs again, from its beginning.

    `asked` is a question (`Input`, `Decision`, `Permission`, …) or any JSON that a person is shown; what is no question
    takes any answer, and none. `state` is kept and given back by `resumed()`: what was done before the interrupt need
    not be done twice. No `except Exception` takes it for a failure.
    """

    def __init__(self, asked: Any = None, state: Any = None) -> None:
        super().__init__("a person is asked")
        self.path = _path.get()
        self.asked: Asked | None = asked if isinstance(asked, get_args(Asked)) else _about(asked)
        self.info: Any = None
        self.state = state
        self.parts: tuple[Interrupt, ...] = ()
        self.ends: Literal["", "denied", "answered"] = ""

    @classmethod
    def all(cls, parts: Sequence[BaseException | Any], *, info: Any = None, state: Any = None) -> Interrupt:
        """Several at once: each part is a question of its own, and shows `info` as its parent's.

        Of `parts` only the interrupts count, so that the results of `asyncio.gather(…, return_exceptions=True)` can be
        given as they are; another exception among them is raised. Raises `ValueError` if none of them is an interrupt.
        """
        for part in parts:
            if isinstance(part, BaseException) and not isinstance(part, Interrupt):
                raise part
        composite = cls(None, state)
        composite.asked, composite.info = None, info
        composite.parts = tuple(part for part in parts if isinstance(part, Interrupt))
        if not composite.parts:
            raise ValueError("Interrupt.all: none of the parts is an interrupt")
        return composite


@dataclass(frozen=True)
class Resumed(Generic[Data, State]):
    """Where this place of the tool stands: was it interrupted, what did it keep, what did a person say?"""

    was_interrupted: bool = False
    """Whether this place, or one inside it, has interrupted this call before."""
    is_target: bool = False
    """Whether an answer to this place, or to one inside it, has come; if not, interrupt again to go on waiting."""
    has_data: bool = False
    """Whether the answer holds a value of the type that was asked for."""
    data: Data | None = None
    has_state: bool = False
    """Whether a state of the type that was asked for was kept here."""
    state: State | None = None
    by: str | None = None
    """Who answered."""
    approved: bool = False
    """Whether a person has said yes to a permission: here, or because a library asked for leave."""


def resumed(data: type[Data] | Any = Any, state: type[State] | Any = Any) -> Resumed[Any, Any]:
    """What is known at this place of the tool; a value of another type than asked for counts as none."""
    request, path = _request.get(), _path.get()
    if request is None:
        return Resumed()
    given = request.given.get(path)
    has_data, value = _typed(data, None if given is None else given.content)
    has_state, kept = _typed(state, request.states.get(path))
    return Resumed(
        was_interrupted=_inside(path, request.interrupted),
        is_target=_inside(path, request.given),
        has_data=has_data,
        data=value,
        has_state=has_state,
        state=kept,
        by=None if given is None else given.by,
        approved=_is_leave(given) or _is_leave(request.given.get(LEAVE)),
    )


def has_leave(request: ToolRequest) -> bool:
    """Whether a person has given the leave that a library asks for; no other answer is one."""
    return _is_leave(request.given.get("")) or _is_leave(request.given.get(LEAVE))


def _is_leave(given: Given | None) -> bool:
    return given is not None and isinstance(given.content, dict) and given.content.get("granted") is True


@contextmanager
def level(name: str) -> Iterator[None]:
    """A place inside the tool, with an address, a state and an answer of its own: `…;level:<name>`.

    Tasks that are started inside, and `asyncio.to_thread`, are inside too; a bare `threading.Thread` is not.
    """
    outer = _path.get()
    here = segment("level", name)
    token = _path.set(f"{outer};{here}" if outer else here)
    try:
        yield
    finally:
        _path.reset(token)


@contextmanager
def resuming(request: ToolRequest) -> Iterator[None]:
    """What `resumed()` tells inside."""
    token = _request.set(request)
    try:
        yield
    finally:
        _request.reset(token)


def interrupted(interrupt: Interrupt, tool: str) -> Interrupted:
    """What the workflow is told: the root causes as questions, with their parents, and the states by path."""
    questions: list[Raised] = []
    states: dict[str, Any] = {}
    _collect(interrupt, (), questions, states, tool)
    paths = [question.path for question in questions]
    for path in paths:
        if paths.count(path) > 1:
            place = path or "the tool itself"
            raise wrong("bad_interrupt", f"{tool}: two interrupts at one place ({place}); give each its level(name)")
    return Interrupted(questions=questions, states=states)


def _collect(
    interrupt: Interrupt, parents: tuple[Parent, ...], found: list[Raised], states: dict[str, Any], tool: str
) -> None:
    if interrupt.state is not None:
        states[interrupt.path] = _json(interrupt.state, tool)
    if interrupt.asked is not None:
        _check_question(interrupt.asked, tool)
        found.append(Raised(path=interrupt.path, asked=interrupt.asked, parents=list(parents), ends=interrupt.ends))
    above = (*parents, Parent(path=interrupt.path, info=_json(interrupt.info, tool)))
    for part in interrupt.parts:
        _collect(part, above, found, states, tool)


def _check_question(asked: Asked, tool: str) -> None:
    """A question that says nothing, or whose schema is none, could never be answered."""
    _json(asked.model_dump(), tool)
    if not asked.message.strip():
        raise wrong("bad_interrupt", f"{tool}: the question has no message")
    try:
        validator(asked.requested_schema)
    except BadSchema as error:
        raise wrong("bad_interrupt", f"{tool}: the question's schema is no JSON Schema: {error}") from None


def _json(value: Any, tool: str) -> Any:
    """The value as JSON: without NaN, which would come back as null, and without half a character."""
    try:
        plain = to_jsonable_python(value)
        json.dumps(plain, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        raise wrong("bad_interrupt", f"{tool}: an interrupt holds something that is no JSON: {error}") from None
    return plain


def _about(info: Any) -> Input:
    """A question that shows `info`, and that any answer will do for."""
    try:
        shown = to_jsonable_python(info, fallback=str)
        message = shown.get("message") if isinstance(shown, dict) else shown
        text = message if isinstance(message, str) else text_of(shown)
        return Input(message="May it go on?" if shown is None or not text.strip() else text, info=shown, optional=True)
    except ValueError as error:
        raise wrong("bad_interrupt", f"an interrupt holds something that is no JSON: {error}") from None


def _inside(path: str, places: Mapping[str, Given] | Sequence[str]) -> bool:
    """Whether one of the places is this one, or stands inside it."""
    return any(not path or place == path or place.startswith(f"{path};") for place in places)


def _typed(wanted: Any, value: Any) -> tuple[bool, Any]:
    """Whether there is a value, and one of that type; the value."""
    if value is None:
        return False, None
    if wanted is Any:
        return True, value
    # A person who types 42 where text is wanted means the text.
    adapter = (
        TypeAdapter(wanted, config=ConfigDict(coerce_numbers_to_str=True)) if wanted is str else TypeAdapter(wanted)
    )
    try:
        return True, adapter.validate_json(to_json(value))
    except ValidationError:
        return False, None
