"""Tools by name: what a blueprint may call with `uses`."""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints, overload

from pydantic import ConfigDict, create_model, validate_call
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import WithDefaultSchema
from temporalio.exceptions import ApplicationError

Function = TypeVar("Function", bound=Callable[..., Any])


class _Arguments(GenerateJsonSchema):
    """The schema of arguments, with the defaults that are made by a function but are always the same."""

    def get_default_value(self, schema: WithDefaultSchema) -> Any:
        factory = schema.get("default_factory")
        if factory is None or schema.get("default_factory_takes_data") or not _is_constant(factory):
            return super().get_default_value(schema)
        return factory()  # type: ignore[call-arg]  # it takes no data


def _is_constant(factory: Callable[..., Any]) -> bool:
    """Whether it reads nothing, and so gives the same whenever it is called: `list`, `lambda: 500`."""
    if factory in (list, dict):
        return True
    return inspect.isfunction(factory) and not any(inspect.getclosurevars(factory))


@dataclass(frozen=True)
class Tool:
    """A function that a blueprint calls; only an idempotent one is ever run again by itself."""

    name: str
    function: Callable[..., Any]
    idempotent: bool = False
    interrupts: tuple[type[BaseException], ...] = ()
    """Exceptions that mean: ask a person, then run me again."""

    def arguments(self, given: Any, by_name: bool = False) -> tuple[list[Any], dict[str, Any]]:
        """The call's arguments: a tool of one parameter takes the input whole, one of several takes it by name."""
        parameters = inspect.signature(self.function).parameters
        if not parameters:
            return [], {}
        if by_name or (isinstance(given, dict) and (len(parameters) > 1 or set(given) == set(parameters))):
            return [], given
        if len([one for one in parameters.values() if one.default is one.empty]) > 1:
            wanted = ", ".join(parameters)
            raise wrong("tool_input", f"{self.name} takes several arguments ({wanted}); give its input as an object")
        return [given], {}

    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments, by name."""
        hints = get_type_hints(inspect.unwrap(self.function), include_extras=True)
        fields: dict[str, Any] = {}
        for name, one in inspect.signature(self.function).parameters.items():
            if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
                continue
            fields[name] = (hints.get(name, Any), ... if one.default is one.empty else one.default)
        model = create_model("Arguments", __config__=ConfigDict(arbitrary_types_allowed=True, extra="forbid"), **fields)
        try:
            schema = model.model_json_schema(schema_generator=_Arguments)
        except PydanticInvalidForJsonSchema as error:
            raise wrong("bad_tool", f"{self.name} cannot be described to a model: {error.message}") from None
        return {key: value for key, value in schema.items() if key != "title"}

    @property
    def description(self) -> str:
        return inspect.getdoc(self.function) or ""

    def checked(self) -> Callable[..., Any]:
        """The function with its arguments validated against its annotations."""
        checking = validate_call(config=ConfigDict(arbitrary_types_allowed=True))
        return checking(self.function)


_tools: dict[str, Tool] = {}


@overload
def tool(function: Function) -> Function: ...
@overload
def tool(
    *, name: str | None = None, idempotent: bool = False, interrupts: Sequence[type[BaseException]] = ()
) -> Callable[[Function], Function]: ...


def tool(
    function: Function | None = None,
    *,
    name: str | None = None,
    idempotent: bool = False,
    interrupts: Sequence[type[BaseException]] = (),
) -> Function | Callable[[Function], Function]:
    """Register a function, sync or async, so that blueprints can say `uses: <its name>`.

    A tool that is not `idempotent` is never run twice by itself: if it is lost in mid-call, a person says
    what happened. `interrupts` names exceptions of a library that mean the same as an `Interrupt`.
    """

    def register(made: Function) -> Function:
        known = _tools.get(name or made.__name__)
        if known is not None and known.function.__module__ != made.__module__:
            raise ValueError(f"a tool named {known.name!r} is already registered by {known.function.__module__}")
        _tools[name or made.__name__] = Tool(name or made.__name__, made, idempotent, tuple(interrupts))
        return made

    return register if function is None else register(function)


def find(reference: str, allowed: Sequence[str]) -> Tool:
    """A tool by its name, or a function as ``pkg.mod:function`` of a package that the worker lists."""
    if ":" in reference:
        return _function(reference, allowed)
    if reference in _tools:
        return _tools[reference]
    close = difflib.get_close_matches(reference, _tools, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"registered: {', '.join(sorted(_tools)) or 'none'}"
    raise wrong(
        "unknown_tool", f"no tool named {reference!r} ({hint}; packages with tools are listed in [worker] imports)"
    )


_FEW_LETTERS = 3
_NEARLY = 0.8


def nearest_tool(service: str, instruction: str, among: Sequence[str] = (), missing: str = "") -> str | None:
    """The registered tool that is nearly called like the missing one, or whose whole name is in what is wanted.

    One word in common is not enough: what is called in the place of another tool must be the same thing.
    """
    known = [name for name in sorted(among or _tools) if name in _tools and name != missing]
    if close := difflib.get_close_matches(missing, known, n=1, cutoff=_NEARLY):
        return close[0]
    wanted = _words(f"{service} {instruction}")
    fitting = [name for name in known if _words(name) and _words(name) <= wanted]
    return max(fitting, key=lambda name: len(_words(name)), default=None)


def _words(text: str) -> set[str]:
    """The words of a text or of a name, without their plural, and without what is too short to say anything."""
    words = re.findall(r"[^\W_]+", text.casefold())
    return {word.removesuffix("s") for word in words if len(word) >= _FEW_LETTERS}


def _function(reference: str, allowed: Sequence[str]) -> Tool:
    module_name, _, function_name = reference.partition(":")
    if not any(module_name == name or module_name.startswith(f"{name}.") for name in allowed):
        listed = ", ".join(allowed) or "none"
        text = f"{reference}: the worker does not list this package (listed: {listed}; see [worker] imports)"
        raise wrong("not_allowed", text)
    try:
        function = importlib.import_module(module_name).__dict__[function_name]
    except ImportError as error:
        raise wrong("unknown_tool", f"{reference}: {error}") from None
    except KeyError:
        raise wrong("unknown_tool", f"{reference}: {module_name} has no {function_name!r}") from None
    if not callable(function):
        raise wrong("unknown_tool", f"{reference} is no function")
    known = [one for one in _tools.values() if one.function is function]
    return known[0] if known else Tool(reference, function)


def wrong(type_: str, message: str) -> ApplicationError:
    """A failure that trying again does not mend."""
    return ApplicationError(message, type=type_, non_retryable=True)
