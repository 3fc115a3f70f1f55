"""The comments beside a question: what its page shows of them, and the form that adds one."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from temporalio.service import RPCError

from holdfast.server.record.entries import RecordedComment
from holdfast.server.record.record import LONGEST_COMMENT
from holdfast.server.web.gate import Identity, require_identity
from holdfast.server.web.site import find_site

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CommentBox:
    """The comments of a question as its page shows them."""

    address: str
    """Where a new one is sent."""
    comments: list[RecordedComment] | None
    """None where no record runs, or none can be read now."""
    has_record: bool
    can_write: bool
    text: str = ""
    """What was typed, if it was refused."""
    problem: str = ""
    key: str = field(default_factory=lambda: secrets.token_hex(8))
    """A form that is sent twice adds one comment."""
    longest: int = LONGEST_COMMENT


async def comment_box(request: Request, path: str, text: str = "", problem: str = "") -> CommentBox:
    """Return the comments of the question of a request.

    Args:
        request: The request; its path names run and question.
        path: The address of the question's page, with the filter of its list.
        text: What was typed.
        problem: Why it was refused.
    """
    record, identity = find_site(request).record, require_identity(request)
    page, _, query = path.partition("?")
    address = f"{page}/comments" + (f"?{query}" if query else "")
    comments: list[RecordedComment] | None = None
    if record is not None:
        try:
            comments = await record.comments(request.path_params["run"], request.path_params["id"])
        except (SQLAlchemyError, RPCError) as error:  # the record asks Temporal for a run that it does not have yet
            log.warning("the comments beside a question could not be read: %s", type(error).__name__)
    can_write = comments is not None and "answer" in identity.scopes and await _may_comment(request, identity)
    return CommentBox(address, comments, record is not None, can_write, text, problem)


async def _may_comment(request: Request, identity: Identity) -> bool:
    """Return whether a person who sees a question may comment on it: who sees no more of its run is asked in it."""
    runs, run = find_site(request).find_runs(identity), str(request.path_params["run"])
    return not await runs.access.may("see", run) or await runs.access.may("comment", run)
