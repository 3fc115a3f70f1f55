"""Models: what is asked of a provider on localhost, what comes back, and which failures are tried again."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from holdfast.activities.aliases import ModelAlias
from holdfast.activities.models import ModelActivities
from holdfast.protocol.agents import Message, ToolCall, ToolSpec
from holdfast.runtime.config import ConfigError, load_config
from tests.activities.model_calls import alias, answered, asked, call, failed
from tests.activities.provider import Provider, Reply

KEY = "sk-test-0123456789"
POEM = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
SEARCH = ToolSpec(name="search", description="Looks things up.", parameters=POEM)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEST_KEY", KEY)


BOTH = pytest.mark.parametrize("api", ["chat", "responses"])


# What is asked, and what comes back


@BOTH
async def test_a_text_is_the_output_with_its_usage(provider: Provider, api: str) -> None:
    provider.text("hi there")
    reply = await call(alias(provider, api), asked())
    assert (reply.output, reply.tool_calls, reply.problem) == ("hi there", [], None)
    assert (reply.usage.requests, reply.usage.input_tokens, reply.usage.output_tokens) == (1, 11, 7)


async def test_instructions_input_and_settings_are_sent_and_the_key_in_its_header(provider: Provider) -> None:
    provider.text("x")
    await call(alias(provider), asked({"topic": "fish"}, settings={"temperature": 0.5, "max_tokens": 9}))
    [request] = provider.requests
    assert [(m["role"], m["content"]) for m in request.messages] == [
        ("system", "Be brief."),
        ("user", '{"topic":"fish"}'),
    ]
    assert request.body["temperature"] == 0.5
    assert 9 in (request.body.get("max_tokens"), request.body.get("max_completion_tokens"))
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert (request.path, request.body["model"]) == ("/v1/chat/completions", "small")


async def test_openai_means_the_responses_api_and_openai_chat_the_other(provider: Provider) -> None:
    provider.text("x")
    provider.text("y")
    await call(alias(provider, "responses"), asked())
    await call(ModelAlias("openai-chat:small", "TEST_KEY", provider.url), asked())
    assert [request.path for request in provider.requests] == ["/v1/responses", "/v1/chat/completions"]
    assert provider.requests[0].body["instructions"] == "Be brief."


async def test_a_model_may_be_named_without_an_alias(provider: Provider) -> None:
    provider.text("hi")
    reply = await call(ModelActivities({}), asked(model=f"openai-compatible:@cf/small@{provider.url}"))
    assert reply.output == "hi"
    assert provider.requests[0].body["model"] == "@cf/small"


async def test_the_openai_key_goes_only_to_addresses_that_the_deployment_wrote(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    provider.always(Reply(text="x"))
    model = f"openai-compatible:small@{provider.url}"
    await call(ModelActivities({}), asked(model=model))
    await call(ModelAlias(model), asked())
    assert [request.headers.get("authorization") for request in provider.requests] == [None, f"Bearer {KEY}"]


@pytest.mark.parametrize("model", ["openai-chat:small", "openai:small", "openai-compatible:small"])
async def test_a_server_that_needs_no_key_gets_none(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    provider.always(Reply(text="x"))
    await call(ModelAlias(model, None, provider.url), asked())
    assert "authorization" not in provider.requests[0].headers


@BOTH
async def test_tool_calls_come_back_with_their_arguments(provider: Provider, api: str) -> None:
    provider.calls(("search", {"title": "a"}, "one"), ("search", {"title": "b"}, "two"))
    reply = await call(alias(provider, api), asked(tools=[SEARCH]))
    assert reply.tool_calls == [
        ToolCall(id="one", name="search", args={"title": "a"}),
        ToolCall(id="two", name="search", args={"title": "b"}),
    ]
    assert provider.requests[0].tools == ["search"]


@pytest.mark.parametrize(
    ("written", "why"), [('{"title": ', "no JSON: "), ("[1]", "no JSON object"), ('{"a": NaN}', "no JSON: ")]
)
async def test_arguments_that_are_no_json_object_are_told_and_not_guessed(
    provider: Provider, written: str, why: str
) -> None:
    provider.calls(("search", written))
    [told] = (await call(alias(provider), asked(tools=[SEARCH]))).tool_calls
    assert told.args == {}
    assert told.unreadable and told.unreadable.startswith(why)


async def test_a_call_without_arguments_has_none(provider: Provider) -> None:
    provider.calls(("search", ""))
    [told] = (await call(alias(provider), asked(tools=[SEARCH]))).tool_calls
    assert (told.args, told.unreadable) == ({}, None)


@BOTH
async def test_a_conversation_goes_back_with_calls_and_results(provider: Provider, api: str) -> None:
    provider.calls(("search", {"title": "a"}, "one"), ("search", {"title": "b"}, "two"))
    provider.text("done")
    first = asked(tools=[SEARCH])
    reply = await call(alias(provider, api), first)
    results = [Message(role="tool", call=id_, tool="search", content={"found": id_}) for id_ in ("one", "two")]
    await call(alias(provider, api), answered(first, reply, *results, Message(role="user", content="go on")))
    if api == "chat":
        assert [(m["role"], m.get("tool_call_id"), m.get("content")) for m in provider.requests[1].messages[2:]] == [
            ("assistant", None, None),
            ("tool", "one", '{"found":"one"}'),
            ("tool", "two", '{"found":"two"}'),
            ("user", None, "go on"),
        ]
    else:
        sent = [one for one in provider.requests[1].body["input"] if "call_id" in one]
        assert [(one["type"], one["call_id"]) for one in sent] == [
            ("function_call", "one"),
            ("function_call", "two"),
            ("function_call_output", "one"),
            ("function_call_output", "two"),
        ]


def _ids(request: Any) -> tuple[list[str], list[str]]:
    """Of the calls and of the results that a chat request holds."""
    calls = [one["id"] for message in request.messages for one in message.get("tool_calls") or []]
    return calls, [message["tool_call_id"] for message in request.messages if message["role"] == "tool"]


async def test_our_ids_stand_in_for_those_that_were_empty_or_repeated(provider: Provider) -> None:
    provider.calls(("search", {"title": "a"}, ""), ("search", {"title": "b"}, "x"), ("search", {"title": "c"}, "x"))
    provider.text("done")
    first = asked(tools=[SEARCH])
    reply = await call(alias(provider), first)
    assert [one.id for one in reply.tool_calls] == ["", "x", "x"]
    ours = [one.model_copy(update={"id": f"c{n}"}) for n, one in enumerate(reply.tool_calls)]
    results = [Message(role="tool", call=one.id, tool="search", content="found") for one in ours]
    await call(alias(provider), answered(first, reply.model_copy(update={"tool_calls": ours}), *results))
    assert _ids(provider.requests[1]) == (["c0", "c1", "c2"], ["c0", "c1", "c2"])


async def test_every_call_gets_exactly_one_result(provider: Provider) -> None:
    """Providers refuse a conversation in which one has none: that of an accepted final_result, for instance."""
    provider.calls(("final_result", {"title": "Fish"}, "one"))
    provider.calls(("final_result", {"title": "Cats"}, ""))
    provider.text("done")
    first = asked(output_schema=POEM)
    accepted = await call(alias(provider), first)
    second = answered(first, accepted, Message(role="user", content="another"))
    refused = await call(alias(provider), second)
    by_tool = Message(role="tool", call="", tool="final_result", content="no cats")
    await call(alias(provider), answered(second, refused.model_copy(update={"problem": "x"}), by_tool))
    calls, results = _ids(provider.requests[2])
    assert calls == results
    assert [m["content"] for m in provider.requests[2].messages if m["role"] == "tool"] == ["taken", "no cats"]


async def test_a_conversation_without_raw_replies_is_built_from_what_was_said(provider: Provider) -> None:
    provider.text("done")
    said = Message(role="assistant", content="let me see", tool_calls=[ToolCall(id="c", name="search", args={"q": 1})])
    result = Message(role="tool", call="c", tool="search", content="fish")
    await call(alias(provider), asked(messages=[Message(role="user", content="?"), said, result]))
    assistant, tool = provider.requests[0].messages[2:]
    assert assistant["content"] == "let me see"
    assert json.loads(assistant["tool_calls"][0]["function"]["arguments"]) == {"q": 1}
    assert (tool["tool_call_id"], tool["content"]) == (assistant["tool_calls"][0]["id"], "fish")


async def test_a_raw_reply_that_cannot_be_read_any_more_is_built_anew(provider: Provider) -> None:
    provider.text("done")
    said = Message(role="assistant", content="let me see", raw={"kind": "response", "parts": [{"part_kind": "old"}]})
    before, after = Message(role="user", content="begin"), Message(role="user", content="go on")
    await call(alias(provider), asked(messages=[before, said, after]))
    assert [m["content"] for m in provider.requests[0].messages[1:]] == ["begin", "let me see", "go on"]


async def test_thinking_is_no_output_but_kept_in_the_raw_reply(provider: Provider) -> None:
    provider.text("42", reasoning="six times seven")
    reply = await call(alias(provider), asked())
    assert reply.output == "42"
    assert "six times seven" in json.dumps(reply.raw)


async def test_neither_address_nor_key_is_in_a_reply(provider: Provider) -> None:
    provider.text("hi")
    told = (await call(alias(provider), asked())).model_dump_json()
    assert provider.url not in told and KEY not in told


# Outputs with a schema


@BOTH
async def test_an_output_that_fits_its_schema_is_the_output(provider: Provider, api: str) -> None:
    provider.calls(("final_result", {"title": "Fish"}))
    reply = await call(alias(provider, api), asked(output_schema=POEM))
    assert (reply.output, reply.tool_calls, reply.problem) == ({"title": "Fish"}, [], None)
    assert provider.requests[0].tools == ["final_result"]
    assert provider.requests[0].body["tool_choice"] == "required"


@pytest.mark.parametrize("args", [{"title": 1}, '{"title": '])
async def test_an_output_that_does_not_fit_is_a_problem_with_its_call(provider: Provider, args: Any) -> None:
    provider.calls(("final_result", args, "one"))
    reply = await call(alias(provider), asked(output_schema=POEM))
    assert reply.problem and [one.id for one in reply.tool_calls] == ["one"]
    assert reply.raw is not None


@pytest.mark.parametrize(
    "text", ['{"title": "Fish"}', '```json\n{"title": "Fish"}\n```', 'Here: ```json\n{"title": "Fish"}\n```\nBye.']
)
async def test_a_text_that_is_fitting_json_is_an_output_too(provider: Provider, text: str) -> None:
    provider.text(text)
    assert (await call(alias(provider), asked(output_schema=POEM))).output == {"title": "Fish"}


async def test_a_text_that_is_no_json_is_a_problem(provider: Provider) -> None:
    provider.text("Fish, of course")
    reply = await call(alias(provider), asked(output_schema=POEM))
    assert reply.problem == "the text is not JSON, and the value must be an object"
    assert (reply.output, reply.tool_calls) == ("Fish, of course", [])


SHAPES: list[tuple[dict[str, Any], Any]] = [
    ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
    ({"type": "string"}, "yes"),
    ({"anyOf": [{"type": "object"}, {"type": "null"}]}, None),
    ({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}, [[], [[]]]),
    ({"type": "array", "items": {"$ref": "#"}}, [[]]),
]


@BOTH
@pytest.mark.parametrize(("schema", "value"), SHAPES)
async def test_a_schema_that_is_no_object_travels_in_one(
    provider: Provider, api: str, schema: dict[str, Any], value: Any
) -> None:
    provider.calls(("final_result", {"result": value}))
    reply = await call(alias(provider, api), asked(output_schema=schema))
    assert (reply.output, reply.problem) == (value, None)
    [tool] = provider.requests[0].body["tools"]
    sent = tool.get("function", tool)["parameters"]
    assert (sent["type"], sent["required"]) == ("object", ["result"])


async def test_a_result_beside_other_calls_is_not_taken(provider: Provider) -> None:
    provider.calls(("final_result", {"title": "Fish"}, "one"), ("search", {"title": "b"}, "two"))
    reply = await call(alias(provider), asked(tools=[SEARCH], output_schema=POEM))
    assert [one.name for one in reply.tool_calls] == ["final_result", "search"]
    assert (reply.output, reply.problem) == ("", None)


async def test_a_text_is_an_output_even_where_tools_were_offered(provider: Provider) -> None:
    provider.text("no need to search")
    assert (await call(alias(provider), asked(tools=[SEARCH]))).output == "no need to search"


@pytest.mark.parametrize("schema", [None, POEM])
@pytest.mark.parametrize(("text", "ended", "finish"), [("", "stop", "empty"), ('{"title": "Fi', "length", "cut_off")])
async def test_a_reply_that_is_not_whole_is_told_as_such(
    provider: Provider, schema: Any, text: str, ended: str, finish: str
) -> None:
    provider.text(text, finish=ended)
    reply = await call(alias(provider), asked(output_schema=schema))
    assert (reply.finish, reply.problem) == (finish, None)


async def test_no_tool_may_be_named_like_the_output(provider: Provider) -> None:
    taken = SEARCH.model_copy(update={"name": "final_result"})
    error = await failed(alias(provider), asked(tools=[taken], output_schema=POEM))
    assert (error.type, error.non_retryable, provider.requests) == ("model_rejected", True, [])


# Failures

FAILURES = [
    (400, "bad value", None, "model_rejected", True),
    (401, "who are you", None, "model_auth", True),
    (403, "not yours", None, "model_auth", True),
    (404, "no such model", "model_not_found", "model_not_found", True),
    (408, "too slow", None, "model_timeout", False),
    (409, "again", None, "model_rejected", True),
    (422, "strange", None, "model_rejected", True),
    (429, "slow down", "rate_limit_exceeded", "model_rate_limited", False),
    (429, "pay first", "insufficient_quota", "model_quota", True),
    (402, "pay first", None, "model_quota", True),
    (400, "too long", "context_length_exceeded", "context_overflow", True),
    (400, "This model's maximum context length is 10 tokens", None, "context_overflow", True),
    (400, "the request exceeds the available context size", None, "context_overflow", True),
    (400, "not that", "content_policy_violation", "content_filter", True),
    (500, "oops", None, "model_unavailable", False),
    (503, "busy", None, "model_unavailable", False),
    (529, "overloaded", None, "model_unavailable", False),
]


@pytest.mark.first_row
@BOTH
@pytest.mark.parametrize(("status", "message", "code", "type_", "final"), FAILURES)
async def test_a_failure_is_typed_and_costs_one_request(
    provider: Provider, api: str, status: int, message: str, code: str | None, type_: str, final: bool
) -> None:
    provider.status(status, message, code)
    error = await failed(alias(provider, api))
    assert (error.type, error.non_retryable) == (type_, final)
    assert str(error).startswith(f"{type_}: fast: HTTP {status}") and message in str(error)
    assert len(provider.requests) == 1


async def test_retries_are_temporals_whatever_the_settings_say(provider: Provider) -> None:
    provider.always(Reply(status=500, body={}))
    await failed(alias(provider), asked(settings={"max_retries": 3}))
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("written", "least", "most"),
    [
        (lambda: "7", 7, 7),
        (lambda: "86400", 600, 600),
        (lambda: format_datetime(datetime.now(UTC) + timedelta(seconds=300), usegmt=True), 1, 300),
        (lambda: "soon", 1, 1),
    ],
)
async def test_a_rate_limit_says_how_long_to_wait(
    provider: Provider, written: Callable[[], str], least: int, most: int
) -> None:
    provider.status(429, "slow down", headers={"Retry-After": written()})
    delay = (await failed(alias(provider))).next_retry_delay
    assert delay and timedelta(seconds=least) <= delay <= timedelta(seconds=most)


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["alias", "attempt"])
async def test_a_hung_reply_is_cut_by_the_time_limit(provider: Provider, limit: str) -> None:
    provider.hang()
    timeout, seconds = (1.0, 60.0) if limit == "alias" else (None, 2.0)  # enough for the request to arrive
    models = ModelActivities({"fast": alias(provider, timeout=timeout)})
    await models.check("fast")  # builds the client, which on a busy machine takes longer than the limit
    error = await failed(models, asked(timeout=seconds))
    assert (error.type, error.non_retryable) == ("model_timeout", False)
    await provider.left()
    assert len(provider.requests) == 1


async def test_a_cancelled_call_is_cut(provider: Provider) -> None:
    provider.hang()
    at = ActivityEnvironment()
    running = asyncio.create_task(at.run(ModelActivities({"fast": alias(provider)}).call_model, asked()))
    await provider.asked()
    at.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await provider.left()


@pytest.mark.slow
async def test_it_heartbeats_while_the_model_thinks(provider: Provider) -> None:
    provider.hang()
    at = ActivityEnvironment()
    beat = asyncio.Event()
    at.on_heartbeat = lambda *_: beat.set()
    running = asyncio.create_task(at.run(ModelActivities({"fast": alias(provider)}).call_model, asked()))
    await asyncio.wait_for(beat.wait(), 30)
    await provider.asked()
    at.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_provider_that_is_not_there_is_unavailable(provider: Provider) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    error = await failed(ModelAlias("openai:small", "TEST_KEY", f"http://127.0.0.1:{port}/v1"))
    assert (error.type, error.non_retryable) == ("model_unavailable", False)
    assert str(port) not in str(error)


EMPTY = {"id": "c", "object": "chat.completion", "created": 1_700_000_000, "model": "small", "choices": []}


@pytest.mark.parametrize(
    "body", ["<html>bad gateway</html>", {"choices": []}, EMPTY, {**EMPTY, "choices": [{"message": KEY}]}]
)
async def test_a_reply_that_makes_no_sense_is_tried_again(provider: Provider, body: Any) -> None:
    provider.reply(Reply(body=body))
    error = await failed(alias(provider))
    assert (error.type, error.non_retryable) == ("model_error", False)
    assert error.message.startswith("fast: ")
    assert (KEY in str(error), error.__cause__) == (False, None)


async def test_a_page_of_html_is_not_told(provider: Provider) -> None:
    provider.reply(Reply(status=502, body="<html>bad gateway</html>"))
    assert str(await failed(alias(provider))) == "model_unavailable: fast: HTTP 502"


@BOTH
async def test_a_refusal_is_told_as_one(provider: Provider, api: str) -> None:
    refusal = {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "refusal": "No."}}]}
    content = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    output = {"output": [{**content, "content": [{"type": "refusal", "refusal": "No."}]}], "status": "completed"}
    whole = {"id": "x", "object": "chat.completion", "created": 1, "created_at": 1, "model": "small"}
    provider.reply(Reply(body=whole | (refusal if api == "chat" else output)))
    reply = await call(alias(provider, api), asked())
    assert (reply.finish, reply.output) == ("refused", "No.")


@pytest.mark.parametrize("status", [400, 401, 429, 500])
async def test_a_key_is_never_told_whatever_the_provider_says(
    provider: Provider, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_TOKEN", "t0ps3cret")
    said = f"Incorrect API key {KEY} or t0ps3cret or sk-other-987654 at {provider.url}/chat"
    provider.status(status, said)
    error = await failed(alias(provider))
    assert "Incorrect API key … or … or … at …" in str(error)
    assert error.__cause__ is None and error.__suppress_context__, "causes are written into the history"


async def test_addresses_do_not_get_into_logs(provider: Provider, caplog: pytest.LogCaptureFixture) -> None:
    provider.text("x")
    with caplog.at_level(logging.INFO):
        await call(alias(provider), asked())
    assert provider.url not in caplog.text


# What things cost


@pytest.mark.parametrize(("model", "known"), [("gpt-4o-mini", True), ("my-own-model", False)])
async def test_the_cost_is_told_where_the_price_is_known(provider: Provider, model: str, known: bool) -> None:
    provider.text("x", usage=(1000, 100), model=model)
    usage = (await call(alias(provider, "responses"), asked())).usage
    assert (usage.input_tokens, usage.output_tokens) == (1000, 100)
    assert (usage.cost_usd is not None and usage.cost_usd > 0) is known


async def test_another_service_does_not_get_the_prices_of_openai(provider: Provider) -> None:
    provider.text("x", model="gpt-4o-mini")
    assert (await call(alias(provider), asked())).usage.cost_usd is None


async def test_one_client_serves_an_alias(provider: Provider) -> None:
    provider.always(Reply(text="x"))
    models = ModelActivities({"fast": alias(provider), "other": alias(provider, "responses")})
    for model in ("fast", "fast", "other", "fast"):
        await call(models, asked(model=model))
    assert [request.connection for request in provider.requests] == [1, 1, 2, 1]


async def test_first_calls_at_the_same_time_share_the_client(provider: Provider) -> None:
    provider.always(Reply(text="x"))
    models = ModelActivities({"fast": alias(provider)})
    await asyncio.gather(*(call(models, asked()) for _ in range(5)))
    assert models._models is not None and len(models._models._models) == 1


# Which models there are


async def test_a_name_that_nobody_knows_lists_what_there_is() -> None:
    error = await failed(ModelActivities({"fast": ModelAlias("echo")}), asked(model="fats"))
    assert (error.type, error.non_retryable) == ("unknown_model", True)
    assert "no model 'fats'; did you mean 'fast'? this worker knows: fast, provider:NAME" in str(error)


async def test_a_provider_that_nobody_knows_is_an_unknown_model() -> None:
    error = await failed(ModelActivities({}), asked(model="opnai:gpt-5"))
    assert (error.type, error.non_retryable) == ("unknown_model", True)
    assert "no provider 'opnai'" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("openai-chat:gpt-5", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-4-6", "ANTHROPIC_API_KEY"),
        ("google:gemini-2.5-pro", "GOOGLE_API_KEY"),
    ],
)
@pytest.mark.parametrize("empty", [False, True])
async def test_a_missing_key_is_told_by_the_name_of_its_variable(
    model: str, variable: str, empty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if empty:
        monkeypatch.setenv(variable, "")
    error = await failed(ModelActivities({}), asked(model=model))
    assert (error.type, error.non_retryable) == ("model_auth", True)
    assert f"{variable} is not set where the worker runs" in str(error)


async def test_a_missing_key_of_an_alias_is_told_by_the_name_of_its_variable() -> None:
    error = await failed(ModelAlias("openai:gpt-5", api_key_env="NO_SUCH_KEY"))
    assert str(error) == "model_auth: fast: NO_SUCH_KEY is not set where the worker runs"


@pytest.mark.parametrize(
    ("model", "package"),
    [("anthropic:x", "pip install 'holdfast[anthropic]'"), ("groq:x", "pip install 'pydantic-ai-slim[groq]'")],
)
async def test_a_missing_package_is_told_with_the_command_that_installs_it(
    model: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = model.partition(":")[0]
    monkeypatch.delitem(sys.modules, f"pydantic_ai.providers.{library}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    error = await failed(ModelActivities({}), asked(model=model))
    assert (error.type, error.non_retryable) == ("unknown_model", True)
    assert package in str(error)


CLAUDE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-6",
    "stop_reason": "tool_use",
    "content": [
        {"type": "text", "text": "let me see"},
        {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"title": "a"}},
    ],
    "usage": {"input_tokens": 1000, "output_tokens": 100},
}
GEMINI = {
    "candidates": [
        {
            "finishReason": "STOP",
            "content": {
                "role": "model",
                "parts": [
                    {"text": "let me see"},
                    {"functionCall": {"name": "search", "args": {"title": "a"}}, "thoughtSignature": "c2lnbmVk"},
                ],
            },
        }
    ],
    "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 100, "totalTokenCount": 1100},
    "modelVersion": "gemini-2.5-pro",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "body", "id_"),
    [("anthropic:claude-sonnet-4-6", CLAUDE, "toolu_1"), ("google:gemini-2.5-pro", GEMINI, "")],
)
async def test_the_other_providers_converse_as_well(provider: Provider, model: str, body: Any, id_: str) -> None:
    models = ModelAlias(model, "TEST_KEY", provider.url.removesuffix("/v1"))
    provider.reply(Reply(body=body), Reply(body=body), Reply(status=429, body={"error": {"message": "slow down"}}))
    first = asked(tools=[SEARCH], settings={"max_tokens": 500})
    reply = await call(models, first)
    assert reply.tool_calls == [ToolCall(id=id_, name="search", args={"title": "a"})]
    assert (reply.output, reply.usage.input_tokens) == ("let me see", 1000)
    assert reply.usage.cost_usd and reply.usage.cost_usd > 0
    ours = reply.model_copy(update={"tool_calls": [reply.tool_calls[0].model_copy(update={"id": "c1"})]})
    second = answered(first, ours, Message(role="tool", call="c1", tool="search", content="fish"))
    await call(models, second)
    assert "fish" in json.dumps(provider.requests[1].body)
    error = await failed(models, second)
    assert (error.type, error.non_retryable, len(provider.requests)) == ("model_rate_limited", False, 3)
    assert "slow down" in str(error)


async def test_an_option_that_a_provider_does_not_take_is_refused() -> None:
    error = await failed(ModelAlias("deepseek:chat", api_key_env="TEST_KEY", base_url="http://inside/v1"))
    assert error.type == "unknown_model" and "deepseek takes no base_url" in str(error)


@pytest.mark.slow
def test_a_worker_does_without_the_library_until_a_real_model_is_asked_for() -> None:
    code = "import sys, worker; sys.exit('pydantic_ai' in sys.modules)"
    home = Path(__file__).parent.parent.parent
    assert subprocess.run([sys.executable, "-c", code], cwd=home, check=False).returncode == 0


def test_an_alias_is_written_in_the_deployments_file(tmp_path: Path) -> None:
    text = '[models.fast]\nmodel = "openai:x"\napi_key_env = "K"\nbase_url = "http://inside/v1"\ntimeout = "1m30s"\n'
    (tmp_path / "holdfast.toml").write_text(text)
    written = load_config(tmp_path).models["fast"].model_dump()
    assert ModelAlias(**written) == ModelAlias("openai:x", "K", "http://inside/v1", 90.0)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('timeout = "soon"', "timeout: must be a duration such as 90, 30s or 1h30m, not 'soon'"),
        ("timeout = 0", "timeout: must be a duration such as 90, 30s or 1h30m, not 0"),
        ('base_url = "inside/v1"', "base_url: must be an http:// or https:// URL"),
    ],
)
def test_an_alias_that_cannot_be_meant_is_refused(tmp_path: Path, line: str, expected: str) -> None:
    (tmp_path / "holdfast.toml").write_text(f'[models.fast]\nmodel = "x"\n{line}\n')
    with pytest.raises(ConfigError, match="holdfast.toml:3: models.fast." + expected):
        load_config(tmp_path)


# Scripts and echoes


async def test_an_alias_may_name_a_script_or_an_echo(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("[first, second]")
    models = ModelActivities({"a": ModelAlias(f"scripted:{tmp_path / 'replies.yaml'}"), "b": ModelAlias("echo")})
    assert (await call(models, asked(model="a", n=2))).output == "second"
    assert (await call(models, asked({"x": 1}, model="b"))).output == {"x": 1}


async def test_a_scripted_output_that_does_not_fit_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text('[{output: {titel: x}}, "no", \'{"title": "x"}\']')
    script = ModelAlias(f"scripted:{tmp_path / 'replies.yaml'}")
    first, second, third = [await call(script, asked(n=n, output_schema=POEM)) for n in (1, 2, 3)]
    assert (first.output, first.problem) == ({"titel": "x"}, "title is missing")
    assert (second.output, second.problem) == ("no", "the text is not JSON, and the value must be an object")
    assert (third.output, third.problem) == ({"title": "x"}, None)


async def test_scripted_calls_keep_their_ids_and_their_arguments_are_templates(tmp_path: Path) -> None:
    text = "[{tool_calls: [{id: k, name: search, args: {q: '{{ messages[-1].content }}', n: 1}}, {name: search}]}]"
    (tmp_path / "replies.yaml").write_text(text)
    reply = await call(ModelAlias(f"scripted:{tmp_path / 'replies.yaml'}"), asked("fish"))
    assert reply.tool_calls == [ToolCall(id="k", name="search", args={"q": "fish", "n": 1}), ToolCall(name="search")]


async def test_a_script_may_give_its_output_by_final_result(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("[{tool_calls: [{name: final_result, args: {title: x}}]}]")
    reply = await call(ModelAlias(f"scripted:{tmp_path / 'replies.yaml'}"), asked(output_schema=POEM))
    assert (reply.output, reply.tool_calls) == ({"title": "x"}, [])


async def test_a_script_expects_what_tools_said_too(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("[{output: x, expect: '\"found\":3'}]")
    script = ModelAlias(f"scripted:{tmp_path / 'replies.yaml'}")
    assert (await failed(script)).type == "script_expectation"
    result = Message(role="tool", call="c", tool="search", content={"found": 3})
    assert (await call(script, asked(messages=[result]))).output == "x"
