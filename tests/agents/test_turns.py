"""Agents that work in turns: tools, limits, a person's leave, sub-agents."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

import tests.interrupting  # noqa: F401 registers the tools
from holdfast.protocol.answers import Answer, Refusal
from tests.agents.turns import DONE, agent, call, document, turn
from tests.conftest import Harness, until
from tests.tools import calls

LAST_THREE = "{% for m in messages[-3:] %}{{ m.content }}|{% endfor %}"


async def test_calls_of_a_turn_give_their_results_in_the_order_of_the_calls(house: Harness) -> None:
    said = "done: {% for m in messages[-3:] %}{{ m.call }} {{ m.content }};{% endfor %}"
    both = turn(*(call("look_up", id, folder=str(house.folder), word=id) for id in ("c", "a", "b")))
    run = await house.start(agent(house, [both, said], tools=["look_up"]), "Go")
    assert await house.output(run) == "done: c c 1;a a 1;b b 1;"


async def test_ids_of_calls_that_are_empty_or_repeat_are_told_apart(house: Harness) -> None:
    said = "done: {% for m in messages if m.role == 'tool' %}{{ m.call }} {% endfor %}"
    word = {"folder": str(house.folder), "word": "w"}
    turns = [
        turn(call("look_up", **word), call("look_up", "x", **word)),
        turn(call("look_up", "x", folder="/tmp", word="v")),
        said,
    ]
    run = await house.start(agent(house, turns, tools=["look_up"], human=["ask"]), "Go")
    assert await house.output(run) == "done: 1 x x~2 "


async def test_what_cannot_be_called_is_told_to_the_model_and_it_goes_on(house: Harness) -> None:
    said = "done: {% for m in messages if m.role == 'tool' %}{{ m.content }}|{% endfor %}"
    turns = [turn(call("lookup"), call("look_up", word=1), call("fails_always")), said]
    run = await house.start(agent(house, turns, tools=["look_up", "fails_always"]), "Go")
    unknown, misfit, failed, _ = (await house.output(run)).split("|")
    assert unknown == "done: error: there is no tool 'lookup'; there are: look_up, fails_always"
    assert misfit.startswith("error: the arguments of look_up do not fit: ")
    assert failed == "error: fails_always: ValueError: broken for good"


async def test_five_calls_in_a_row_that_cannot_be_made_stop_the_agent(house: Harness) -> None:
    turns = [turn(call(f"nothing{n}")) for n in range(9)]
    run = await house.start(agent(house, turns, tools=["look_up"]), "Go")
    error = (await house.result(run)).error
    assert (error.type, error.address) == ("bad_calls", "pipeline:test;agent:boss")


async def test_surplus_calls_of_a_turn_and_in_all_get_an_error(house: Harness) -> None:
    said = "{% for m in messages if m.role == 'tool' %}{{ m.content }}|{% endfor %}"
    words = [call("look_up", folder=str(house.folder), word=f"w{n}") for n in range(5)]
    turns = [turn(*words[:3]), turn(*words[3:]), said]
    text = agent(house, turns, tools=["look_up"], max_tool_calls_per_turn=2, max_tool_calls=3)
    results = (await house.output(await house.start(text, "Go"))).split("|")
    assert results[:2] == ["w0 1", "w1 1"]
    assert results[2].startswith("error: not made, as a turn has at most 2 calls")
    assert results[3] == "w3 1"
    assert results[4].startswith("error: no calls are left of 3")


async def test_surplus_calls_of_a_turn_use_nothing_up(house: Harness) -> None:
    said = "{% for m in messages if m.role == 'tool' %}{{ m.content }}|{% endfor %}"
    words = [call("look_up", folder=str(house.folder), word=f"w{n}") for n in range(6)]
    turns = [turn(*words[:4]), turn(words[4]), turn(words[5]), said]
    text = agent(house, turns, tools=["look_up"], max_tool_calls_per_turn=1, max_tool_calls=2)
    results = (await house.output(await house.start(text, "Go"))).split("|")
    assert (results[0], results[4]) == ("w0 1", "w4 1")
    assert results[5].startswith("error: no calls are left of 2")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("request_user_info", {}),
        ("agent:request_user_info", {}),
        ("final_result", {"output_schema": {"type": "object"}}),
    ],
)
async def test_a_tool_of_a_name_that_means_something_else_is_a_failure(
    house: Harness, tool: str, more: dict[str, Any]
) -> None:
    boss = {"model": "echo", "tools": [{"name": tool, "approve": "always"}], **more}
    run = await house.start(document(boss=boss, request_user_info={"model": "echo"}), "Go")
    error = (await house.result(run)).error
    assert (error.type, tool.removeprefix("agent:") in error.message) == ("reserved_tool", True)


async def test_an_agent_that_never_ends_stops_at_its_last_turn(house: Harness) -> None:
    turns = [turn(call("look_up", folder=str(house.folder), word=f"w{n}")) for n in range(5)]
    run = await house.start(agent(house, turns, tools=["look_up"], max_turns=3), "Go")
    assert (await house.result(run)).error.type == "max_turns"
    assert calls(house.folder, "look_up-w2") == 1


async def test_the_same_call_again_and_again_stops_an_agent_even_with_others_between(house: Harness) -> None:
    a, b = (turn(call("look_up", folder=str(house.folder), word=word)) for word in "ab")
    run = await house.start(agent(house, [a, b, a, b, a, b, "end"], tools=["look_up"]), "Go")
    assert (await house.result(run)).error.type == "doom_loop"
    assert calls(house.folder, "look_up-a") == 2


@pytest.mark.slow
async def test_a_person_may_let_a_repeated_call_go_on_and_it_counts_anew(house: Harness) -> None:
    a = turn(call("look_up", folder=str(house.folder), word="a"))
    run = await house.start(agent(house, [a, a, a, a, a, DONE], tools=["look_up"], human=["ask"]), "Go")
    question = await house.one(run)
    assert "again and again" in question.message
    await house.answer(run, {"granted": True})
    assert await house.output(run) == "done: a 5"


# A person's leave

PAY = {"payee": "Ana", "amount": 120.0}


def paying(house: Harness, rounds: int = 1, **more: Any) -> str:
    turns = [*[turn(call("pay_out", folder=str(house.folder), **PAY)) for _ in range(rounds)], DONE]
    return agent(house, turns, **{"tools": [{"name": "pay_out", "approve": "always"}], **more})


async def test_a_yes_runs_the_tool_once(house: Harness) -> None:
    run = await house.start(paying(house), "Go")
    question = await house.one(run)
    assert (question.kind, question.address) == ("permission", "pipeline:test;agent:boss;tool:pay_out:1")
    assert question.info["args"]["payee"] == "Ana"
    assert calls(house.folder, "pay") == 0
    await house.answer(run, {"granted": True})
    assert await house.output(run) == 'done: {"paid":120.0,"to":"Ana"}'
    assert calls(house.folder, "pay") == 1


async def test_a_no_is_a_result_with_the_reason_and_the_agent_goes_on(house: Harness) -> None:
    run = await house.start(paying(house), "Go")
    await house.answer(run, {"granted": False, "reason": "too dear"})
    assert await house.output(run) == "done: not approved: too dear"
    assert calls(house.folder, "pay") == 0
    assert "tool.denied" in await house.types(run)


@pytest.mark.first_row
@pytest.mark.parametrize(
    "answer", [None, {}, "", "yes but", 1, [], {"granted": None}, {"granted": "true"}, {"granted": 1}, {"grant": True}]
)
async def test_an_approval_fails_closed(house: Harness, answer: Any) -> None:
    run = await house.start(paying(house), "Go")
    assert (await house.refused(run, answer)).code == "invalid_answer"
    await house.one(run)
    assert calls(house.folder, "pay") == 0
    await house.decline(run)
    assert await house.output(run) == "done: not approved"
    assert calls(house.folder, "pay") == 0


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["run", "always"])
async def test_leave_for_the_run_is_asked_once(house: Harness, scope: str) -> None:
    run = await house.start(paying(house, rounds=2), "Go")
    await house.answer(run, {"granted": True, "scope": scope})
    assert (await house.output(run)).startswith("done: ")
    assert calls(house.folder, "pay") == 2


async def test_leave_for_the_run_counts_for_agents_that_start_later(house: Harness) -> None:
    house.script(yaml.safe_dump({"boss": [turn(call("pay_out", folder=str(house.folder), **PAY)), "done"]}))
    boss = {"model": "scripted:replies.yaml", "tools": [{"name": "pay_out", "approve": "always"}]}
    steps = [{"name": "boss", "agent": "boss"}, {"name": "again", "agent": boss}]
    house.script(yaml.safe_dump([turn(call("pay_out", folder=str(house.folder), **PAY)), "done"]))
    run = await house.start(yaml.safe_dump({"agents": {"boss": boss}, "steps": steps}))
    await house.answer(run, {"granted": True, "scope": "run"})
    assert await house.output(run) == "done"
    assert calls(house.folder, "pay") == 2


@pytest.mark.slow
async def test_leave_for_the_run_outlasts_the_agent_that_fails_after_it(house: Harness) -> None:
    pays = turn(call("pay_out", folder=str(house.folder), **PAY))
    house.script(yaml.safe_dump({"first": [pays], "second": [pays, "done"]}))
    boss = {"model": "scripted:replies.yaml", "tools": [{"name": "pay_out", "approve": "always"}]}
    steps = [{"name": "a", "agent": "first", "on_error": "continue"}, {"name": "b", "agent": "second"}]
    agents = {"first": {**boss, "max_turns": 1}, "second": boss}
    run = await house.start(yaml.safe_dump({"agents": agents, "steps": steps}))
    await house.answer(run, {"granted": True, "scope": "run"})
    assert await house.output(run) == "done"
    assert calls(house.folder, "pay") == 2


@pytest.mark.slow
@pytest.mark.parametrize(("approve", "asks"), [("args.amount > 100", True), ("args.amount > 200", False)])
async def test_an_expression_on_the_arguments_says_who_is_asked(house: Harness, approve: str, asks: bool) -> None:
    run = await house.start(paying(house, tools=[{"name": "pay_out", "approve": approve}]), "Go")
    if asks:
        await house.answer(run, {"granted": True})
    assert (await house.output(run)).startswith('done: {"paid"')


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("rules", "result"),
    [
        ([{"tool": "p*", "action": "deny"}], "done: pay_out is not permitted here"),
        ([{"action": "deny"}, {"tool": "pay_out", "action": "allow"}], 'done: {"paid":120.0,"to":"Ana"}'),
        (
            [{"tool": "pay_out", "action": "allow"}, {"target": "An?", "action": "deny"}],
            "done: pay_out is not permitted here",
        ),
        ([{"tool": "pay_out", "target": "A*", "action": "allow"}], "asks"),
        ([{"tool": "pay_out", "target": "*", "action": "allow"}], 'done: {"paid":120.0,"to":"Ana"}'),
    ],
)
async def test_of_the_rules_that_fit_the_last_one_counts(house: Harness, rules: list[Any], result: str) -> None:
    """A rule that allows must fit every text among the arguments: the folder does not begin with A."""
    run = await house.start(paying(house, permissions=rules), "Go")
    if result == "asks":
        await house.decline(run)
        result = "done: not approved"
    assert await house.output(run) == result


async def test_an_agent_whose_every_call_is_approved_asks_for_tools_without_a_rule(house: Harness) -> None:
    run = await house.start(paying(house, tools=["pay_out"], human=["approve"]), "Go")
    assert (await house.one(run)).kind == "permission"
    await house.decline(run)
    assert await house.output(run) == "done: not approved"


@pytest.mark.slow
async def test_edited_arguments_are_checked_again_and_the_model_is_told(house: Harness) -> None:
    run = await house.start(paying(house, tools=[{"name": "pay_out", "review": True}]), "Go")
    question = await house.one(run)
    payload = question.info["payload"]
    assert (question.kind, payload["amount"]) == ("review", 120.0)
    bad = {"verdict": "edited", "payload": {**payload, "amount": "much"}}
    assert "payload.amount" in (await house.refused(run, bad)).message
    for wrong in (None, {}, {"verdict": "edited"}, {"verdict": "fine"}, "unchanged"):
        assert (await house.refused(run, wrong)).code == "invalid_answer"
    await house.answer(run, {"verdict": "edited", "payload": {**payload, "amount": 12}})
    output = await house.output(run)
    assert '"paid":12.0' in output
    assert "changed the arguments" in output


async def test_a_rejected_review_does_not_run_the_tool(house: Harness) -> None:
    run = await house.start(paying(house, tools=[{"name": "pay_out", "review": True}]), "Go")
    await house.answer(run, {"verdict": "rejected", "reason": "twice"})
    assert await house.output(run) == "done: rejected: twice"
    assert calls(house.folder, "pay") == 0


async def test_an_edit_cannot_go_round_a_rule(house: Harness) -> None:
    rules = [{"tool": "pay_out", "target": "Eve", "action": "deny"}]
    run = await house.start(paying(house, tools=[{"name": "pay_out", "review": True}], permissions=rules), "Go")
    payload = (await house.one(run)).info["payload"]
    await house.answer(run, {"verdict": "edited", "payload": {**payload, "payee": "Eve"}})
    assert await house.output(run) == "done: pay_out is not permitted with these arguments"


async def test_a_review_is_an_approval_as_well(house: Harness) -> None:
    run = await house.start(paying(house, tools=[{"name": "pay_out", "review": True, "approve": "always"}]), "Go")
    payload = (await house.one(run)).info["payload"]
    await house.answer(run, {"verdict": "edited", "payload": {**payload, "amount": 12}})
    assert '"paid":12.0' in await house.output(run)


async def test_a_repeated_call_that_needs_approval_is_asked_about_once(house: Harness) -> None:
    run = await house.start(paying(house, rounds=3, human=["ask"]), "Go")
    for repeated in (False, False, True):
        question = await house.one(run)
        assert ("again and again" in question.message) is repeated
        await house.answer(run, {"granted": True}, question)
    assert (await house.output(run)).startswith("done: ")
    assert calls(house.folder, "pay") == 3


async def test_nobody_is_asked_about_a_repeated_call_that_is_denied(house: Harness) -> None:
    rules = [{"tool": "pay_out", "action": "deny"}]
    run = await house.start(paying(house, rounds=3, human=["ask"], permissions=rules), "Go")
    assert await house.output(run) == "done: pay_out is not permitted here"


# Questions of the model


async def test_two_questions_of_one_turn_are_asked_one_after_the_other(house: Harness) -> None:
    said = "{% for m in messages if m.role == 'tool' %}{{ m.content }}|{% endfor %}"
    asks = turn(
        call("request_user_info", question="Where to?"),
        call("request_user_info", question="When?", options=["Mon", "Tue"]),
    )
    run = await house.start(agent(house, [asks, said], human=["ask"]), "Go")
    first = await house.one(run)
    assert (first.message, first.kind) == ("Where to?", "clarification")
    await house.answer(run, "Rome")
    second = await house.one(run)
    assert (second.message, second.address) == ("When?", "pipeline:test;agent:boss;tool:request_user_info:2")
    await house.answer(run, "Some day", second)
    assert await house.output(run) == "Rome|Some day|"


@pytest.mark.slow
async def test_five_questions_in_a_row_get_their_own_answers(house: Harness) -> None:
    said = "{% for m in messages if m.role == 'tool' %}{{ m.content }}|{% endfor %}"
    turns = [*[turn(call("request_user_info", question=f"Q{n}?")) for n in range(5)], said]
    run = await house.start(agent(house, turns, human=["ask"]), "Go")
    assert await house.answered(run, *"abcde") == [f"Q{n}?" for n in range(5)]
    assert await house.output(run) == "a|b|c|d|e|"


async def test_a_question_that_says_nothing_is_told_to_the_model_and_asked_of_nobody(house: Harness) -> None:
    turns = [turn(call("request_user_info", question="  ")), DONE]
    run = await house.start(agent(house, turns, human=["ask"]), "Go")
    assert (await house.output(run)).startswith("done: error: the arguments of request_user_info do not fit")
    assert "question.asked" not in await house.types(run)


async def test_a_question_that_is_declined_is_a_result(house: Harness) -> None:
    run = await house.start(
        agent(house, [turn(call("request_user_info", question="Where to?")), DONE], human=["ask"]), "Go"
    )
    await house.decline(run, "ask Bob")
    assert await house.output(run) == "done: nobody answered: the question was declined: ask Bob"


# Agents and blueprints as tools


@pytest.mark.slow
async def test_a_tool_three_levels_deep_asks_and_no_model_is_asked_again(house: Harness) -> None:
    house.script(
        yaml.safe_dump(
            {
                "boss": [turn(call("inner", input="find a flight")), DONE],
                "inner": [
                    turn(call("book", "1", folder=str(house.folder), flight="LH1")),
                    "booked {{ messages[-1].content }}",
                ],
            }
        )
    )
    model = "scripted:replies.yaml"
    text = document(boss={"model": model, "tools": ["agent:inner"]}, inner={"model": model, "tools": ["book"]})
    run = await house.start(text, "Go")
    question = await house.one(run)
    assert question.address == "pipeline:test;agent:boss;tool:inner:1;agent:inner;tool:book:1"
    await house.answer(run, "12A")
    assert await house.output(run) == "done: booked LH1 12A 40"
    assert (await house.types(run)).count("model.requested") == 4
    assert (await house.runs.state(run)).usage.requests == 4


async def test_calls_beside_one_that_interrupts_are_not_made_again(house: Harness) -> None:
    said = "{% for m in messages if m.role == 'tool' %}{{ m.content }}|{% endfor %}"
    folder = str(house.folder)
    both = turn(
        call("look_up", folder=folder, word="a"),
        call("book", folder=folder, flight="F"),
        call("look_up", folder=folder, word="b"),
    )
    run = await house.start(agent(house, [both, said], tools=["look_up", "book"]), "Go")
    await house.answer(run, "1B")
    assert await house.output(run) == "a 1|F 1B 40|b 1|"


async def test_several_interrupts_of_a_turn_are_open_together_and_taken_in_a_batch(house: Harness) -> None:
    said = "{% for m in messages if m.role == 'tool' %}{{ m.content }}|{% endfor %}"
    both = turn(*(call("book", folder=str(house.folder), flight=flight) for flight in ("F1", "F2")))
    run = await house.start(agent(house, [both, said], tools=["book"]), "Go")
    asked = await house.asked(run, 2)
    await house.runs.answer(run, [Answer(question=one.id, content=one.message[-3:-1]) for one in asked])
    assert await house.output(run) == "F1 F1 40|F2 F2 40|"


@pytest.mark.slow
async def test_an_imported_blueprint_is_a_tool_whose_loop_asks(house: Harness) -> None:
    (house.folder / "inner.yaml").write_text(
        """
inputs: {type: object, required: [topic], properties: {topic: {type: string}}}
steps:
  - kind: loop
    name: talk
    loop:
      exit_expression: output == 'good'
      body: [{kind: hitl, name: ask, message: "{{ input.topic }} {{ iteration }}?"}]
"""
    )
    house.script(yaml.safe_dump({"boss": [turn(call("inner", topic="tea")), DONE]}))
    boss = {"model": "scripted:replies.yaml", "tools": ["imports.inner"]}
    document = {
        "agents": {"boss": boss},
        "imports": {"inner": "inner.yaml"},
        "steps": [{"name": "boss", "agent": "boss"}],
    }
    run = await house.start(yaml.safe_dump(document), "Go")
    question = await house.one(run)
    assert question.address == "pipeline:test;agent:boss;tool:inner:1;import:inner;loop:talk:1;hitl:ask"
    assert await house.answered(run, "no", "good") == ["tea 1?", "tea 2?"]
    assert await house.output(run) == "done: good"


@pytest.mark.slow
async def test_an_agent_in_a_loop_works_in_every_iteration(house: Harness) -> None:
    house.script(
        yaml.safe_dump({"boss": [turn(call("request_user_info", question="More?")), "{{ messages[-1].content }}"] * 2})
    )
    loop = {"exit_expression": "output == 'stop'", "body": [{"name": "boss", "agent": "boss"}]}
    steps = [{"kind": "loop", "name": "l", "loop": loop}]
    boss = {"model": "scripted:replies.yaml", "human": ["ask"]}
    run = await house.start(yaml.safe_dump({"agents": {"boss": boss}, "steps": steps}))
    await house.answered(run, "more", "stop")
    assert await house.output(run) == "stop"


# The output


async def test_an_output_that_does_not_fit_is_told_to_the_model(house: Harness) -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    turns = [
        turn(call("look_up", folder=str(house.folder), word="a")),
        {"output": {"n": "one"}},
        {"output": {"n": 1}, "expect": "n must be"},
    ]
    run = await house.start(agent(house, turns, tools=["look_up"], output_schema=schema), "Go")
    assert await house.output(run) == {"n": 1}


async def test_an_output_that_never_fits_fails_the_agent(house: Harness) -> None:
    schema = {"type": "object"}
    run = await house.start(agent(house, ["no object"], human=["ask"], output_schema=schema), "Go")
    error = (await house.result(run)).error
    assert error.type == "output_invalid"
    assert (await house.types(run)).count("model.requested") == 3


@pytest.mark.slow
async def test_a_batch_reaches_every_workflow_and_one_bad_answer_refuses_it(house: Harness) -> None:
    """Three owners: the agent itself, a loop of an imported blueprint, and an agent below."""
    body = "{kind: hitl, name: ask, message: In the loop?}"
    (house.folder / "inner.yaml").write_text(
        f"inputs: {{type: object}}\nsteps: [{{kind: loop, name: l, loop: {{max_loops: 1, body: [{body}]}}}}]"
    )
    folder = str(house.folder)
    together = turn(call("book", folder=folder, flight="F"), call("inner"), call("helper", input="go"))
    helper = [turn(call("book", folder=folder, flight="G")), DONE]
    house.script(yaml.safe_dump({"boss": [together, LAST_THREE], "helper": helper}))
    model = "scripted:replies.yaml"
    boss = {"model": model, "tools": ["book", "imports.inner", "agent:helper"]}
    agents = {"boss": boss, "helper": {"model": model, "tools": ["book"]}}
    blueprint = {"agents": agents, "imports": {"inner": "inner.yaml"}, "steps": [{"name": "boss", "agent": "boss"}]}
    run = await house.start(yaml.safe_dump(blueprint), "Go")
    asked = await house.asked(run, 3)
    assert len({one.owner for one in asked}) == 3
    with pytest.raises(Refusal):
        await house.runs.answer(
            run, [*(Answer(question=one.id, content="x") for one in asked[:2]), Answer(question="no")]
        )
    assert len(await house.asked(run, 3)) == 3
    receipts = await house.runs.answer(run, [Answer(question=one.id, content="x") for one in asked])
    assert len(receipts) == 3
    assert await house.output(run) == "F x 40|x|done: G x 40|"


# What the model leaves out, misspells, says twice


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"permissions": [{"tool": "deploy", "target": "prod*", "action": "deny"}]}, "deploy is not permitted here"),
        ({"tools": [{"name": "deploy", "approve": "args.env == 'prod'"}]}, "not approved"),
        ({"tools": [{"name": "deploy", "approve": "args.nothing.at_all > 3"}]}, "not approved"),
    ],
)
async def test_arguments_that_the_tool_fills_in_itself_are_seen_by_rules(
    house: Harness, more: dict[str, Any], said: str
) -> None:
    text = agent(house, [turn(call("deploy", folder=str(house.folder))), DONE], **{"tools": ["deploy"], **more})
    run = await house.start(text, "Go")
    if said == "not approved":
        assert (await house.one(run)).info["args"]["env"] == "prod"
        await house.decline(run)
    assert await house.output(run) == f"done: {said}"
    assert calls(house.folder, "deploy") == 0


async def test_a_rule_names_a_tool_as_the_author_does(house: Harness) -> None:
    house.script(yaml.safe_dump({"boss": [turn(call("inner", input="x")), DONE]}))
    rules = [{"tool": "agent:inner", "action": "deny"}]
    boss = {"model": "scripted:replies.yaml", "tools": ["agent:inner"], "permissions": rules}
    run = await house.start(document(boss=boss, inner={"model": "echo"}), "Go")
    assert await house.output(run) == "done: inner is not permitted here"


@pytest.mark.slow
async def test_letting_a_repeated_call_go_on_is_no_leave_for_others(house: Harness) -> None:
    same = turn(call("pay_out", folder=str(house.folder), payee="A", amount=1))
    other = turn(call("pay_out", folder=str(house.folder), payee="B", amount=2))
    tools = [{"name": "pay_out", "approve": "args.payee == 'B'"}]
    run = await house.start(agent(house, [same, same, same, other, DONE], tools=tools, human=["ask"]), "Go")
    await house.answer(run, {"granted": True, "scope": "run"})

    async def asks_for_b() -> bool:
        return any(
            "payee" in one.info["args"] and one.info["args"]["payee"] == "B" for one in await house.runs.questions(run)
        )

    await until(asks_for_b)
    await house.decline(run)
    assert await house.output(run) == "done: not approved"


async def test_blank_options_of_a_model_are_left_out(house: Harness) -> None:
    asks = turn(call("request_user_info", question="Which?", options=["a", "", "a"]))
    run = await house.start(agent(house, [asks, DONE], human=["ask"]), "Go")
    assert [option.id for option in (await house.one(run)).options] == ["a"]
    await house.answer(run, "a")
    assert await house.output(run) == "done: a"


@pytest.mark.slow
async def test_instructions_of_an_agent_that_is_a_tool_see_what_its_caller_sees(house: Harness) -> None:
    house.script(yaml.safe_dump({"boss": [turn(call("inner", input="x")), DONE], "inner": ["{{ instructions }}"]}))
    model = "scripted:replies.yaml"
    inner = {"model": model, "instructions": "Case {{ previous_step }}"}
    run = await house.start(document(boss={"model": model, "tools": ["agent:inner"]}, inner=inner), "CASE-7")
    assert await house.output(run) == "done: Case CASE-7"
