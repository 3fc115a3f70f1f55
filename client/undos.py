"""What a run has done that would have to be undone, and how far it has come with that. For `RunControl`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.client.history import started_with
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.names import PIPELINE_WORKFLOW, UNDOS
from holdfast.protocol.undos import OpenUndo, UndoProgress
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.workers import NoWorker

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint


def add_progress(views: Sequence[WorkflowView]) -> UndoProgress | None:
    """Return how far the workflows of a run have come together; None if they undo nothing now."""
    found = [view.undoing for view in views if view.undoing is not None]
    if not found:
        return None
    return UndoProgress(number=sum(each.number for each in found), total=sum(each.total for each in found))


async def read_progress(tree: Tree, run: str) -> UndoProgress | None:
    """Return how far a run has come with what it undoes; None if it undoes nothing, or nobody can tell."""
    try:
        return add_progress(await tree.views(run))
    except (NoWorker, UnknownRun):
        return None


async def list_open_undos(tree: Tree, run: str) -> list[OpenUndo] | None:
    """Return what a run has done and not undone, though its blocks say how, the newest first.

    None if it is not known, as no worker answers. Raises `UnknownRun`.
    """
    described = await tree.describe(run)
    is_ours = described.workflow_type == PIPELINE_WORKFLOW
    if is_ours and not _may_undo((await started_with(tree.client, described)).blueprint):
        return []  # needs no worker
    try:
        views = await tree.views(run)
        return [undo for view in reversed(views) for undo in await _read_undos(tree, view)]  # children are newer
    except NoWorker:
        return None


async def _read_undos(tree: Tree, view: WorkflowView) -> list[OpenUndo]:
    found: list[OpenUndo] = []
    while len(found) < view.undos:
        page = await tree.query(view.workflow, UNDOS, len(found), list[OpenUndo])
        if not page:  # some were undone meanwhile
            break
        found += page
    return found


def _may_undo(blueprint: Blueprint) -> bool:
    from holdfast.blueprint.kinds.walk import steps_within  # noqa: PLC0415  it loads the language

    if any(step.undo_tool is not None for step in steps_within(blueprint.steps)):
        return True
    return any(_may_undo(imported) for imported in blueprint.imports.values())
