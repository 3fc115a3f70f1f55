"""The words of a run's steps on its pages: what the templates write beside each view, in the reader's language."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.client.views import GroupView, Spending, StepView
from holdfast.server.notices.texts import Texts
from holdfast.server.web.pages.templating import amount, dollars, shorten

SHORTEST = 0.05
"""Seconds: steps that take less show no time."""
_OPEN_MARKS = ("running", "waiting", "failed")


@dataclass(frozen=True)
class StepWords:
    """Writes what a page shows of steps; `t` has the texts."""

    t: Texts

    def is_open(self, shown: StepView | GroupView, *, is_last: bool = False) -> bool:
        """Return whether the details of a step or a group are shown at first: of what goes on, failed, or came last."""
        return shown.mark in _OPEN_MARKS or is_last

    def notes(self, step: StepView) -> list[str]:
        """Return the kind of a step, how far it is, what it took and how long."""
        t, notes = self.t, self._kind(step)
        if rounds := [group.n for group in step.iterations]:
            notes.append(t("runs.iterations", count=max(rounds)))
        if step.items is not None and step.items.begun:
            notes.append(t("runs.items_done", done=step.items.done, count=step.items.count_known))
        if step.exit is not None:
            notes.append(step.exit.reason)
        if step.requests:
            notes.append(t("runs.turns", count=step.requests))
        notes += self._describe_spent(step.spent)
        if step.is_cached:
            notes.append(t("runs.cached"))
        if step.is_verified is False:
            notes.append(t("runs.not_verified"))
        if step.outcome is not None:
            goes_on = step.mark in ("running", "waiting")  # a plan that failed is made again
            notes.append(t("runs.planned_again") if goes_on else step.outcome.replace("_", " "))
        notes += [t("runs.reply", finish=finish.replace("_", " "), count=n) for finish, n in step.replies.items()]
        if step.turns_left_out:
            notes.append(t("runs.turns_left_out", count=step.turns_left_out))
        for revision in step.revisions[-1:]:
            notes.append(t("runs.revision", n=revision.revision, by=revision.by or "?"))
        return [*notes, *self._length(step.seconds)]

    def long_texts(self, shown: StepView | GroupView) -> list[str]:
        """Return the texts whole that its line only begins: why it failed, was skipped or was denied."""
        reason = shown.reason if isinstance(shown, StepView) else None
        texts = [shown.error.message if shown.error else "", reason or ""]
        return [text for text in texts if text != shorten(text)]

    def title(self, group: GroupView) -> str:
        """Return the title of a group; empty for the step's own steps."""
        if group.kind == "failed_plan":
            return self.t("runs.earlier_plan", n=group.n)
        if not group.repeats:
            return group.branch
        what = group.label if group.item is None else group.item
        return f"{self.t(f'runs.{group.kind}', n=group.n)}{'' if what is None else f': {what}'}"

    def group_notes(self, group: GroupView) -> list[str]:
        """Return how long an iteration or an item took, and what."""
        return [*self._length(group.seconds), *self._describe_spent(group.spent)]

    def earlier(self, step: StepView) -> dict[str, object]:
        """Return what the address of the page with the earlier iterations or items names."""
        if step.workflow is not None and step.iterations:
            return {"workflow": step.workflow, "before": min(group.n for group in step.iterations)}
        return {"back": len(step.repetitions)}

    def _kind(self, step: StepView) -> list[str]:
        if step.shown_kind is None:
            return []
        if step.kind == "tool":
            return [self.t("runs.tool") if step.turn is None else self.t("runs.tool_in_turn", n=step.turn)]
        return [step.kind if step.branch is None else f"{step.kind} → {step.branch}"]

    def _describe_spent(self, spent: Spending) -> list[str]:
        """Return what models took: tokens, and dollars where every price is known."""
        if not spent.tokens:
            return []
        tokens = self.t("runs.tokens", count=f"{spent.tokens:,}" if spent.tokens != 1 else 1)
        return [tokens] if spent.cost_usd is None else [tokens, dollars(spent.cost_usd)]

    def _length(self, seconds: float | None) -> list[str]:
        if seconds is None or seconds < SHORTEST:
            return []
        return [f"{seconds:.1f} s" if seconds < 10 else amount(seconds, self.t)]
