"""Sign people in: the middleware that sets the identity of every request, its pages, and the links in messages.

A link in a message is a signed token for one person and one question, exchanged at once for a cookie of that page. It
shows the question and decides nothing: mails are forwarded, and scanners open what is in them. It dies with its
question.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from itsdangerous import BadData, URLSafeSerializer
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from temporalio.service import RPCError

from holdfast.client.answering import Sender
from holdfast.client.tree import UnknownRun
from holdfast.runtime.config import Config
from holdfast.runtime.workers import NoWorker
from holdfast.server.notices.outbox import list_known_users
from holdfast.server.web.addresses import ONCE_PARAMETER, question_path, signs_in_by_link
from holdfast.server.web.credentials import serve_key
from holdfast.server.web.gate import Gate, Identity, find_gate, find_peer, set_session, write_cookie
from holdfast.server.web.pages.templating import render
from holdfast.server.web.requests import read_form
from holdfast.server.web.security import HEALTH, HOOKS, SAFE, SIGNED_IN_HERE, STATIC
from holdfast.server.web.site import Site, find_site, load_address_book

LINK = "/l/"
LOOK_SECONDS = 2.0
SESSION_LIFE = 3600.0
"""Seconds that a browser sees the page before the link must be opened again."""
SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
OPEN = (*HEALTH, SIGN_IN)
"""Paths that need no identity."""
OPEN_BELOW = (STATIC, f"{SIGN_IN}/", HOOKS, LINK)
METRICS = "/metrics"
PROGRAMS = ("/api/", METRICS)
"""Paths that programs call: they get an error where a browser is led to the sign-in."""


FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-real-ip")
"""Headers that a proxy adds."""


class LinkTarget(NamedTuple):
    """The person and the question that a link is for."""

    user: str
    run: str
    question: str


def make_link_token(site: Site, user: str, run: str, question: str) -> str:
    """Return a token for one person, such as `user:ana`, and one question by its id. Raises `ConfigError`."""
    return str(_make_signer(site.config).dumps(LinkTarget(user, run, question)))


def make_link_url(site: Site, user: str, run: str, question: str) -> str:
    """Return the address of a question for one person, to be sent to that person. Raises `ConfigError`."""
    return f"{site.address}{LINK}{make_link_token(site, user, run, question)}"


async def follow_link(request: Request) -> Response:
    """Exchange a link for a cookie and lead to its question; whoever has signed in needs no cookie."""
    site, gate = find_site(request), find_gate(request)
    target = _read_target(site.config, request.path_params["token"])
    if target is None:
        gate.attempts.check(find_peer(request))
        raise HTTPException(404, "this link is not, or no longer, valid")
    page = question_path(target.run, target.question)
    sender = Sender(target.user, await _read_proved_groups(site, target.user), "link")
    represented = await asyncio.to_thread(_list_represented, site, target.user)
    await _check_open(site, target, Identity(sender, only=page, represented=represented))
    answer = RedirectResponse(page, 303)
    identity = request.scope["identity"]
    if identity is None or identity.only is not None:
        until = time.time() + SESSION_LIFE
        cookie = await asyncio.to_thread(gate.sessions.begin, sender, only=page, until=until)
        set_session(answer, gate, request, cookie)
    return answer


async def _read_proved_groups(site: Site, user: str) -> tuple[str, ...]:
    """Return the groups that the last sign-in of a user has proved: by those they were told of the question."""
    if site.record is None:
        return ()
    people = await asyncio.to_thread(list_known_users, site.record.store)
    return next((person.groups for person in people if person.user == user), ())


def _list_represented(site: Site, user: str) -> frozenset[str]:
    """Return the users and groups whose questions a user is told of as a deputy. Blocks."""
    store = None if site.record is None else site.record.store
    return load_address_book(site.config, store).list_represented(user)


async def _check_open(site: Site, target: LinkTarget, identity: Identity) -> None:
    """Raise `HTTPException` if the question is closed, or is no longer one of this person.

    Where that cannot be found out, its page says so.
    """
    runs = site.find_runs(identity)
    with suppress(NoWorker, RPCError, TimeoutError):
        try:
            questions = await asyncio.wait_for(runs.questions(target.run), LOOK_SECONDS)
        except UnknownRun:
            questions = []
        asked = [question for question in questions if question.id == target.question]
        if not asked:
            raise HTTPException(410, "this question is closed: it was answered, has expired, or its run has ended")
        if not await runs.access.select_visible(target.run, asked):
            raise HTTPException(404, "this link is not, or no longer, valid")


def _read_target(config: Config, token: str) -> LinkTarget | None:
    """Return the target of a token; None for one that this server has not made."""
    try:
        return LinkTarget(*_make_signer(config).loads(token))
    except (BadData, TypeError):
        return None


def _make_signer(config: Config) -> URLSafeSerializer:
    return URLSafeSerializer(serve_key(config), salt="holdfast.link", signer_kwargs={"digest_method": hashlib.sha256})


LINK_PAGES: list[BaseRoute] = [Route(f"{LINK}{{token}}", follow_link)]


class SignIn:
    """Set `scope["identity"]`, and let nobody pass without one.

    An application around this one may have set it: then that one signs people in, and guards them.
    """

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self.app, self.gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http" or "identity" in scope:
            await self.app(scope, receive, send)
            return
        scope[SIGNED_IN_HERE] = True
        answer = await asyncio.to_thread(self._answer, scope)  # a database that is not at hand blocks
        await (answer or self.app)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response | None:
        return self._enter(scope) or self._refuse(scope)

    def _enter(self, scope: Scope) -> Response | None:
        """Return the answer to a one-time link; None if the request is none."""
        connection = HTTPConnection(scope)
        token = connection.query_params.get(ONCE_PARAMETER)
        is_ours = scope["method"] == "GET" and not scope["path"].startswith(PROGRAMS)
        if token is None or not is_ours or not signs_in_by_link(self.gate.settings):
            return None
        cookie = self.gate.enter_once(token, connection)
        rest = urlencode([pair for pair in connection.query_params.multi_items() if pair[0] != ONCE_PARAMETER])
        page = quote(scope["path"]) + (f"?{rest}" if rest else "")
        if cookie is None and self.gate.identify(connection) is None:
            return RedirectResponse(f"{SIGN_IN}?{urlencode({'next': page, 'wrong': 1})}", 303)
        answer = RedirectResponse(page, 303)
        if cookie is not None:
            set_session(answer, self.gate, connection, cookie)
        return answer

    def _refuse(self, scope: Scope) -> Response | None:
        """Set the identity; return the answer to nobody, None if the request may pass."""
        connection = HTTPConnection(scope)
        identity = self.gate.identify(connection)
        if identity is not None and identity.only is not None:
            identity = replace(identity, represented=_list_represented(find_site(connection), identity.user))
        scope["identity"] = identity
        path = scope["path"]
        if identity is not None and scope["method"] not in SAFE:
            self.gate.count_change(identity)
        if path in OPEN or path.startswith(OPEN_BELOW) or (identity is not None and _may_see(identity, path)):
            return None
        # A scraper beside the server needs no token.
        if path == METRICS and _is_of_this_machine(connection):
            return None
        if identity is not None and scope["method"] not in SAFE:
            raise HTTPException(403, f"this link only shows a question: sign in as {identity.user}")
        if path.startswith(PROGRAMS) or scope["method"] not in SAFE:
            message = "sign in, or send a token: Authorization: Bearer TOKEN"
            raise HTTPException(401, message, {"WWW-Authenticate": "Bearer"})
        return RedirectResponse(f"{SIGN_IN}?{urlencode({'next': _read_address(scope)})}", 303)


def _is_of_this_machine(connection: HTTPConnection) -> bool:
    """Return whether a process of this machine asks for itself, and no proxy here for somebody else."""
    return find_peer(connection) in ("127.0.0.1", "::1") and not any(name in connection.headers for name in FORWARDED)


def _may_see(identity: Identity, path: str) -> bool:
    """Return whether this path is not kept from the holder of a link."""
    only = identity.only
    return only is None or path in (only, SIGN_OUT) or path.startswith(f"{only}/")


def local_path(text: str | None) -> str:
    """Return the path to go to after the sign-in: one of this server, whatever a link says.

    >>> local_path("/runs?page=2"), local_path("//evil.example"), local_path("https://evil.example"), local_path(None)
    ('/runs?page=2', '/', '/', '/')
    """
    is_ours = text is not None and text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if text is not None and is_ours else "/"


def _read_address(scope: Scope) -> str:
    """Return path and query of a request."""
    query = scope["query_string"].decode("latin-1")
    return quote(scope["path"]) + (f"?{query}" if query else "")


async def sign_in_page(request: Request) -> Response:
    """Show how to sign in, or lead on whoever has."""
    to = local_path(request.query_params.get("next"))
    identity = request.scope["identity"]
    if identity is not None and identity.only is None:
        return RedirectResponse(to, 303)
    return _render_page(request, to, problem="sign_in.wrong" if "wrong" in request.query_params else None)


async def sign_in_by_code(request: Request) -> Response:
    """Sign in by a one-time token that was typed: where a link cannot be clicked."""
    gate = find_gate(request)
    if not signs_in_by_link(gate.settings):
        raise HTTPException(404)
    form = await read_form(request)
    to, code = local_path(cast(str, form.get("next"))), str(form.get("code", "")).strip()
    token = dict(parse_qsl(code.partition("?")[2])).get(ONCE_PARAMETER, code)  # the whole link will do
    cookie = await asyncio.to_thread(gate.enter_once, token, request)
    if cookie is None:
        return _render_page(request, to, 403, "sign_in.wrong")
    answer = RedirectResponse(to, 303)
    set_session(answer, gate, request, cookie)
    return answer


async def sign_out(request: Request) -> Response:
    """End the session of this browser."""
    gate, identity = find_gate(request), request.scope["identity"]
    if identity.session is not None:
        await asyncio.to_thread(gate.sessions.end, identity.session)
    answer = RedirectResponse(SIGN_IN, 303)
    answer.headers.append("Set-Cookie", write_cookie(gate.cookie_name(request), "", gate.is_secure(request), 0))
    return answer


def _render_page(
    request: Request, to: str, status: int = 200, problem: str | None = None, reason: str | None = None
) -> Response:
    settings = find_gate(request).settings
    provider = urlsplit(settings.oidc.issuer).hostname if settings.oidc else None
    values = {
        "to": to,
        "problem": problem,
        "reason": reason,
        "provider": provider,
        "by_proxy": settings.user_header is not None,
    }
    return render(request, "sign_in.html", status, **values)


def sign_in_again(request: Request, reason: str | None) -> Response:
    """Return the sign-in page after a provider's sign-in has failed."""
    return _render_page(request, "/", 403, "sign_in.failed", reason)


SIGN_IN_PAGES: list[BaseRoute] = [
    Route(SIGN_IN, sign_in_page),
    Route(SIGN_IN, sign_in_by_code, methods=["POST"]),
    Route(SIGN_OUT, sign_out, methods=["POST"]),
]
