"""Commands that come with the first task of a history: signals in their order, then updates in theirs."""

from __future__ import annotations

import pytest
from temporalio import workflow

from holdfast.protocol.assignment import CLAIM, DELEGATE, REASSIGN, RELEASE
from holdfast.protocol.elicitations import ELICIT
from holdfast.protocol.incoming import CLAIM_EVENT, GRANT, HINT, RETURN, SEND_EVENT
from holdfast.protocol.runs import ANSWER, PAUSE, RESUME
from holdfast.workflows.human import HumanInTheLoop
from holdfast.workflows.loop import LoopWorkflow
from tests.people.activations import SIGNAL, UPDATE, FedRun, Messages

ANSWERS = {"answers": [{"question": "hq-none", "content": "yes"}]}
LOOP = """
steps:
- kind: loop
  name: l
  loop:
    max_loops: 3
    checkpoint_every: 1
    body: [{kind: hitl, name: ask, message: Go?}]
"""
SIGNALS: Messages = [
    (ANSWER, ANSWERS, SIGNAL),
    (CLAIM, {}, SIGNAL),
    (PAUSE, None, SIGNAL),
    (SEND_EVENT, "no event", SIGNAL),
    (RELEASE, {}, SIGNAL),
    (DELEGATE, {}, SIGNAL),
    (RESUME, None, SIGNAL),
    (REASSIGN, {}, SIGNAL),
    (ELICIT, "no question", SIGNAL),
    *((name, {}, SIGNAL) for name in (HINT, CLAIM_EVENT, GRANT, RETURN)),
]
"""All signals of a run. Those refused are listed in the view; the last of pause and resume holds."""
REFUSED = [
    "a signal names a question that is not open",
    "use holdfast claim",
    "a signal could not be read",
    "use holdfast release",
    "use holdfast delegate",
    "use holdfast reassign",
    "a signal could not be read",
]


@workflow.defn
class Asking(HumanInTheLoop):
    """Asks once."""

    @workflow.run
    async def run(self) -> None:
        await self.human.ask("Go?")


def start_loop(first: Messages) -> FedRun:
    parent = FedRun(LOOP)
    [start] = [one for one in parent.commands if one.HasField("start_child_workflow_execution")]
    return FedRun.of(LoopWorkflow, start.start_child_workflow_execution.input, parent.now, first)


def continue_loop(first: Messages) -> FedRun:
    run = start_loop([])
    run.feed(run.answer("yes"))
    assert run.continued
    return FedRun.of(LoopWorkflow, run.continued, run.now, first)


def start_run(first: Messages) -> FedRun:
    return FedRun("steps: [{kind: hitl, name: ask, message: Go?}]", first)


def start_own(first: Messages) -> FedRun:
    return FedRun(Asking, first)


STARTS = pytest.mark.parametrize("start", [start_run, start_loop, continue_loop, start_own])


@STARTS
@pytest.mark.parametrize("reverse", [False, True])
def test_signals_before_the_first_task_are_taken_in_their_order(start, reverse: bool) -> None:
    signals, reasons = list(SIGNALS), list(REFUSED)
    if reverse:
        signals.reverse()
        reasons.reverse()
    run = start(signals)
    refused = run.view.refused
    assert [reason for reason, signal in zip(reasons, refused, strict=True) if reason not in signal.message] == []
    assert run.view.status == ("paused" if reverse else "waiting")
    run.replay()


@STARTS
@pytest.mark.parametrize("reverse", [False, True])
def test_updates_before_the_first_task_are_taken_in_their_order_behind_the_signals(start, reverse: bool) -> None:
    updates = [(PAUSE, None, UPDATE), (ANSWER, ANSWERS, UPDATE), (RESUME, None, UPDATE)]
    if reverse:
        updates.reverse()
    run = start([*updates, (PAUSE, None, SIGNAL)])
    assert run.updates == ["completed", "rejected", "completed"]
    assert run.view.status == ("paused" if reverse else "waiting")
    run.replay()
