"""The pages: questions, runs, sign-in. Server-rendered by jinja2; static files have no build step."""

from __future__ import annotations

from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from holdfast.server.web.pages.batch import BATCH
from holdfast.server.web.pages.inbox import INBOX
from holdfast.server.web.pages.news import NEWS
from holdfast.server.web.pages.question import QUESTION
from holdfast.server.web.pages.run_history import HISTORY
from holdfast.server.web.pages.run_pages import RUN_PAGES
from holdfast.server.web.pages.run_start import START
from holdfast.server.web.pages.run_steering import STEERING
from holdfast.server.web.pages.templating import STATIC

PAGES: list[BaseRoute] = [
    Mount("/static", StaticFiles(directory=STATIC), name="static"),
    *INBOX,
    *QUESTION,
    *BATCH,
    *RUN_PAGES,
    *HISTORY,
    *STEERING,
    *START,
    *NEWS,
]
