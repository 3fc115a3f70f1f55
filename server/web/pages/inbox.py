"""My questions: the list at `/` and beside each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import get_args
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import BaseRoute, Route
from temporalio.service import RPCError

from holdfast.runtime.errors import BadCursor
from holdfast.server.record.record import Lag
from holdfast.server.web.addresses import question_address
from holdfast.server.web.gate import require_identity
from holdfast.server.web.pages.templating import render
from holdfast.server.web.questions import (
    ListedQuestion,
    Order,
    QuestionPage,
    QuestionQuery,
    Whose,
    list_groups,
    list_questions,
)
from holdfast.server.web.site import find_site

MOST_PAGES = 10_000
MOST_SHOWN = 100
"""The questions that are shown at a time: a page has 50 workflows, and a map alone can ask 50 questions."""
AGES = {"1h": timedelta(hours=1), "1d": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
"""The lengths of time that a filter offers."""


@dataclass(frozen=True)
class ListView:
    """The list of questions as a page shows it."""

    page: QuestionPage
    wanted: QuestionQuery
    query: dict[str, str]
    """The filter as it stands in the address."""
    has_groups: bool
    current: str = ""
    """The id of the question that is shown beside it."""
    start: int = 0
    """How many questions of the page stand before the first that is shown."""
    unreached: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Whom nobody tells of a question, by its id; empty for whoever may not steer."""
    is_unread: bool = False
    """True if Temporal does not answer, so that the list is not known."""
    lag: Lag | None = None
    """How far the record is behind, if that is dangerous, for whoever may steer."""

    @property
    def shown(self) -> Sequence[ListedQuestion]:
        """Return the questions of the page that are shown."""
        return self.page.questions[self.start : self.start + MOST_SHOWN]

    @property
    def next_start(self) -> int:
        return self.start + len(self.shown)

    @property
    def previous_start(self) -> int | None:
        return max(self.start - MOST_SHOWN, 0) or None

    @property
    def whose(self) -> tuple[Whose, ...]:
        """Return the parts of the list that there are."""
        return tuple(name for name in get_args(Whose) if name != "groups" or self.has_groups)

    @property
    def orders(self) -> tuple[Order, ...]:
        return get_args(Order)

    @property
    def ages(self) -> list[str]:
        return list(AGES)

    @property
    def is_filtered(self) -> bool:
        """Return whether more than the tab narrows the list."""
        return bool(self.query.keys() - {"for", "page", "after", "sort", "from"})

    @property
    def is_further(self) -> bool:
        """Return whether it is another page than the first."""
        return self.wanted.page > 1 or self.wanted.after is not None

    @property
    def has_filters(self) -> bool:
        """Return whether a filter or an order was chosen; a search alone is none."""
        return bool(self.query.keys() & {"blueprint", "age", "due", "sort"})

    @property
    def blueprints(self) -> list[str]:
        """Return the names of blueprints to offer: those on the page."""
        return sorted({item.blueprint for item in self.page.questions if item.blueprint})

    def address(self, path: str = "/", **changes: str | int | None) -> str:
        """Return an address with the filter, some of it changed; None leaves a part out, as not naming `from_` does."""
        query = {**self.query, "from": None, **{name.rstrip("_"): value for name, value in changes.items()}}
        kept = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return f"{path}?{urlencode(kept)}" if kept else path

    @cached_property
    def _filter(self) -> str:
        """The filter as the part of an address behind its path; the same for every question of the list."""
        return self.address("", page=None if self.wanted.page == 1 else self.wanted.page, from_=self.start or None)

    def make_address(self, item: ListedQuestion) -> str:
        """Return the address of a question; the filter stays for the list beside it."""
        return question_address(item.question) + self._filter


def read_query(query: dict[str, str], now: datetime) -> QuestionQuery:
    """Return the questions that the address of a list asks for; what cannot be read counts as left out."""
    whose, order, page = query.get("for", "me"), query.get("sort", "newest"), query.get("page", "1")
    age, due = AGES.get(query.get("age", "")), AGES.get(query.get("due", ""))
    number = _number(page, 1)
    return QuestionQuery(
        whose=whose if whose in get_args(Whose) else "me",  # type: ignore[arg-type]
        blueprint=query.get("blueprint") or None,
        since=None if age is None else now - age,
        deadline=None if due is None else now + due,
        text=query.get("q", ""),
        order=order if order in get_args(Order) else "newest",  # type: ignore[arg-type]
        page=min(max(number, 1), MOST_PAGES),
        after=query.get("after"),
    )


def _number(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else default


async def list_view(request: Request, current: str = "") -> ListView:
    """Return the list that the address of a request asks for. Raises `BadCursor` for a page of another list."""
    return await _list_view(request, current, ("page", "after"))


async def _list_view(request: Request, current: str, place: Sequence[str]) -> ListView:
    identity, site = require_identity(request), find_site(request)
    runs = site.find_runs(identity)
    names = ("for", "blueprint", "age", "due", "q", "sort", "from", *place)
    query = {name: request.query_params[name] for name in names if request.query_params.get(name)}
    wanted = read_query(query, datetime.now(UTC))
    if identity.only is not None:  # whoever holds a link is not known to be that person: their list is not shown
        return ListView(QuestionPage(), wanted, {}, has_groups=False, current=current)
    page = await list_questions(runs, identity.user, wanted)
    start = _number(query.get("from", ""), 0)
    view = ListView(page, wanted, query, bool(list_groups(runs, identity.user)), current, start)
    if "steer" not in identity.scopes:
        return view
    unreached = await site.upkeep.find_unreached([item.question for item in view.shown])
    return replace(view, unreached=unreached, lag=await site.upkeep.lag())


async def list_from_start(request: Request, current: str = "") -> ListView:
    """Return the list of an address, from its beginning where the page is of another list: of who sent the link."""
    try:
        return await list_view(request, current)
    except BadCursor:
        return await _list_view(request, current, ())


async def list_beside(request: Request, current: str) -> ListView:
    """Return the list for the page of a question, which is shown without it while Temporal does not answer."""
    try:
        return await list_from_start(request, current)
    except RPCError:
        wanted = read_query({}, datetime.now(UTC))
        return ListView(QuestionPage(), wanted, {}, has_groups=False, current=current, is_unread=True)


async def show_inbox(request: Request) -> HTMLResponse:
    """Show the open questions; `part=list` gives the list alone, for a page that is open."""
    is_part, current = request.query_params.get("part") == "list", request.query_params.get("current", "")
    view = await (list_from_start if is_part else list_view)(request, current)
    template = "list.html" if is_part else "inbox.html"
    return render(request, template, list=view)


INBOX: list[BaseRoute] = [Route("/", show_inbox)]
