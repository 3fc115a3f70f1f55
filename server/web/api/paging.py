"""Pages of lists, and the `Link` header that leads from one to the next."""

from __future__ import annotations

from typing import Self
from urllib.parse import urlencode

from pydantic import Field, model_validator

from holdfast.server.web.api.bodies import WebInput
from holdfast.server.web.api.calls import Exchange

WEB_PAGE = 50
"""Rows of a page."""


_NUMBERED = (
    "The number of the page, counted anew by each call: those before it are read, and rows that have left the list "
    "move others to an earlier page. `after` skips none."
)


class PageQuery(WebInput):
    """Which page of a list: by its number, or behind the one before it."""

    page: int | None = Field(None, ge=1, le=10_000, description=_NUMBERED)
    after: str | None = Field(
        None,
        min_length=1,
        max_length=2_000,
        description="In place of `page`: the cursor in the `Link` header of the page before; nothing is read again.",
    )

    @model_validator(mode="after")
    def _only_one(self) -> Self:
        if self.page is not None and self.after is not None:
            raise ValueError("page and after both say which page: give one of them")
        return self

    @property
    def number(self) -> int:
        """The number of the page."""
        return 1 if self.page is None else self.page


def link_to_next(exchange: Exchange, cursor: str | None) -> None:
    """Add the link to the page after this one, if there is one; without the host, as its reader knows the server's."""
    if cursor is None:
        return
    query = {**dict(exchange.request.query_params.items()), "after": cursor}
    query.pop("page", None)
    exchange.headers["Link"] = f'<{exchange.request.url.path}?{urlencode(query)}>; rel="next"'
