"""Handlers of a workflow class for another class, which keeps an instance of the first. Used by `human`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any

import temporalio.workflow
from temporalio import workflow

# No public function of the SDK says what it knows of a handler. Read by their names, these fail on import if they go.
_SIGNAL = temporalio.workflow._SignalDefinition.from_fn
_QUERY = temporalio.workflow._QueryDefinition.from_fn


@dataclass(frozen=True)
class Handler:
    """A method of a workflow class that takes a signal, an update or a query."""

    method: str
    kind: str
    definition: Any

    @property
    def takes(self) -> tuple[str, str | None]:
        """Return its kind and the name that others call it by, which one class has once."""
        return self.kind, self.definition.name

    def called_on(self, kept: Callable[[Any], object]) -> Any:
        """Return a method that takes the same, for instances on which `kept` returns the one to call this one on."""
        name, description = self.definition.name, self.definition.description
        method = _called_on(kept, self.definition.fn)
        match self.kind:
            case "signal":
                return workflow.signal(name=name, description=description)(method)
            case "query":
                return workflow.query(name=name, description=description)(method)
        update = workflow.update(name=name, description=description)(method)
        if self.definition.validator is not None:
            update.validator(_called_on(kept, self.definition.validator))
        return update


def handlers_of(class_: type) -> Iterator[Handler]:
    """Yield the handlers of a workflow class."""
    for name, member in inspect.getmembers(class_, callable):
        if isinstance(member, workflow.UpdateMethodMultiParam):
            yield Handler(name, "update", member._defn)
        elif (signal := _SIGNAL(member)) is not None:
            yield Handler(name, "signal", signal)
        elif (query := _QUERY(member)) is not None:
            yield Handler(name, "query", query)


def _called_on(kept: Callable[[Any], object], method: Callable[..., Any]) -> Callable[..., Any]:
    # The wrapped signature is what Temporal reads the types of arguments from.
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def awaiting(self: object, *args: Any) -> Any:
            return await method(kept(self), *args)

        return awaiting

    @wraps(method)
    def calling(self: object, *args: Any) -> Any:
        return method(kept(self), *args)

    return calling
