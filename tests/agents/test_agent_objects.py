"""Agents of a team's own library, brought in by `from`: each request and each call is an activity of the workflow."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from holdfast.client.event_texts import progress
from holdfast.protocol.runs import HistoryLimits
from tests.agents.turns import call, team_agent, turn
from tests.conftest import Harness
from tests.tools import calls

ADVICE = {"output": {"advice": "Block it.", "block_card": True}}
BAD = {"output": {"advice": "bad", "block_card": False}}


def customer(house: Harness) -> str:
    return f"{house.folder} Ana"


async def said(house: Harness, replies: list[Any], name: str = "support", **more: Any) -> list[Any]:
    """The results of the calls, as the events tell them."""
    run = await house.start(team_agent(house, replies, name, **more), customer(house))
    await house.output(run)
    events = await house.runs.watch.events(run)
    returned = [event.data for event in events if event.type == "tool.returned"]
    return [data.result for data in returned if not data.tool.endswith("/final_output")]


async def test_an_agent_of_the_team_calls_its_tools_and_gives_its_type(house: Harness) -> None:
    run = await house.start(team_agent(house, [turn(call("balance", pending=True)), ADVICE]), customer(house))
    assert await house.output(run) == ADVICE["output"]
    assert (calls(house.folder, "balance"), calls(house.folder, "greet"), calls(house.folder, "careful")) == (1, 1, 1)


@pytest.mark.slow
async def test_a_tool_that_requires_approval_asks_a_person_before_it_is_called(house: Harness) -> None:
    run = await house.start(team_agent(house, [turn(call("refund", amount=5)), ADVICE]), customer(house))
    question = await house.one(run)
    assert (question.message, question.info) == ("May refund be called?", {"tool": "refund", "args": {"amount": 5}})
    assert calls(house.folder, "refund") == 0
    await house.answer(run, {"granted": True}, question)
    assert await house.output(run) == ADVICE["output"]
    assert calls(house.folder, "refund") == 1


async def test_a_call_that_is_denied_is_told_to_the_model(house: Harness) -> None:
    script = [turn(call("refund", amount=5)), {"expect": "not approved: too much", **ADVICE}]
    run = await house.start(team_agent(house, script), customer(house))
    await house.answer(run, {"granted": False, "reason": "too much"})
    assert await house.output(run) == ADVICE["output"]
    assert calls(house.folder, "refund") == 0


@pytest.mark.slow
async def test_arguments_that_do_not_fit_are_told_to_the_model_and_nobody_is_asked(house: Harness) -> None:
    script = [turn(call("refund", amount="much")), {"expect": "valid integer", **ADVICE}]
    run = await house.start(team_agent(house, script), customer(house))
    assert await house.output(run) == ADVICE["output"]


@pytest.mark.slow
async def test_a_tool_may_ask_for_approval_by_itself(house: Harness) -> None:
    calls_made = turn(call("transfer", "a", amount=5), call("transfer", "b", amount=500))
    run = await house.start(team_agent(house, [calls_made, {"expect": "transferred 500", **ADVICE}]), customer(house))
    question = await house.one(run)
    assert question.info["args"] == {"amount": 500}
    await house.answer(run, {"granted": True}, question)
    assert await house.output(run) == ADVICE["output"]
    assert calls(house.folder, "transfer") == 2


@pytest.mark.slow
async def test_a_deferred_call_waits_for_its_result_and_is_not_made_again(house: Harness) -> None:
    run = await house.start(
        team_agent(house, [turn(call("appraise", item="ring")), {"expect": "900", **ADVICE}]), customer(house)
    )
    question = await house.one(run)
    assert question.info["metadata"] == {"item": "ring"}
    await house.answer(run, 900, question)
    assert await house.output(run) == ADVICE["output"]
    assert calls(house.folder, "appraise") == 1


@pytest.mark.slow
async def test_an_external_tool_waits_for_its_result(house: Harness) -> None:
    run = await house.start(team_agent(house, [turn(call("ask_office", about="rain")), "fine"], "plain"), "Go")
    question = await house.one(run)
    assert question.info["args"] == {"about": "rain"}
    await house.answer(run, {"mm": 3}, question)
    assert await house.output(run) == "fine"


@pytest.mark.slow
async def test_a_tool_that_asks_for_another_call_counts_its_retries(house: Harness) -> None:
    script = [turn(call("guess", number=n)) for n in (1, 2, 7)]
    assert await said(house, [*script, ADVICE]) == ["right after 2"]
    failed = [event.data for event in await house.runs.watch.events(house.started[0]) if event.type == "tool.failed"]
    assert [(data.tool, data.error, data.message) for data in failed] == [
        ("tests.team_agents:support/guess", "call_again", "not 1, try 0"),
        ("tests.team_agents:support/guess", "call_again", "not 2, try 1"),
    ]


@pytest.mark.slow
async def test_a_tool_whose_retries_are_used_up_ends_the_agent(house: Harness) -> None:
    run = await house.start(team_agent(house, [turn(call("guess", number=n)) for n in (1, 2, 3)]), customer(house))
    error = (await house.result(run)).error
    assert (error.type, error.message.partition(" count")[0]) == ("tool_retries", "Tool 'guess' exceeded max retries")
    assert error.output == {"called": ["tests.team_agents:support/guess"]}


@pytest.mark.slow
async def test_an_unknown_tool_is_told_by_the_library(house: Harness) -> None:
    script = [turn(call("refnd")), {"expect": "Unknown tool name: 'refnd'", **ADVICE}]
    run = await house.start(team_agent(house, script), customer(house))
    assert await house.output(run) == ADVICE["output"]


@pytest.mark.slow
async def test_functions_see_the_run_as_it_is(house: Harness) -> None:
    script = [turn(call("balance", pending=False)), turn(call("look", "a"), call("look", "b")), ADVICE]
    results = await said(house, script)
    # The second step: the request, the reply, the result, the reply that calls.
    assert results[1:] == [f"'{customer(house)}' 2 qsqs 2 1 {house.started[0]}"] * 2


@pytest.mark.slow
async def test_an_output_that_a_validator_refuses_is_given_again(house: Harness) -> None:
    run = await house.start(
        team_agent(house, [BAD, {"expect": "better advice, please (0)", **ADVICE}]), customer(house)
    )
    assert await house.output(run) == ADVICE["output"]
    assert calls(house.folder, "careful") == 2
    checks = [event for event in await house.runs.watch.events(run) if event.address.endswith("final_output:1")]
    assert [event.type for event in checks] == ["tool.called", "tool.failed"]
    assert "✗ final_output  better advice, please (0)" in str(progress(checks[-1]))


@pytest.mark.slow
async def test_an_output_that_is_never_right_ends_the_agent(house: Harness) -> None:
    run = await house.start(team_agent(house, [BAD]), customer(house))
    assert (await house.result(run)).error.type == "output_invalid"
    assert calls(house.folder, "careful") == 3


@pytest.mark.slow
async def test_an_output_of_the_wrong_type_is_given_again(house: Harness) -> None:
    script = [{"output": {"advice": "x"}}, {"expect": "block_card", **ADVICE}]
    run = await house.start(team_agent(house, script), customer(house))
    assert await house.output(run) == ADVICE["output"]


async def test_an_output_beside_calls_comes_after_them(house: Harness) -> None:
    both = turn(call("final_result", "o", advice="x", block_card=False), call("balance", "b", pending=True))
    run = await house.start(team_agent(house, [both]), customer(house))
    assert await house.output(run) == {"advice": "x", "block_card": False}
    assert calls(house.folder, "balance") == 1


async def test_an_output_is_not_taken_while_a_call_is_to_be_made_again(house: Harness) -> None:
    both = turn(call("final_result", "o", advice="x", block_card=False), call("guess", "g", number=1))
    run = await house.start(team_agent(house, [both, {"expect": "not taken", **ADVICE}]), customer(house))
    assert await house.output(run) == ADVICE["output"]


@pytest.mark.slow
async def test_toolsets_give_results_with_more_than_a_value(house: Harness) -> None:
    script = [turn(call("t_plain_add", "a", a=1, b=2), call("t_shown", "s", url="x:y")), "done"]
    assert await said(house, script, "plain") == [3, "shown"]


@pytest.mark.slow
async def test_dependencies_are_closed_after_each_activity(house: Harness) -> None:
    run = await house.start(team_agent(house, [turn(call("balance", pending=True)), ADVICE]), customer(house))
    await house.output(run)
    assert calls(house.folder, "closed") == 4  # two requests, a call, the check of the output


@pytest.mark.slow
async def test_the_blueprint_says_more_of_its_tools_and_more_instructions(house: Harness) -> None:
    more = {"tools": [{"name": "balance", "approve": "always"}], "human": ["ask"], "instructions": "Be kind."}
    ask = turn(call("request_user_info", question="Which one?"))
    run = await house.start(
        team_agent(house, [ask, turn(call("balance", pending=True)), ADVICE], **more), customer(house)
    )
    assert await house.answered(run, "The blue one", {"granted": True}) == ["Which one?", "May balance be called?"]
    assert await house.output(run) == ADVICE["output"]


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 2])
async def test_a_run_goes_on_across_continue_as_new(house: Harness, rounds: int) -> None:
    script = [turn(call("guess", number=1)), turn(call("guess", number=7)), turn(call("refund", amount=1))]
    text = team_agent(house, [*script, turn(call("look")), BAD, ADVICE])
    run = await house.start(text, customer(house), history_limits=HistoryLimits(rounds=rounds))
    await house.answer(run, {"granted": True})
    assert await house.output(run) == ADVICE["output"]
    made = {name: calls(house.folder, name) for name in ("greet", "refund", "careful")}
    assert made == {"greet": 1, "refund": 1, "careful": 2}
    assert len(await house.histories(run)) > 2


@pytest.mark.slow
async def test_limits_and_turns_count_for_it(house: Harness) -> None:
    script = [turn(call("balance", pending=bool(n))) for n in (0, 1)]
    run = await house.start(team_agent(house, script, max_turns=2), customer(house))
    assert (await house.result(run)).error.type == "max_turns"
    run = await house.start(team_agent(house, script, limits={"model_calls": 1}), customer(house))
    assert (await house.result(run)).error.type == "limit_reached"


@pytest.mark.slow
async def test_a_function_that_is_an_agent_is_called_once(house: Harness) -> None:
    inner = "{from: 'tests.team_agents:prophet'}"
    steps = f"[{{name: see, agent: seer}}, {{name: again, agent: {inner}}}]"
    run = await house.start(f"agents: {{seer: {{from: prophet}}}}\nsteps: {steps}", "all")
    assert await house.output(run) == "42 is the answer to 42 is the answer to all"


@pytest.mark.slow
async def test_requests_that_a_function_makes_itself_count_against_limits(house: Harness) -> None:
    steps = "[{name: see, agent: seer}, {name: again, agent: seer}]"
    run = await house.start(
        f"agents: {{seer: {{from: 'tests.team_agents:metered'}}}}\nlimits: {{model_calls: 3}}\nsteps: {steps}", "all"
    )
    assert (await house.result(run)).error.message == "the limit of 3 model calls of the run is reached (3 spent)"
    state = await house.runs.state(run)
    usage = state.usage
    assert (usage.requests, usage.input_tokens, usage.output_tokens, usage.cost_usd) == (3, 1_000_000, 7, 2.5)
    [step, _] = (await house.runs.watch.trace(state)).steps
    assert (step.spent.requests, step.spent.tokens) == (3, 1_000_007)


@pytest.mark.slow
async def test_requests_of_an_agent_that_a_tool_runs_count(house: Harness) -> None:
    run = await house.start(
        "agents: {asks: {from: 'tests.team_agents:delegates'}}\nsteps: [{name: it, agent: asks}]", "Go"
    )
    assert await house.output(run) == '{"delegate":"yes"}'
    assert (await house.runs.state(run)).usage.requests == 3  # two of its own


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 50])
async def test_a_pause_holds_it_on_both_sides_of_a_continue_as_new(house: Harness, rounds: int) -> None:
    script = [turn(call("refund", amount=1)), turn(call("refund", amount=2)), ADVICE]
    run = await house.start(team_agent(house, script), customer(house), history_limits=HistoryLimits(rounds=rounds))
    await house.answer(run, {"granted": True})
    question = await house.one(run)
    await house.runs.control.pause(run)
    await house.answer(run, {"granted": True}, question)
    assert calls(house.folder, "refund") == 1
    await house.runs.control.resume(run)
    assert await house.output(run) == ADVICE["output"]
    assert calls(house.folder, "refund") == 2


@pytest.mark.slow
async def test_a_cancel_reaches_it_behind_a_continue_as_new(house: Harness) -> None:
    script = [turn(call("balance", pending=True)), turn(call("refund", amount=2)), ADVICE]
    run = await house.start(team_agent(house, script), customer(house), history_limits=HistoryLimits(rounds=1))
    await house.one(run)
    await house.runs.control.cancel(run)
    assert (await house.result(run)).status == "cancelled"
    assert calls(house.folder, "refund") == 0


async def test_it_is_a_tool_of_another_agent(house: Harness) -> None:
    house.script(
        yaml.safe_dump({"boss": [turn(call("plain", input="Add.")), "{{ messages[-1].content }}"], "plain": "3"})
    )
    agents = {
        "boss": {"model": "scripted:replies.yaml", "tools": ["agent:plain"]},
        "plain": {"from": "tests.team_agents:bare", "model": "scripted:replies.yaml"},
    }
    run = await house.start(yaml.safe_dump({"agents": agents, "steps": [{"name": "boss", "agent": "boss"}]}), "Go")
    assert await house.output(run) == "3"


async def test_a_tool_that_cancels_its_run_ends_the_agent(house: Harness) -> None:
    run = await house.start(team_agent(house, [turn(call("give_up")), ADVICE]), customer(house))
    assert (await house.result(run)).error.type == "agent_cancelled"


@pytest.mark.slow
async def test_what_is_not_carried_fails_the_call_and_a_tool_may_interrupt(house: Harness) -> None:
    script = [turn(call("add_note")), {"expect": "is not carried", **turn(call("pick"))}, {"expect": "blue", **ADVICE}]
    run = await house.start(team_agent(house, script), customer(house))
    assert await house.answered(run, "blue") == ["Which one?"]
    assert await house.output(run) == ADVICE["output"]
    assert calls(house.folder, "picked") == 1


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize(
    ("name", "told", "tool"),
    [
        ("shortens", "2 ToolCallPart ToolReturnPart", "plain_add"),
        ("instrumented", "3 UserPromptPart ToolCallPart ToolReturnPart", "plain_add"),
        ("prefixes", "3 UserPromptPart ToolCallPart ToolReturnPart", "math_plain_add"),
        (
            "searches",
            "3 UserPromptPart NativeToolCallPart NativeToolReturnPart ToolCallPart ToolReturnPart",
            "plain_add",
        ),
    ],
)
async def test_a_capability_that_acts_within_a_request_is_carried(
    house: Harness, name: str, told: str, tool: str
) -> None:
    boss = {"from": f"tests.team_agents:{name}"}
    blueprint = {"agents": {"boss": boss}, "steps": [{"name": "boss", "agent": "boss"}]}
    run = await house.start(yaml.safe_dump(blueprint), "Go")
    assert await house.output(run) == told
    called = [event.data.tool for event in await house.runs.watch.events(run) if event.type == "tool.called"]
    assert [name.rpartition("/")[2] for name in called] == [tool]
