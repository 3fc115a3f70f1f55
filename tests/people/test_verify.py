"""An agent looks at an accepted answer, and may give it back: a new round, a bounded number of times."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.explain import explain
from holdfast.cli.render import tree_text
from holdfast.protocol.answers import Answer
from tests.conftest import Harness
from tests.flows import repeat, written
from tests.people.verified import AGENTS, BACK, PASSED, ask


def text(house: Harness, *replies: Any, **more: Any) -> str:
    house.script(yaml.safe_dump({"ask": list(replies)}))
    return written(ask(**more), agents=AGENTS)


async def verified(house: Harness, run: str) -> list[tuple[bool, bool]]:
    events = [event.data for event in await house.runs.watch.events(run) if event.type == "question.verified"]
    return [(data.verified, data.given_back) for data in events]


async def test_an_answer_that_passes_is_the_output(house: Harness) -> None:
    run = await house.start(text(house, {"expect": "Where to?", **PASSED}))
    receipt = await house.answer(run, "Rue Haute 1, Lyon")
    assert receipt.status == "answered"
    assert await house.output(run) == "Rue Haute 1, Lyon"
    assert await verified(house, run) == [(True, False)]


async def test_an_answer_that_is_given_back_opens_the_next_round_with_the_reason(house: Harness) -> None:
    run = await house.start(text(house, BACK, PASSED))
    first = await house.one(run)
    await house.answer(run, "Rue Haute 1", first)
    second = await house.one(run)
    assert (second.round, second.address, second.id == first.id) == (2, first.address, False)
    assert second.message == "The answer was returned: The city is missing.\n\nWhere to?"
    assert (await house.refused(run, "Lyon", first)).code == "already_answered"
    await house.answer(run, "Rue Haute 1, Lyon", second)
    assert await house.output(run) == "Rue Haute 1, Lyon"
    assert await verified(house, run) == [(False, True), (True, False)]


async def test_after_the_last_round_the_answer_stands_and_is_marked(house: Harness) -> None:
    run = await house.start(text(house, BACK))
    await house.answered(run, "here", "there")
    assert await house.output(run) == "there"
    assert await verified(house, run) == [(False, True), (False, False)]
    trace = await house.runs.watch.trace(await house.runs.state(run))
    assert "not verified" in tree_text(trace.steps).plain
    assert trace.steps[0].to_json()["verified"] is False


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("more", "content", "action"),
    [
        ({"on_decline": "continue"}, None, "decline"),
        ({"on_decline": "continue"}, None, "cancel"),
        ({"ask": "permission"}, {"granted": False}, "accept"),
        ({"ask": "review"}, {"verdict": "rejected"}, "accept"),
    ],
)
async def test_a_decline_a_denial_and_a_cancel_are_not_verified(
    house: Harness, more: dict[str, Any], content: Any, action: Any
) -> None:
    run = await house.start(text(house, BACK, **more))
    question = await house.one(run)
    await house.runs.answer(run, [Answer(question=question.id, content=content, action=action)])
    await house.result(run)
    assert await verified(house, run) == []


async def test_an_agent_that_fails_does_not_lose_the_answer(house: Harness) -> None:
    agents = {"editor": {"model": "scripted:missing.yaml"}}
    run = await house.start(written(ask(), agents=agents))
    await house.answer(run, "here")
    assert await house.output(run) == "here"
    [event] = [event for event in await house.runs.watch.events(run) if event.type == "question.verified"]
    assert (event.data.verified, event.data.reason.startswith("the agent has failed")) == (False, True)


async def test_later_steps_hear_only_of_the_answer_that_stands(house: Harness) -> None:
    house.script(yaml.safe_dump({"ask": [BACK]}))
    tail = {"name": "heard", "input": "{{ resume_input }}"}
    run = await house.start(written(ask(on_decline="continue"), tail, agents=AGENTS))
    await house.answered(run, "here")
    await house.one(run)
    await house.decline(run)
    assert await house.output(run) is None


async def test_a_quorum_answers_before_the_agent_looks(house: Harness) -> None:
    run = await house.start(text(house, PASSED, quorum=2))
    for by in ("user:ana", "user:bob"):
        await house.answer(run, "here", by=by)
    assert await house.output(run) == "here"
    assert await verified(house, run) == [(True, False)]


async def test_an_agent_with_tools_verifies_in_turns(house: Harness) -> None:
    house.script(
        yaml.safe_dump({"ask": [{"tool_calls": [{"name": "request_user_info", "args": {"question": "OK?"}}]}, PASSED]})
    )
    agents = {"editor": {"model": "scripted:replies.yaml", "human": ["ask"]}}
    run = await house.start(written(ask(), agents=agents))
    await house.answered(run, "here", "yes")
    assert await house.output(run) == "here"


@pytest.mark.slow
async def test_rounds_go_on_in_a_loop_that_continues_as_new(house: Harness) -> None:
    house.script(yaml.safe_dump({"ask": [PASSED, BACK, PASSED]}))
    run = await house.start(written(repeat(ask(), most=2), agents=AGENTS))
    await house.answered(run, "one")
    assert (await house.answered(run, "two"))[0] == "Where to?"
    again = await house.one(run)
    assert (again.iteration, again.round) == (2, 2)
    await house.answer(run, "three", again)
    assert await house.output(run) == "three"


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"ask": "secret"}, "'verify' cannot be combined with ask: secret"),
        ({"ask": "hold"}, "'verify' cannot be combined with ask: hold"),
        ({"verify": "nobody"}, "unknown agent 'nobody'"),
        ({"verify": {"agent": "editor", "rounds": 6}}, "rounds"),
    ],
)
def test_what_cannot_be_verified_is_an_error_at_load(house: Harness, more: dict[str, Any], found: str) -> None:
    with pytest.raises(BlueprintError, match=found):
        house.load(written(ask(**more), agents=AGENTS))


def test_the_explanation_says_it_with_its_cost(house: Harness) -> None:
    blueprint = house.load(written(ask(verify="agents.editor"), agents=AGENTS))
    explanation = explain(blueprint)
    words = " ".join(explanation.text.split())
    assert "The agent editor checks the answer, and may return it with a reason, 2 times at most" in words
    assert explanation.model_requests_at_most == 9
