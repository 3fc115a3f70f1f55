"""Named agents from Python, with the type of what they give: for pipelines, and for `self.human.agent`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypedDict, TypeVar, Unpack, overload

from pydantic import BaseModel

from holdfast.blueprint.build.places import find_folder, find_place, to_placed
from holdfast.blueprint.build.schemas import read_form
from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds.agents import Agent
from holdfast.blueprint.load import parse_document
from holdfast.blueprint.source import PlacedDict, Position

Output = TypeVar("Output")
Model = TypeVar("Model", bound=BaseModel)


class AgentOptions(TypedDict, total=False):
    """The keys of an agent in a blueprint, beside those that `agent` names; see docs/agents.md."""

    instructions: str | JSONObject
    source: str
    """`from`: an agent of your own code."""
    deps: str
    fallback_models: Sequence[str]
    description: str
    settings: JSONObject
    prompt_cache: bool | str
    output_mode: Literal["tool", "native"]
    timeout: str | float
    retry: JSONObject
    human: Sequence[Literal["ask", "approve"]]
    limits: JSONObject
    max_turns: int
    max_tool_calls_per_turn: int
    max_tool_calls: int
    tool_errors: JSONObject
    permissions: Sequence[JSONObject]
    history_management: JSONObject


@dataclass(frozen=True)
class NamedAgent(Generic[Output]):
    """An agent with its name, the agents that it calls, and the model of its output."""

    name: str
    definition: Agent
    """The agent in core form."""
    place: Position
    document: PlacedDict
    """The agent as it is written."""
    model: type[Output] | None
    """The class of its output; None: the value that fits its schema."""
    others: Mapping[str, NamedAgent[Any]]
    """The agents that are its tools, by name."""

    @property
    def family(self) -> dict[str, NamedAgent[Any]]:
        """This agent and those that it may call, however far, by name."""
        found: dict[str, NamedAgent[Any]] = {}
        for other in self.others.values():
            found |= other.family
        return found | {self.name: self}


@overload
def agent(
    name: str, *, output: type[Model], model: str | Sequence[str] = "", tools: Tools = (), **keys: Unpack[AgentOptions]
) -> NamedAgent[Model]: ...


@overload
def agent(
    name: str,
    *,
    output: JSONObject | None = None,
    model: str | Sequence[str] = "",
    tools: Tools = (),
    **keys: Unpack[AgentOptions],
) -> NamedAgent[JSON]: ...


def agent(
    name: str,
    *,
    output: type[BaseModel] | JSONObject | None = None,
    model: str | Sequence[str] = "",
    tools: Tools = (),
    **keys: Unpack[AgentOptions],
) -> NamedAgent[Any]:
    """Return an agent with a name.

    Args:
        name: Its name in blueprints, and in the addresses of what it does.
        output: A pydantic model, or a JSON Schema; without one its output is text.
        model: `provider:name`, or several, of which the next is used if one fails.
        tools: Names of tools, objects as in a blueprint, or other agents.
        keys: See `AgentOptions`.

    Raises:
        BlueprintError: With its problems.
    """
    place = find_place()
    others = {one.name: one for one in tools if isinstance(one, NamedAgent)}
    written: dict[str, object] = {"model": model, **keys} if model else dict(keys)
    if "source" in written:
        written["from"] = written.pop("source")
    if output is not None:
        written["output_schema"] = read_form(output)
    if tools:
        written["tools"] = [f"agent:{one.name}" if isinstance(one, NamedAgent) else one for one in tools]
    document = to_placed(written, place)
    assert isinstance(document, PlacedDict)
    made = output if isinstance(output, type) else None
    definition = _check(name, document, others, place)
    return NamedAgent(name, definition, place, document, made, others)


Tools = Sequence[str | JSONObject | NamedAgent[Any]]


def _check(name: str, document: PlacedDict, others: Mapping[str, NamedAgent[Any]], place: Position) -> Agent:
    """Return the agent in core form. Raises `BlueprintError` for its problems."""
    family: dict[str, object] = {name: document}
    for other in others.values():
        family |= {each.name: each.document for each in other.family.values()}
    steps = [{"name": "work", "agent": name}]
    whole = to_placed({"agents": family, "steps": steps}, place)
    assert isinstance(whole, PlacedDict)
    parsed = parse_document(whole, folder=find_folder(place), name="agent")
    if problems := [problem for problem in parsed.problems if problem.path.startswith(f"agents.{name}")]:
        raise BlueprintError(problems)
    return parsed.valid().agents[name]
