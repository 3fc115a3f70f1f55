"""The calls that read runs: the list, one run, its result."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pydantic import Field
from starlette.responses import Response

from holdfast.blueprint.graph import graph as flowchart
from holdfast.client.history import AnswerRecord, answers_given
from holdfast.client.overlay import marks_of
from holdfast.client.reports import OutcomeJSON, RunJSON, RunRow, done_before, outcome_json, report_of, run_row
from holdfast.client.tree import UnknownRun
from holdfast.protocol.runs import Status
from holdfast.runtime.workers import NoWorker
from holdfast.server.record.story import StoryRow, story
from holdfast.server.web.api.calls import ApiCall, Exchange
from holdfast.server.web.api.paging import WEB_PAGE, PageQuery, link_to_next


class RunsQuery(PageQuery):
    """The filter of a list of runs, and its page."""

    blueprint: str | None = Field(None, min_length=1, max_length=200)
    status: Status | None = None


async def list_runs(exchange: Exchange) -> list[RunRow]:
    """List runs, newest first, fifty a page."""
    query: RunsQuery = exchange.query
    rows, cursor = await exchange.runs.page_from(
        query.after, page=query.number, blueprint=query.blueprint, status=query.status, size=WEB_PAGE
    )
    link_to_next(exchange, cursor)
    return [run_row(row) for row in rows]


async def show_run(exchange: Exchange) -> RunJSON:
    """Show a run: status, context, open questions, usage, result or error, and the trace of its steps."""
    return (await report_of(exchange.runs, exchange.path("run"))).to_json()


async def show_result(exchange: Exchange) -> OutcomeJSON:
    """Show the outcome of a run; before its end its status and context."""
    runs = exchange.runs
    outcome = await runs.outcome(exchange.path("run"))
    return outcome_json(outcome, await done_before(runs, outcome))


async def show_history(exchange: Exchange) -> list[dict[str, Any]]:
    """List what people did in a run: who, what, when, to which question.

    Without a record the answers alone, without what they were to; by signal, refused ones are listed too.
    """
    runs, run, record = exchange.runs, exchange.path("run"), exchange.site.record
    if record is not None:
        with suppress(NoWorker, UnknownRun):  # then it is as far as it was recorded
            await record.recorder(runs.tree).catch_up(run)
        return [row.to_json() for row in story(await record.entries(run))]
    await runs.tree.describe(run)
    return [record.to_json() for record in await answers_given(runs.client, run)]


async def show_graph(exchange: Exchange) -> Response:
    """Draw the blueprint of a run as a Mermaid flowchart, each step with its state in this run."""
    runs, run = exchange.runs, exchange.path("run")
    blueprint, state = await runs.blueprint(run), await runs.standing(run)
    drawing = flowchart(blueprint, marks_of(await runs.trace(state), state.questions))
    return Response(drawing, media_type=MERMAID)


MERMAID = "text/vnd.mermaid"
RUN_CALLS = [
    ApiCall("GET", "/runs", list_runs, list[RunRow], query=RunsQuery, problems=(422,)),
    ApiCall("GET", "/runs/{run}", show_run, RunJSON, needs="see", problems=(404, 503)),
    ApiCall("GET", "/runs/{run}/result", show_result, OutcomeJSON, needs="see", problems=(404, 503)),
    ApiCall(
        "GET",
        "/runs/{run}/history",
        show_history,
        list[StoryRow] | list[AnswerRecord],
        needs="see",
        problems=(404, 503),
    ),
    ApiCall("GET", "/runs/{run}/graph", show_graph, str, needs="see", media_type=MERMAID, problems=(404, 422, 503)),
]
