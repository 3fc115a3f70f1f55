"""Commands that come with the first task of a history: signals in their order, then updates in theirs."""

from __future__ import annotations

import pytest
from temporalio import workflow

from holdfast.protocol.assignment import CLAIM, DELEGATE, REASSIGN, RELEASE
from holdfast.protocol.events import AgentTold, Event
from holdfast.protocol.incoming import CLAIM_EVENT, HINT, SEND_EVENT
from holdfast.protocol.names import ANSWER, EVENTS, PAUSE, RESUME, TELL
from holdfast.workflows.agent import AgentWorkflow
from holdfast.workflows.handlers.forwarders import list_handlers
from holdfast.workflows.human import HumanInTheLoop
from holdfast.workflows.loop import LoopWorkflow
from holdfast.workflows.run import RunWorkflow
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
AGENT = """
agents: {clerk: {model: scripted, instructions: Help., tools: [look]}}
steps: [{name: clerk, agent: clerk}, {name: end}]
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
    *((name, {}, SIGNAL) for name in (HINT, CLAIM_EVENT)),
]
"""All signals of a run. Those refused are listed in the view; the last of pause and resume holds."""
REFUSED = [
    "a signal names what is no id or address of an open question",
    "use holdfast claim",
    "a signal could not be read",
    "use holdfast release",
    "use holdfast delegate",
    "use holdfast reassign",
]


@workflow.defn
class Asking(HumanInTheLoop):
    """Asks once."""

    @workflow.run
    async def run(self) -> None:
        await self.human.ask("Go?")


def start_child(text: str, class_: type, first: Messages) -> FedRun:
    parent = FedRun(text)
    [start] = [one for one in parent.commands if one.HasField("start_child_workflow_execution")]
    return FedRun.of(class_, start.start_child_workflow_execution.input, parent.now, first)


def start_loop(first: Messages) -> FedRun:
    return start_child(LOOP, LoopWorkflow, first)


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


@pytest.mark.parametrize("texts", [["first", "second"], ["second", "first"]])
def test_messages_to_an_agent_before_its_first_task_are_kept_in_their_order(texts: list[str]) -> None:
    run = start_child(AGENT, AgentWorkflow, [(TELL, text, UPDATE) for text in texts])
    told = [event.data.text for event in run.query(EVENTS, list[Event]) if isinstance(event.data, AgentTold)]
    assert told == texts
    run.replay()


def test_the_signals_above_are_all() -> None:
    taken = [name for kind, name in (handler.takes for handler in list_handlers(RunWorkflow)) if kind == "signal"]
    assert sorted({name for name, _, _ in SIGNALS}) == sorted(map(str, taken))
