"""The state of a plan: its scopes, the loops that an agent has started, its revisions. Both drivers change it by verbs.

The scheduler and the control tools of a driving agent use the verbs of `PlanScope` for steps, and those here for what
concerns several scopes: settle, break off, revise, and the items of a loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from holdfast.blueprint.kinds import PlanBody
from holdfast.protocol.events import LoopCompleted, PlanRevised
from holdfast.protocol.plans import ActiveLoop, Iteration, PlanProgress, Revision, UnitResult
from holdfast.workflows.plan.ledger import guard_changes
from holdfast.workflows.plan.results import Ending, ended_early, loop_result, shorten_calls, unfinished_loop
from holdfast.workflows.plan.scope import ItemScope, PlanScope


class PlanState:
    """A plan in one workflow, taken up from the progress that the workflow before has left."""

    def __init__(self, root: PlanScope, progress: PlanProgress | None = None) -> None:
        progress = progress or PlanProgress()
        self.root, self.context = root, root.context
        root.results = {**root.results, **progress.results}
        self.revisions, self.reply = list(progress.revisions), progress.reply
        self.vars, self.replacements = dict(progress.vars), dict(progress.replacements)
        self.active: dict[str, ItemScope] = {}
        """The current items of the loops that an agent has started, by loop, in the order of their start."""
        for id_, loop in progress.active.items():
            around = self.context.layout.list_loops(id_)
            outer = self.active[around[-1]] if around else root
            scope = self.active[id_] = outer.item_scope(self.context.loop(id_), loop.items, loop.index, loop.done)
            scope.results, scope.made_before = dict(loop.results), dict(loop.made_before)

    def progress(self) -> PlanProgress:
        """Return the state as another workflow can take it up."""
        active = {
            id_: ActiveLoop(
                items=scope.items,
                index=scope.item.index,
                done=shorten_calls(scope.done),
                results=dict(scope.results),
                made_before=scope.made_before,
            )
            for id_, scope in self.active.items()
        }
        return PlanProgress(
            plan=self.context.plan,
            approved=self.context.approved,
            revisions=self.revisions,
            reply=self.reply,
            results=dict(self.root.results),
            active=active,
            vars=self.vars,
            replacements=self.replacements,
        )

    @property
    def revision(self) -> int:
        return len(self.revisions) + 1

    def revise(self, plan: PlanBody, by: str | None, reason: str, *, approved: bool = False) -> int:
        """Go on with another plan, whose tools a person may have approved; return its number."""
        before = self.context.layout
        self.context.revise(plan, approved=approved)
        guard_changes(self.root, before)
        revision = Revision(revision=self.revision + 1, by=by, reason=reason)
        self.revisions = [*self.revisions, revision]
        self.root.frame.note(PlanRevised(revision=self.revision, by=by, reason=reason or None))
        return self.revision

    def scopes(self) -> Iterator[PlanScope]:
        """Yield every scope that is under way, innermost last."""
        yield self.root
        yield from sorted(self.active.values(), key=lambda scope: len(scope.around))

    def find_stop_reason(self, scope: PlanScope) -> str:
        """Return why nothing more is started in a scope; empty: it goes on. `fail_fast` stops nothing in a loop."""
        if any(each.was_cancelled() for each in self.scopes()):
            return "plan_cancelled"
        return "fail_fast" if self.context.plan.fail_fast and not scope.around and scope.any_failed() else ""

    def settle(self) -> None:
        """Skip or fail what cannot run any more, in every scope."""
        for scope in self.scopes():
            scope.settle(self.find_stop_reason(scope))

    def break_off(self, ending: Ending, unknown: Collection[str] = ()) -> None:
        """End everything that has begun, innermost first, as the plan has ended before it.

        Args:
            ending: How the plan ended.
            unknown: The loops whose items are not known here, unless they were handed over.
        """
        for scope in sorted(self.active.values(), key=lambda scope: -len(scope.around)):
            scope.break_off(ending)
            result = unfinished_loop(scope.loop, ending, [*scope.done, scope.iteration(ending.status)])
            end = scope.outside.finish if result.status == "failed" else scope.outside.close
            end(scope.loop, result)
        self.active.clear()
        self.root.break_off(ending, unknown)

    # Loops of a driving agent

    def begin_item(self, scope: ItemScope) -> ItemScope:
        """Begin an item of a loop, or begin it anew."""
        self.active[scope.loop.id] = scope
        scope.begin()
        self.settle()
        return scope

    def advance(self, scope: ItemScope, iteration: Iteration) -> ItemScope | UnitResult:
        """Close an item of a loop and begin the next; after the last end the loop, and return its result."""
        loop, outer, done = scope.loop, scope.outside, [*scope.done, iteration]
        if len(done) < len(scope.items) and not ended_early(loop, [iteration]):
            return self.begin_item(outer.item_scope(loop, scope.items, len(done), done))
        result = loop_result(loop, done, len(scope.items))
        del self.active[loop.id]
        outer.at(loop).note(LoopCompleted(reason=result.status, iterations=len(done)))
        outer.finish(loop, result)
        self.settle()
        return result
