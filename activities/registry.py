"""The registry of tools: the functions that a blueprint may call with `uses`, and the decorator that registers them."""

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
    """A generator of JSON Schema that includes the defaults of constant factories, such as `list`."""

    def get_default_value(self, schema: WithDefaultSchema) -> Any:
        factory = schema.get("default_factory")
        if factory is None or schema.get("default_factory_takes_data") or not _is_constant(factory):
            return super().get_default_value(schema)
        return factory()  # type: ignore[call-arg]  # it takes no data


def _is_constant(factory: Callable[..., Any]) -> bool:
    """Return whether a factory reads nothing, and so always returns the same value: `list`, `lambda: 500`."""
    if factory in (list, dict):
        return True
    return inspect.isfunction(factory) and not any(inspect.getclosurevars(factory))


@dataclass(frozen=True)
class Tool:
    """A function that a blueprint may call."""

    name: str
    function: Callable[..., Any]
    idempotent: bool = False
    """True if it may run twice: only then is it retried automatically."""
    interrupts: tuple[type[BaseException], ...] = ()
    """Exceptions that mean the same as an `Interrupt`."""

    def arguments(self, input: Any, by_name: bool = False) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and the keyword arguments of a call.

        A tool of one parameter takes the input whole, one of several takes an object by name. Raises `tool_input`.

        Args:
            by_name: The input is an object by name in any case, as models send it.
        """
        parameters = inspect.signature(self.function).parameters
        if not parameters:
            return [], {}
        if by_name or (isinstance(input, dict) and (len(parameters) > 1 or set(input) == set(parameters))):
            return [], input
        if len([parameter for parameter in parameters.values() if parameter.default is parameter.empty]) > 1:
            names = ", ".join(parameters)
            raise wrong("tool_input", f"{self.name} takes several arguments ({names}); give its input as an object")
        return [input], {}

    def parameters(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments, an object by name. Raises `bad_tool` if there is none."""
        hints = get_type_hints(inspect.unwrap(self.function), include_extras=True)
        fields: dict[str, Any] = {}
        for name, parameter in inspect.signature(self.function).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (hints.get(name, Any), default)
        model = create_model("Arguments", __config__=ConfigDict(arbitrary_types_allowed=True, extra="forbid"), **fields)
        try:
            schema = model.model_json_schema(schema_generator=_Arguments)
        except PydanticInvalidForJsonSchema as error:
            raise wrong("bad_tool", f"{self.name} cannot be described to a model: {error.message}") from None
        return {key: value for key, value in schema.items() if key != "title"}

    @property
    def parameter_names(self) -> list[str]:
        return list(inspect.signature(self.function).parameters)

    @property
    def description(self) -> str:
        return inspect.getdoc(self.function) or ""

    def checked(self) -> Callable[..., Any]:
        """Return the function with its arguments validated against its annotations."""
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

    Args:
        name: Name of the tool; None: that of the function.
        idempotent: The tool may run twice. Otherwise it is never run again automatically: if a call is lost, a person
            is asked what happened.
        interrupts: Exceptions of a library that mean the same as an `Interrupt`.

    Raises `ValueError` if another module has registered a tool of this name.
    """

    def register(function: Function) -> Function:
        existing = _tools.get(name or function.__name__)
        if existing is not None and existing.function.__module__ != function.__module__:
            raise ValueError(f"a tool named {existing.name!r} is already registered by {existing.function.__module__}")
        _tools[name or function.__name__] = Tool(name or function.__name__, function, idempotent, tuple(interrupts))
        return function

    return register if function is None else register(function)


def find(reference: str, allowed: Sequence[str]) -> Tool:
    """Return a tool by its name, or the function ``pkg.mod:function``. Raises `unknown_tool` or `not_allowed`.

    Args:
        allowed: The packages that the worker lists in `[worker] imports`.
    """
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
    """Return the registered tool that can replace a missing one, or None.

    That is one with nearly the same name, or one whose name occurs in the task with all of its words. One word in
    common is not enough: the replacement must do the same thing.

    Args:
        service: Name of the service that the step uses.
        instruction: Task of the step.
        among: Names of the tools that may be used; empty: all.
    """
    candidates = [name for name in sorted(among or _tools) if name in _tools and name != missing]
    if close := difflib.get_close_matches(missing, candidates, n=1, cutoff=_NEARLY):
        return close[0]
    wanted = _words(f"{service} {instruction}")
    fitting = [name for name in candidates if _words(name) and _words(name) <= wanted]
    return max(fitting, key=lambda name: len(_words(name)), default=None)


def _words(text: str) -> set[str]:
    """Return the words of a text or of a name in the singular, without very short ones."""
    words = re.findall(r"[^\W_]+", text.casefold())
    return {word.removesuffix("s") for word in words if len(word) >= _FEW_LETTERS}


def _function(reference: str, allowed: Sequence[str]) -> Tool:
    module_name, _, name = reference.partition(":")
    root = _listed_root(module_name, allowed)
    if root is None:
        listed = ", ".join(allowed) or "none"
        text = f"{reference}: the worker does not list this package (listed: {listed}; see [worker] imports)"
        raise wrong("not_allowed", text)
    inner_modules = module_name.removeprefix(root).split(".")
    if private := next((part for part in [*inner_modules, name] if part.startswith("_")), None):
        text = f"{reference}: {private!r} is private; rename it, or register the function with @tool"
        raise wrong("not_allowed", text)
    try:
        members = vars(importlib.import_module(module_name))
    except Exception as error:  # noqa: BLE001 importing runs the author's code, which may raise anything
        raise wrong("unknown_tool", f"{reference}: {module_name} cannot be imported: {error}") from None
    if name not in members:
        callable_names = [member for member, value in members.items() if _refusal(member, value, allowed) is None]
        close = difflib.get_close_matches(name, callable_names, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise wrong("unknown_tool", f"{reference}: {module_name} has no {name!r}{hint}")
    if refusal := _refusal(name, members[name], allowed):
        raise wrong("not_allowed", f"{reference}: {refusal}")
    return _registered(members[name]) or Tool(reference, members[name])


def _listed_root(module_name: str, allowed: Sequence[str]) -> str | None:
    """Return the listed package that a module is, or is in."""
    return next((name for name in allowed if module_name == name or module_name.startswith(f"{name}.")), None)


def _refusal(name: str, value: Any, allowed: Sequence[str]) -> str | None:
    """Return why a blueprint may not call this member of a listed module; None if it may.

    Only functions that a listed package defines are allowed. A module also contains all that it imports (`from
    subprocess import getoutput`), and everybody who reaches Temporal can start a blueprint that names it.
    """
    if _registered(value) is not None:
        return None
    if not inspect.isroutine(inspect.unwrap(value) if callable(value) else value):
        return f"{name!r} is no function; wrap it in one, or register it with @tool"
    home = getattr(value, "__module__", None)
    if name.startswith("_") or not isinstance(home, str) or _listed_root(home, allowed) is None:
        return (
            f"{name!r} is imported from {home or 'elsewhere'}, which [worker] imports does not list; "
            "write a function of your own that calls it"
        )
    return None


def _registered(value: Any) -> Tool | None:
    """Return the tool that a function is registered as."""
    return next((tool for tool in _tools.values() if tool.function is value), None)


def wrong(type_: str, message: str) -> ApplicationError:
    """Return a failure that is not retried."""
    return ApplicationError(message, type=type_, non_retryable=True)
