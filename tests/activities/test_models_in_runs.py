"""Models in runs: what Temporal makes of their failures, on a real server."""

from __future__ import annotations

from typing import Any

import pytest

import tests.tools  # noqa: F401 registers the tools
from holdfast.client.trace import Trace
from tests.activities.provider import Provider, Reply
from tests.conftest import Harness


def blueprint(provider: Provider, *more: str, tools: str = "") -> str:
    keys = "".join(f", {one}" for one in (*more, tools) if one)
    return f"""
agents: {{drafter: {{model: "openai-compatible:small@{provider.url}", instructions: Be brief.{keys}}}}}
steps:
  - {{name: draft, agent: drafter, input: fish}}
output: "{{{{ steps.draft.output }}}}"
"""


async def test_a_rate_limit_is_waited_out_and_the_run_completes(house: Harness, provider: Provider) -> None:
    provider.status(429, "slow down", headers={"Retry-After": "1"})
    provider.status(503, "busy")
    provider.text("a poem")
    run = await house.start(blueprint(provider))
    assert await house.output(run) == "a poem"
    assert len(provider.requests) == 3


async def test_a_rejected_request_fails_the_run_at_once_with_its_type(house: Harness, provider: Provider) -> None:
    provider.status(400, "strange", "context_length_exceeded")
    outcome = await house.result(await house.start(blueprint(provider)))
    assert outcome.status == "failed" and outcome.error
    assert outcome.error.type == "context_overflow"
    assert len(provider.requests) == 1


@pytest.mark.slow
async def test_cancelling_a_run_ends_its_request(house: Harness, provider: Provider) -> None:
    provider.hang()
    run = await house.start(blueprint(provider))
    await provider.asked()
    await house.runs.control.cancel(run)
    await provider.left()
    assert (await house.result(run)).status == "cancelled"


# What a reply may be


async def replied(house: Harness, run: str) -> list[Any]:
    """How each reply of a run ended."""
    return [event.data.finish for event in await house.runs.watch.events(run) if event.type == "model.replied"]


BAD = [
    pytest.param(Reply(text="The total is 1,2", finish="length"), "cut_off", id="cut off"),
    pytest.param(Reply(text=""), "empty", id="empty"),
    pytest.param(Reply(text=" \n"), "empty", id="blank"),
    pytest.param(Reply(calls=(("stringy", '{"tex', "c1"),), finish="length"), "cut_off", id="call cut off"),
    pytest.param(Reply(calls=(("stringy", {"text": "a"}, "c1"),), finish="length"), "cut_off", id="perhaps cut off"),
]


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("with_tools", [False, True])
@pytest.mark.parametrize(("bad", "finish"), BAD)
async def test_a_reply_that_is_not_whole_is_asked_for_again(
    house: Harness, provider: Provider, bad: Reply, finish: str, with_tools: bool
) -> None:
    provider.reply(bad, Reply(text="The total is 1,200."))
    run = await house.start(blueprint(provider, tools="tools: [stringy]" if with_tools else ""))
    assert await house.output(run) == "The total is 1,200."
    assert await replied(house, run) == [finish, "finished"]
    assert (await house.runs.state(run)).usage.requests == 2
    first, again = (request.messages for request in provider.requests)
    # Messages of one role that follow each other are sent as one.
    assert [message["role"] for message in again] == ["system", "user"], "nothing of the bad reply goes back"
    assert again[1]["content"].startswith(first[1]["content"]) and again[1]["content"] != first[1]["content"]


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("with_tools", [False, True])
@pytest.mark.parametrize(("bad", "finish"), BAD)
async def test_one_that_never_is_fails_the_step_after_three(
    house: Harness, provider: Provider, bad: Reply, finish: str, with_tools: bool
) -> None:
    provider.always(bad)
    run = await house.start(blueprint(provider, tools="tools: [stringy]" if with_tools else ""))
    outcome = await house.result(run)
    assert outcome.error and outcome.error.type == f"reply_{finish}"
    usage = (await house.runs.state(run)).usage
    assert (len(provider.requests), usage.requests, usage.tokens) == (3, 3, 54)


async def test_an_output_that_was_cut_off_is_asked_for_again(house: Harness, provider: Provider) -> None:
    cut = Reply(calls=(("final_result", '{"sum": 1', "c1"),), finish="length")
    provider.reply(cut, Reply(calls=(("final_result", {"sum": 1200}, "c2"),)))
    schema = "output_schema: {type: object, required: [sum], properties: {sum: {type: number}}}"
    run = await house.start(blueprint(provider, schema))
    assert await house.output(run) == {"sum": 1200}
    assert await replied(house, run) == ["cut_off", "finished"]


@pytest.mark.slow
async def test_a_filtered_reply_fails_at_once_and_counts(house: Harness, provider: Provider) -> None:
    provider.text("Half of a", finish="content_filter")
    run = await house.start(blueprint(provider))
    outcome = await house.result(run)
    assert outcome.error and outcome.error.type == "content_filter"
    assert await replied(house, run) == ["filtered"]
    assert (await house.runs.state(run)).usage.tokens == 18


@pytest.mark.slow
async def test_the_end_of_a_reply_stands_in_the_trace(house: Harness, provider: Provider) -> None:
    provider.always(Reply(text=""))
    run = await house.start(blueprint(provider))
    await house.result(run)
    trace = Trace("test", "pipeline:test", "failed")
    for event in await house.runs.watch.events(run):
        trace.take(event)
    [draft] = trace.root.steps
    assert draft.replies == {"empty": 3}


@pytest.mark.slow
async def test_a_script_may_end_a_reply_as_a_model_may(house: Harness) -> None:
    house.script("[{output: Half, finish: cut_off}]")
    run = await house.start("steps: [{name: draft, agent: {model: 'scripted:replies.yaml'}}]")
    outcome = await house.result(run)
    assert outcome.error and outcome.error.type == "reply_cut_off"
