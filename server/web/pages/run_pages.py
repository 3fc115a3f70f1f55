"""The pages that show runs: the list, one run as a tree of steps, its graph, its context, what people did."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, get_args
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from temporalio.service import RPCError

from holdfast.blueprint.graph import State, graph, make_chart
from holdfast.client.history import ended_by
from holdfast.client.obstacles import Obstacle
from holdfast.client.outcomes import is_cancel_requested
from holdfast.client.overlay import mark_steps
from holdfast.client.runs import Runs
from holdfast.client.states import STATUSES, Outcome, RunState
from holdfast.client.tree import UnknownRun
from holdfast.client.views import StepView
from holdfast.protocol.address import Address
from holdfast.protocol.views import Status
from holdfast.runtime.errors import BadInput
from holdfast.runtime.workers import NoWorker
from holdfast.server.web.addresses import run_address, temporal_address
from holdfast.server.web.gate import require_identity
from holdfast.server.web.outage import read_anyway
from holdfast.server.web.pages.chart_layout import lay_out
from holdfast.server.web.pages.json_tree import json_node
from holdfast.server.web.pages.run_tree import StepWords
from holdfast.server.web.pages.templating import choose_texts, render
from holdfast.server.web.site import find_site, permit

RUNS_PAGE = 50
REPETITIONS = 100
"""The iterations or items of a step that a page shows."""
FARTHEST = 100_000
"""How many later iterations may be left out, so that an address cannot ask for more than a run has."""
STATUS_NAMES: tuple[Status, ...] = get_args(Status)
CHART_MARKS: dict[State, str] = {"done": "✓", "running": "…", "waiting": "?", "failed": "✗", "skipped": "–"}


@dataclass(frozen=True)
class RunHead:
    """The head of every page of a run: its state, or the reason why no worker could be asked."""

    run: str
    status: Status
    started: datetime | None
    closed: datetime | None
    blueprint: str = ""
    state: RunState | None = None
    silence: str = ""
    obstacles: Sequence[Obstacle] = ()
    """What keeps the run from going on though nobody is asked."""
    ui: str | None = None
    """The address of the run in Temporal's UI; None where that is not known, or has forgotten the run."""
    seen: str = ""
    """The fingerprint of what is shown; a change of the run changes it."""
    cancel_requested: bool = False
    """True if the run was asked to end, and has not ended."""
    is_forgotten: bool = False
    """True if Temporal has forgotten the run, or does not answer, and the record has it."""

    @property
    def address(self) -> str:
        """The address of the page."""
        return run_address(self.run)

    @property
    def has_ended(self) -> bool:
        """True if nothing of the run changes any more."""
        return self.closed is not None

    @property
    def is_cut(self) -> bool:
        """True if the output and the context of the run are gone: they were too large for the record."""
        return self.is_forgotten and self.state is not None and not self.state.views

    @property
    def cost(self) -> float | None:
        """The cost of the run's models in dollars; None if it is not known."""
        return None if self.state is None else self.state.usage.cost_usd


async def read_head(request: Request, runs: Runs) -> RunHead:
    """Return what every page of a run shows of it. Raises `UnknownRun`."""
    run = str(request.path_params["run"])
    head = await _read_retained(request, runs, run) or await _read_archived(runs, run)
    try:
        state = await runs.state(run)
    except NoWorker as error:
        return replace(head, silence=str(error))
    seen = await find_site(request).live.fingerprint(state)
    obstacles = await runs.watch.find_obstacles(state)
    return replace(head, status=state.status, blueprint=state.blueprint, state=state, seen=seen, obstacles=obstacles)


async def _read_retained(request: Request, runs: Runs, run: str) -> RunHead | None:
    """Return what Temporal has of a run; None if it has forgotten it."""
    try:
        described = await runs.tree.describe(run)
    except UnknownRun:
        return None
    status = STATUSES.get(described.status) if described.status else None
    address = temporal_address(find_site(request).ui_url, runs.client.namespace, run)
    closed = described.close_time if described.status in STATUSES else None
    asked = closed is None and is_cancel_requested(described)
    return RunHead(run, status or "running", described.start_time, closed, ui=address, cancel_requested=asked)


async def _read_archived(runs: Runs, run: str) -> RunHead:
    end = None if runs.archive is None else await runs.archive.end(run)
    if end is None:
        raise UnknownRun(run)
    return RunHead(run, end.status, end.started, end.closed, is_forgotten=True)


async def list_runs_page(request: Request) -> Response:
    """Show the list of runs, by the beginning of their ids, by blueprint and by status."""
    runs = find_site(request).find_runs(require_identity(request))
    query = request.query_params
    blueprint, beginning = query.get("blueprint", "").strip(), query.get("q", "").strip()
    status = next((name for name in STATUS_NAMES if name == query.get("status")), None)
    page = _number(query.get("page"), 1, 10_000) or 1
    after = query.get("after") or None
    rows, cursor = await runs.lists.page(
        after, page=page, blueprint=blueprint or None, status=status, beginning=beginning, size=RUNS_PAGE
    )
    wanted = {"q": beginning, "blueprint": blueprint, "status": status or ""}
    is_further = after is not None or page > 1
    values: dict[str, Any] = {
        "rows": rows,
        "is_further": is_further,
        "newest": _list_address(**wanted) if is_further else None,
        "older": _list_address(**wanted, after=cursor) if cursor is not None else None,
    }
    return render(request, "runs/list.html", statuses=STATUS_NAMES, wanted=wanted, **values)


def _list_address(**query: str) -> str:
    kept = {name: value for name, value in query.items() if value}
    return f"/runs?{urlencode(kept)}" if kept else "/runs"


async def run_page(request: Request, status_code: int = 200, **notes: Any) -> Response:
    """Show a run as a live tree.

    Args:
        request: The request; its path names the run.
        status_code: The HTTP status.
        notes: What the page says of a command, see `runs/run.html`.
    """
    runs = await permit(request, "see")
    head = await read_head(request, runs)
    steers = "steer" in require_identity(request).scopes and await runs.access.may("steer", head.run)
    steps: Sequence[StepView] = ()
    outcome = None
    if head.state is not None:
        try:
            steps = (await runs.watch.trace(head.state, REPETITIONS)).steps
        except NoWorker as error:
            head = replace(head, silence=str(error))
    if head.has_ended:
        outcome = await _outcome(runs, head)
    values: dict[str, Any] = {"head": head, "steps": steps, "outcome": outcome, "steers": steers}
    values["words"] = StepWords(choose_texts(request))
    values["ended_by"] = await _ended_by(runs, head)
    done = request.query_params.get("done", "")
    output = None if outcome is None or outcome.output is None else json_node(outcome.output)
    return render(
        request, "runs/run.html", status_code, **_PLAIN | {"done": done} | values | {"output": output} | notes
    )


_PLAIN: dict[str, Any] = {"problem": "", "remaining": [], "told": "", "agent": ""}


async def _ended_by(runs: Runs, head: RunHead) -> str | None:
    """Return who cancelled or terminated a run that Temporal still has; None if nobody did, or it was not told."""
    if head.status != "cancelled" or head.is_forgotten:
        return None
    with suppress(RPCError):
        return await ended_by(runs.client, head.run, None)
    return None


async def _outcome(runs: Runs, head: RunHead) -> Outcome | None:
    try:
        return await runs.outcome(head.run)
    except NoWorker:
        return None


async def show_repetitions_page(request: Request) -> Response:
    """Show iterations of a loop or items of a map, a hundred at a time, the newest first."""
    runs = await permit(request, "see")
    head = await read_head(request, runs)
    if head.state is None:
        return await run_page(request)
    try:
        kept, links = await _repetitions(request, runs, head.state)
    except NoWorker:
        return await run_page(request)
    values: dict[str, Any] = {"head": head, "row": kept, "groups": kept.repetitions, "links": links}
    return render(request, "runs/repetitions.html", words=StepWords(choose_texts(request)), **values)


async def _repetitions(request: Request, runs: Runs, state: RunState) -> tuple[StepView, dict[str, str | None]]:
    """Return a loop or a map with a page of its repetitions, and the addresses of the pages beside it."""
    query = request.query_params
    address, workflow, before = query.get("at", ""), query.get("workflow"), _number(query.get("before"), 0, FARTHEST)
    if workflow and before:  # of a loop only the page is read
        first = max(before - REPETITIONS, 1)
        kept = await runs.watch.iterations(state, Address(address), workflow, first, before)
        has_later = before + REPETITIONS <= await runs.watch.last_iteration(workflow)
        beside = {"older": first if first > 1 else None, "newer": before + REPETITIONS if has_later else None}
        name, more = "before", {"workflow": workflow}
    else:
        back = _number(query.get("back"), 0, FARTHEST)
        step = (await runs.watch.trace(state, back + REPETITIONS)).find(address)
        if step is None:
            raise HTTPException(404, f"this run has no step {address}, or has left it behind")
        kept = step.cut_repetitions(back, REPETITIONS)
        older = back + REPETITIONS if kept.earlier else None
        beside = {"older": older, "newer": max(back - REPETITIONS, 0) if back else None}
        name, more = "back", {}
    page = partial(run_address, state.run, "/repetitions", at=address, **more)
    return kept, {side: None if number is None else page(**{name: number}) for side, number in beside.items()}


async def show_graph_page(request: Request) -> Response:
    """Show the flowchart of a run's blueprint, with where the run stands."""
    runs = await permit(request, "see")
    head, t = await read_head(request, runs), choose_texts(request)
    try:
        blueprint = await runs.watch.blueprint(head.run)
    except BadInput as error:
        return render(request, "runs/graph.html", head=head, chart=None, problem=str(error))
    except UnknownRun:
        return render(request, "runs/graph.html", head=head, chart=None, problem=t("runs.no_blueprint"))
    overlay = None
    if head.state is not None:
        try:
            overlay = mark_steps(await runs.watch.trace(head.state, 1), head.state.questions)
        except NoWorker as error:
            head = replace(head, silence=str(error))
    chart = lay_out(make_chart(blueprint, overlay))
    states = {state: t(f"runs.state.{state}") for state in CHART_MARKS}
    summary = "; ".join(f"{placed.label}: {states[placed.state]}" for placed in chart.nodes if placed.state in states)
    values: dict[str, Any] = {
        "head": head,
        "chart": chart,
        "states": states,
        "summary": summary,
        "mermaid": graph(blueprint, overlay),
    }
    titles: dict[str, Any] = {"title": t("runs.graph_of", name=blueprint.name), "problem": ""}
    return render(request, "runs/graph.html", marks=CHART_MARKS, **values, **titles)


async def show_context_page(request: Request) -> Response:
    """Show the context of a run, where it stands now."""
    runs = await permit(request, "see")
    head = await read_head(request, runs)
    outcome = None
    if head.has_ended:
        outcome = await _outcome(runs, head)
    elif head.state is not None:
        outcome = await runs.watch.outcome(head.state)
    context = None if outcome is None else outcome.context
    node = None if context is None else json_node(context)
    return render(request, "runs/context.html", head=head, context=node)


def _number(text: str | None, least: int, most: int) -> int:
    """Return a number of an address within bounds; the least for what is no number."""
    return min(max(int(text), least), most) if text and text.isascii() and text.isdigit() else least


RUN_PAGES: Sequence[BaseRoute] = [
    Route("/runs", list_runs_page),
    Route("/runs/{run}", read_anyway(run_page)),
    Route("/runs/{run}/repetitions", read_anyway(show_repetitions_page)),
    Route("/runs/{run}/graph", read_anyway(show_graph_page)),
    Route("/runs/{run}/context", read_anyway(show_context_page)),
]
