"""Links in messages: a signed token for one person and one question, exchanged at once for a cookie of that page.

A link shows the question and decides nothing: mails are forwarded, and scanners open what is in them. It dies with its
question.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import suppress
from typing import NamedTuple

from itsdangerous import BadData, URLSafeSerializer
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from temporalio.service import RPCError

from holdfast.client.answering import Sender
from holdfast.client.tree import UnknownRun
from holdfast.runtime.config import Config
from holdfast.runtime.workers import NoWorker
from holdfast.server.notices.outbox import signed_in
from holdfast.server.web.addresses import question_path
from holdfast.server.web.gate import gate_of, peer_of, set_session
from holdfast.server.web.identity import Identity
from holdfast.server.web.keys import serve_key
from holdfast.server.web.site import Site, site_of

LINK = "/l/"
LOOK_SECONDS = 2.0
SESSION_LIFE = 3600.0
"""Seconds that a browser sees the page before the link must be opened again."""


class LinkTarget(NamedTuple):
    """The person and the question that a link is for."""

    user: str
    run: str
    question: str


def link_token(site: Site, user: str, run: str, question: str) -> str:
    """Return a token for one person, such as `user:ana`, and one question by its id. Raises `ConfigError`."""
    return str(_signer(site.config).dumps(LinkTarget(user, run, question)))


def link_url(site: Site, user: str, run: str, question: str) -> str:
    """Return the address of a question for one person, to be sent to that person. Raises `ConfigError`."""
    return f"{site.address}{LINK}{link_token(site, user, run, question)}"


async def follow_link(request: Request) -> Response:
    """Exchange a link for a cookie and lead to its question; whoever has signed in needs no cookie."""
    site, gate = site_of(request), gate_of(request)
    target = _target(site.config, request.path_params["token"])
    if target is None:
        gate.attempts.check(peer_of(request))
        raise HTTPException(404, "this link is not, or no longer, valid")
    page = question_path(target.run, target.question)
    sender = Sender(target.user, await _groups_of(site, target.user), "link")
    await _check_open(site, target, Identity(sender, only=page))
    answer = RedirectResponse(page, 303)
    identity = request.scope["identity"]
    if identity is None or identity.only is not None:
        until = time.time() + SESSION_LIFE
        cookie = await asyncio.to_thread(gate.sessions.begin, sender, only=page, until=until)
        set_session(answer, gate, request, cookie)
    return answer


async def _groups_of(site: Site, user: str) -> tuple[str, ...]:
    """Return the groups that the last sign-in of a user has proved: by those they were told of the question."""
    if site.record is None:
        return ()
    people = await asyncio.to_thread(signed_in, site.record.store)
    return next((person.groups for person in people if person.user == user), ())


async def _check_open(site: Site, target: LinkTarget, identity: Identity) -> None:
    """Raise `HTTPException` if the question is closed, or is no longer one of this person.

    Where that cannot be found out, its page says so.
    """
    runs = site.runs_of(identity)
    with suppress(NoWorker, RPCError, TimeoutError):
        try:
            questions = await asyncio.wait_for(runs.questions(target.run), LOOK_SECONDS)
        except UnknownRun:
            questions = []
        asked = [question for question in questions if question.id == target.question]
        if not asked:
            raise HTTPException(410, "this question is closed: it was answered, has expired, or its run has ended")
        if not await runs.select_visible(target.run, asked):
            raise HTTPException(404, "this link is not, or no longer, valid")


def _target(config: Config, token: str) -> LinkTarget | None:
    """Return the target of a token; None for one that this server has not made."""
    try:
        return LinkTarget(*_signer(config).loads(token))
    except (BadData, TypeError):
        return None


def _signer(config: Config) -> URLSafeSerializer:
    return URLSafeSerializer(serve_key(config), salt="holdfast.link", signer_kwargs={"digest_method": hashlib.sha256})


LINK_PAGES: list[BaseRoute] = [Route(f"{LINK}{{token}}", follow_link)]
