"""Schemas on the wire: what is free stays free, what is strict fits, and what no provider takes is not sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from holdfast.activities.aliases import ModelAlias
from holdfast.activities.models import ModelActivities
from holdfast.activities.providers.schemas import wire_schema
from holdfast.blueprint.load import parse
from holdfast.blueprint.plan.output import PLAN_OUTPUT
from holdfast.protocol.agents import ToolSpec
from holdfast.workflows.plan.control_tools import CONTROL_TOOLS
from holdfast.workflows.steps.hitl import VERDICT
from tests.activities.model_calls import alias, asked, call
from tests.activities.provider import Provider, Reply

OBJECT = {"type": "object"}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "sk-test-0123456789")


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[Provider]:
    async with Provider() as provider:
        provider.always(Reply(text="{}"))
        yield provider


async def sent(provider: Provider, api: str, *tools: ToolSpec, output_schema: Any = None) -> dict[str, Any]:
    """The tools of a request as they are on the wire, by name."""
    await call(alias(provider, api), asked(tools=list(tools), output_schema=output_schema))
    tools_sent = [tool.get("function", tool) for tool in provider.requests[-1].body["tools"]]
    return {tool["name"]: tool for tool in tools_sent}


def spec(**properties: Any) -> ToolSpec:
    schema = {**OBJECT, "properties": properties, "required": list(properties), "additionalProperties": False}
    return ToolSpec(name="tool", parameters=schema)


APIS = pytest.mark.parametrize("api", ["chat", "responses"])


@APIS
async def test_control_tools_take_any_object_where_they_say_object(provider: Provider, api: str) -> None:
    tools = await sent(provider, api, *(tool.spec for tool in CONTROL_TOOLS.values()))
    free = [
        tools["execute_step_tool"]["parameters"]["properties"]["parameters"],
        tools["update_plan"]["parameters"]["properties"]["new_plan"],
        tools["update_state"]["parameters"],
    ]
    assert [one["additionalProperties"] for one in free] == [True, True, True]


@APIS
async def test_an_output_of_required_keys_alone_is_not_sent_closed(provider: Provider, api: str) -> None:
    tools = await sent(provider, api, output_schema={**OBJECT, "required": ["goal", "steps"]})
    result = tools["final_result"]
    assert not result.get("strict")
    assert (result["parameters"]["additionalProperties"], set(result["parameters"]["properties"])) == (
        True,
        {"goal", "steps"},
    )


@APIS
async def test_the_verdict_of_a_verifier_is_strict(provider: Provider, api: str) -> None:
    tools = await sent(provider, api, output_schema=VERDICT)
    result = tools["final_result"]
    assert result.get("strict") or result.get("function", {}).get("strict")
    assert set(result["parameters"]["properties"]) == {"passed", "reason"}


@APIS
async def test_what_fits_strict_mode_is_strict(provider: Provider, api: str) -> None:
    inner = {**OBJECT, "properties": {"day": {"enum": ["mon", "tue"]}}, "required": ["day"]}
    tool = (await sent(provider, api, spec(name={"type": "string"}, when={"type": "array", "items": inner})))["tool"]
    assert tool["strict"] is True
    assert tool["parameters"]["properties"]["when"]["items"] == {
        **OBJECT,
        "properties": {"day": {"type": "string", "enum": ["mon", "tue"]}},
        "required": ["day"],
        "additionalProperties": False,
    }


UNFIT: list[dict[str, Any]] = [
    {},
    OBJECT,
    {**OBJECT, "additionalProperties": True},
    {"type": ["object", "null"]},
    {"type": "array"},
    {"type": "array", "items": {}},
    {"enum": [1, "a"]},
    {"type": "string", "default": "x"},
    {"allOf": [{"type": "string"}]},
    {"type": "string", "not": {"const": "x"}},
    {**OBJECT, "properties": {"a": {"type": "string"}}, "required": []},
    {"anyOf": [{"type": "string"}, OBJECT]},
]


@pytest.mark.first_row
@pytest.mark.parametrize("unfit", UNFIT)
async def test_what_does_not_fit_strict_mode_is_not_strict(provider: Provider, unfit: dict[str, Any]) -> None:
    tool = (await sent(provider, "chat", spec(value=unfit)))["tool"]
    assert not tool.get("strict")


@pytest.mark.slow
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_free_object_says_so_wherever_it_stands(provider: Provider, api: str) -> None:
    tree = {
        "a": {"type": "array", "items": OBJECT},
        "b": {"anyOf": [OBJECT, {"type": "null"}]},
        "c": {"$ref": "#/$defs/any"},
        "d": {**OBJECT, "additionalProperties": OBJECT},
    }
    schema = {**spec(**tree).parameters, "$defs": {"any": OBJECT}}
    parameters = (await sent(provider, api, ToolSpec(name="tool", parameters=schema)))["tool"]["parameters"]
    found = [one for one in _objects(parameters) if one is not parameters and not one.get("properties")]
    assert found and all(one.get("additionalProperties") not in (None, False) for one in found)


def _objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for value in node.values():
            yield from _objects(value)
    if isinstance(node, list):
        for value in node:
            yield from _objects(value)


def test_what_is_data_in_a_schema_stays_as_it_is() -> None:
    schema = {**OBJECT, "properties": {"type": {"type": "string", "default": OBJECT, "examples": [OBJECT]}}}
    assert wire_schema(schema) == schema


def test_a_tool_that_lists_no_argument_takes_none() -> None:
    assert wire_schema({**OBJECT, "properties": {}}) == {**OBJECT, "properties": {}}


BRANCHES = {"anyOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"type": "integer"}}}]}


def test_a_choice_at_the_root_is_offered_as_properties_and_told_in_words() -> None:
    schema = wire_schema({**OBJECT, "properties": {"a": {"type": "string"}}, **BRANCHES})
    assert schema.keys() == {"type", "properties", "additionalProperties", "description"}
    assert schema["properties"] == {"a": {"type": "string"}, "b": {"type": "integer"}}
    assert '"required": ["b"]' in schema["description"]


def test_a_property_that_differs_between_branches_may_be_any_of_its_forms() -> None:
    kinds = [{**OBJECT, "properties": {"kind": {"const": name}}, "required": ["kind"]} for name in ("a", "b")]
    schema = wire_schema({"oneOf": kinds})
    assert [one["const"] for one in schema["properties"]["kind"]["anyOf"]] == ["a", "b"]
    assert "required" not in schema


def test_all_of_a_root_are_needed() -> None:
    parts = [{"properties": {name: {"type": "string"}}, "required": [name]} for name in ("a", "b")]
    assert wire_schema({**OBJECT, "allOf": parts})["required"] == ["a", "b"]


def test_a_reference_at_the_root_is_followed() -> None:
    node = {**OBJECT, "properties": {"next": {"$ref": "#/$defs/node"}}}
    schema = wire_schema({"$ref": "#/$defs/node", "$defs": {"node": node}})
    assert (schema["type"], schema["properties"], schema["$defs"]) == ("object", node["properties"], {"node": node})


@pytest.mark.parametrize("schema", [{}, {"$ref": "#"}, {"$ref": "#/$defs/no"}, {"properties": {"a": {}}}])
def test_every_root_is_an_object(schema: dict[str, Any]) -> None:
    assert wire_schema(schema)["type"] == "object"


@pytest.mark.slow
async def test_gemini_is_not_held_to_a_free_object(provider: Provider) -> None:
    """It would give an empty one."""
    modes = []
    for value in ({"type": "string"}, OBJECT):
        models = ModelAlias("google:gemini-2.5-pro", "TEST_KEY", provider.url.removesuffix("/v1"))
        provider.reply(Reply(body={"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]}))
        await call(ModelActivities({"fast": models}), asked(tools=[spec(value=value)]))
        modes.append(provider.requests[-1].body["toolConfig"]["functionCallingConfig"]["mode"])
    assert modes == ["VALIDATED", "AUTO"]


def test_the_schema_of_a_plan_can_be_named() -> None:
    text = "agents: {a: {model: echo, output_schema: plan}}\nsteps: [{name: a, agent: a}]"
    blueprint = parse(text, file="a.yaml").blueprint
    assert blueprint is not None and blueprint.agents["a"].output_schema == PLAN_OUTPUT
