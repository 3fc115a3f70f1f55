"""The registry of tools: the functions that a blueprint may call with `uses`, and the decorator that registers them."""

from __future__ import annotations

import ast
import copy
import difflib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Never, TypeVar, get_origin, overload

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model, validate_call
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import DataclassSchema, ModelSchema, TypedDictSchema, WithDefaultSchema
from temporalio.exceptions import ApplicationError
from typing_extensions import Unpack

from holdfast.activities.callables import check_callable, plain_function, type_hints
from holdfast.activities.foreign import input_schema, is_builder, is_graph
from holdfast.activities.imports import import_alone
from holdfast.activities.typed_dicts import make_readable
from holdfast.blueprint.expressions.error import ExpressionError, did_you_mean
from holdfast.blueprint.expressions.evaluation import check_expression, names_in_expression
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.parts import Risk
from holdfast.protocol.tool_rules import OwnerRule

IMPORT_FAILED = "import_failed"
"""Failure type: an author's module cannot be imported now; nothing was called."""
Function = TypeVar("Function")
Question = Callable[[Any], object]
"""Makes a question (or an `Interrupt`, or what a person shall see) of an exception or an outcome of a library."""
Answer = Callable[[Any, JSON], object]
"""Makes of an interrupt and the content of the answer what a graph is resumed with."""
InterruptTable = Mapping[type[object], Question | tuple[Question, Answer]]


class _Arguments(GenerateJsonSchema):
    """A generator of JSON Schema that includes the defaults of constant factories, such as `list`."""

    def get_default_value(self, schema: WithDefaultSchema) -> JSON:
        factory = schema.get("default_factory")
        if factory is None or schema.get("default_factory_takes_data") or not _is_constant(factory):
            return super().get_default_value(schema)
        return factory()  # type: ignore[call-arg]  # it takes no data


class _Results(GenerateJsonSchema):
    """A generator of JSON Schema in which an object has the keys of its class and no others."""

    def typed_dict_schema(self, schema: TypedDictSchema) -> JsonSchemaValue:
        return _close(super().typed_dict_schema(schema), schema.get("cls"))

    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
        return _close(super().dataclass_schema(schema), schema["cls"])

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        return _close(super().model_schema(schema), schema["cls"])


def _close(schema: JsonSchemaValue, described: type | None) -> JsonSchemaValue:
    """Return a schema that takes no other keys, unless its class says otherwise, or a class of more keys derives."""
    if "properties" not in schema or (described is not None and described.__subclasses__()):
        return schema
    return {"additionalProperties": False, **schema}


def _is_constant(factory: Callable[..., object]) -> bool:
    """Return whether a factory reads nothing, and so always returns the same value: `list`, `lambda: 500`."""
    if factory in (list, dict):
        return True
    return inspect.isfunction(factory) and not any(inspect.getclosurevars(factory))


@dataclass(frozen=True)
class Translation:
    """The way from what stops a call of a library to a question of ours, and of the answer back."""

    question: Question
    answer: Answer | None = None
    """None: the content of the answer as it is."""


@dataclass(frozen=True)
class Tool:
    """A function or a graph that a blueprint may call."""

    name: str
    function: Any
    idempotent: bool = False
    """True if it may run twice: only then is it retried automatically."""
    reads_only: bool = False
    """True if it changes nothing, as people are told before they agree to a plan."""
    interrupts: Mapping[type[object], Translation] = field(default_factory=dict)
    """Exceptions, and types of results, that mean the same as an `Interrupt`."""
    rule: OwnerRule | None = None
    """What its owner demands before a call."""
    context: Callable[[], object] | None = None
    """Of a graph: makes the context of each call, on the worker."""
    local: bool = False
    """True if it is called in the workflow's own task."""

    @property
    def is_graph(self) -> bool:
        return is_graph(self.function)

    @property
    def exceptions(self) -> tuple[type[BaseException], ...]:
        """The exceptions that mean the same as an `Interrupt`."""
        return tuple(kind for kind in self.interrupts if issubclass(kind, BaseException))

    def translation(self, value: object) -> Translation | None:
        """Return how an exception or a result becomes a question; None if it stands for none."""
        return next((self.interrupts[kind] for kind in type(value).__mro__ if kind in self.interrupts), None)

    def arguments(self, input: JSON, by_name: bool = False) -> tuple[list[JSON], JSONObject]:
        """Return the positional and the keyword arguments of a call.

        A tool of one parameter takes the input whole, one of several or with `**` takes an object by name. Raises
        `tool_input`.

        Args:
            by_name: The input is an object by name in any case, as models send it.
        """
        if self.is_graph:  # its input is an object of keys, or one value
            return ([], input) if isinstance(input, dict) else ([input], {})
        parameters = inspect.signature(self.function).parameters
        if not parameters:
            return [], {}
        several = len(parameters) > 1 or self._takes_any_name
        if by_name or (isinstance(input, dict) and (several or set(input) == set(parameters))):
            return [], input
        if len([parameter for parameter in parameters.values() if _is_required(parameter)]) > 1:
            names = ", ".join(parameters)
            raise wrong("tool_input", f"{self.name} takes several arguments ({names}); give its input as an object")
        return [input], {}

    def parameters(self) -> JSONObject:
        """Return the JSON Schema of the arguments, an object by name. Raises `bad_tool` if there is none."""
        return copy.deepcopy(self._parameters)  # its defaults become arguments of calls

    @cached_property
    def _parameters(self) -> JSONObject:
        if self.is_graph:
            return input_schema(self.function)
        try:
            schema = self._model.model_json_schema(schema_generator=_Arguments)
        except PydanticInvalidForJsonSchema as error:
            raise wrong("bad_tool", f"{self.name} cannot be described to a model: {error.message}") from None
        return {key: value for key, value in schema.items() if key != "title"}

    def find_misfit(self, given: JSON, *, by_name: bool) -> str | None:
        """Return what is wrong with the values of some arguments; names that it lacks, or does not have, are not.

        Args:
            given: As for `arguments`.
        """
        if self.is_graph:
            return None
        args, named = self.arguments(given, by_name)
        try:
            self._model.model_validate({**dict(zip(self.parameter_names, args, strict=False)), **named})
        except ValidationError as error:
            found = [one for one in error.errors(include_url=False) if one["type"] not in _ABOUT_NAMES]
            return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found) or None
        except Exception as error:  # noqa: BLE001 the check of a type of the author's may raise anything
            return f"{type(error).__name__}: {error}"
        return None

    @cached_property
    def _model(self) -> type[BaseModel]:
        """The model of the arguments of a function."""
        _ = self.validated_function  # its annotations can be read
        hints = type_hints(self.function)
        fields: dict[str, Any] = {}
        others: Any = Never
        for name, parameter in inspect.signature(self.function).parameters.items():
            hint = hints.get(name, Any)
            if parameter.kind is parameter.VAR_KEYWORD:
                others = Any if get_origin(hint) is Unpack else hint
            elif parameter.kind is not parameter.VAR_POSITIONAL:
                fields[name] = (hint, ... if parameter.default is parameter.empty else parameter.default)
        return create_model("Arguments", __base__=_make_base(others), **fields)

    def result(self) -> JSONObject | None:
        """Return the JSON Schema of what it returns, by its annotation; None if that says nothing, or is no JSON."""
        if self.is_graph or self.interrupts:
            return None
        try:
            hint = type_hints(self.function).get("return", Any)
            if hint in (Any, object, None, type(None)):
                return None
            return TypeAdapter(make_readable(hint)).json_schema(mode="serialization", schema_generator=_Results)
        except (PydanticUserError, PydanticInvalidForJsonSchema, NameError, TypeError):
            return None

    @property
    def parameter_names(self) -> list[str]:
        if self.is_graph:
            return list(self.parameters().get("properties", {}))
        return list(inspect.signature(self.function).parameters)

    @property
    def description(self) -> str:
        if self.is_graph:  # the library's own text says nothing of it
            return ""
        return inspect.getdoc(self.function) or ""

    @property
    def _takes_any_name(self) -> bool:
        """Return whether it has a parameter such as `**fields`."""
        parameters = inspect.signature(self.function).parameters.values()
        return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)

    @cached_property
    def validated_function(self) -> Callable[..., JSON]:
        """Return the function with its arguments validated against its annotations.

        Raises `bad_tool` if they cannot be read.
        """
        # Made once: it took a tenth of the worker's time when each call made its own, and the schema as much again.
        checking = validate_call(config=ConfigDict(arbitrary_types_allowed=True))
        try:
            checked: Callable[..., JSON] = checking(plain_function(self.function))
        except PydanticUserError as error:
            raise wrong("bad_tool", f"{self.name}: its arguments cannot be checked: {error.message}") from None
        except NameError as error:  # typically imported under `if TYPE_CHECKING`
            text = f"{self.name}: its annotations cannot be read: {error}; import it where the module runs"
            raise wrong("bad_tool", text) from None
        return checked


_ABOUT_NAMES = ("missing", "extra_forbidden")
"""Errors of pydantic that are about which arguments there are."""
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _make_base(others: Any) -> type[BaseModel]:
    """Return a model of arguments by any names, with the type of `**fields`; `Never`: there are none."""
    config = ConfigDict(arbitrary_types_allowed=True, extra="forbid" if others is Never else "allow")
    typed = {} if others is Never else {"__pydantic_extra__": dict[str, others]}
    return type("Arguments", (BaseModel,), {"model_config": config, "__module__": __name__, "__annotations__": typed})


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in _ANY_NUMBER


_tools: dict[str, Tool] = {}
_agents: set[str] = set()
"""Names of the tools that are agents."""


@overload
def tool(function: Function) -> Function: ...
@overload
def tool(
    *,
    name: str | None = None,
    idempotent: bool = False,
    reads_only: bool = False,
    interrupts: Sequence[type[BaseException]] | InterruptTable = (),
    approve: bool | str = False,
    review: bool = False,
    risk: Risk | None = None,
    permission: str = "",
    context: Callable[[], object] | None = None,
    local: bool = False,
) -> Callable[[Function], Function]: ...


def tool(
    function: Function | None = None,
    *,
    name: str | None = None,
    idempotent: bool = False,
    reads_only: bool = False,
    interrupts: Sequence[type[BaseException]] | InterruptTable = (),
    approve: bool | str = False,
    review: bool = False,
    risk: Risk | None = None,
    permission: str = "",
    context: Callable[[], object] | None = None,
    local: bool = False,
) -> Function | Callable[[Function], Function]:
    """Register a function, sync or async, or a graph of LangGraph, so that blueprints can say `uses: <its name>`.

    Args:
        name: Name of the tool; None: that of the function. A graph needs one.
        idempotent: The tool may run twice. Otherwise it is never run again automatically: if a call is lost, a person
            is asked what happened.
        reads_only: The tool changes nothing: it may run twice, and a person who approves a plan is told so.
        interrupts: Exceptions of a library that mean the same as an `Interrupt`, and are shown as text; or a table of
            exceptions, and of types of results, with a function that makes a question of each. For a graph, whose
            interrupts are of type `langgraph.types.Interrupt`, a pair with a second function makes of interrupt and
            answer what the graph is resumed with.
        approve: A person must agree to every call, or to those for which this expression on `args` holds
            (`"args.amount > 100"`), whatever a blueprint says.
        review: A person looks at the arguments of every call, and may change them.
        risk: How much may go wrong: `low`, `medium`, `high` or `critical`; shown to that person.
        permission: The question that the person is asked.
        context: Of a graph with a `context_schema`: makes the context of each call, on the worker.
        local: The tool is short, a few milliseconds: it is called in the workflow's own task, which costs half the
            time and a sixth of the events. It must be idempotent.

    Raises `ValueError` if another module has registered a tool of this name, or the expression cannot be read.
    """
    rule, table = _owner_rule(approve, review, risk, permission), _table(interrupts)

    def register(function: Function) -> Function:
        known_as = _known_as(name, function)
        _register(Tool(known_as, function, idempotent or reads_only, reads_only, table, rule, context, local))
        return function

    return register if function is None else register(function)


def _register(tool: Tool) -> None:
    existing = _tools.get(tool.name)
    if existing is not None and existing.function.__module__ != tool.function.__module__:
        raise ValueError(f"a tool named {tool.name!r} is already registered by {existing.function.__module__}")
    _check_parts(tool)
    _tools[tool.name] = tool


def _known_as(name: str | None, function: object) -> str:
    if name is None and is_graph(function):
        raise ValueError('a graph has no name of its own: tool(name="…")(graph)')
    return name or str(getattr(function, "__name__", ""))  # an object with `__call__` has none


def _table(interrupts: Sequence[type[BaseException]] | InterruptTable) -> dict[type[object], Translation]:
    if not isinstance(interrupts, Mapping):
        return {kind: Translation(str) for kind in interrupts}
    pairs = {kind: made if isinstance(made, tuple) else (made, None) for kind, made in interrupts.items()}
    return {kind: Translation(question, answer) for kind, (question, answer) in pairs.items()}


def _check_parts(tool: Tool) -> None:
    """Raise `ValueError` for what is no function, for what only a graph can use, and for what cannot be local."""
    if tool.local and (tool.is_graph or not tool.idempotent):
        what = "a graph is not short" if tool.is_graph else "a local tool may run twice: add idempotent=True"
        raise ValueError(f"{tool.name}: local=True: {what}")
    if tool.is_graph:
        return
    check_callable(tool.function, tool.name)
    if tool.context is not None:
        raise ValueError(f"{tool.name}: only a graph takes a context")
    if any(translation.answer is not None for translation in tool.interrupts.values()):
        raise ValueError(f"{tool.name}: only a graph takes a function for answers; a function reads resumed()")


def _owner_rule(approve: bool | str, review: bool, risk: Risk | None, permission: str) -> OwnerRule | None:
    expression = {True: "always", False: None}[approve] if isinstance(approve, bool) else approve
    if expression is None and not review:
        if risk is not None or permission:
            raise ValueError("risk and permission are shown to a person: add approve=True or review=True")
        return None
    if expression not in (None, "always"):
        try:
            check_expression(expression)
        except ExpressionError as error:
            raise ValueError(f"approve={expression!r}: {error}") from None
        if names := sorted({path[0] for path in names_in_expression(expression)} - {"args"}):
            raise ValueError(
                f"approve={expression!r}: unknown name {names[0]!r}; it may read args, such as args.amount"
            )
    return OwnerRule(approve=expression, review=review, risk=risk, permission=permission)


@overload
def agent(function: Function) -> Function: ...
@overload
def agent(
    *, name: str | None = None, idempotent: bool = False, interrupts: Sequence[type[BaseException]] = ()
) -> Callable[[Function], Function]: ...


def agent(
    function: Function | None = None,
    *,
    name: str | None = None,
    idempotent: bool = False,
    interrupts: Sequence[type[BaseException]] = (),
) -> Function | Callable[[Function], Function]:
    """Register a function, sync or async, that is an agent: blueprints can say `from: <its name>`.

    It gets the agent's input and returns its output. It is called once, as a tool is: what it does inside is one
    activity, whatever models it asks there.

    Args:
        name: Name of the agent; None: that of the function.
        idempotent: It may run twice. Otherwise it is never run again automatically: if a call is lost, a person is
            asked what happened.
        interrupts: Exceptions of a library that mean the same as an `Interrupt`.
    """

    def register(function: Function) -> Function:
        known_as = _known_as(name, function)
        tool(name=known_as, idempotent=idempotent, interrupts=interrupts)(function)
        _agents.add(known_as)
        return function

    return register if function is None else register(function)


def registered_agent(value: object) -> Tool | None:
    """Return the agent of a name, or that a function is registered as; None if there is none."""
    tool = _tools.get(value) if isinstance(value, str) else _find_registered(value)
    return tool if tool is not None and tool.name in _agents else None


def agent_names() -> list[str]:
    """Return the names of the functions that are registered as agents."""
    return sorted(_agents)


def find(reference: str, allowed: Sequence[str]) -> Tool:
    """Return a tool by its name, or the function ``pkg.mod:function``. Raises `unknown_tool` or `not_allowed`.

    Args:
        allowed: The packages that the worker lists in `[worker] imports`.
    """
    if ":" in reference:
        return _function(reference, allowed)
    if reference in _tools:
        return _tools[reference]
    if (module := _plain_home(reference, allowed)) is not None:
        way_out = f"write uses: {module}:{reference}, or decorate it with @tool"
        raise wrong("unknown_tool", f"{reference!r} is a function of {module}, not a tool ({way_out})")
    close = difflib.get_close_matches(reference, _tools, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"registered: {', '.join(sorted(_tools)) or 'none'}"
    raise wrong(
        "unknown_tool", f"no tool named {reference!r} ({hint}; packages with tools are listed in [worker] imports)"
    )


def _plain_home(name: str, allowed: Sequence[str]) -> str | None:
    """Return the imported module of the listed packages that has a function of this name without the decorator."""
    listed = {module: vars(sys.modules[module]) for module in tuple(sys.modules) if listed_root(module, allowed)}
    homes = (module for module, members in listed.items() if name in members and not _refusal(members, name, allowed))
    return next(homes, None)


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


def find_members(reference: str, allowed: Sequence[str], unknown: str = "unknown_tool") -> tuple[dict[str, Any], str]:
    """Return the members of a listed module, and the name that a reference ``pkg.mod:name`` has among them.

    Raises `not_allowed` for what is not listed or private, a failure of the type `unknown` for a module that is not
    there, and `import_failed`, which may be retried, for one whose import fails.
    """
    module_name, _, name = reference.partition(":")
    root = listed_root(module_name, allowed)
    if root is None:
        listed = ", ".join(allowed) or "none"
        text = f"{reference}: the worker does not list this package (listed: {listed}; see [worker] imports)"
        raise wrong("not_allowed", text)
    inner_modules = module_name.removeprefix(root).split(".")
    if private := next((part for part in [*inner_modules, name] if part.startswith("_")), None):
        text = f"{reference}: {private!r} is private; rename it, or register the function with @tool"
        raise wrong("not_allowed", text)
    try:
        return vars(import_alone(module_name)), name
    except Exception as error:  # noqa: BLE001 importing runs the author's code, which may raise anything
        text = f"{reference}: {module_name} cannot be imported: {error}"
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            raise wrong(unknown, text) from None
        raise ApplicationError(text, type=IMPORT_FAILED) from None


def _function(reference: str, allowed: Sequence[str]) -> Tool:
    members, name = find_members(reference, allowed)
    if name not in members:
        callable_names = [member for member in members if _refusal(members, member, allowed) is None]
        raise absent("unknown_tool", reference, callable_names)
    if refusal := _refusal(members, name, allowed):
        raise wrong("not_allowed", f"{reference}: {refusal}")
    return _find_registered(members[name]) or Tool(reference, members[name])


def absent(type_: str, reference: str, names: Sequence[str]) -> ApplicationError:
    """Return the failure for a name that a module does not have, with the nearest of these names."""
    module_name, _, name = reference.partition(":")
    hint = did_you_mean(name, names)
    return wrong(type_, f"{reference}: {module_name} has no {name!r}" + (f" ({hint})" if hint else ""))


def listed_root(module_name: str, allowed: Sequence[str]) -> str | None:
    """Return the listed package that a module is, or is in."""
    return next((name for name in allowed if module_name == name or module_name.startswith(f"{name}.")), None)


def _refusal(members: Mapping[str, object], name: str, allowed: Sequence[str]) -> str | None:
    """Return why a blueprint may not call this member of a listed module; None if it may.

    Only functions that a listed package defines are allowed. A module also contains all that it imports (`from
    subprocess import getoutput`), and everybody who reaches Temporal can start a blueprint that names it.
    """
    value = members[name]
    if _find_registered(value) is not None:
        return None
    if is_graph(value) and not name.startswith("_"):
        home = borrowed_from(members, name, allowed)
        return home and f"{name!r} is imported from {home}, which [worker] imports does not list"
    if is_builder(value):
        return f"{name!r} is a graph that is not compiled; name what {name}.compile(checkpointer=…) returns"
    if not inspect.isroutine(inspect.unwrap(value) if callable(value) else value):
        return f"{name!r} is not a function; wrap it in one, or register it with @tool"
    home = getattr(value, "__module__", None)  # a member of a module may be any object
    if name.startswith("_") or not isinstance(home, str) or listed_root(home, allowed) is None:
        return (
            f"{name!r} is imported from {home or 'elsewhere'}, which [worker] imports does not list; "
            "write a function of your own that calls it"
        )
    return None


def borrowed_from(members: Mapping[str, Any], name: str, allowed: Sequence[str]) -> str | None:
    """Return the module from which a listed module imports a graph or an agent, if that one is not listed.

    The module's source says so, as neither knows where it was made; without a source it counts as the module's own.
    """
    module = sys.modules[members["__name__"]]
    try:
        source = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return None
    for node in ast.walk(source):
        if isinstance(node, ast.ImportFrom) and any(name == (alias.asname or alias.name) for alias in node.names):
            home = importlib.util.resolve_name("." * node.level + (node.module or ""), module.__package__)
            return home if listed_root(home, allowed) is None else None
    return None


def _find_registered(value: object) -> Tool | None:
    """Return the tool that a function is registered as."""
    return next((tool for tool in _tools.values() if tool.function is value), None)


def wrong(type_: str, message: str) -> ApplicationError:
    """Return a failure that is not retried."""
    return ApplicationError(message, type=type_, non_retryable=True)
