"""Every kind of reply, and of failure, over each of the four wires."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from holdfast.activities.models import ModelActivities
from holdfast.protocol.agents import Message, ModelReply, ModelRequest, ToolCall, ToolSpec
from tests.activities.model_calls import answered, asked, call, failed
from tests.activities.provider import Reply
from tests.wire.fake import Fake

pytestmark = pytest.mark.matrix

WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
SEARCH = ToolSpec(name="search", description="Looks things up.", parameters=WORD)


@pytest.fixture
def models(fake: Fake) -> ModelActivities:
    return ModelActivities({"fast": fake.alias})


def tool_results(request: ModelRequest, reply: ModelReply, *more: Message) -> ModelRequest:
    results = [Message(role="tool", call=one.id, tool=one.name, content={"found": 1}) for one in reply.tool_calls]
    return answered(request, reply, *results, *more)


async def test_a_text(fake: Fake, models: ModelActivities) -> None:
    fake.text("hi")
    reply = await call(models, asked())
    assert (reply.output, reply.tool_calls, reply.finish, reply.usage.tokens) == ("hi", [], "finished", 18)


@pytest.mark.first_row
async def test_calls_and_their_results(fake: Fake, models: ModelActivities) -> None:
    fake.calls(("search", {"word": "a"}), ("search", {"word": "b"}))
    fake.text("done")
    first = asked(tools=[SEARCH])
    reply = await call(models, first)
    assert [one.args for one in reply.tool_calls] == [{"word": "a"}, {"word": "b"}]
    assert (await call(models, tool_results(first, reply))).output == "done"
    assert fake.refused == []


async def test_a_text_beside_a_call_goes_back_with_it(fake: Fake, models: ModelActivities) -> None:
    fake.reply(Reply(text="Let me see.", calls=(("search", {"word": "a"}, "call_1"),)), Reply(text="done"))
    first = asked(tools=[SEARCH])
    reply = await call(models, first)
    assert (reply.output, len(reply.tool_calls), reply.finish) == ("Let me see.", 1, "finished")
    await call(models, tool_results(first, reply, Message(role="user", content="Go on.")))
    assert fake.refused == [] and "Let me see." in str(fake.requests[1].body)


IDS = [["", ""], ["same", "same"], ["a", "a~2"], ["x" * 90], ["call|fc.1:2"], ["ünïcode"]]


@pytest.mark.first_row
@pytest.mark.parametrize("ids", IDS)
async def test_call_ids_of_any_kind_are_fit_to_go_back(fake: Fake, models: ModelActivities, ids: list[str]) -> None:
    fake.text("done")
    calls = [ToolCall(id=id_, name="search", args={"word": str(n)}) for n, id_ in enumerate(ids)]
    said = ModelReply(output="", tool_calls=calls)
    await call(models, tool_results(asked(tools=[SEARCH]), said))
    assert fake.refused == []


async def test_a_call_of_a_strange_name_can_go_back(fake: Fake, models: ModelActivities) -> None:
    fake.reply(Reply(calls=(("no such.tool!", {}, "call_1"),)), Reply(text="done"))
    first = asked(tools=[SEARCH])
    reply = await call(models, first)
    assert reply.tool_calls[0].name == "no such.tool!"
    assert (await call(models, tool_results(first, reply))).output == "done"


STRANGE = ["2nd-reader", "a" * 70, "a" * 69 + "b", "files.read/all"]


async def test_tools_of_names_that_no_api_takes_are_offered_called_and_answered(
    fake: Fake, models: ModelActivities
) -> None:
    tools = [ToolSpec(name=name, description="Looks things up.", parameters=WORD) for name in STRANGE]
    fake.reply(lambda request: _calls_all(fake, request), Reply(text="done"))
    first = asked(tools=tools)
    reply = await call(models, first)
    assert [one.name for one in reply.tool_calls] == STRANGE
    assert (await call(models, tool_results(first, reply))).output == "done"
    assert fake.refused == []


def _calls_all(fake: Fake, request: Any) -> Reply:
    """Call every tool by its name on the wire."""
    names = fake.api.offered(request)
    return Reply(calls=tuple((name, {"word": "a"}, f"call_{n}") for n, name in enumerate(names)))


async def test_an_empty_turn_in_the_history_can_go_back(fake: Fake, models: ModelActivities) -> None:
    fake.text("done")
    said = [Message(role="assistant", content=""), Message(role="user", content=""), Message(role="user", content="?")]
    await call(models, asked(messages=[Message(role="user", content=""), *said]))
    assert fake.refused == []


async def test_a_history_that_begins_with_a_reply_can_be_sent(fake: Fake, models: ModelActivities) -> None:
    fake.text("done")
    await call(models, asked(messages=[Message(role="assistant", content="Hello"), Message(role="user", content="?")]))
    assert fake.refused == []


OUTPUTS: list[tuple[dict[str, Any], Any]] = [
    (WORD, {"word": "a"}),
    ({"type": "object"}, {"any": [1]}),
    ({"type": "object", "required": ["goal", "steps"]}, {"goal": "x", "steps": [], "notes": 1}),
    ({"type": "array", "items": {"type": "object"}}, [{"a": 1}]),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None),
    ({"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}, [[]]),
    ({"type": "object", "properties": {"kind": {"const": "a"}, "n": {"enum": [1, None]}}}, {"kind": "a", "n": None}),
    ({}, {"anything": True}),
]


@pytest.mark.first_row
@pytest.mark.parametrize(("schema", "value"), OUTPUTS)
async def test_an_output_of_any_schema(fake: Fake, models: ModelActivities, schema: dict[str, Any], value: Any) -> None:
    fake.reply(lambda request: _result(fake, request, value))
    reply = await call(models, asked(output_schema=schema))
    assert (reply.output, reply.problem, fake.refused) == (value, None, [])


def _result(fake: Fake, request: Any, value: Any) -> Reply:
    """The output as the tool on the wire wants it."""
    properties = fake.api.offered(request)["final_result"].get("properties", {})
    args = {"result": value} if properties.keys() == {"result"} else value
    return Reply(calls=(("final_result", args, "call_1"),))


ENDS = [
    ("length", "Half a", "cut_off"),
    ("length", "", "cut_off"),
    (None, "", "empty"),
    ("content_filter", "", "filtered"),
    ("refusal", "I will not.", "refused"),
]


@pytest.mark.first_row
@pytest.mark.parametrize("with_tools", [False, True])
@pytest.mark.parametrize("schema", [None, WORD])
@pytest.mark.parametrize(("ended", "text", "finish"), ENDS)
async def test_how_a_reply_ended(
    fake: Fake, models: ModelActivities, ended: str, text: str, finish: str, schema: Any, with_tools: bool
) -> None:
    fake.text(text, finish=ended)
    reply = await call(models, asked(output_schema=schema, tools=[SEARCH] if with_tools else []))
    expected = WITHHELD.get(fake.api.name, {}).get(finish, finish)
    assert (reply.finish, reply.problem, reply.usage.tokens) == (expected, None, 18)


WITHHELD = {"anthropic": {"filtered": "refused"}, "google": {"refused": "filtered"}}
"""Anthropic only refuses, Google only filters."""


async def test_a_call_that_is_cut_off_is_told_as_cut_off(fake: Fake, models: ModelActivities) -> None:
    fake.calls(("search", '{"wor'), finish="length")
    assert (await call(models, asked(tools=[SEARCH]))).finish == "cut_off"


@pytest.mark.parametrize("fake", ["chat", "responses"], indirect=True)
async def test_arguments_that_are_no_json_are_told(fake: Fake, models: ModelActivities) -> None:
    fake.calls(("search", '{"word": '))
    fake.text("done")
    first = asked(tools=[SEARCH])
    reply = await call(models, first)
    assert reply.finish == "finished" and reply.tool_calls[0].unreadable
    await call(models, tool_results(first, reply))
    assert fake.refused == []


FAILURES = [
    (429, "model_rate_limited", False),
    (500, "model_unavailable", False),
    (503, "model_unavailable", False),
    (401, "model_auth", True),
    (400, "model_rejected", True),
]


@pytest.mark.first_row
@pytest.mark.parametrize(("status", "kind", "is_final"), FAILURES)
async def test_errors_are_typed(fake: Fake, models: ModelActivities, status: int, kind: str, is_final: bool) -> None:
    fake.fail(status, "no", headers={"Retry-After": "7"})
    error = await failed(models)
    assert (error.type, error.non_retryable, len(fake.requests)) == (kind, is_final, 1)
    if status == 429:
        assert error.next_retry_delay is not None and error.next_retry_delay.total_seconds() == 7


async def test_a_connection_that_is_cut_is_tried_again(fake: Fake, models: ModelActivities) -> None:
    fake.reply(Reply(resets=True))
    error = await failed(models)
    assert (error.type, error.non_retryable, len(fake.requests)) == ("model_unavailable", False, 1)


@pytest.mark.slow
@pytest.mark.first_row
async def test_a_reply_that_does_not_come_is_given_up(fake: Fake, models: ModelActivities) -> None:
    fake.hang()
    error = await failed(models, asked(timeout=2))  # enough for the request to arrive
    assert (error.type, error.non_retryable) == ("model_timeout", False)
    await fake.left()


@pytest.mark.first_row
@pytest.mark.parametrize("body", ["nonsense", {}, [], {"choices": []}, {"candidates": []}, {"content": None}])
async def test_a_body_that_makes_no_sense_is_no_output(fake: Fake, models: ModelActivities, body: Any) -> None:
    fake.reply(Reply(body=body))
    try:
        reply = await call(models, asked())
    except Exception as error:  # noqa: BLE001 whatever it is, it is typed
        assert getattr(error, "type", None) in ("model_error", "model_unavailable"), error
    else:
        assert reply.finish == "empty"


async def test_the_key_is_in_no_failure(fake: Fake, models: ModelActivities, key: str) -> None:
    fake.fail(401, f"Incorrect API key provided: {key}, header Bearer {key}")
    error = await failed(models)
    assert key not in str(error) and key not in repr(error.details) and error.__cause__ is None


# Cut in the middle


@pytest.mark.first_row
@pytest.mark.parametrize("part", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("calls", [(), (("search", {"word": "a"}, "call_1"),)])
async def test_a_reply_whose_connection_breaks_is_never_taken_for_whole(
    fake: Fake, models: ModelActivities, part: float, calls: Any
) -> None:
    fake.reply(Reply(text="The total is 1,200 euros.", calls=calls, cut=part))
    try:
        reply = await call(models, asked(tools=[SEARCH]))
    except ApplicationError as error:
        assert (error.type, error.non_retryable) in (("model_unavailable", False), ("model_error", False))
    else:
        is_whole = reply.output == "The total is 1,200 euros." and len(reply.tool_calls) == len(calls)
        assert reply.finish in ("cut_off", "empty") or (is_whole and part < 0.05)
