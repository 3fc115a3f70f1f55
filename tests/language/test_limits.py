"""Limits, `on_error: ask`, caching, and conversations that are kept short."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from holdfast.cli.render import tree_text
from tests.conftest import Harness, until
from tests.tools import calls

SAYS = "agents: {a: {model: echo}}\n"


def looping(limits: str, body: str = "{name: a, agent: a}") -> str:
    return f"{SAYS}limits: {limits}\nsteps: [{{kind: loop, name: l, loop: {{max_loops: 9, body: {body}}}}}]"


async def test_a_limit_in_iteration_three_fails_the_run_and_keeps_what_was_done(house: Harness) -> None:
    run = await house.start(looping("{model_calls: 2}"), "x")
    outcome = await house.result(run)
    assert (outcome.status, outcome.error.type, outcome.error.reason) == ("failed", "limit_reached", "limit")
    assert outcome.error.message == "the limit of 2 model calls of the run is reached (2 spent)"
    assert outcome.error.address == "pipeline:test;loop:l:3;agent:a"
    [span] = (await house.runs.watch.trace(await house.runs.state(run))).to_json()["steps"]
    assert [step["status"] for one in span["iterations"] for step in one["steps"]] == [
        "completed",
        "completed",
        "failed",
    ]
    assert span["exit"]["reason"] == "limit"
    assert "limit.reached" in await house.types(run)


async def test_no_on_error_goes_round_a_limit_of_the_run(house: Harness) -> None:
    run = await house.start(looping("{steps: 4}", "{name: a, on_error: continue}"), "x")
    assert (await house.result(run)).error.message == "the limit of 4 steps of the run is reached (4 spent)"


@pytest.mark.slow
async def test_a_person_may_grant_as_much_again(house: Harness) -> None:
    run = await house.start(looping("{model_calls: 4, on_limit: ask}"), "x")
    question = await house.one(run)
    assert question.message == "the limit of 4 model calls of the run is reached (4 spent). Go on?"
    await house.answer(run, "more", question)

    async def second() -> Any:
        asked = await house.runs.questions(run)
        return asked and asked[0].id != question.id

    await until(second)
    again = await house.one(run)
    assert [option.label for option in again.options][
        0
    ] == "4 more"  # as much as the author wrote, not what is allowed now
    await house.answer(run, "yes", again)
    assert await house.output(run) == "x"
    assert (await house.runs.state(run)).usage.requests == 9


async def test_what_was_granted_in_a_loop_that_fails_after_it_counts_for_the_run(house: Harness) -> None:
    loop = "{max_loops: 3, on_max_loops: fail, body: {name: a, agent: a}}"
    steps = f"[{{kind: loop, name: l, on_error: continue, loop: {loop}}}, {{name: b, agent: a, input: y}}]"
    run = await house.start(f"{SAYS}limits: {{model_calls: 2, on_limit: ask}}\nsteps: {steps}", "x")
    await house.answer(run, "more")
    assert await house.output(run) == "y"
    assert (await house.runs.state(run)).usage.requests == 4


@pytest.mark.slow
async def test_what_two_loops_at_once_were_granted_counts_twice_for_the_run(house: Harness) -> None:
    # Both begin with the same limit, and continue as new after each iteration: 3 + 3 + 3 calls are allowed, 8 are made.
    loop = "{kind: loop, name: l, loop: {max_loops: 4, checkpoint_every: 1, body: {name: a, agent: a}}}"
    both = f"{{kind: map, name: m, map: {{iterable_input: [1, 2], max_concurrency: 2, body: [{loop}]}}}}"
    steps = f"[{both}, {{name: b, agent: a, input: y}}]"
    run = await house.start(f"{SAYS}limits: {{model_calls: 3, on_limit: ask}}\nsteps: {steps}", "x")
    for question in await house.asked(run, 2):
        await house.answer(run, "more", question)
    assert await house.output(run) == "y"
    assert (await house.runs.state(run)).usage.requests == 9


@pytest.mark.slow
async def test_a_limit_that_is_raised_in_a_run_and_in_its_loop_counts_both_grants(house: Harness) -> None:
    loop = "{kind: loop, name: l, loop: {max_loops: 4, checkpoint_every: 1, body: {name: a, agent: a}}}"
    agents = ", ".join(f"{{name: a{n}, agent: a}}" for n in range(4))
    which = f"{{kind: conditional, name: c, condition_expression: item, branches: {{in: [{loop}], out: [{agents}]}}}}"
    both = f"{{kind: map, name: m, map: {{iterable_input: [in, out], max_concurrency: 2, body: [{which}]}}}}"
    steps = f"[{both}, {{name: b, agent: a, input: y}}]"
    run = await house.start(f"{SAYS}limits: {{model_calls: 3, on_limit: ask}}\nsteps: {steps}", "x")
    for question in sorted(await house.asked(run, 2), key=lambda asked: asked.owner != run):
        await house.answer(run, "more", question)
    assert await house.output(run) == "y"
    assert (await house.runs.state(run)).usage.requests == 9


async def test_a_person_may_end_it_at_a_limit(house: Harness) -> None:
    run = await house.start(looping("{model_calls: 1, on_limit: ask}"), "x")
    await house.answer(run, "fail", (await house.one(run)))
    assert (await house.result(run)).error.type == "limit_reached"


async def test_an_agents_own_limit_can_be_handled(house: Harness) -> None:
    text = "agents: {a: {model: echo, limits: {model_calls: 1}}}\nsteps: [{name: a, agent: a}, {name: b, agent: a}]"
    assert await house.output(await house.start(text, "x")) == "x"  # each use has its own
    house.script("[{tool_calls: [{name: request_user_info, args: {question: Go?}}]}, done]")
    agent = "{model: 'scripted:replies.yaml', human: [ask], limits: {model_calls: 1}}"
    run = await house.start(
        f"steps: [{{name: a, agent: {agent}, on_error: {{fallback: {{name: f, input: '{{{{ error.message }}}}'}}}}}}]",
        "x",
    )
    await house.answer(run, "yes")
    assert await house.output(run) == "the limit of 1 model calls of agent a is reached (1 spent)"


async def test_a_used_up_model_limit_stops_no_step_that_asks_no_model(house: Harness) -> None:
    steps = "[{name: a, agent: a}, {name: b}, {kind: hitl, name: c, message: Go?}]"
    run = await house.start(f"{SAYS}limits: {{model_calls: 1}}\nsteps: {steps}", "x")
    await house.answer(run, "yes")
    assert await house.output(run) == "yes"


async def test_the_last_step_that_a_limit_leaves_may_ask_its_model(house: Harness) -> None:
    run = await house.start(f"{SAYS}limits: {{steps: 1}}\nsteps: [{{name: a, agent: a}}]", "x")
    assert await house.output(run) == "x"


def branching(limits: str, **branches: str) -> str:
    written = ", ".join(f"{name}: {steps}" for name, steps in branches.items())
    step = f"{{kind: parallel, name: p, on_branch_failure: ignore, branches: {{{written}}}}}"
    return f"{SAYS}limits: {limits}\nsteps: [{step}]"


async def test_a_limit_is_split_evenly_over_branches_and_the_first_get_what_is_over(house: Harness) -> None:
    branch = "[{name: x, agent: a}, {name: y, agent: a}]"
    run = await house.start(branching("{model_calls: 3}", one=branch, two=branch), "x")
    error = (await house.result(run)).error
    assert error.message == "the share of this branch, 1 of the 3 model calls of the run, is reached (1 spent)"
    assert error.address == "pipeline:test;parallel:p;branch:two;agent:y"


@pytest.mark.parametrize(
    "asks", ["{name: x, agent: a}", "{kind: loop, name: l, loop: {max_loops: 1, body: {name: x}}}"]
)
async def test_a_branch_whose_share_is_nothing_may_do_what_asks_no_model(house: Harness, asks: str) -> None:
    text = branching("{model_calls: 1}", one="{name: x, agent: a}", two=asks.replace("agent: a", "input: x"))
    assert await house.output(await house.start(text, "x")) == {"one": "x", "two": "x"}


async def test_a_branch_whose_share_is_nothing_may_be_granted_as_much_as_the_run_has(house: Harness) -> None:
    branch = "{name: x, agent: a}"
    run = await house.start(branching("{model_calls: 1, on_limit: ask}", one=branch, two=branch), "x")
    question = await house.one(run)
    assert (
        question.message == "the share of this branch, 0 of the 1 model calls of the run, is reached (0 spent). Go on?"
    )
    assert [option.label or option.id for option in question.options] == ["1 more", "Let it fail"]
    await house.answer(run, "more", question)
    assert await house.output(run) == {"one": "x", "two": "x"}


# on_error: ask


FAILS = "steps: [{name: a, input: '{{ input }}', uses: 'tests.language.functions:halved', on_error: ask}, {name: b}]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "output"),
    [({"action": "edit", "input": 8}, 4), ({"action": "skip", "value": "none"}, "none"), ({"action": "skip"}, None)],
)
async def test_a_person_says_what_becomes_of_a_failed_step(house: Harness, answer: Any, output: Any) -> None:
    run = await house.start(FAILS, 3)
    question = await house.one(run)
    assert (question.address, question.info["input"]) == ("pipeline:test;step:a", 3)
    assert (await house.refused(run, {"action": "edit"})).code == "invalid_answer"
    await house.answer(run, answer)
    assert await house.output(run) == output


async def test_a_failed_step_may_be_tried_again_and_given_up(house: Harness) -> None:
    run = await house.start(FAILS, 3)
    first = await house.one(run)
    await house.answer(run, {"action": "retry"}, first)

    async def again() -> Any:
        asked = await house.runs.questions(run)
        return asked and asked[0].round == 2

    await until(again)
    await house.answer(run, {"action": "abort"})
    assert (await house.result(run)).error.type == "tool_error"


@pytest.mark.slow
async def test_a_loop_that_is_tried_again_is_another_workflow(house: Harness) -> None:
    body = "[{name: n, input: '{{ 1 / 0 if context.bad | default(true) else 5 }}'}]"
    text = f"steps: [{{kind: loop, name: l, on_error: ask, loop: {{max_loops: 1, body: {body}}}}}]"
    run = await house.start(text)
    await house.answer(run, {"action": "retry"})

    async def again() -> Any:
        asked = await house.runs.questions(run)
        return asked and asked[0].round == 2

    await until(again)
    await house.answer(run, {"action": "skip", "value": 7})
    assert await house.output(run) == 7
    started = [event.data.workflow for event in await house.runs.watch.events(run) if event.type == "loop.started"]
    assert started == [f"{run}/loop:l", f"{run}/loop:l~2"]


# Caching


def cached(house: Harness, **more: Any) -> str:
    wrapped = {"name": "w", "uses": "counted", "input": {"folder": str(house.folder), "name": "{{ input }}"}}
    step = {
        "kind": "cache",
        "name": "c",
        "wrapped_step": {**wrapped, "sink_to": "inner.told"},
        "sink_to": "outer",
        **more,
    }
    return yaml.safe_dump({"steps": [step]})


async def test_a_hit_writes_to_the_context_like_a_run(house: Harness) -> None:
    first = await house.result(await house.start(cached(house), "a"))
    second = await house.result(await house.start(cached(house), "a"))
    assert first.context == second.context == {"inner": {"told": "a 1"}, "outer": "a 1"}
    assert calls(house.folder, "a") == 1
    await house.output(await house.start(cached(house), "b"))
    assert calls(house.folder, "b") == 1


async def test_a_key_of_the_authors_own_tells_values_apart(house: Harness) -> None:
    for word in ("a", "b"):
        assert await house.output(await house.start(cached(house, key="always"), word)) == "a 1"


async def test_a_failed_step_is_not_kept(house: Harness) -> None:
    step = "{kind: cache, name: c, wrapped_step: {name: w, uses: 'tests.language.functions:halved'}}"
    for _ in range(2):
        assert (await house.result(await house.start(f"steps: [{step}]", 3))).error.type == "tool_error"


async def test_a_skipped_step_is_not_kept(house: Harness) -> None:
    step = "{kind: cache, name: c, key: k, wrapped_step: {name: w, when: input == 'go', input: done}}"
    assert [await house.output(await house.start(f"steps: [{step}]", word)) for word in ("no", "go")] == ["no", "done"]


def naming(house: Harness, key: str | None = "{{ input }}") -> str:
    """A conditional; each branch has a `cache` of the same name, around a tool that gives another word."""
    wrapped = [{"name": "w", "uses": "counted", "input": {"folder": str(house.folder), "name": one}} for one in "ab"]
    steps = [[{"kind": "cache", "name": "look", "key": key, "wrapped_step": one}] for one in wrapped]
    branches = dict(zip(("yes", "no"), steps, strict=True))
    choice = {"kind": "conditional", "name": "c", "condition_expression": "context.which", "branches": branches}
    return yaml.safe_dump({"steps": [{"name": "which", "input": "{{ input }}", "sink_to": "which"}, choice]})


async def test_two_cache_steps_of_one_name_share_nothing(house: Harness) -> None:
    text = naming(house, "always")
    assert [await house.output(await house.start(text, word)) for word in ("yes", "no", "yes")] == ["a 1", "b 1", "a 1"]


async def test_two_blueprints_of_one_name_share_nothing_if_their_steps_differ(house: Harness) -> None:
    step = "{kind: cache, name: c, key: always, wrapped_step: {name: w, input: WORD}}"
    for word in ("one", "two"):
        assert await house.output(await house.start(f"steps: [{step.replace('WORD', word)}]")) == word


@pytest.mark.slow
async def test_a_value_is_met_in_every_iteration_and_item(house: Harness) -> None:
    text = cached(house, key="always")
    steps = yaml.safe_load(text)["steps"]
    looped = {"kind": "loop", "name": "l", "loop": {"max_loops": 2, "body": steps}}
    mapped = {"kind": "map", "name": "m", "input": "x", "map": {"iterable_input": "['x', 'y']", "body": [looped]}}
    assert await house.output(await house.start(yaml.safe_dump({"steps": [mapped]}), "a")) == ["a 1", "a 1"]


async def test_without_a_key_a_question_is_told_apart_by_its_whole_text(house: Harness) -> None:
    asks = "{kind: hitl, name: w, message: 'May {{ context.who }} be paid?'}"
    text = f"""
steps:
  - {{name: who, input: "{{{{ input }}}}", sink_to: who}}
  - {{kind: cache, name: c, input: same, wrapped_step: {asks}}}
"""
    assert await house.answered(await house.start(text, "Ann"), "yes") == ["May Ann be paid?"]
    assert await house.answered(await house.start(text, "Bob"), "no") == ["May Bob be paid?"]
    assert await house.output(await house.start(text, "Ann")) == "yes"


async def test_without_a_key_an_agent_is_told_apart_by_what_its_instructions_read(house: Harness) -> None:
    house.script("a: ['{{ instructions }}']")
    text = """
agents: {a: {model: "scripted:replies.yaml", instructions: "Answer in {{ context.lang }}"}}
steps:
  - {name: lang, input: "{{ input }}", sink_to: lang}
  - {kind: cache, name: c, input: same, wrapped_step: {name: w, agent: a}}
"""
    assert [await house.output(await house.start(text, lang)) for lang in ("fr", "de")] == [
        "Answer in fr",
        "Answer in de",
    ]


async def test_an_import_that_was_edited_is_run_again(house: Harness) -> None:
    text = "imports: {i: ./i.yaml}\nsteps: [{kind: cache, name: c, wrapped_step: {name: w, uses: imports.i}}]"
    for word in ("v1", "v2"):
        (house.folder / "i.yaml").write_text(f"steps: [{{name: s, input: {word}}}]")
        assert await house.output(await house.start(text)) == word


async def test_what_reads_the_context_without_naming_it_is_told_apart_by_all_of_it(house: Harness) -> None:
    loop = "{kind: loop, name: l, loop: {max_loops: 2, propagation: context, body: {name: b}}}"
    text = f"""
steps:
  - {{name: n, input: "{{{{ input }}}}", sink_to: n}}
  - {{kind: cache, name: c, input: same, wrapped_step: {loop}}}
"""
    assert [await house.output(await house.start(text, n)) for n in (1, 2)] == [{"n": 1}, {"n": 2}]


async def test_a_hit_on_a_question_is_the_last_human_answer(house: Harness) -> None:
    asks = "{kind: cache, name: c, wrapped_step: {kind: hitl, name: w, message: Who?}}"
    text = f"steps: [{asks}, {{name: end, input: '{{{{ resume_input }}}}'}}]"
    await house.answer(await house.start(text), "Ann")
    run = await house.start(text)
    assert await house.output(run) == "Ann"
    trace = await house.runs.watch.trace(await house.runs.state(run))
    assert "✓ c (from the cache)" in tree_text(trace.steps).plain


async def test_a_hit_writes_what_the_run_wrote_though_it_stood_there_already(house: Harness) -> None:
    text = """
steps:
  - {name: seed, input: "{{ input }}", sink_to: n}
  - {kind: cache, name: c, key: always, wrapped_step: {name: w, input: 5, sink_to: n}}
  - {name: end, input: "{{ context.n }}"}
"""
    assert [await house.output(await house.start(text, n)) for n in (5, 0)] == [5, 5]


async def test_a_failure_that_on_error_handles_is_not_kept(house: Harness) -> None:
    wrapped = {"name": "w", "input": "{{ 1 / context.n }}", "on_error": "continue"}
    cache = {"kind": "cache", "name": "c", "key": "always", "wrapped_step": wrapped}
    text = yaml.safe_dump({"steps": [{"name": "seed", "input": "{{ input }}", "sink_to": "n"}, cache]})
    assert [await house.output(await house.start(text, n)) for n in (0, 1)] == [None, 1]


# Conversations


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("{strategy: truncate_turns, max_turns: 2}", ["User: three", "User: four"]),
        ("{strategy: truncate_tokens, max_tokens: 10}", ["User: one", "User: two", "User: three", "User: four"]),
        ("{strategy: summarize, max_turns: 2, agent: sum}", ["Summary: SUM User: zero", "User: three", "User: four"]),
    ],
)
async def test_a_conversation_is_kept_short(house: Harness, rule: str, kept: list[str]) -> None:
    house.script("sum: ['SUM {{ messages[0].content[:10] }}']")
    text = f"""
agents: {{sum: {{model: "scripted:replies.yaml"}}}}
steps:
  - kind: loop
    name: talk
    loop:
      conversation: true
      exit_expression: output == 'four'
      history_management: {rule}
      body: [{{kind: hitl, name: say, message: "{{{{ iteration }}}}?"}}]
      output: {{history: "{{{{ history }}}}"}}
"""
    run = await house.start(text, "zero")
    await house.answered(run, "one", "two", "three", "four")
    history = (await house.output(run))["history"]
    assert [line[:24].rstrip() for line in history][-len(kept) + 1 :] == kept[1:]
    assert len(history) == len(kept)
