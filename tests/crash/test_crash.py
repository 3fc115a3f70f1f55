"""Kill -9 of workers and servers: nothing accepted is lost, nothing finished is run again."""

from __future__ import annotations

import pytest

from holdfast.client.answering import Answering
from holdfast.client.runs import Runs
from holdfast.client.signals import Sent
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.guard import Key
from holdfast.runtime.errors import NothingSent
from tests.conftest import Harness, until
from tests.crash.machines import Machines, asked, ended, more
from tests.tools import calls

pytestmark = pytest.mark.slow

LOOP = """
steps:
  - kind: loop
    name: l
    loop:
      exit_expression: output == 'stop'
      max_loops: 9
      body:
        - {{name: before, uses: counted, input: {{folder: "{folder}", name: before}}}}
        - {{kind: hitl, name: ask, message: "{{{{ previous_step }}}}"}}
"""
HANGS = """
steps:
  - {{name: tool, uses: hangs_once, input: {{folder: "{folder}", name: {name}}}}}
  - {{name: after, input: "after {{{{ previous_step }}}}"}}
"""


async def begun(machines: Machines) -> tuple[Harness, str]:
    """A run that waits in its first iteration."""
    house = await machines.house()
    machines.start_worker()
    run = await house.start(LOOP.format(folder=machines.folder))
    await asked(house, run, "before 1")
    return house, run


async def test_a_worker_killed_while_it_waits_and_after_an_answer_goes_on_in_the_same_iteration(
    machines: Machines,
) -> None:
    house, run = await begun(machines)
    machines.restart_worker()
    await asked(house, run, "before 1")
    before = await ended(house, run)
    await house.answer(run, "more")
    await more(house, run, than=before, by=1)
    machines.restart_worker()
    await asked(house, run, "before 2")
    await house.answer(run, "stop")
    assert await house.output(run) == "stop"
    assert calls(machines.folder, "before") == 2
    await house.replay()


JUDGED = {
    "done": ({"outcome": "done", "result": "by hand"}, "after by hand", 1),
    "retry": ({"outcome": "retry"}, "after done", 2),
}
"""What a person says of a call that was lost, what the run gives then, and how often the tool is called."""


async def test_a_tool_lost_in_mid_call_is_for_a_person_to_judge(machines: Machines) -> None:
    house = await machines.house()
    (machines.folder / "hang").touch()
    machines.start_worker()
    runs = {name: await house.start(HANGS.format(folder=machines.folder, name=name)) for name in JUDGED}

    async def are_called() -> bool:
        return all(calls(machines.folder, name) == 1 for name in JUDGED)

    await until(are_called, "the tool")
    machines.kill("worker")
    (machines.folder / "hang").unlink()
    machines.start_worker()

    for name, (judgement, output, times) in JUDGED.items():
        question = await asked(house, runs[name], "The result of hangs_once was lost")
        await house.answer(runs[name], judgement, question)
        assert await house.output(runs[name]) == output
        assert calls(machines.folder, name) == times
    await house.replay()


NEEDS = """
steps:
  - {{name: tool, uses: counted, arguments: {{folder: "{folder}", name: tool}}, sink_to: tool}}
  - {{kind: hitl, name: one, message: one, sink_to: one}}
  - {{kind: hitl, name: other, needs: [tool], message: "other {{{{ previous_step }}}}", sink_to: other}}
  - {{name: last, needs: [one, other], uses: counted, arguments: {{folder: "{folder}", name: last}}, sink_to: last}}
"""


async def test_steps_that_need_others_go_on_where_they_were(machines: Machines) -> None:
    house = await machines.house()
    machines.start_worker()
    run = await house.start(NEEDS.format(folder=machines.folder))
    await asked(house, run, "other tool 1")
    machines.restart_worker()
    await house.answer(run, "a", await asked(house, run, "other tool 1"))
    machines.restart_worker()
    await house.answer(run, "b", await asked(house, run, "one"))
    result = await house.result(run)
    assert result.context == {"tool": "tool 1", "one": "b", "other": "a", "last": "last 1"}
    assert [calls(machines.folder, name) for name in ("tool", "last")] == [1, 1]
    await house.replay()


async def test_an_answer_sent_while_no_worker_runs_survives_the_server_and_is_taken_later(
    with_server: Machines,
) -> None:
    machines = with_server
    house, run = await begun(machines)
    [question] = await house.runs.questions(run)
    machines.kill("worker")
    [sent] = await house.runs.answer(run, [Answer(question=question.id, content="stop")], signal=True)
    assert isinstance(sent, Sent)
    machines.restart_server()
    again = await machines.house()
    again.started = house.started
    machines.start_worker()
    assert await again.output(run) == "stop"
    await again.replay()


async def test_a_claim_and_a_delegation_outlast_the_worker_that_took_them(machines: Machines) -> None:
    house, run = await begun(machines)
    await house.runs.assignment.claim(run, "ask", by="user:ana")
    machines.restart_worker()
    question = await asked(house, run, "before 1")
    assert question.claimed_by == "user:ana"
    with pytest.raises(Refusal, match="claimed by user:ana"):
        await house.answer(run, "stop", question, by="user:bob")
    await house.runs.assignment.delegate(run, "ask", "user:zoe", by="user:ana")
    machines.restart_worker()
    assert (await asked(house, run, "before 1")).delegations == {"user:ana": "user:zoe"}
    await house.answer(run, "stop", question, by="user:zoe")
    assert await house.output(run) == "stop"
    await house.replay()


async def test_a_server_killed_with_a_question_open_loses_nothing_accepted(with_server: Machines) -> None:
    machines = with_server
    house, run = await begun(machines)
    await house.answer(run, "more")
    await asked(house, run, "before 2")
    machines.restart_server()
    again = await machines.house()
    again.started = house.started
    await asked(again, run, "before 2")
    await again.answer(run, "stop")
    assert await again.output(run) == "stop"
    assert calls(machines.folder, "before") == 2
    await again.replay()


async def test_a_guarded_run_takes_no_answer_while_no_worker_is_there(machines: Machines) -> None:
    house, run = await begun(machines)
    [question] = await house.runs.questions(run)
    machines.kill("worker")
    guarded = Runs(house.client, machines.task_queue, Answering(keys=[Key("k", "secret")]))
    with pytest.raises(NothingSent):
        await guarded.answer(run, [Answer(question=question.id, content="stop")])
    signals = [event.HasField("workflow_execution_signaled_event_attributes") for event in await _events(house, run)]
    assert not any(signals)


async def _events(house: Harness, run: str) -> list:
    return list((await house.client.get_workflow_handle(f"{run}/loop:l").fetch_history()).events)


async def test_a_cancel_ends_a_loop_that_has_continued_as_new_though_its_worker_is_killed(machines: Machines) -> None:
    house = await machines.house()
    machines.start_worker()
    text = LOOP.format(folder=machines.folder).replace("max_loops: 9", "max_loops: 9\n      checkpoint_every: 1")
    run = await house.start(text)
    for n in range(1, 3):
        await asked(house, run, f"before {n}")
        await house.answer(run, "more")
    await asked(house, run, "before 3")
    await house.client.get_workflow_handle(run).cancel()
    machines.restart_worker()

    async def ends() -> bool:  # on a slow machine the worker may not be up by the first
        return not (await house.runs.control.cancel(run)).left

    await until(ends, "the end of all workflows of the run")
    assert calls(machines.folder, "before") == 3
    await house.replay()
