"""Commands to runs: pause, resume, cancel, edit the context, tell an agent. This is `runs.control`."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from temporalio.client import WorkflowExecutionDescription

from holdfast.blueprint.json_values import JSON
from holdfast.client.answering import Answering
from holdfast.client.facets.access import AccessControl, send_answers
from holdfast.client.history import started_with
from holdfast.client.outcomes import read_state
from holdfast.client.outgoing import check_outgoing
from holdfast.client.signals import Sent, no_signals, takes_commands
from holdfast.client.states import STATUSES, RunState, Steered
from holdfast.client.stopping import LeftWorkflow, RunWorkflows
from holdfast.client.tree import Tree, UnknownRun
from holdfast.client.undos import list_open_undos, read_progress
from holdfast.protocol.address import Address, parts
from holdfast.protocol.answers import Answer, AnswerBatch, Receipt, Refusal
from holdfast.protocol.context import BadWrite, with_value
from holdfast.protocol.names import PAUSE, PAUSED_MEMO, RESUME, TELL
from holdfast.protocol.questions import Question
from holdfast.protocol.undos import OpenUndo, UndoProgress
from holdfast.runtime.errors import Ambiguous, BadInput, raise_server_errors
from holdfast.runtime.workers import NoWorker

CANCEL_SECONDS = 30.0
"""The default time that `cancel` waits for the end of a run."""
PAUSE_SECONDS = 10.0
"""The default time that `pause` and `unpause` wait until every workflow of a run has taken the command."""
TELL_LOOKS, TELL_PAUSE_SECONDS = 20, 0.1
"""How often `tell` looks for the agent, and how long it waits between."""
EDIT_HINT = "stops are made by interrupt_before and interrupt_after, or by: holdfast run --interrupt-before STEP"
SEND_AGAIN = "nothing waits for it there: send the command again once a worker answers"
"""The hint for a workflow that a command has not reached, of a run that takes no signals."""


@raise_server_errors
class RunControl:
    """Commands to a run and everything in it."""

    def __init__(self, tree: Tree, answering: Answering, access: AccessControl) -> None:
        self._tree, self._answering, self._access = tree, answering, access

    async def pause(self, run: str, by: str | None = None, *, wait: float = PAUSE_SECONDS) -> Steered:
        """Pause a run: no further step starts, but answers are accepted and deadlines run.

        Args:
            run: The id of the run.
            by: The person who pauses it.
            wait: Seconds to wait until every workflow of the run is paused.

        Returns:
            The effect, with the workflows that were not paused within that time.

        Raises:
            Refusal: A workflow refused the command, or the run has ended.
            NothingSent: No worker answers, and the deployment signs its commands, which signals cannot carry.
            UnknownRun: There is no such run.
        """
        left = await self._steer(run, PAUSE, by, wait)
        return Steered(run, "pausing" if left else "paused", left)

    async def unpause(self, run: str, by: str | None = None, *, wait: float = PAUSE_SECONDS) -> Steered:
        """Resume a paused run and answer no question. Args, returns and raises as in `pause`."""
        left = await self._steer(run, RESUME, by, wait)
        return Steered(run, "resuming" if left else "running", left)

    async def resume(self, run: str, by: str | None = None) -> Steered:
        """Resume a paused run, or answer the questions of a run that only wait for a go-ahead.

        Those are holds, breakpoints and interrupts that take no value; never an approval. Raises as `pause` and
        `Runs.answer` do.
        """
        described = await self._describe_open(run)
        state = None if _has_paused_memo(described) else await self._read_state(run)
        if state is None or state.is_paused:
            steered = await self.unpause(run, by)
            with suppress(NoWorker):  # it was sent as a signal
                return steered if steered.left else replace(steered, status=(await self._read_state(run)).status)
            return steered
        held = [question for question in state.questions if not question.asked.needs_data]
        if held:
            await self._answer(state, [Answer(question=question.id) for question in held], by)
            state = await self._read_state(run)
        return Steered(run, state.status, answered=held)

    async def is_paused(self, run: str) -> bool:
        """Return whether a run, or any of its children, is paused. Raises `UnknownRun` or `NoWorker`."""
        return _has_paused_memo(await self._tree.describe(run)) or (await self._read_state(run)).is_paused

    async def _read_state(self, run: str) -> RunState:
        return await read_state(self._tree, self._answering, run)

    async def _describe_open(self, run: str) -> WorkflowExecutionDescription:
        """Return the description of a run. Raises `Refusal` if it has ended, and `UnknownRun` if there is none."""
        described = await self._tree.describe(run)
        if described.status in STATUSES:
            raise Refusal("run_closed", f"run {run} is {STATUSES[described.status]}; it has ended")
        return described

    async def _answer(self, state: RunState, answers: list[Answer], by: str | None) -> list[Receipt | Sent]:
        batch = AnswerBatch(answers=answers, by=by)
        return await send_answers(self._tree, self._answering, self._access, state.open_questions, batch)

    async def edit(
        self, run: str, changes: Mapping[str, JSON], by: str | None = None, *, digest: str | None = None
    ) -> list[Receipt | Sent]:
        """Continue from a breakpoint with a changed context.

        Args:
            run: The id of the run.
            changes: The new value for each path of the context, such as `{"draft.title": "Hello"}`.
            by: The person who changes it.
            digest: That of the checkpoint as the person saw it; by default as it is now.

        Raises:
            BadInput: The run is not at exactly one breakpoint, or a path cannot be set, or is none of the run's.
            Refusal: The change was refused, or the run has ended.
        """
        await self._access.check_steering(run)
        described = await self._describe_open(run)
        state = await self._read_state(run)
        stops = [question for question in state.questions if question.asked.is_breakpoint]
        if len(stops) != 1:
            raise BadInput(_which_stop(run, stops))
        from holdfast.client.context_paths import check_context_paths  # noqa: PLC0415  it loads the language

        context = stops[0].info
        check_context_paths(changes, (await started_with(self._tree.client, described)).blueprint, context)
        try:
            for path, value in changes.items():
                context = with_value(context, path, value)
        except BadWrite as error:
            raise BadInput(str(error)) from None
        answer = Answer(question=stops[0].id, content=context, digest=digest or stops[0].digest)
        return await self._answer(state, [answer], by)

    async def tell(self, run: str, text: str, *, agent: str | None = None, by: str | None = None) -> str:
        """Send a message to an agent that works in turns; it reads the message in its next turn.

        Args:
            run: The id of the run.
            text: The message.
            agent: The name or the address of the agent's step, where several agents work; for an agent that drives a
                plan, those of the plan; for one of a plan's step, the step's id.
            by: The person who sends it.

        Returns:
            The address of the agent.

        Raises:
            BadInput: No such agent is at work.
            Ambiguous: Several agents are.
            Refusal: The message was refused, or the agent has finished.
        """
        await self._access.check_steering(run)
        await self._describe_open(run)
        check_outgoing({"text": text}, self._answering.limits.answer)
        looks = TELL_LOOKS
        while True:
            try:
                return await self._tell(run, text, agent, by)
            except Refusal as refusal:
                looks -= 1
                if refusal.code != "busy" or not looks:
                    raise
            await asyncio.sleep(TELL_PAUSE_SECONDS)

    async def _tell(self, run: str, text: str, agent: str | None, by: str | None) -> Address:
        """Send a message once; see `tell`. It is refused as `busy` while the agent goes on in another workflow."""
        address, workflow = await self._find_hearer(run, agent)
        payload = {"text": text, "by": by}
        try:
            await self._answering.steer(self._tree, run, workflow, TELL, payload, type(None))
        except UnknownRun:
            raise Refusal("run_closed", "the agent has finished; it no longer accepts messages") from None
        return address

    async def _find_hearer(self, run: str, agent: str | None) -> tuple[Address, str]:
        """Return the address of the agent that takes messages, and its workflow; see `tell`."""
        hearers = {view.hearer: view.workflow for view in await self._tree.views(run) if view.hearer is not None}
        matches = [address for address in hearers if agent in (None, address, _find_agent(address))]
        if len(matches) != 1:
            names = ", ".join(f"{address} ({_find_agent(address)})" for address in hearers) or "none"
            if matches:
                raise Ambiguous(f"several agents are at work in {run}; name one, or its address, with --agent: {names}")
            missing = f"no agent of a step {agent!r}" if agent else "no agent"
            readers = "agents with tools, in plans too, and those that drive a plan read messages while they work"
            raise BadInput(f"{missing} in {run} reads messages now ({readers}); at work: {names}")
        return matches[0], hearers[matches[0]]

    async def cancel(
        self,
        run: str,
        *,
        wait: float = CANCEL_SECONDS,
        force: bool = False,
        by: str | None = None,
        warn: Callable[[list[OpenUndo] | None], None] = lambda _: None,
    ) -> Steered:
        """Cancel a run and its children; their questions close. Cancelling a run that has ended is no error.

        Args:
            run: The id of the run.
            wait: Seconds to wait for the end of the whole tree.
            force: Terminate the run instead: nothing that it has started is cleaned up, and its status is `failed`.
            by: The person who cancels it; Temporal and the record keep the name. They must be among those who may
                steer the run.
            warn: Called before it is terminated, with what will not be undone; None: that is not known.

        Returns:
            The status of the run, with the workflows that had not ended in time, each with the reason, those that had
            activities under way, and what it undoes or has left.

        Raises:
            UnknownRun: There is no such run.
            Refusal: They may not steer it.
        """
        await self._tree.describe(run)
        await self._access.require("steer", run, by)
        workflows = RunWorkflows(self._tree, run, by)
        open_undos: list[OpenUndo] | None = []
        if force:
            open_undos = await list_open_undos(self._tree, run)
            warn(open_undos)
        remaining, undone = await (workflows.terminate(wait) if force else workflows.cancel(wait))
        undoing = await read_progress(self._tree, run) if remaining else None
        described = await self._tree.describe(run)
        status = STATUSES.get(described.status, "running") if described.status else "running"
        return Steered(run, status, remaining, undone, undoing=undoing, open_undos=open_undos)

    async def list_open_undos(self, run: str) -> list[OpenUndo] | None:
        """Return what a run has done and would undo if it were cancelled, the newest first; None if it is not known."""
        return await list_open_undos(self._tree, run)

    async def read_undoing(self, run: str) -> UndoProgress | None:
        """Return how far a run has come with what it undoes; None if it undoes nothing, or nobody can tell."""
        return await read_progress(self._tree, run)

    async def _steer(self, run: str, name: str, by: str | None, wait: float) -> list[LeftWorkflow]:
        """Send a command to every workflow of a run; return those that have not taken it after `wait` seconds.

        With a worker it is sent as an update, so that it has taken effect on return. A workflow that no update has
        reached gets a signal, which waits for the next worker: the last one may have gone a moment ago.
        """
        await self._access.check_steering(run)
        described = await self._describe_open(run)
        workflows = RunWorkflows(self._tree, run)
        reached_by_update = await self._tree.worker_polls(run)
        left: list[LeftWorkflow] = []
        if reached_by_update:
            argument = partial(self._answering.sign_command, run, command=name, payload={"by": by})
            left = await workflows.steer(name, argument, paused=name == PAUSE, seconds=wait)
            if not left:
                return []
        if not self._answering.keys and await takes_commands(self._tree, described):
            return await workflows.signal(name, {workflow.workflow for workflow in left} if reached_by_update else None)
        if reached_by_update:
            return [replace(workflow, reason=f"{workflow.reason}; {SEND_AGAIN}") for workflow in left]
        raise no_signals()


def _has_paused_memo(described: WorkflowExecutionDescription) -> bool:
    return PAUSED_MEMO in described.raw_info.memo.fields


def _which_stop(run: str, stops: Sequence[Question]) -> str:
    """Return the message for a run that is not at exactly one breakpoint."""
    # Breakpoints of several branches have the same address: the message of each tells them apart.
    if not stops:
        return f"run {run} is not at a stop; {EDIT_HINT}"
    places = "; ".join(f"{stop.id} at {stop.address}: {stop.message}" for stop in stops)
    answer = f"holdfast answer {shlex.quote(run)} ID --content CONTEXT"
    return f"run {run} is at {len(stops)} stops; answer one: {answer} ({places})"


def _find_agent(address: Address) -> str:
    """Return the name of the innermost agent, step of a plan or agent-driven plan at an address."""
    return next((id_ for kind, id_, _ in reversed(parts(address)) if kind in ("agent", "plan", "step")), "")
