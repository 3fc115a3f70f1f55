"""The state of a plan: its scopes, the loops that an agent has started, its revisions. Both drivers change it by verbs.

The scheduler and the control tools of a driving agent use the verbs of `PlanScope` for steps, and those here for what
concerns several scopes: settle, break off, revise, and the items of a loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.plan import LoopUnit
from holdfast.protocol.events import LoopCompleted, PlanRevised
from holdfast.protocol.plans import ActiveLoop, EndedEarly, Iteration, PlanProgress, Revision, UnitResult
from holdfast.workflows.plan.results import Ending, loop_result, unfinished_loop
from holdfast.workflows.plan.scope import PlanScope


@dataclass
class LoopRun:
    """A loop that an agent has started, and its current item."""

    id: str
    outer: PlanScope
    scope: PlanScope
    """That of the item."""
    items: list[JSON]
    index: int
    done: list[Iteration]

    @property
    def unit(self) -> LoopUnit:
        return self.scope.context.loop(self.id)

    @property
    def item(self) -> JSON:
        return self.items[self.index]


class PlanState:
    """A plan in one workflow, taken up from the progress that the workflow before has left."""

    def __init__(self, root: PlanScope, progress: PlanProgress | None = None) -> None:
        progress = progress or PlanProgress()
        self.root, self.context = root, root.context
        root.results = {**root.results, **progress.results}
        self.revisions = list(progress.revisions)
        self.vars, self.found, self.missing = dict(progress.vars), list(progress.found), list(progress.missing)
        self.active: dict[str, LoopRun] = {}
        for id_, loop in progress.active.items():
            around = self.context.layout.loops_of(id_)
            outer = self.active[around[-1]].scope if around else root
            run = self._activate(self.context.loop(id_), outer, loop)
            run.scope.results = dict(loop.results)

    def progress(self) -> PlanProgress:
        """Return the state as another workflow can take it up."""
        active = {
            id_: ActiveLoop(items=run.items, index=run.index, done=run.done, results=dict(run.scope.results))
            for id_, run in self.active.items()
        }
        return PlanProgress(
            plan=self.context.plan,
            revisions=self.revisions,
            results=dict(self.root.results),
            active=active,
            vars=self.vars,
            found=self.found,
            missing=self.missing,
        )

    @property
    def revision(self) -> int:
        return len(self.revisions) + 1

    def revise(self, plan: PlanBody, by: str | None, reason: str) -> int:
        """Go on with another plan; return its number."""
        self.context.revise(plan)
        revision = Revision(revision=self.revision + 1, by=by, reason=reason)
        self.revisions = [*self.revisions, revision]
        self.root.frame.note(PlanRevised(revision=self.revision, by=by, reason=reason or None))
        return self.revision

    def scopes(self) -> Iterator[PlanScope]:
        """Yield every scope that is under way, innermost last."""
        yield self.root
        for run in sorted(self.active.values(), key=lambda run: len(run.scope.around)):
            yield run.scope

    def stopped(self, scope: PlanScope) -> str:
        """Return why nothing more is started in a scope; empty: it goes on. `fail_fast` stops nothing in a loop."""
        if any(each.was_cancelled() for each in self.scopes()):
            return "plan_cancelled"
        return "fail_fast" if self.context.plan.fail_fast and not scope.around and scope.any_failed() else ""

    def settle(self) -> None:
        """Skip or fail what cannot run any more, in every scope."""
        for scope in self.scopes():
            scope.settle(self.stopped(scope))

    def break_off(self, ending: Ending) -> None:
        """End everything that has begun, innermost first, as the plan has ended before it."""
        for run in sorted(self.active.values(), key=lambda run: -len(run.scope.around)):
            run.scope.break_off(ending)
            result = unfinished_loop(run.unit, ending, [*run.done, run.scope.iteration(ending.status)])
            end = run.outer.finish if result.status == "failed" else run.outer.close
            end(run.unit, result)
        self.active.clear()
        self.root.break_off(ending)

    # Loops of a driving agent

    def begin_items(self, unit: LoopUnit, outer: PlanScope, items: list[JSON]) -> LoopRun:
        """Begin the first item of a loop that has started."""
        run = self._activate(unit, outer, ActiveLoop(items=items))
        self._begin_item(run)
        return run

    def _activate(self, unit: LoopUnit, outer: PlanScope, loop: ActiveLoop) -> LoopRun:
        scope = outer.item_scope(unit, loop.items[loop.index], loop.index)
        run = self.active[unit.id] = LoopRun(unit.id, outer, scope, loop.items, loop.index, list(loop.done))
        return run

    def _begin_item(self, run: LoopRun) -> None:
        run.scope.begin_item()
        self.settle()

    def repeat_item(self, run: LoopRun, item: object, done: dict[str, UnitResult]) -> None:
        """Do the current item of a loop once more, perhaps as another value."""
        run.items = [*run.items[: run.index], item, *run.items[run.index + 1 :]]
        run.scope.restart(item, done)
        self._begin_item(run)

    def advance(self, run: LoopRun, iteration: Iteration, ended: EndedEarly = "") -> UnitResult | None:
        """Close the current item of a loop and begin the next; after the last end the loop, and return its result."""
        run.done = [*run.done, iteration]
        if run.index + 1 < len(run.items) and not ended:
            run.index += 1
            run.scope = run.outer.item_scope(run.unit, run.item, run.index)
            self._begin_item(run)
            return None
        result = loop_result(run.done, ended, len(run.items))
        del self.active[run.id]
        run.outer.at(run.unit).note(LoopCompleted(reason=result.status, iterations=len(run.done)))
        run.outer.finish(run.unit, result)
        self.settle()
        return result
