"""The content of an attachment as a response: shown where that is harmless, else a download. Pages and API use it."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from holdfast.client.runs import Runs
from holdfast.protocol.attachments import Attachment
from holdfast.protocol.questions import Question

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Pictures that hold no script; an SVG may hold one."""
SHOWN = (*IMAGES, "application/pdf", "text/plain")
"""Types that a browser shows; any other is offered as a download, whatever it says it is."""
ALONE = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The policy of a content: it loads nothing, runs nothing, and belongs to no site."""


async def attachment_response(runs: Runs, question: Question, n: int, *, shows: bool) -> Response:
    """Return the content of an attachment; without `shows` always as a download. Raises as `Runs.attachment`."""
    content = await runs.attachment(question, n)
    attachment = next(listed for listed in question.attachments if listed.n == n)
    is_shown = shows and attachment.type in SHOWN
    media_type = attachment.type if is_shown else "application/octet-stream"
    return Response(content, 200, _headers(attachment, is_shown), media_type)


def _headers(attachment: Attachment, is_shown: bool) -> dict[str, str]:
    way = "inline" if is_shown else "attachment"
    name = quote(attachment.name, safe="")
    headers = {"Content-Disposition": f"{way}; filename*=UTF-8''{name}"}
    if attachment.type != "application/pdf":  # browsers show no PDF in a sandbox
        headers["Content-Security-Policy"] = ALONE
    return headers
