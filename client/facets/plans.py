"""The plans of a run: read them, and change what has not begun. This is `runs.plans`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Agent, PlanBody
from holdfast.blueprint.load.plans import read_plan
from holdfast.blueprint.step_traits import find_traits
from holdfast.client.answering import Answering
from holdfast.client.facets.access import AccessControl
from holdfast.client.facets.watch import RunWatch
from holdfast.client.outcomes import read_state
from holdfast.client.outgoing import check_outgoing
from holdfast.client.tree import CLOSED, Tree, UnknownRun
from holdfast.client.views import StepView
from holdfast.client.views.plans import PlanView
from holdfast.protocol.address import name_at
from holdfast.protocol.answers import Refusal
from holdfast.protocol.names import PLAN
from holdfast.protocol.plans import PlanSnapshot
from holdfast.runtime.errors import Ambiguous, BadInput, raise_server_errors


@raise_server_errors
class RunPlans:
    """The plans that steps of a run follow."""

    def __init__(self, tree: Tree, answering: Answering, access: AccessControl, watch: RunWatch) -> None:
        self._tree, self._answering, self._access, self._watch = tree, answering, access, watch

    async def read(self, run: str, address: str | None = None, *, last: int | None = 100) -> PlanView:
        """Return a plan of a run with the status of each of its steps, also when the plan is over.

        Args:
            run: The id of the run.
            address: The name or the address of the plan's step, where the run has several plans.
            last: How many iterations of each loop are read, the last ones; None reads all.

        Raises:
            BadInput: There is no such plan.
            Ambiguous: There are several.
        """
        state = await read_state(self._tree, self._answering, run)
        return await find_plan(self._tree, await self._watch.trace(state, last), run, address)

    async def change(
        self,
        run: str,
        plan: object,
        address: str | None = None,
        *,
        reason: str = "",
        by: str | None = None,
        revision: int | None = None,
    ) -> int:
        """Replace the plan of a run. Steps that have started or ended must stay as they are.

        Args:
            run: The id of the run.
            plan: The new plan, as JSON has it.
            address: The name or the address of the plan's step, where the run has several plans.
            reason: The reason, stored with the revision.
            by: The person who changes it.
            revision: The revision that the change was made for: it is refused if the plan has changed since.

        Returns:
            The number of the new revision.

        Raises:
            Refusal: The plan was refused; the message lists every problem.
            BadInput: There is no such plan.
            Ambiguous: There are several.
        """
        await self._access.check_steering(run)
        check_outgoing({"plan": plan}, self._answering.limits.answer)
        check_change(plan)
        change = {"plan": plan, "reason": reason, "by": by}
        current = await self.read(run, address)
        while True:
            try:
                wanted = {**change, "revision": revision or current.snapshot.revision}
                return await send_change(self._tree, self._answering, current, wanted)
            except Refusal:
                before, current = current.snapshot.workflow, await self.read(run, current.address)
                # Try again only if another workflow holds the plan now: a loop took it over, or handed it back.
                if current.snapshot.workflow == before:
                    raise


SHOWN = 20
"""The most addresses in a message."""


async def find_plan(tree: Tree, run: StepView, id_: str, wanted: str | None) -> PlanView:
    """Return a plan of a run.

    Args:
        tree: The run's workflows.
        run: The run with its steps.
        id_: The run's id.
        wanted: The address of the plan, or the name of its step; None for the only one.

    Raises:
        BadInput: There is no such plan.
        Ambiguous: There are several.
    """
    steps = {step.address: step for step in run.below()}
    workflows = {address: step.workflow for address, step in steps.items() if step.workflow is not None}
    plans = [address for address in workflows if not find_traits(steps[address].kind).iterates]
    chosen = _choose(id_, plans, wanted)
    inner = [step for own in steps[chosen].steps for step in (own, *own.below())]  # not those of a plan before
    loops = [step.workflow for step in inner if step.workflow is not None]
    return PlanView(id_, await _read_snapshot(tree, workflows[chosen], loops), steps[chosen])


def _choose(run: str, plans: Sequence[str], wanted: str | None) -> str:
    matches = [address for address in plans if wanted in (None, address, name_at(address))]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise Ambiguous(f"run {run} has several such plans; name one with --plan: {_join(matches)}")
    if plans:
        raise BadInput(f"run {run} has no plan {wanted!r}; it has {_join(plans)}")
    raise BadInput(f"run {run} has no plan, or its plan has not started yet; see: holdfast show {shlex.quote(run)}")


def _join(addresses: Sequence[str]) -> str:
    """Join the addresses, of many the last 20."""
    kept = addresses[-SHOWN:]
    return ("… " if len(kept) < len(addresses) else "") + ", ".join(kept)


async def _read_snapshot(tree: Tree, workflow: str, loops: Sequence[str]) -> PlanSnapshot:
    """Return what the workflow says that holds the plan, or held it last: the plan's own or an agent's loop."""
    own = await tree.query(workflow, PLAN, None, PlanSnapshot)
    if own.holds or own.status == "completed":
        return own
    for loop in reversed(loops):
        try:
            view = await tree.query(loop, PLAN, None, PlanSnapshot)
        except UnknownRun:  # its retention has ended
            continue
        if view.holds or (own.status in CLOSED and view.status == own.status):  # it ended with the loop
            return view
    return own


def check_change(plan: object) -> None:
    """Raise `Refusal` for a plan that no run would accept, with every problem.

    The run checks the rest: who drives the plan, whether it knows the agents and what tools they have.
    """
    content = {key: value for key, value in plan.items() if key != "driver"} if isinstance(plan, dict) else plan
    try:
        read_plan(content, PlanBody(), _agents(plan), tools=False)
    except BlueprintError as error:
        problems = "\n".join(map(str, error.problems))
        raise Refusal("invalid_answer", f"the plan was not changed:\n{problems}") from None


async def send_change(tree: Tree, answering: Answering, plan: PlanView, change: Mapping[str, JSON]) -> int:
    """Send a change to the workflow that holds the plan; return the number of the new revision. Raises `Refusal`."""
    if plan.is_over:
        raise Refusal("run_closed", f"the plan has ended ({plan.status}); it can no longer be changed")
    try:
        return await answering.steer(tree, plan.run, plan.snapshot.workflow, PLAN, change, int)
    except UnknownRun:
        raise Refusal("run_closed", "the plan has ended; it can no longer be changed") from None


def _agents(plan: object) -> dict[str, Agent]:
    """Return stand-ins for the agents that a plan names, so that they count as known: only the run knows its agents."""
    steps = plan.get("steps") if isinstance(plan, dict) else None
    holders = [plan, *(steps if isinstance(steps, list) else [])]
    agents = [holder.get("agent") for holder in holders if isinstance(holder, dict)]
    return {agent: Agent(model="echo") for agent in agents if isinstance(agent, str) and agent}
