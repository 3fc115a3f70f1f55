"""A question: what is asked, the form that answers it, the run's story beside it, and what happened after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from temporalio.service import RPCError

from holdfast.client.earlier_answers import EarlierReply
from holdfast.client.forms import HIDDEN_PREFIX, Texts, first_text
from holdfast.client.open_questions import OpenQuestions
from holdfast.client.proposals import details_beside, read_proposal
from holdfast.client.runs import Runs
from holdfast.client.signals import Sent
from holdfast.client.tree import CLOSED, UnknownRun, collect_questions
from holdfast.protocol.address import name_at
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.events import QuestionClosed, QuestionReplied
from holdfast.protocol.guard import UNPROVED
from holdfast.protocol.people import list_assignee_names
from holdfast.protocol.questions import Question
from holdfast.protocol.values import make_digest
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.config import ConfigError
from holdfast.runtime.errors import BadInput, NothingSent
from holdfast.runtime.workers import NoWorker
from holdfast.server.record.record import LONGEST_COMMENT
from holdfast.server.web.content import IMAGES, attachment_response, render_markdown, split_heading
from holdfast.server.web.dispatches import PATIENCE_SECONDS, SOON_SECONDS, dispatch_place, has_ended
from holdfast.server.web.gate import Identity, require_identity
from holdfast.server.web.pages.answer_form import (
    AnswerForm,
    changed_form,
    drops_edit,
    edited_form,
    list_changes,
    new_form,
    place_refusal,
    read_answer,
    restored_form,
    typed_form,
)
from holdfast.server.web.pages.comments import CommentBox, comment_box
from holdfast.server.web.pages.completed_replies import complete_reply
from holdfast.server.web.pages.errors import server_message
from holdfast.server.web.pages.filled_form import texts_of_form, typed_texts
from holdfast.server.web.pages.inbox import ListView, list_beside, list_from_start
from holdfast.server.web.pages.story import StoryLine, read_story
from holdfast.server.web.pages.templating import choose_texts, name_place, render
from holdfast.server.web.problems import RETRY_SECONDS, STATUS_OF_REFUSAL, name_no_folder
from holdfast.server.web.questions import ListedQuestion
from holdfast.server.web.requests import read_form
from holdfast.server.web.site import Site, find_site

LOOK_SECONDS = 2.0
"""Seconds after which a question is shown as it was seen last: its worker may be busy, or frozen."""
Sending = Coroutine[Any, Any, bool]
"""The sending of an answer or a command; its result is whether a worker has received it."""
ACTIONS: Mapping[str, Literal["accept", "decline", "cancel"]] = {"decline": "decline", "cancel": "cancel"}
"""What the buttons mean that send no content; all others accept."""
MOVES = ("claim", "release", "delegate")
REMADE: Mapping[str, Callable[[Question, Texts], AnswerForm]] = {"preview": edited_form, "restore": restored_form}
"""The buttons that send nothing, and show the form in another way."""
UNTYPED = ("csrf", "digest", "key", "to", "sure")
"""The fields of a form that are no part of the answer."""
CLOSED_CODES = ("already_answered", "expired", "run_closed", "unknown_question")


@dataclass(frozen=True)
class FoundQuestion:
    """A question that is open, as its page finds it."""

    question: Question
    is_certain: bool = True
    """False if no worker answers, and it is as it was seen last."""
    view: WorkflowView | None = None
    """The view of the run's own workflow, where it was queried for the question."""


async def show_question(request: Request) -> Response:
    """Show a question with the form that answers it; once it is closed, what was decided and what happened next."""
    require_identity(request)
    beside = asyncio.ensure_future(list_beside(request, request.path_params["id"]))
    try:
        asked = await _find(request)
        if asked is None:
            return await _closed_page(request, beside=beside)
        form = replace(new_form(asked.question), is_sent=_is_under_way(request))
        return await _question_page(request, asked, form, beside=beside)
    finally:
        beside.cancel()


def _is_under_way(request: Request) -> bool:
    return find_site(request).dispatches.is_under_way(_name_place(request))


def _name_place(request: Request) -> str:
    return dispatch_place(request.path_params["run"], request.path_params["id"], require_identity(request))


async def show_news(request: Request) -> HTMLResponse:
    """Show the question without the list, for a page that is open; once it is closed, what closed it."""
    site, run, path = find_site(request), request.path_params["run"], _page(request)
    asked, failure = await _find(request), site.dispatches.failure(_name_place(request))
    if asked is not None:
        message = _message(request, failure) if isinstance(failure, Exception) else ""
        values = await _collect_values(request, asked, new_form(asked.question))
        return render(request, "asked.html", list=None, failure=message, **values)
    runs = _runs(request)
    reply = await runs.access.find_closing(run, request.path_params["id"])
    story, box = await asyncio.gather(_visible_story(runs, run), comment_box(request, path))
    is_late = _came_too_late(request, None)
    return render(request, "gone.html", reply=reply, is_late=is_late, story=story, box=box)


async def add_comment(request: Request) -> Response:
    """Add a comment beside a question, open or closed; it goes to the record, and the run does not see it."""
    identity, site = require_identity(request, "answer"), find_site(request)
    texts = texts_of_form(await read_form(request))
    run, id_, text = request.path_params["run"], request.path_params["id"], first_text(texts, "text")
    asked = await _find(request)
    if asked is None:
        reply = await _runs(request).access.find_closing(run, id_)
        if reply is None:
            raise HTTPException(404, choose_texts(request)("question.unknown", id=id_[:40], run=run))
    await _runs(request).access.require_comment(run)
    if site.record is None:
        raise HTTPException(503, choose_texts(request)("comments.no_record"))
    owner, key = "" if asked is None else asked.question.owner, first_text(texts, "key") or None
    proof = identity.sender.proof
    try:
        await site.record.comment(run, id_, text, identity.user, owner=owner, proved_by=proof, key=key)
    except ValueError:
        box = await comment_box(
            request, _page(request), text, choose_texts(request)("comments.bounds", count=LONGEST_COMMENT)
        )
        if asked is None:
            return await _closed_page(request, status=422, box=box)
        return await _question_page(request, asked, new_form(asked.question), 422, box)
    site.live.nudge()
    return RedirectResponse(f"{_page(request)}#comments", 303)


async def show_attachment(request: Request) -> Response:
    """Show an attachment of an open question, or offer it as a download."""
    runs = find_site(request).find_runs(require_identity(request))
    asked = await _find(request)
    if asked is None:
        raise HTTPException(404, choose_texts(request)("attachments.gone"))
    try:
        return await attachment_response(runs, asked.question, request.path_params["n"], shows=True)
    except (BadInput, Refusal) as error:
        raise HTTPException(404, str(error)) from None


async def send_answer(request: Request) -> Response:
    """Take what the form of a question sends: an answer, a claim, or a change of the form itself."""
    identity = require_identity(request, "answer")
    texts = texts_of_form(await read_form(request))
    request.state.typed = typed_texts(texts)
    asked = await _find_for(request, texts)
    if asked is None:
        return await _closed_page(request, texts, 409)
    question, do = asked.question, first_text(texts, "do")
    if change := first_text(texts, "change"):
        return await _question_page(request, asked, changed_form(question, texts, change))
    if do in REMADE:
        return await _question_page(request, asked, REMADE[do](question, texts))
    if drops_edit(question, do, texts):
        return await _refused_edit(request, asked, texts)
    if do == "delegate" and (unsure := await _tell_unknown(request, texts)):
        return await _refused_page(request, asked, texts, 409, message=unsure, do=do)
    if do in MOVES:
        sending = _move(find_site(request), identity, question, do, texts)
        return await _dispatch(request, identity, asked, do, texts, sending)
    return await _answer(request, identity, asked, do, texts)


async def _answer(request: Request, identity: Identity, asked: FoundQuestion, do: str, texts: Texts) -> Response:
    question = asked.question
    action, content = ACTIONS.get(do, "accept"), None
    if action == "accept":
        read = read_answer(question, do, texts)
        if not read.is_answer:
            return await _question_page(request, asked, typed_form(question, texts))
        if read.problems:
            return await _refused_page(request, asked, texts, 422, problems=read.problems, do=do)
        content = read.content
    answer = Answer(question=question.id, action=action, content=content, digest=first_text(texts, "digest") or None)
    said = [first_text(texts, "comment").strip(), "" if action == "accept" else first_text(texts, "reason").strip()]
    comment = "\n".join(text for text in said if text)
    sending = send(find_site(request), identity, question, answer, _make_key(texts), comment)
    return await _dispatch(request, identity, asked, do, texts, sending)


async def _dispatch(
    request: Request, identity: Identity, asked: FoundQuestion, do: str, texts: Texts, sending: Sending
) -> Response:
    """Send something to a question, and show what came of it; within three seconds, that it is on its way."""
    dispatches, place = find_site(request).dispatches, dispatch_place(asked.question.run, asked.question.id, identity)
    task = dispatches.begin(place, sending)
    if not await has_ended(task, SOON_SECONDS):
        on_its_way = replace(typed_form(asked.question, texts), is_sent=True)
        unsure = FoundQuestion(asked.question, is_certain=False)
        page = asyncio.ensure_future(_question_page(request, unsure, on_its_way, 202))
        if not await has_ended(task, PATIENCE_SECONDS - SOON_SECONDS):
            return await page
        page.cancel()
    try:
        is_received = task.result()
    except Refusal as refusal:
        if do in MOVES or refusal.code not in CLOSED_CODES:  # else the page says later, too, that it came too late
            dispatches.forget(place)
        return await _after_refusal(request, asked, texts, refusal, do)
    except (NoWorker, NothingSent, RPCError, ValueError) as error:
        status = 422 if isinstance(error, ValueError) and not isinstance(error, ConfigError) else 503
        dispatches.forget(place)
        return await _refused_page(request, asked, texts, status, message=_message(request, error), do=do)
    dispatches.forget(place)
    if not is_received:
        return await _question_page(request, asked, replace(typed_form(asked.question, texts), is_sent=True), 202)
    unsent = {name: typed for name, typed in texts.items() if name != "comment"} if do in MOVES else {}
    if typed_texts(unsent) and (now := await _find(request)) is not None:
        return await _question_page(request, now, typed_form(now.question, unsent))
    return RedirectResponse(_page(request), 303)


def _make_key(texts: Texts) -> str:
    """Return the idempotency key of a filled form: sent again unchanged it counts once, changed it is another answer.

    A digest of the page's own key, which nobody else knows, since keys are readable in Temporal. Secrets are left out.
    """
    key = first_text(texts, "key")
    typed = {name: value for name, value in texts.items() if name not in UNTYPED and not name.startswith(HIDDEN_PREFIX)}
    # As text in ASCII: a browser may send what is no UTF-8.
    return make_digest(json.dumps([key, typed], sort_keys=True)) if key else ""


async def send(site: Site, identity: Identity, question: Question, answer: Answer, key: str, comment: str) -> bool:
    """Send an answer to the workflow that asks and return whether a worker has received it. Raises as `Runs.answer`."""
    open_questions = OpenQuestions(question.run, [question])
    try:
        with name_no_folder():
            receipts = await site.find_runs(identity).answer(
                question.run,
                [answer],
                by=identity.user,
                key=key or None,
                comment=comment or None,
                open_questions=open_questions,
            )
    finally:  # a page that does not wait any more looks again
        site.runs.reader.forget(question.owner)
        site.live.nudge()
    return not any(isinstance(receipt, Sent) for receipt in receipts)


async def _move(site: Site, identity: Identity, question: Question, do: str, texts: Texts) -> bool:
    """Claim, release or delegate a question; true as a worker has received it. Raises as `QuestionAssignment.claim`."""
    runs, comment = site.find_runs(identity), first_text(texts, "comment").strip() or None
    try:
        if do == "claim":
            await runs.assignment.claim(question.run, question.id, by=identity.user, comment=comment)
        elif do == "release":
            await runs.assignment.release(question.run, question.id, by=identity.user, comment=comment)
        else:
            await runs.assignment.delegate(
                question.run, question.id, _read_delegate(texts), by=identity.user, comment=comment
            )
    finally:
        site.runs.reader.forget(question.owner)
        site.live.nudge()
    return True


def _read_delegate(texts: Texts) -> str:
    name = first_text(texts, "to").strip()
    return name if ":" in name or not name else f"user:{name}"


async def _tell_unknown(request: Request, texts: Texts) -> str:
    """Return that nobody knows the delegate, who may have been misspelt; empty once the form says so itself."""
    to = _read_delegate(texts)
    if first_text(texts, "sure") == to or not await find_site(request).upkeep.list_unknown([to]):
        return ""
    t = choose_texts(request)
    return t("question.unknown_person", name=to, button=t("question.delegate"))


async def _after_refusal(request: Request, asked: FoundQuestion, texts: Texts, refusal: Refusal, do: str) -> Response:
    """Show why an answer was refused: at its question, or with what closed the question meanwhile."""
    is_closed = refusal.code in CLOSED_CODES
    find_site(request).runs.reader.forget(asked.question.owner, asked.question.id if is_closed else None)
    status = STATUS_OF_REFUSAL.get(refusal.code, 409)
    if is_closed:
        return await _closed_page(request, texts, status)
    now = await _find(request) or asked
    if problems := place_refusal(now.question, texts, refusal):
        return await _refused_page(request, now, texts, status, problems=problems, do=do)
    message = choose_texts(request)("question.changed") if refusal.code == "question_changed" else refusal.message
    if refusal.code in ("key_conflict", "question_changed"):
        texts = {name: value for name, value in texts.items() if name != "key"}
    return await _refused_page(request, now, texts, status, message=message, do=do)


async def _refused_page(
    request: Request,
    asked: FoundQuestion,
    texts: Texts,
    status: int,
    *,
    message: str = "",
    problems: Mapping[str, Sequence[str]] | None = None,
    do: str = "",
) -> HTMLResponse:
    """Show the question again with everything that was typed, and why it was refused."""
    form = replace(typed_form(asked.question, texts, problems), message=message)
    if do == "verdict:edited" and not problems:
        form = replace(form, changes=list_changes(asked.question, texts))
    page = await _question_page(request, asked, form, status)
    if status == 503:
        page.headers["Retry-After"] = str(RETRY_SECONDS)
    return page


async def _refused_edit(request: Request, asked: FoundQuestion, texts: Texts) -> HTMLResponse:
    """Show what was edited, which the button that was pressed would have dropped, and both ways on."""
    form = replace(edited_form(asked.question, texts), message=tell_edit(request, asked.question))
    return await _question_page(request, asked, form, 409)


def tell_edit(request: Request, question: Question) -> str:
    """Return why a button that would drop an edited value was refused, and which buttons there are for it."""
    t, asked = choose_texts(request), question.asked
    sends = "verdict.edited" if asked.verdicts else "go_on_changed" if asked.is_breakpoint else "answer"
    return t("question.edited", send=t(f"question.{sends}"), drop=t("question.restore"))


async def _find(request: Request) -> FoundQuestion | None:
    """Return the question of a page if it is open; if no worker answers, as it was seen last.

    Raises:
        UnknownRun: There is no such run, or the person may not see the question.
        NoWorker: No worker answers, and it was never seen.
    """
    return await find_open(find_site(request), _runs(request), request.path_params["run"], request.path_params["id"])


def _runs(request: Request) -> Runs:
    """Return the runs as the person of a request sees them."""
    return find_site(request).find_runs(require_identity(request))


async def _find_for(request: Request, texts: Texts) -> FoundQuestion | None:
    """Return the question that a form was made of; as it was seen last where the form has its digest.

    Its workflow decides whether it is still open, so nobody has to ask before. Without Temporal the question as it was
    seen last is what the answer comes back with, and the reason why it was not sent.
    """
    cached = find_site(request).runs.reader.find(request.path_params["run"], request.path_params["id"])
    if cached is not None and not await _runs(request).access.select_visible(cached.run, [cached]):
        raise UnknownRun(cached.run)
    if cached is not None and cached.digest == first_text(texts, "digest"):
        return FoundQuestion(cached)
    try:
        return await _find(request)
    except RPCError:
        if cached is None:
            raise
        return FoundQuestion(cached, is_certain=False)


async def find_open(site: Site, runs: Runs, run: str, id_: str) -> FoundQuestion | None:
    """Return a question if it is open; raises as `_find` does.

    Args:
        site: The site.
        runs: The runs as the person sees them who asks.
        run: The id of the run.
        id_: The id of the question.
    """
    found = await _find_any(site, run, id_)
    # As it was seen last it may be of another run than the address says.
    if found is not None and not await runs.access.select_visible(found.question.run, [found.question]):
        raise UnknownRun(run)
    return found


async def _find_any(site: Site, run: str, id_: str) -> FoundQuestion | None:
    """Return a question if it is open, whoever asks."""
    cached = site.runs.reader.find(run, id_)
    seen = cached if cached is not None or site.record is None else await site.record.find_shown(id_)
    try:
        async with asyncio.timeout(None if seen is None else LOOK_SECONDS):
            views = await _list_views(site.runs, run, cached)
    except (NoWorker, TimeoutError):
        if seen is None:
            raise
        return FoundQuestion(seen, is_certain=False)
    question = next((question for question in collect_questions(views) if question.id == id_), None)
    return None if question is None else FoundQuestion(question, view=_own_view(views, run))


async def _list_views(runs: Runs, run: str, cached: Question | None) -> list[WorkflowView]:
    """Return the view of the workflow that asks, if that is known; else those of the whole run."""
    if cached is not None:
        try:
            return [await runs.tree.view(cached.owner, unless_ended=True)]
        except UnknownRun:  # it has ended, and nobody else asks its question
            return []
    state = await runs.state(run)
    # What was terminated could not close its questions.
    return [] if state.status in CLOSED else state.views


async def _story_beside(runs: Runs, asked: FoundQuestion) -> list[StoryLine] | None:
    return await _visible_story(runs, asked.question.run, view=asked.view) if asked.is_certain else None


async def _visible_story(
    runs: Runs, run: str, since: datetime | None = None, view: WorkflowView | None = None
) -> list[StoryLine] | None:
    """Return the story of a run; for who sees only questions of it, what people have answered; for a link, nothing."""
    if runs.answering.sender is not None and runs.answering.sender.proof == "link":
        return []
    lines = await read_story(runs.tree, run, since, view)
    if lines is None or await runs.access.may("see", run):
        return lines
    return [line for line in lines if line.is_answer]


async def _question_page(
    request: Request,
    asked: FoundQuestion,
    form: AnswerForm,
    status: int = 200,
    box: CommentBox | None = None,
    beside: Awaitable[ListView] | None = None,
) -> HTMLResponse:
    shown = _collect_values(request, asked, form, box)
    view, values = await asyncio.gather(beside or list_beside(request, asked.question.id), shown)
    return render(request, "question.html", status, list=view, failure="", **values)


async def _collect_values(
    request: Request, asked: FoundQuestion, form: AnswerForm, box: CommentBox | None = None
) -> dict[str, Any]:
    """Return what the template of an open question shows."""
    site, question, identity = find_site(request), asked.question, require_identity(request)
    runs, opening = site.find_runs(identity), split_heading(question.message)
    who_not = await _who_not(request, question, datetime.now(UTC))
    return {
        "question": question,
        "form": form,
        "is_certain": asked.is_certain,
        "heading": opening.words or name_at(question.address),
        "heading_shown": opening.heading or name_at(question.address),
        "body": render_markdown(opening.rest) if opening.rest else "",
        "render_markdown": render_markdown,
        "proposal": read_proposal(question),
        "proposal_details": details_beside(question),
        "who_not": who_not,
        # What somebody typed who may no longer answer stays to be copied.
        "can_answer": "answer" in identity.scopes and (who_not is None or bool(form.message)),
        "sees_run": await runs.access.may("see", question.run),
        "images": IMAGES,
        "delegate": _read_delegate(form.filled.texts),
        "unreached": await _list_unreached(site, identity, question),
        "would_prove": runs.answering.proves_persons,
        "has_accepted": identity.user in question.accepted_by,
        "story": await _story_beside(runs, asked),
        "box": box or await comment_box(request, _page(request)),
        "back": _page(request),
        # Whoever holds a link is not known to be that person: here is how to become it, and nothing about the site.
        "sign_in": "" if identity.only is None else f"/sign-in?{urlencode({'next': _page(request)})}",
        "ui_url": site.ui_url if identity.only is None else None,
    }


async def _list_unreached(site: Site, identity: Identity, question: Question) -> Sequence[str]:
    """Return whom nobody tells of a question, for whoever may steer."""
    if "steer" not in identity.scopes:
        return ()
    lost = (await site.upkeep.find_unreached([question])).get(question.id, ())
    return lost if lost and await site.find_runs(identity).access.may("steer", question.run) else ()


async def _closed_page(
    request: Request,
    texts: Texts | None = None,
    status: int = 200,
    box: CommentBox | None = None,
    beside: Awaitable[ListView] | None = None,
) -> Response:
    """Show what closed a question, and what happened in its run since. The same form, sent again, is told the same."""
    runs, run, id_ = _runs(request), request.path_params["run"], request.path_params["id"]
    state = await runs.state(run)
    own = _own_view(state.views, run)
    reply = await runs.access.find_closing(run, id_, own)
    if reply is None:
        raise HTTPException(404, choose_texts(request)("question.unknown", id=id_[:40], run=run))
    key = _make_key(texts or {})
    if key and isinstance(reply.data, QuestionClosed) and reply.data.key == key:
        return RedirectResponse(_page(request), 303)
    site, since = find_site(request), _visible_story(runs, run, reply.at, own)
    whole = complete_reply(runs.client, site.record, run, reply)
    view, story, closing = await asyncio.gather(beside or list_from_start(request), since, whole)
    return render(
        request,
        "closed.html",
        status,
        list=view,
        reply=closing,
        place=_find_place(story, closing),
        run=run,
        state=state,
        is_late=_came_too_late(request, texts),
        is_unproved=_is_unproved(runs, closing.data),
        typed=typed_texts(texts or {}),
        story=story,
        next_here=[] if require_identity(request).only else await runs.access.select_visible(run, state.questions),
        sees_run=await runs.access.may("see", run),
        next_mine=_find_next(view.page.questions, run),
        box=box or await comment_box(request, _page(request)),
    )


def _came_too_late(request: Request, texts: Texts | None) -> bool:
    """Return whether an answer of this person to a closed question did not count: this one, or one sent before."""
    if texts is not None:
        return first_text(texts, "do") not in MOVES
    failure = find_site(request).dispatches.failure(_name_place(request))
    return isinstance(failure, Refusal) and failure.code in CLOSED_CODES


def _is_unproved(runs: Runs, data: QuestionReplied) -> bool:
    """Return whether nothing proves who has answered, where a sign-in would."""
    return runs.answering.proves_persons and data.by is not None and data.proved_by == UNPROVED


def _find_place(story: Sequence[StoryLine] | None, reply: EarlierReply) -> str:
    """Return the place of a closed question as its run's story has it, with the labels of items."""
    lines = (line for line in story or () if line.reply is not None and line.reply.id == reply.data.id)
    return next((line.place for line in lines), name_place(reply.address))


def _own_view(views: Sequence[WorkflowView], run: str) -> WorkflowView | None:
    """Return the view of the run's own workflow, where it is among these."""
    return next((view for view in views if view.workflow == run), None)


def _find_next(items: Sequence[ListedQuestion], run: str) -> ListedQuestion | None:
    """Return the next question of the list, of another run: those of this run are shown anyway."""
    return next((item for item in items if item.question.run != run), None)


async def _who_not(request: Request, question: Question, now: datetime) -> str | None:
    """Return why this person may not answer, as far as the page knows it; the workflow decides."""
    runs, identity, t = _runs(request), require_identity(request), choose_texts(request)
    if "answer" not in identity.scopes:
        return t("question.sign_in_as", user=identity.user)
    if reason := await runs.access.why_not_answer(question):
        return reason
    claimant = question.claimant(now)
    if claimant is not None and await runs.access.may("steer", question.run):
        return None  # they may release it, decline it, or cancel it
    is_mine = claimant in (None, *list_assignee_names(identity.user, {}))
    return None if is_mine else t("question.claimed_by", name=claimant)


def _message(request: Request, error: Exception) -> str:
    return server_message(request, error) if isinstance(error, RPCError) else str(error)


def _page(request: Request) -> str:
    """Return the address of the question's page with the filter of its list, also for what is fetched or sent there."""
    path = request.url.path.removesuffix("/comments").removesuffix("/part")
    return f"{path}?{request.url.query}" if request.url.query else path


QUESTION: list[BaseRoute] = [
    Route("/questions/{run}/{id}", show_question, methods=["GET"]),
    Route("/questions/{run}/{id}", send_answer, methods=["POST"]),
    Route("/questions/{run}/{id}/comments", add_comment, methods=["POST"]),
    Route("/questions/{run}/{id}/part", show_news, methods=["GET"]),
    Route("/questions/{run}/{id}/attachments/{n:int}", show_attachment, methods=["GET"]),
]
