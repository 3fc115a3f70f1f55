"""The pages that start a run: the blueprints there are, and a form made of the inputs of one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.expressions.texts import fold
from holdfast.blueprint.graph import make_chart
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.jsonschemas import list_misfits
from holdfast.blueprint.kinds import Blueprint
from holdfast.client.catalogue import Offered, find_offered, list_offered
from holdfast.client.forms import (
    ABSENT,
    FormControl,
    Submission,
    Texts,
    change_list,
    check_typed,
    make_control,
    read_control,
    texts_of_value,
)
from holdfast.client.reading import parse_value
from holdfast.protocol.answers import Refusal
from holdfast.runtime.errors import BadInput, RunExists
from holdfast.runtime.workers import NoWorker
from holdfast.server.web.addresses import run_address
from holdfast.server.web.gate import require_identity
from holdfast.server.web.pages.chart_layout import lay_out
from holdfast.server.web.pages.filled_form import FilledForm, texts_of_form
from holdfast.server.web.pages.marks import make_mark, make_marked_id
from holdfast.server.web.pages.templating import choose_texts, render
from holdfast.server.web.problems import make_problem
from holdfast.server.web.requests import read_form
from holdfast.server.web.site import find_site

FREE_INPUT: dict[str, Any] = {"type": "string", "maxLength": 1_000_000}
"""The schema of the field for a blueprint that does not say what its input is: text, or JSON."""


@dataclass(frozen=True)
class StartRow:
    """A blueprint in the list: its description, or the mistakes that keep it from starting."""

    name: str
    title: str
    description: str
    problems: Sequence[Problem]


async def list_blueprints_page(request: Request) -> Response:
    """List the blueprints that can be started from here."""
    config, allows = find_site(request).config, _start_filter(request)
    wanted = request.query_params.get("q", "").strip()
    every = await asyncio.to_thread(lambda: [_row(blueprint) for blueprint in list_offered(config, allows)])
    rows = [row for row in every if fold(wanted) in fold(f"{row.name} {row.description}")]
    is_refused = not every and allows is not None and bool(await asyncio.to_thread(list_offered, config))
    values = {"count": len(every), "wanted": wanted, "is_refused": is_refused, "folders": config.serve.blueprints}
    return render(request, "start/list.html", 200, rows=rows, **values)


def _start_filter(request: Request) -> Callable[[Blueprint], bool] | None:
    return find_site(request).find_runs(require_identity(request)).access.start_filter


def _row(blueprint: Offered) -> StartRow:
    try:
        return StartRow(blueprint.name, blueprint.title, blueprint.read().description, [])
    except BlueprintError as error:
        return StartRow(blueprint.name, blueprint.title, "", error.problems)


async def show_start_form(request: Request) -> Response:
    """Show the form that starts a run of a blueprint, or the blueprint's mistakes."""
    require_identity(request)
    offer, blueprint = await _blueprint(request)
    if isinstance(blueprint, BlueprintError):
        return render(request, "start/broken.html", 422, name=offer.name, problems=blueprint.problems)
    control = _control(request, blueprint)
    return _form(request, offer, blueprint, FilledForm(control, texts_of_value(control)))


async def start_from_form(request: Request) -> Response:
    """Start a run with the input that was typed; show the form again, with what is wrong at its field."""
    identity = require_identity(request, "steer")
    offer, blueprint = await _blueprint(request)
    if isinstance(blueprint, BlueprintError):
        return render(request, "start/broken.html", 422, name=offer.name, problems=blueprint.problems)
    texts, control = texts_of_form(await read_form(request)), _control(request, blueprint)
    if change := next(iter(texts.get("change", ())), ""):
        return _form(request, offer, blueprint, FilledForm(control, change_list(control, texts, change)))
    submission = _read(blueprint, control, texts)
    if submission.problems:
        return _form(request, offer, blueprint, FilledForm(control, texts, submission.problems), 422)
    run = make_marked_id(blueprint.name, next(iter(texts.get("mark", ())), ""))
    value = None if submission.value is ABSENT else submission.value
    try:
        runs = find_site(request).find_runs(identity)
        with suppress(RunExists):  # the form was sent twice: the run that it has started is shown
            await runs.start(blueprint, value, run=run, started_by=identity.user, check=True)
    except (BlueprintError, BadInput, NoWorker, Refusal) as error:
        problem = make_problem(error)
        return _form(request, offer, blueprint, FilledForm(control, texts), problem.status, problem.message)
    return RedirectResponse(run_address(run, done="start"), 303)


async def _blueprint(request: Request) -> tuple[Offered, Blueprint | BlueprintError]:
    """Return the blueprint that the address names, or its mistakes. Raises `HTTPException` 404."""
    config = find_site(request).config
    try:
        offer = await asyncio.to_thread(find_offered, config, str(request.path_params["name"]), _start_filter(request))
    except BadInput as error:
        raise HTTPException(404, str(error)) from None
    try:
        return offer, await asyncio.to_thread(offer.read)
    except BlueprintError as error:
        return offer, error


def _control(request: Request, blueprint: Blueprint) -> FormControl:
    t = choose_texts(request)
    if blueprint.inputs is None:
        return make_control(FREE_INPUT, label=t("start.input"), is_required=False)
    return make_control(blueprint.inputs, label=str(blueprint.inputs.get("title") or t("start.input")))


def _read(blueprint: Blueprint, control: FormControl, texts: Texts) -> Submission:
    """Return the input that was typed, with every problem at the control that shows its place."""
    submission = read_control(control, texts)
    if blueprint.inputs is None:
        text = submission.value
        submission.value = parse_value(text, None) if isinstance(text, str) else ABSENT
        return submission
    value: JSON = None if submission.value is ABSENT else submission.value
    check_typed(control, texts, submission, list_misfits(blueprint.inputs, value))
    return submission


def _form(
    request: Request, offer: Offered, blueprint: Blueprint, form: FilledForm, status: int = 200, problem: str = ""
) -> Response:
    chart = lay_out(make_chart(blueprint))
    mark = next(iter(form.texts.get("mark", ())), "") or make_mark()
    may_start = "steer" in require_identity(request).scopes
    values = {"offer": offer, "blueprint": blueprint, "form": form, "problem": problem, "mark": mark, "chart": chart}
    return render(request, "start/form.html", status, may_start=may_start, **values)


START: Sequence[BaseRoute] = [
    Route("/start", list_blueprints_page),
    Route("/start/{name:path}", show_start_form, methods=["GET"]),
    Route("/start/{name:path}", start_from_form, methods=["POST"]),
]
