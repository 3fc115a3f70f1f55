"""The pages: questions, runs, sign-in. Server-rendered by jinja2; static files have no build step."""

from __future__ import annotations

from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from holdfast.client.serve.pages.batch import BATCH
from holdfast.client.serve.pages.inbox import INBOX
from holdfast.client.serve.pages.news import NEWS
from holdfast.client.serve.pages.question import QUESTION
from holdfast.client.serve.pages.run_history import HISTORY
from holdfast.client.serve.pages.run_pages import RUN_PAGES
from holdfast.client.serve.pages.run_start import START
from holdfast.client.serve.pages.run_steering import STEERING
from holdfast.client.serve.pages.templating import STATIC

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
