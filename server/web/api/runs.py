"""The calls about runs: list, show, start and steer them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, NotRequired, cast
from urllib.parse import quote

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.graph import graph as flowchart
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Blueprint
from holdfast.client.catalogue import Offered, find_offered, list_offered
from holdfast.client.differences import compare_runs
from holdfast.client.forks import ForkedJSON
from holdfast.client.history import AnswerRecord, add_returns, answers_given, read_input
from holdfast.client.overlay import mark_steps
from holdfast.client.retries import RetriedJSON
from holdfast.client.signals import Sent
from holdfast.client.states import OutcomeJSON, RunRow, SteeringJSON
from holdfast.client.tree import UnknownRun
from holdfast.client.views.runs import RunJSON
from holdfast.protocol.answers import Receipt, Refusal
from holdfast.protocol.names import LONGEST_RUN_ID, join_run_id
from holdfast.protocol.values import make_digest
from holdfast.protocol.views import Status
from holdfast.runtime.errors import RunExists
from holdfast.runtime.workers import NoWorker
from holdfast.server.record.story import StoryRow, story
from holdfast.server.web.api.routes import WEB_PAGE, Answerer, ApiCall, Exchange, PageQuery, link_to_next
from holdfast.server.web.requests import WebInput

MOST_WAIT = 60.0


class RunsQuery(PageQuery):
    """The filter of a list of runs, and its page."""

    beginning: str = Field("", max_length=200, description="Only runs whose ids begin so.")
    blueprint: str | None = Field(None, min_length=1, max_length=200)
    status: Status | None = None


async def list_runs(exchange: Exchange) -> list[RunRow]:
    """List runs, open ones first, then the newest, fifty a page."""
    query: RunsQuery = exchange.query
    rows, cursor = await exchange.runs.lists.page(
        query.after,
        page=query.number,
        blueprint=query.blueprint,
        status=query.status,
        beginning=query.beginning,
        size=WEB_PAGE,
    )
    link_to_next(exchange, cursor)
    return [row.to_json() for row in rows]


async def show_run(exchange: Exchange) -> RunJSON:
    """Show a run: status, context, open questions, usage, result or error, and the trace of its steps."""
    return (await exchange.runs.watch.view(exchange.path("run"))).to_json()


async def show_result(exchange: Exchange) -> OutcomeJSON:
    """Show the outcome of a run; before its end its status and context."""
    runs = exchange.runs
    outcome = await runs.outcome(exchange.path("run"))
    return outcome.to_json(await runs.watch.steps_before(outcome))


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
    answers, events = await answers_given(runs.client, run), []
    with suppress(NoWorker, UnknownRun):  # then it is not known which were given back
        events = await runs.watch.events(run)
    return [record.to_json() for record in add_returns(answers, events)]


class PlanQuery(WebInput):
    """Which plan of a run."""

    plan: str | None = Field(None, max_length=2000, description="Its address or the step's name, of several.")


class PlanJSON(TypedDict):
    """A plan of a run with the state of each of its steps, as `plan --json` has it."""

    run: str
    address: str
    workflow: str
    revision: int
    goal: str
    driver: str
    plan: dict[str, Any]
    status: str
    steps: dict[str, Any]
    loops: dict[str, Any]
    revisions: list[dict[str, Any]]
    earlier_plans: NotRequired[list[dict[str, Any]]]
    """The steps of those that failed, where it was made again."""
    note: NotRequired[str]


async def show_plan(exchange: Exchange) -> PlanJSON:
    """Show the plan of a run with the state of each of its steps; large values are cut, the result has them whole."""
    query: PlanQuery = exchange.query
    planned = await exchange.runs.plans.read(exchange.path("run"), query.plan)
    return cast("PlanJSON", planned.to_json())


class DiffJSON(TypedDict):
    """What differs between two runs, as `diff --json` has it."""

    runs: list[str]
    differences: list[dict[str, Any]]
    """`address`, `what` (`step`, `status`, `answer`, `output`, `error`, `result`, `context`), `one`, `other`."""
    alike: int
    """The number of steps that are the same in both."""


async def show_differences(exchange: Exchange) -> DiffJSON:
    """Compare a run with another one, step by step: status, answers, output and error."""
    runs, names = exchange.runs, (exchange.path("run"), exchange.path("other"))
    await runs.access.require("see", names[1])
    one, other = [await runs.watch.view(run) for run in names]
    if (silence := one.silence or other.silence) is not None:
        raise silence
    return cast("DiffJSON", compare_runs(one, other).to_json())


async def show_graph(exchange: Exchange) -> Response:
    """Draw the blueprint of a run as a Mermaid flowchart, each step with its state in this run."""
    runs, run = exchange.runs, exchange.path("run")
    blueprint, state = await runs.watch.blueprint(run), await runs.state(run)
    drawing = flowchart(blueprint, mark_steps(await runs.watch.trace(state), state.questions))
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
    ApiCall(
        "GET", "/runs/{run}/plan", show_plan, PlanJSON, needs="see", query=PlanQuery, problems=(404, 409, 422, 503)
    ),
    ApiCall("GET", "/runs/{run}/diff/{other}", show_differences, DiffJSON, needs="see", problems=(404, 503)),
    ApiCall("GET", "/runs/{run}/graph", show_graph, str, needs="see", media_type=MERMAID, problems=(404, 422, 503)),
]


class BlueprintRow(TypedDict):
    """A blueprint that can be started."""

    blueprint: str
    """The name to start it by."""
    description: str
    inputs: dict[str, Any] | None
    """JSON Schema of its input; None: any."""
    problems: list[str]
    """The mistakes that keep it from starting."""


class StartInput(WebInput):
    """A run to start."""

    blueprint: str = Field(min_length=1, max_length=1000, description="A name from /blueprints.")
    input: JSON = None
    id: str | None = Field(None, min_length=1, max_length=LONGEST_RUN_ID, description="Of the run.")


class StartedJSON(TypedDict):
    """The run that was started, as `start --json` has it."""

    run: str


async def list_blueprints(exchange: Exchange) -> list[BlueprintRow]:
    """List the blueprints that can be started, each with the schema of its input."""
    site, allows = exchange.site, exchange.runs.access.start_filter
    return await asyncio.to_thread(lambda: [blueprint_row(offer) for offer in list_offered(site.config, allows)])


def blueprint_row(offer: Offered) -> BlueprintRow:
    """Return the row of a blueprint, with its problems where it has mistakes."""
    try:
        blueprint = offer.read()
    except BlueprintError as error:
        return {"blueprint": offer.name, "description": "", "inputs": None, "problems": list(map(str, error.problems))}
    return {
        "blueprint": offer.name,
        "description": blueprint.description or "",
        "inputs": blueprint.inputs,
        "problems": [],
    }


async def start_run(exchange: Exchange) -> StartedJSON:
    """Start a run. The same `Idempotency-Key` with the same body gives the same run again."""
    body: StartInput = exchange.body
    runs, by, key = exchange.runs, exchange.identity.user, exchange.key()
    offer = await asyncio.to_thread(find_offered, exchange.site.config, body.blueprint, runs.access.start_filter)
    blueprint = await asyncio.to_thread(offer.read)
    run = body.id or (None if key is None else _id_for(blueprint, by, key))
    try:
        run = await runs.start(blueprint, body.input, run=run, started_by=by, check=True)
    except RunExists:
        if run is None or key is None:
            raise
        await _check_same(exchange, run, blueprint)
    exchange.headers["Location"] = f"{exchange.request.url.path}/{quote(run, safe='')}"
    return {"run": run}


def _id_for(blueprint: Blueprint, by: str, key: str) -> str:
    """Return the id of the run that a person starts under a key: the same for each try."""
    return join_run_id(blueprint.name.replace("/", "-"), f"-{make_digest(by, key)}")


async def _check_same(exchange: Exchange, run: str, blueprint: Blueprint) -> None:
    """Raise `Refusal` (`key_conflict`) unless this person has started the run with the blueprint and the input."""
    runs, body = exchange.runs, exchange.body
    state = await read_input(runs.client, run)
    same_start = (state.input, state.started_by) == (body.input, exchange.identity.user)
    if not same_start or (await runs.watch.blueprint(run)).name != blueprint.name:
        raise Refusal("key_conflict", f"run {run} was started with another input or blueprint; use a new key")


START_CALLS = [
    ApiCall("GET", "/blueprints", list_blueprints, list[BlueprintRow]),
    ApiCall(
        "POST",
        "/runs",
        start_run,
        StartedJSON,
        scope="steer",
        status=201,
        body=StartInput,
        size="input",
        takes_key=True,
        problems=(409, 422, 503),
    ),
]


class NoBody(WebInput):
    """The body of a command that needs none: absent, or an empty object."""


class CancelInput(WebInput):
    """The body of a cancel: how the run is cancelled; may be left out."""

    wait: float = Field(10.0, ge=0, le=MOST_WAIT, description="Seconds to wait for the end of the whole tree.")
    force: bool = Field(False, description="Terminate it: no clean-up, running activities are not notified.")


class ForkInput(WebInput):
    """A run that begins in the middle of another one."""

    at: str = Field(min_length=1, description="The address of a step, iteration, item or branch, its end, or a name.")
    set: dict[str, JSON] = Field({}, description="The values in the context there, by path.")
    id: str | None = Field(None, min_length=1, max_length=LONGEST_RUN_ID, description="The id of the new run.")


class TellInput(WebInput):
    """A message to an agent at work."""

    text: str = Field(min_length=1, pattern=r"\S")
    agent: str | None = Field(None, description="The step's name or address, where several agents are at work.")


class EditInput(WebInput):
    """Changes of the context at a stop."""

    set: dict[str, JSON] = Field(min_length=1, description="The new value by its path, such as draft.title.")
    digest: str = Field(description="That of the checkpoint as it was shown.")


class ToldJSON(TypedDict):
    """The agent that gets a message in its next turn, as `tell --json` has it."""

    run: str
    agent: str


async def pause_run(exchange: Exchange) -> SteeringJSON:
    """Pause a run: no further step starts; answers are taken, deadlines run. `left` was not reached in time."""
    return (await exchange.runs.control.pause(exchange.path("run"), exchange.identity.user)).to_json()


async def resume_run(exchange: Exchange) -> SteeringJSON:
    """Resume a run after a pause, a hold or a stop, or from an interrupt that takes no answer; approves nothing."""
    return (await exchange.runs.control.resume(exchange.path("run"), exchange.identity.user)).to_json()


async def cancel_run(exchange: Exchange) -> SteeringJSON:
    """Cancel a run and everything below it. `left` had not ended in time; cancelling twice is fine."""
    body: CancelInput = exchange.body
    run, by = exchange.path("run"), exchange.identity.user
    return (await exchange.runs.control.cancel(run, wait=body.wait, force=body.force, by=by)).to_json()


async def retry_run(exchange: Exchange) -> RetriedJSON:
    """Go on with a run that has failed, or was ended, in a new run; the same retry twice is one run."""
    return (await exchange.runs.retry(exchange.path("run"), exchange.identity.user)).to_json()


async def fork_run(exchange: Exchange) -> ForkedJSON:
    """Begin a run in the middle of another one, which is not changed."""
    body: ForkInput = exchange.body
    run, by = exchange.path("run"), exchange.identity.user
    return (await exchange.runs.fork(run, body.at, by, changes=body.set, id=body.id)).to_json()


async def tell_run(exchange: Exchange) -> ToldJSON:
    """Send a message to an agent of a run, for its next turn."""
    body: TellInput = exchange.body
    run, by = exchange.path("run"), exchange.identity.user
    return {"run": run, "agent": await exchange.runs.control.tell(run, body.text, agent=body.agent, by=by)}


async def edit_run(exchange: Exchange) -> list[dict[str, Any]]:
    """Change the context of a run that has stopped before or after a step, and go on."""
    body: EditInput = exchange.body
    run, by = exchange.path("run"), exchange.identity.user
    receipts = await exchange.runs.control.edit(run, body.set, by, digest=body.digest)
    return [receipt.model_dump(mode="json") for receipt in receipts]


def _command(name: str, answer: Answerer, gives: Any, body: type[WebInput] = NoBody, status: int = 200) -> ApiCall:
    problems = (403, 404, 409, 410, 422, 503)
    path = f"/runs/{{run}}/{name}"
    return ApiCall("POST", path, answer, gives, "steer", "steer", status=status, body=body, problems=problems)


STEERING_CALLS = [
    _command("pause", pause_run, SteeringJSON),
    _command("resume", resume_run, SteeringJSON),
    _command("cancel", cancel_run, SteeringJSON, CancelInput),
    _command("retry", retry_run, RetriedJSON),
    _command("fork", fork_run, ForkedJSON, ForkInput, 201),
    _command("tell", tell_run, ToldJSON, TellInput),
    _command("edit", edit_run, list[Receipt | Sent], EditInput),
]
