"""One answer to several questions of the same form: shown together, sent one by one, each with its own receipt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route
from temporalio.service import RPCError

from holdfast.client.forms import Texts, first_text
from holdfast.client.runs import Runs
from holdfast.client.tree import UnknownRun
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.questions import Question
from holdfast.runtime.config import ConfigError
from holdfast.runtime.errors import NothingSent
from holdfast.runtime.workers import NoWorker
from holdfast.server.web.addresses import question_path
from holdfast.server.web.dispatches import PATIENCE_SECONDS, dispatch_place, has_ended
from holdfast.server.web.gate import Identity, require_identity
from holdfast.server.web.pages.answer_form import (
    TOP,
    AnswerForm,
    changed_form,
    drops_edit,
    form_key,
    new_form,
    read_answer,
    restored_form,
    typed_form,
)
from holdfast.server.web.pages.filled_form import texts_of_form
from holdfast.server.web.pages.question import find_open, send, tell_edit
from holdfast.server.web.pages.templating import choose_texts, render
from holdfast.server.web.requests import read_form
from holdfast.server.web.site import Site, find_site

MOST_TOGETHER = 50
AT_A_TIME = 8
"""How many questions are read or answered at a time."""


@dataclass(frozen=True)
class Selection:
    """The questions that were selected."""

    alike: Sequence[Question]
    """Those that one answer fits: of the form of the first."""
    others: Sequence[Question]
    """Those of another form."""
    unavailable: Sequence[str]
    """The paths of those that are open no more, or cannot be read now."""


@dataclass(frozen=True)
class BatchResult:
    """The outcome of one answer: `reason` is empty if it was taken."""

    question: Question
    reason: str = ""


async def show_batch(request: Request) -> Response:
    """Show the selected questions with one form for all of them."""
    identity = require_identity(request, "answer")
    selection = await _select(find_site(request), identity, request.query_params.getlist("q"))
    form = new_form(selection.alike[0]) if selection.alike else None
    return _batch_page(request, selection, form)


async def send_batch(request: Request) -> Response:
    """Answer each of the selected questions; those that were refused are shown with the reason."""
    identity = require_identity(request, "answer")
    texts = texts_of_form(await read_form(request))
    selection = await _select(find_site(request), identity, texts.get("q", ()))
    if not selection.alike:
        return _batch_page(request, selection, None, 409)
    first, do = selection.alike[0], first_text(texts, "do")
    if change := first_text(texts, "change"):
        return _batch_page(request, selection, changed_form(first, texts, change))
    if do == "restore":
        return _batch_page(request, selection, restored_form(first, texts))
    if drops_edit(first, do, texts):
        form = typed_form(first, texts, {TOP: [tell_edit(request, first)]})
        return _batch_page(request, selection, form, 409)
    read = None if do == "decline" else read_answer(first, do, texts)
    if read is not None and (read.problems or not read.is_answer):
        form = typed_form(first, texts, read.problems)
        return _batch_page(request, selection, form, 422 if read.problems else 200)
    turns = asyncio.Semaphore(AT_A_TIME)
    results = await asyncio.gather(*(_answer_one(turns, request, question, do, texts) for question in selection.alike))
    return _results_page(request, selection, results, texts)


async def _answer_one(
    turns: asyncio.Semaphore, request: Request, question: Question, do: str, texts: Texts
) -> BatchResult:
    site, identity = find_site(request), require_identity(request)
    under_way = BatchResult(question, choose_texts(request)("batch.sent"))
    action: Literal["accept", "decline"] = "decline" if do == "decline" else "accept"
    content = None if do == "decline" else read_answer(question, do, texts).content
    digests = dict(pair.split("=", 1) for pair in texts.get("shown", ()) if "=" in pair)
    # An answer counts for what was on the page: a question that was not shown there is refused.
    answer = Answer(question=question.id, action=action, content=content, digest=digests.get(question.id, "none"))
    key = f"{first_text(texts, 'key')[:100]}-{question.id}"
    place = dispatch_place(question.run, question.id, identity)
    async with turns:
        sending = send(site, identity, question, answer, key, first_text(texts, "comment").strip())
        task = site.dispatches.begin(place, sending)
        if not await has_ended(task, PATIENCE_SECONDS):
            return under_way
        site.dispatches.forget(place)
        try:
            if not task.result():
                return under_way
        except Refusal as refusal:
            return BatchResult(question, refusal.message)
        except (NoWorker, NothingSent, ConfigError, RPCError, UnknownRun) as error:
            return BatchResult(question, str(error))
    return BatchResult(question)


async def _select(site: Site, identity: Identity, names: Sequence[str]) -> Selection:
    """Return the questions of names such as `RUN/ID`, each once, at most `MOST_TOGETHER`."""
    pairs = [name.rpartition("/")[::2] for name in dict.fromkeys(names) if "/" in name][:MOST_TOGETHER]
    turns, runs = asyncio.Semaphore(AT_A_TIME), site.find_runs(identity)
    questions = await asyncio.gather(*(_find_one(turns, site, runs, run, id_) for run, id_ in pairs))
    open_ = [question for question in questions if question is not None]
    closed = [question_path(*pair) for pair, question in zip(pairs, questions, strict=True) if question is None]
    alike = [question for question in open_ if _fits(question) and form_key(question) == form_key(open_[0])]
    return Selection(alike, [question for question in open_ if question not in alike], closed)


def _fits(question: Question) -> bool:
    """Return whether a question can be answered with others: a secret and a breakpoint are answered one by one."""
    return not (question.asked.hidden or question.asked.is_breakpoint)


async def _find_one(turns: asyncio.Semaphore, site: Site, runs: Runs, run: str, id_: str) -> Question | None:
    async with turns:
        try:
            entry = await find_open(site, runs, run, id_)
        except (NoWorker, UnknownRun):
            return None
    return entry.question if entry is not None and entry.is_certain else None


def _batch_page(request: Request, selection: Selection, form: AnswerForm | None, status: int = 200) -> HTMLResponse:
    if form is not None:
        form = replace(form, changes=())
    return render(request, "batch.html", status, selection=selection, form=form, results=())


def _results_page(request: Request, selection: Selection, results: Sequence[BatchResult], texts: Texts) -> HTMLResponse:
    refused = [result for result in results if result.reason]
    remaining = replace(selection, alike=[result.question for result in refused])
    form = typed_form(refused[0].question, {**texts, "key": []}) if refused else None
    return render(
        request,
        "batch.html",
        409 if refused else 200,
        selection=remaining,
        form=form,
        results=results,
        is_declined=first_text(texts, "do") == "decline",
    )


BATCH: list[BaseRoute] = [
    Route("/batch", show_batch, methods=["GET"]),
    Route("/batch", send_batch, methods=["POST"]),
]
