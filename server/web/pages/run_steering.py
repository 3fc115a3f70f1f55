"""The commands to a run from its page: pause, resume, cancel, retry, fork, messages to its agents. All by POST."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.client.runs import Runs
from holdfast.client.stopping import LeftWorkflow
from holdfast.protocol.address import Address
from holdfast.protocol.answers import Refusal
from holdfast.runtime.errors import Ambiguous, BadInput, NothingSent, RunExists
from holdfast.runtime.workers import NoWorker
from holdfast.server.web.addresses import run_address
from holdfast.server.web.gate import require_identity
from holdfast.server.web.pages.marks import make_mark, make_marked_id
from holdfast.server.web.pages.run_pages import RunHead, read_head, run_page
from holdfast.server.web.pages.templating import choose_texts, render
from holdfast.server.web.problems import make_problem
from holdfast.server.web.requests import read_form
from holdfast.server.web.site import permit

REFUSED = (Refusal, NoWorker, NothingSent, BadInput, Ambiguous)
"""Errors that are shown at the command that met them; others are pages of their own."""
PATIENCE_SECONDS = 5.0
"""How long the page of a command waits until every workflow of the run has taken it."""


async def pause_run(request: Request) -> Response:
    """Pause a run."""
    runs, by = await _permit(request)
    try:
        steered = await runs.control.pause(_run(request), by, wait=PATIENCE_SECONDS)
    except REFUSED as error:
        return await _show_refusal(request, error)
    return await _report_done(request, "pause", steered.left)


async def resume_run(request: Request) -> Response:
    """End the pause of a run; no question is answered by it."""
    runs, by = await _permit(request)
    try:
        steered = await runs.control.unpause(_run(request), by, wait=PATIENCE_SECONDS)
    except REFUSED as error:
        return await _show_refusal(request, error)
    return await _report_done(request, "resume", steered.left)


async def tell_agent(request: Request) -> Response:
    """Send a message to an agent of a run."""
    runs, by = await _permit(request)
    form = await read_form(request)
    text, agent = str(form.get("text", "")), str(form.get("agent", ""))
    if not text.strip():
        return await run_page(request, 422, problem=choose_texts(request)("runs.blank"), told=" ", agent=agent)
    try:
        await runs.control.tell(_run(request), text, agent=agent or None, by=by)
    except REFUSED as error:
        return await _show_refusal(request, error, told=text, agent=agent)
    return _back(request, "tell")


async def ask_cancel(request: Request) -> Response:
    """Say what cancelling a run does, before it is done."""
    runs = await permit(request, "steer")
    head = await read_head(request, runs)
    if head.has_ended:
        return RedirectResponse(head.address, 303)
    return await _ask_to_end(request, runs, head)


async def cancel_run(request: Request) -> Response:
    """Cancel a run; terminate it if it was asked to end before and has not."""
    runs, by = await _permit(request)
    force = (await read_form(request)).get("force") == "yes"
    try:
        stopped = await runs.control.cancel(_run(request), wait=PATIENCE_SECONDS, force=force, by=by)
    except REFUSED as error:
        problem = make_problem(error)
        return await _ask_to_end(request, runs, await read_head(request, runs), problem.status, problem=problem.message)
    if stopped.left and not force:
        return await _ask_to_end(request, runs, await read_head(request, runs), remaining=stopped.left)
    command = "force" if force else "cancel"
    if stopped.undone:
        return await run_page(
            request, problem=choose_texts(request)(f"runs.undone.{command}"), remaining=stopped.undone
        )
    return _back(request, command)


async def _ask_to_end(
    request: Request,
    runs: Runs,
    head: RunHead,
    status: int = 200,
    *,
    remaining: Sequence[LeftWorkflow] = (),
    problem: str = "",
) -> Response:
    """Show what ending a run does: cancelling it, or terminating it where workflows of it remain."""
    undos = await runs.control.list_open_undos(head.run)
    values = {"head": head, "remaining": remaining, "problem": problem, "undos": undos}
    return render(request, "runs/cancel.html", status, **values)


async def retry_run(request: Request) -> Response:
    """Go on with a run that has failed, and show the new one."""
    runs, by = await _permit(request)
    try:
        retried = await runs.retry(_run(request), by)
    except REFUSED as error:
        return await _show_refusal(request, error)
    return RedirectResponse(run_address(retried.run, done="retry" if retried.is_new else ""), 303)


async def ask_fork(request: Request) -> Response:
    """Say what a run does that begins at a step of this one, before it is started."""
    head = await read_head(request, await permit(request, "steer"))
    at = Address(request.query_params.get("at", ""))
    return render(request, "runs/fork.html", head=head, at=at, mark=make_mark())


async def fork_run(request: Request) -> Response:
    """Begin a run at a step of this one, and show it."""
    runs, by = await _permit(request)
    form = await read_form(request)
    id_ = make_marked_id(_run(request), str(form.get("mark", "")))
    try:
        with suppress(RunExists):  # the form was sent twice, or again after going back: the run that it began is shown
            await runs.fork(_run(request), str(form.get("at", "")), by, id=id_)
    except REFUSED as error:
        return await _show_refusal(request, error)
    return RedirectResponse(run_address(id_, done="fork"), 303)


async def _permit(request: Request) -> tuple[Runs, str]:
    """Return the runs as this person commands them, and the person; raises as `permit`, but for who sees the run.

    Whoever sees the run and may not steer it is told so at the command.
    """
    runs, user = await permit(request, "see"), require_identity(request, "steer").user
    return runs, user


def _run(request: Request) -> str:
    return str(request.path_params["run"])


async def _report_done(request: Request, command: str, remaining: Sequence[LeftWorkflow]) -> Response:
    if remaining:
        problem = choose_texts(request)(f"runs.not_reached.{command}")
        return await run_page(request, problem=problem, remaining=remaining)
    return _back(request, command)


def _back(request: Request, command: str) -> Response:
    """Return to the run's page; loading it again sends nothing again."""
    return RedirectResponse(run_address(_run(request), done=command), 303)


async def _show_refusal(request: Request, error: Exception, **typed: str) -> Response:
    problem = make_problem(error)
    return await run_page(request, problem.status, problem=problem.message, **typed)


STEERING: Sequence[BaseRoute] = [
    Route("/runs/{run}/pause", pause_run, methods=["POST"]),
    Route("/runs/{run}/resume", resume_run, methods=["POST"]),
    Route("/runs/{run}/tell", tell_agent, methods=["POST"]),
    Route("/runs/{run}/cancel", ask_cancel, methods=["GET"]),
    Route("/runs/{run}/cancel", cancel_run, methods=["POST"]),
    Route("/runs/{run}/retry", retry_run, methods=["POST"]),
    Route("/runs/{run}/fork", ask_fork, methods=["GET"]),
    Route("/runs/{run}/fork", fork_run, methods=["POST"]),
]
