"""What authors, models and tools wrote, shown safely: Markdown as HTML that loads and runs nothing, and attachments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from urllib.parse import quote

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from starlette.responses import Response

from holdfast.client.runs import Runs
from holdfast.protocol.attachments import Attachment
from holdfast.protocol.display import clean
from holdfast.protocol.questions import Question

LONGEST = 100_000
"""Characters that are read as Markdown; longer text is shown as it stands."""
LONGEST_PLAIN = 2_000
"""Characters of which a list shows the words."""
LONGEST_HEADING = 140
"""Characters of a first paragraph of one line that is the heading of its page."""
_TAGS = {
    *("p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a"),
    *("h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
}
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Pictures that hold no script; an SVG may hold one."""
SHOWN = (*IMAGES, "application/pdf", "text/plain")
"""Types that a browser shows; any other is offered as a download, whatever it says it is."""
ALONE = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The policy of a content: it loads nothing, runs nothing, and belongs to no site."""


def render_markdown(text: str) -> Markup:
    """Return Markdown as HTML: no HTML of the text takes effect, no image is loaded, links go to https only.

    >>> render_markdown("**Now** <b>x</b>")
    Markup('<p><strong>Now</strong> &lt;b&gt;x&lt;/b&gt;</p>\\n')
    >>> render_markdown("[a](https://a.example) [b](javascript:1)").count("<a "), render_markdown("![c](https://a.example)").count("<img")
    (1, 0)
    """
    text = clean(text)
    if len(text) > LONGEST:
        return Markup("<pre>{}</pre>").format(text)
    reader = _reader()
    tokens = reader.parse(text)
    for token in tokens:
        if token.tag in _HEADINGS:
            token.tag = f"h{min(int(token.tag[1]) + 2, 6)}"  # the page has h1 and h2 of its own
    html = reader.renderer.render(tokens, reader.options, {})
    return Markup(
        nh3.clean(html, tags=_TAGS, attributes={"a": {"href"}, "ol": {"start"}}, url_schemes={"https"})
    )  # nh3 has cleaned it  # nosec B704


# A list shows each message twice, and the same ones again: reading them was half of the time of a page.
@lru_cache(maxsize=4096)
def extract_words(text: str) -> str:
    """Return the words of Markdown in one line, for lists.

    >>> extract_words("Which **tone**?\\n\\n- [a](https://a.example)")
    'Which tone? a'
    """
    tokens = _reader().parse(clean(text[:LONGEST_PLAIN]))
    words = [_words(token) for token in tokens if token.type in ("inline", "fence", "code_block")]
    return " ".join(" ".join(words).split())


@dataclass(frozen=True)
class Headed:
    """A message as its page shows it: what is to be decided stands largest."""

    words: str
    """The heading in plain text; empty if the message begins with nothing that is one."""
    heading: Markup
    """The heading with its links."""
    rest: str
    """What follows, in Markdown."""


def split_heading(text: str) -> Headed:
    """Return a message with what it begins with as its heading: a heading, or a short paragraph of one line.

    >>> split_heading("# Your details\\nWe need **these**")
    Headed(words='Your details', heading=Markup('Your details'), rest='We need **these**')
    >>> split_heading("- a list").words
    ''
    """
    text = clean(text).strip()
    reader = _reader()
    first, inline, *_ = [*reader.parse(text[:LONGEST_PLAIN]), None, None]
    is_one = first is not None and first.type in ("heading_open", "paragraph_open") and first.map is not None
    if not is_one or inline is None or inline.children is None or first.map is None:
        return Headed("", Markup(), text)
    words = " ".join(_words(inline).split())
    is_one_line = all(child.type not in ("softbreak", "hardbreak") for child in inline.children)
    if not (0 < len(words) <= LONGEST_HEADING and is_one_line):
        return Headed("", Markup(), text)
    html = nh3.clean(
        reader.renderer.render(inline.children, reader.options, {}),
        tags={"a", "code", "em", "s", "strong"},
        attributes={"a": {"href"}},
        url_schemes={"https"},
    )
    rest = "\n".join(text.split("\n")[first.map[1] :]).strip()
    return Headed(words, Markup(html), rest)  # nh3 has cleaned it  # nosec B704


def _words(token: Token) -> str:
    if token.children is None:
        return token.content
    return "".join(" " if child.type in ("softbreak", "hardbreak") else child.content for child in token.children)


@cache
def _reader() -> MarkdownIt:
    """Return a reader of CommonMark with tables, without HTML and images; headings stand below those of the page."""
    reader = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 20, "breaks": True})
    reader.enable("table").enable("strikethrough").disable(["image", "html_block", "html_inline"])
    reader.validateLink = _is_safe  # type: ignore[method-assign]
    return reader


def _is_safe(url: str) -> bool:
    """Return whether a link may be followed; another one is shown as it was written."""
    return url.lower().startswith("https://")


async def attachment_response(runs: Runs, question: Question, n: int, *, shows: bool) -> Response:
    """Return the content of an attachment; without `shows` always as a download. Raises as `RunWatch.attachment`."""
    content = await runs.watch.attachment(question, n)
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
