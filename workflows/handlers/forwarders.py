"""The handlers that a workflow class is given: decorated one-line methods that call the objects of this folder.

They are made when the class is. Handlers that are set at run time get what came with a history's first task in another
order (signals grouped by their names, updates before signals), and have no description.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import temporalio.workflow
from temporalio import workflow

from holdfast.protocol.answers import Refusal
from holdfast.workflows.door import Door, make_update_error

# No public function of the SDK says what it knows of a handler. Read by their names, these fail on import if they go.
_SIGNAL = temporalio.workflow._SignalDefinition.from_fn
_QUERY = temporalio.workflow._QueryDefinition.from_fn

Class = TypeVar("Class", bound=type)
Find = Callable[[Any], "Subject"]
"""Returns the object to call, of the instance of a workflow class."""


class Subject(Protocol):
    """An object whose methods are decorated as a workflow's handlers are. They may raise `Refusal`."""

    @property
    def door(self) -> Door: ...


@dataclass(frozen=True)
class Handler:
    """A method that takes a signal, an update or a query."""

    method: str
    kind: str
    definition: Any

    @property
    def takes(self) -> tuple[str, str | None]:
        """Return its kind and the name that others call it by, which one class has once."""
        return self.kind, self.definition.name

    def forward(self, find: Find) -> Any:
        """Return a method that takes the same for a workflow class, and calls this one."""
        name, description, method = self.definition.name, self.definition.description, self.definition.fn
        match self.kind:
            case "signal":
                return workflow.signal(name=name, description=description)(_forward_signal(find, method))
            case "query":
                return workflow.query(name=name, description=description)(_forward(find, method))
        update = workflow.update(name=name, description=description)(_forward_update(find, method))
        if self.definition.validator is not None:
            update.validator(_forward(find, self.definition.validator))
        return update


def handles(*subjects: type, held_by: str = "") -> Callable[[Class], Class]:
    """Give a workflow class the handlers of its objects.

    Args:
        subjects: The classes of the objects. An instance is found under its class's name in lower case.
        held_by: The attribute that holds the objects; "": the workflow itself.
    """

    def decorate(class_: Class) -> Class:
        for subject in subjects:
            path = [held_by, subject.__name__.lower()] if held_by else [subject.__name__.lower()]
            find = attrgetter(".".join(path))
            for handler in list_handlers(subject):
                kind, name = handler.takes
                setattr(class_, f"{held_by}_{kind}_{name}", handler.forward(find))
        return class_

    return decorate


def list_handlers(class_: type) -> Iterator[Handler]:
    """Yield the handlers of a class."""
    for name, member in inspect.getmembers(class_, callable):
        if isinstance(member, workflow.UpdateMethodMultiParam):
            yield Handler(name, "update", member._defn)
        elif (signal := _SIGNAL(member)) is not None:
            yield Handler(name, "signal", signal)
        elif (query := _QUERY(member)) is not None:
            yield Handler(name, "query", query)


# The wrapped signature is what Temporal reads the types of arguments from.


def _forward(find: Find, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: object, *arguments: Any) -> Any:
        with _refusing_by_error():
            return method(find(self), *arguments)

    return call


def _forward_update(find: Find, method: Callable[..., Any]) -> Callable[..., Any]:
    if not inspect.iscoroutinefunction(method):

        @wraps(method)
        def handle(self: object, *arguments: Any) -> Any:
            with _taking_update(find(self)) as subject:
                return method(subject, *arguments)

        return handle

    @wraps(method)
    async def handle_async(self: object, *arguments: Any) -> Any:
        with _taking_update(find(self)) as subject:
            return await method(subject, *arguments)

    return handle_async


def _forward_signal(find: Find, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler that never raises, which would fail the workflow task for ever.

    With another number of arguments than one Temporal ignores the annotation, and calls it all the same.
    """

    @wraps(method)
    async def handle(self: object, *arguments: Any) -> None:
        subject = find(self)
        subject.door.history.signals += 1
        try:
            if len(arguments) > 1:
                raise Refusal("invalid_answer", f"one argument is expected, not {len(arguments)}")
            pending = method(subject, *arguments)
            if inspect.isawaitable(pending):
                await pending
        except Refusal as refusal:
            subject.door.refuse_signal(refusal)

    return handle


@contextmanager
def _taking_update(subject: Subject) -> Iterator[Subject]:
    subject.door.history.updates += 1
    with _refusing_by_error():
        yield subject


@contextmanager
def _refusing_by_error() -> Iterator[None]:
    try:
        yield
    except Refusal as refusal:
        raise make_update_error(refusal) from None
