"""Loops with people: an answer never restarts a loop."""

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest

from holdfast.client.tree import UnknownRun
from tests.conftest import Harness, until
from tests.flows import ECHO, MORE_OR_STOP, NESTED


def loops_in(trace: dict) -> list[dict]:
    inner = [step for iteration in trace.get("iterations", []) for step in iteration["steps"]]
    own = [trace] if trace["kind"] == "loop" else []
    return own + [loop for step in [*trace.get("steps", []), *inner] for loop in loops_in(step)]


async def test_each_answer_goes_on_in_the_same_loop_until_one_ends_it(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP, "start")
    messages = await house.answered(run, "more", "again", "stop")
    assert messages == ["Draft 1: start", "Draft 2: more", "Draft 3: again"]
    assert await house.output(run) == "stop"


@pytest.mark.slow
async def test_the_trace_has_one_loop_with_iterations_1_2_3_and_their_steps(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP, "start")
    await house.answered(run, "more", "again", "stop")
    await house.output(run)
    [loop] = loops_in((await house.runs.watch.trace(await house.runs.state(run))).to_json())
    assert [iteration["n"] for iteration in loop["iterations"]] == [1, 2, 3]
    assert [[step["name"] for step in one["steps"]] for one in loop["iterations"]] == [["draft", "review"]] * 3
    assert loop["exit"] == {"reason": "condition", "iterations": 3, "expression": "output == 'stop'", "value": True}


async def test_a_loop_is_one_child_workflow_that_is_started_once(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP, "start")
    await house.answered(run, "more", "stop")
    await house.output(run)
    started = [event for event in await house.runs.watch.events(run) if event.type == "loop.started"]
    assert [event.data.workflow for event in started] == [f"{run}/loop:clarify"]
    assert len(await house.histories(run)) == 2


async def test_an_answer_is_sunk_where_it_was_asked_and_read_by_the_steps_after_it(house: Harness) -> None:
    run = await house.start(
        """
steps:
  - kind: loop
    name: form
    loop:
      max_loops: 3
      exit_expression: context.answer.done
      body:
        - kind: hitl
          name: human
          message: How many?
          input_schema: {type: object, required: [n, done], properties: {n: {type: integer}, done: {type: boolean}}}
          sink_to: answer
        - {name: post, input: "{{ steps.human.output.n + context.answer.n }}", sink_to: total}
output: {total: "{{ context.total }}", answer: "{{ context.answer }}"}
"""
    )
    await house.answered(run, {"n": 1, "done": False}, {"n": 4, "done": True})
    assert await house.output(run) == {"total": 8, "answer": {"n": 4, "done": True}}


BODIES = {
    "first": ["[{kind: hitl, name: ask, message: Go?}, {name: post, agent: editor}]", ["a", "stop"], "stop"],
    "last": ["[{name: pre, agent: editor}, {kind: hitl, name: ask, message: Go?}]", ["a", "stop"], "stop"],
    "alone": ["[{kind: hitl, name: ask, message: Go?}]", ["a", "b", "stop"], "stop"],
    "twice": [
        "[{kind: hitl, name: one, message: Go?}, {kind: hitl, name: two, message: And?}]",
        ["a", "b", "c", "stop"],
        "stop",
    ],
}


@pytest.mark.first_row
@pytest.mark.parametrize("where", BODIES)
async def test_a_question_may_stand_anywhere_in_the_body(house: Harness, where: str) -> None:
    body, contents, output = BODIES[where]
    loop = f"{{max_loops: 5, exit_expression: output == 'stop', body: {body}}}"
    run = await house.start(f"{ECHO}steps: [{{kind: loop, name: l, loop: {loop}}}]", "start")
    await house.answered(run, *contents)
    assert await house.output(run) == output


@pytest.mark.parametrize("extra", ["", "{name: a}, {name: b},"])
async def test_a_counter_lives_on_by_sink_to_and_by_updates_context(house: Harness, extra: str) -> None:
    run = await house.start(
        f"""
context: {{sunk: 0, updated: 0}}
steps:
  - kind: loop
    name: count
    loop:
      max_loops: 4
      body:
        - {{name: sink, input: "{{{{ context.sunk + 1 }}}}", sink_to: sunk}}
        - {{name: update, input: {{updated: "{{{{ context.updated + 1 }}}}"}}, updates_context: true}}
        - {extra or "{name: last},"}
""".replace("- {name: a}, {name: b},", "- {name: a}\n        - {name: b}").replace("- {name: last},", "- {name: last}")
        + 'output: "{{ [context.sunk, context.updated] }}"\n'
    )
    assert await house.output(run) == [4, 4]


async def test_a_list_can_be_emptied_a_key_removed_and_equal_items_stay(house: Harness) -> None:
    run = await house.start(
        """
context: {items: [1, 2], pair: {keep: 1, drop: 2}, log: []}
steps:
  - kind: loop
    name: l
    loop:
      max_loops: 3
      state: [{append: {target: context.log, value: same}}]
      body:
        - {name: empty, input: "{{ [] }}", sink_to: items}
        - {name: remove, input: {keep: 1}, sink_to: pair}
        - {name: log, input: "{{ context.log + ['same'] }}", sink_to: log}
output: "{{ context }}"
"""
    )
    output = await house.output(run)
    assert output == {"items": [], "pair": {"keep": 1}, "log": ["same"] * 5}


@pytest.mark.slow
async def test_a_question_in_an_inner_loop_goes_on_with_the_inner_and_then_the_outer_loop(house: Harness) -> None:
    run = await house.start(NESTED)
    messages = await house.answered(run, "again", "next", "next")
    assert messages == ["outer 1, inner 1", "outer 1, inner 2", "outer 2, inner 1"]
    assert await house.output(run) == "next-2"


@pytest.mark.slow
async def test_an_inner_loop_has_a_workflow_for_each_outer_iteration(house: Harness) -> None:
    run = await house.start(NESTED)
    owners = []
    for content in ("next", "next"):
        question = await house.one(run)
        owners.append((question.owner, question.address))
        await house.answer(run, content, question)
    await house.output(run)
    assert owners[1][0] == f"{run}/loop:outer:2;loop:inner"
    assert owners[0][1] == "pipeline:test;loop:outer:1;loop:inner:1;hitl:ask"


async def test_a_question_in_a_conditional_runs_the_steps_before_it_once(house: Harness) -> None:
    run = await house.start(
        """
steps:
  - {name: before, uses: context_set, input: {path: chosen, value: left}}
  - kind: conditional
    name: which
    condition_expression: context.chosen
    branches:
      left: [{kind: hitl, name: ask, message: Left?, sink_to: left}]
      right: [{kind: hitl, name: ask, message: Right?, sink_to: right}]
  - kind: conditional
    name: second
    condition_expression: context.left == 'yes'
    branches:
      true: [{kind: hitl, name: again, message: "Sunk so far: {{ context.second is defined }}", sink_to: second}]
      false: []
output: "{{ context }}"
""".replace("      false: []\n", "      false: [{name: nothing}]\n")
    )
    assert await house.answered(run, "yes", "ok") == ["Left?", "Sunk so far: false"]
    assert await house.output(run) == {"chosen": "left", "left": "yes", "second": "ok"}
    kinds = [event.type for event in await house.runs.watch.events(run)]
    assert kinds.count("branch.started") == 2


async def test_a_question_in_an_imported_blueprint_goes_on_in_the_child(house: Harness) -> None:
    (house.folder / "child.yaml").write_text(
        """
name: child
context: {seen: []}
steps:
  - {name: first, input: "{{ context.seen + ['once'] }}", sink_to: seen}
  - {kind: hitl, name: ask, message: "Child asks about {{ input }}"}
  - {name: last, input: "{{ steps.ask.output }}!", sink_to: said}
"""
    )
    run = await house.start(
        """
imports: {child: ./child.yaml}
steps:
  - {name: call, uses: imports.child, config: {outputs: {said: from_child, seen: seen}}}
output: {output: "{{ steps.call.output }}", context: "{{ context }}"}
""",
        "tea",
    )
    question = await house.one(run)
    assert (question.message, question.address) == ("Child asks about tea", "pipeline:test;import:call;hitl:ask")
    await house.answer(run, "yes", question)
    assert await house.output(run) == {"output": "yes!", "context": {"from_child": "yes!", "seen": ["once"]}}


async def test_a_question_in_a_conditional_in_a_loop_belongs_to_its_iteration(house: Harness) -> None:
    run = await house.start(
        """
steps:
  - kind: loop
    name: l
    loop:
      max_loops: 3
      body:
        - kind: conditional
          name: odd
          condition_expression: iteration is odd
          branches:
            true: {kind: hitl, name: ask, message: "Iteration {{ iteration }}"}
          default_branch: {name: even, input: even}
        - {name: log, input: "{{ (context.log | default([])) + [previous_step] }}", sink_to: log}
output: "{{ context.log }}"
"""
    )
    assert await house.answered(run, "a", "b") == ["Iteration 1", "Iteration 3"]
    assert await house.output(run) == ["a", "even", "b"]


@pytest.mark.slow
async def test_agent_output_before_a_question_is_kept_and_the_agent_runs_once(house: Harness) -> None:
    house.script("draft: [first, second]\n")
    run = await house.start(
        """
agents: {editor: {model: "scripted:replies.yaml"}}
steps:
  - kind: loop
    name: l
    loop:
      max_loops: 1
      body:
        - {name: draft, agent: editor}
        - {kind: hitl, name: ask, message: Good?}
        - {name: keep, input: "{{ steps.draft.output }} {{ steps.ask.output }}"}
"""
    )
    await house.answered(run, "yes")
    outcome = await house.result(run)
    assert (outcome.output, outcome.context) == ("first yes", {})
    assert [event.type for event in await house.runs.watch.events(run)].count("model.requested") == 1


async def test_an_exit_expression_that_fails_is_a_failed_loop_that_says_so(house: Harness) -> None:
    run = await house.start(
        """
steps:
  - kind: loop
    name: l
    loop:
      max_loops: 3
      exit_expression: output + 1 > 3
      body: [{kind: hitl, name: ask, message: Go?, input_schema: {}}]
"""
    )
    await house.answered(run, "text")
    outcome = await house.result(run)
    assert outcome.status == "failed"
    assert (outcome.error.type, outcome.error.reason) == ("expression_error", "exit_condition_error")
    assert (await house.runs.state(run)).status == "failed"


async def test_a_loop_that_never_meets_its_exit_fails_at_max_loops(house: Harness) -> None:
    run = await house.start(
        "steps: [{kind: loop, name: l, loop: {max_loops: 2, exit_expression: output == 'x', body: [{name: a}]}}]", "no"
    )
    outcome = await house.result(run)
    assert (outcome.error.type, outcome.error.reason) == ("max_loops", "max_loops")


async def test_at_max_loops_a_person_may_grant_more(house: Harness) -> None:
    run = await house.start(
        """
steps:
  - kind: loop
    name: l
    loop:
      {max_loops: 2, exit_expression: iteration == 5, on_max_loops: ask, body: [{name: n, input: "{{ iteration }}"}]}
"""
    )
    messages = await house.answered(run, "more", "2 more")
    assert messages == [f"Loop l has not reached its exit in {n} iterations. Go on?" for n in (2, 4)]
    assert await house.output(run) == 5


async def test_a_failed_iteration_leaves_the_context_of_the_completed_ones(house: Harness) -> None:
    run = await house.start(
        """
context: {log: []}
steps:
  - kind: loop
    name: l
    on_error: continue
    loop:
      max_loops: 3
      body:
        - {name: log, input: "{{ context.log + [iteration] }}", sink_to: log}
        - {name: boom, when: iteration == 3, input: "{{ nothing.here + 1 }}"}
  - name: after
    input: {log: "{{ context.log }}", error: "{{ steps.l.error.type }}", status: "{{ steps.l.status }}",
            done: "{{ steps.l.error.output }}"}
""".replace("nothing.here", "context.nothing")
    )
    assert await house.output(run) == {"log": [1, 2], "error": "expression_error", "status": "failed", "done": [1, 2]}


@pytest.mark.slow
async def test_a_loop_continues_as_new_and_stays_the_same_loop(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP.replace("max_loops: 5", "max_loops: 9\n      checkpoint_every: 2"), "start")
    messages = await house.answered(run, *"abcde", "stop")
    assert messages[-1] == "Draft 6: e"
    assert await house.output(run) == "stop"
    events = await house.runs.watch.events(run)
    assert [event.data.iteration for event in events if event.type == "loop.iteration"] == [1, 2, 3, 4, 5, 6]
    assert [event.offset for event in events] == list(range(len(events)))
    assert len(await house.histories(run)) == 4


@pytest.mark.slow
async def test_a_loop_that_goes_on_is_shown_after_temporal_has_forgotten_its_first_iterations(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP.replace("max_loops: 5", "max_loops: 9\n      checkpoint_every: 1"), "start")
    await house.answered(run, "a", "b")
    question = await house.one(run)
    before = (await house.runs.tree.view(question.owner)).previous_run
    execution = WorkflowExecution(workflow_id=question.owner, run_id=before)
    request = DeleteWorkflowExecutionRequest(namespace=house.client.namespace, workflow_execution=execution)
    await house.client.workflow_service.delete_workflow_execution(request, retry=True)

    async def is_forgotten() -> bool:
        try:
            await house.runs.tree.view(question.owner, before)
        except UnknownRun:
            return True
        return False

    await until(is_forgotten, "the deletion")
    [loop] = loops_in((await house.runs.watch.trace(await house.runs.state(run))).to_json())
    assert [iteration["n"] for iteration in loop["iterations"]] == [3]
    assert "question.asked" in [event.type for event in await house.runs.watch.events(run)]
    await house.runs.control.cancel(run)
    house.started.remove(run)  # a history of it is gone, so that it cannot be replayed


@pytest.mark.parametrize(
    "output", ['output_template: "{{ context.missing.x ~ 1 }}"', "loop_output_mapper: tests.missing:f"]
)
async def test_a_finished_loop_keeps_its_work_if_its_output_fails(house: Harness, output: str) -> None:
    run = await house.start(f"""
steps:
  - kind: loop
    name: count
    on_error: continue
    loop: {{max_loops: 3, body: [{{name: n, input: "{{{{ iteration }}}}", sink_to: n}}], {output}}}
output: ["{{{{ context.n }}}}", "{{{{ steps.count.error }}}}"]
""")
    count, error = await house.output(run)
    assert (count, error["output"]) == (3, 3)
    assert error["message"].startswith("the iterations are done, but the output of the loop failed: ")


@pytest.mark.slow
async def test_a_run_whose_output_cannot_be_rendered_says_that_its_steps_are_done(house: Harness) -> None:
    run = await house.start('steps: [{name: a, input: 1, sink_to: n}]\noutput: "{{ context.missing.x }}"')
    result = await house.result(run)
    assert result.error is not None and result.error.message.startswith("the steps have ended, but")
    assert result.context == {"n": 1}
