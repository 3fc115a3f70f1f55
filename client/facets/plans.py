"""The plans of a run: read them, and change what has not begun. This is `runs.plans`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.client.answering import Answering
from holdfast.client.facets.access import AccessControl
from holdfast.client.facets.watch import RunWatch
from holdfast.client.outcomes import read_state
from holdfast.client.outgoing import check_outgoing
from holdfast.client.plans import check_change, find_plan, send_change
from holdfast.client.tree import Tree
from holdfast.protocol.answers import Refusal
from holdfast.runtime.errors import raise_server_errors

if TYPE_CHECKING:
    from holdfast.client.views.plans import PlanView


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
