"""Render the templates of the pages: escaped, with the texts of the reader's language and the field against CSRF."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from holdfast.client.texts import preview, result_text
from holdfast.client.views.questions import QuestionView
from holdfast.protocol.address import ELICITATION, parts
from holdfast.protocol.display import clean, one_line
from holdfast.runtime.config import Config
from holdfast.server.notices.texts import Texts, check_texts, choose_language, load_texts
from holdfast.server.web.addresses import question_address, run_address
from holdfast.server.web.content import extract_words
from holdfast.server.web.gate import Identity

FOLDER = Path(__file__).parent
STATIC, LANGUAGES = FOLDER / "static", FOLDER / "languages"
PREVIEW = 160
"""The most characters of a value in one line."""
MOST_COLUMNS = 8
"""Of a list of objects as a table; it is JSON where they have more keys."""
_UNITS = ((86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds"))


def choose_texts(request: Request) -> Texts:
    """Return the texts in the language that the reader prefers."""
    folders = request.app.state.text_folders
    return load_texts(choose_language(request.headers.get("accept-language", ""), *folders), *folders)


def find_text_folders(config: Config) -> Sequence[Path]:
    """Return the folders with the texts of the pages: ours, and that of `[serve]`. Raises `ConfigError`."""
    if config.serve.languages is None:
        return [LANGUAGES]
    own = config.folder / config.serve.languages
    check_texts(own, LANGUAGES)
    return [LANGUAGES, own]


def render(request: Request, template: str, status_code: int = 200, **values: object) -> HTMLResponse:
    """Return a page.

    Args:
        request: The request; its session has the token against CSRF, its scope the identity.
        template: The file in `templates/`.
        status_code: The HTTP status.
        values: The names that the template uses, beside `t`, `user`, `can_sign_out`, `is_link`, `path`, `is_posted`,
            `now` and `csrf_field`.
    """
    identity = request.scope.get("identity")
    page = _environment().get_template(template)
    text = page.render(
        t=choose_texts(request),
        user=identity.user if isinstance(identity, Identity) else None,
        can_sign_out=isinstance(identity, Identity) and identity.session is not None and identity.only is None,
        is_link=isinstance(identity, Identity) and identity.only is not None,
        path=request.url.path,
        is_posted=request.method == "POST",
        now=datetime.now(UTC),
        csrf_field=csrf_field(request),
        **values,
    )
    return HTMLResponse(text, status_code, {"Cache-Control": "no-store"})


def csrf_field(request: Request) -> Markup:
    """Return the hidden field that every form needs; empty where the request has no session."""
    token = getattr(request.state, "csrf", None)  # set by `security.py` for a request that may be forged
    return Markup('<input type="hidden" name="csrf" value="{}">').format(token) if token else Markup()


@cache
def _environment(folder: Path = FOLDER / "templates") -> Environment:
    environment = Environment(
        loader=FileSystemLoader(folder),
        # A server that runs while a new version is installed would show that one's templates with its own code.
        auto_reload=False,
        cache_size=-1,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"static": _static, "run_address": run_address, "question_address": question_address}
    environment.globals["view_question"] = QuestionView
    environment.filters |= {
        "json": _json,
        "moment": moment,
        "past": past,
        "exact": exact,
        "dollars": dollars,
        "place": name_place,
        "clean": clean,
        "name": name_of_person,
        "preview": shorten,
        "told": tell_value,
        "whole": result_text,
        "columns": list_columns,
        "element_id": element_id,
        "words": extract_words,
    }
    for name in environment.list_templates(["html"]):
        environment.get_template(name)
    return environment


@cache
def _static(name: str) -> str:
    """Return the address of a static file; it changes with the content, so that browsers may keep the file."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


def _json(value: object) -> str:
    """Return a value as indented JSON, to be shown; not for scripts."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def shorten(value: object) -> str:
    """Return a value in one line, shortened; a text stands without quotes."""
    if not isinstance(value, str):
        return preview(value, PREVIEW)
    text = one_line(value)
    return text if len(text) <= PREVIEW else f"{text[: PREVIEW - 1]}…"


def tell_value(value: object) -> str:
    """Return the content of an answer as people say it, without the marks of JSON.

    >>> tell_value({"granted": False, "reason": "not today"}), tell_value(["now", 2]), tell_value("now")
    ('granted: no, reason: not today', 'now, 2', 'now')
    """
    match value:
        case dict():
            return ", ".join(f"{name}: {tell_value(part)}" for name, part in value.items())
        case list():
            return ", ".join(map(tell_value, value))
        case bool():
            return "yes" if value else "no"
    return "" if value is None else str(value)


def list_columns(value: object) -> list[str]:
    """Return the columns of a list of objects as a table; none for what is better shown otherwise.

    >>> list_columns([{"city": "Bonn", "nights": 2}, {"city": "Rome", "late": True}]), list_columns(["Bonn"])
    (['city', 'nights', 'late'], [])
    """
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        return []
    columns = list(dict.fromkeys(key for row in value for key in row))
    return columns if len(columns) <= MOST_COLUMNS else []


def amount(seconds: float, t: Texts) -> str:
    """Return a length of time in its largest unit.

    >>> english = load_texts("en", LANGUAGES)
    >>> amount(7_300, english), amount(86_400, english)
    ('2 h', '1 day')
    """
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "seconds"))
    return t(f"time.{unit}", count=round(seconds / size))


def dollars(amount: float) -> str:
    """Return an amount of dollars.

    >>> dollars(0.00004), dollars(0.0123), dollars(12.5), dollars(0)
    ('< $0.0001', '$0.0123', '$12.50', '$0')
    """
    if not amount:
        return "$0"
    return "< $0.0001" if amount < 0.0001 else f"${amount:.4f}" if amount < 1 else f"${amount:,.2f}"


def moment(at: datetime, now: datetime, t: Texts) -> Markup:
    """Return a time as people say it, such as "3 min ago"; the element holds the exact one."""
    return _time(at, _say(at, now, t), "moment")


def past(at: datetime, now: datetime, t: Texts) -> Markup:
    """Return the time of something that has happened: by a clock that is ahead of this one it is just now.

    The times of a run are those of Temporal's server.
    """
    return _time(at, _say(at, max(at, now), t), "past")


def exact(at: datetime) -> Markup:
    """Return a time to the second, for those who read what happened on paper."""
    return _time(at, _write_utc(at), "date")


def _say(at: datetime, now: datetime, t: Texts) -> str:
    seconds = (now - at).total_seconds()
    if -1 < seconds < 5:
        return t("time.now")
    return t("time.ago" if seconds > 0 else "time.in", amount=amount(abs(seconds), t))


def _time(at: datetime, words: str, shows: str) -> Markup:
    """Return the element of a time: `times.js` writes it anew in the reader's own time zone, and as time passes."""
    utc = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    element = Markup('<time datetime="{}" title="{}" data-shows="{}">{}</time>')
    return element.format(utc, _write_utc(at), shows, words)


def _write_utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def name_place(address: str, labels: Mapping[str, str] | None = None) -> str:
    """Return an address as people read it, without its run, and without a server's own key of its question.

    Args:
        address: The address.
        labels: What people read in place of the number of an item, by the address of the item.

    >>> name_place("pipeline:brief;loop:clarify:2;hitl:review")
    'clarify 2 › review'
    >>> name_place("pipeline:p;map:systems:0;hitl:grant", {"pipeline:p;map:systems:0": "Billing"})
    'systems Billing › grant'
    >>> name_place("pipeline:p;step:book;elicitation:3f")
    'book'
    """
    segments = address.split(";")
    names = []
    for n, (kind, id_, sub) in enumerate(parts(address)):
        if kind == ELICITATION:
            continue
        shown = (labels or {}).get(";".join(segments[: n + 1]), sub)
        names.append(id_ if shown is None else f"{id_} {shown}")
    return " › ".join(names[1:] or names)


def element_id(name: str) -> str:
    """Return an id of an element for the name of a control.

    >>> element_id("f:items[0].name"), element_id("f:")
    ('f-items-0-name', 'f')
    """
    return re.sub(r"[^\w]+", "-", name).strip("-")


def name_of_person(name: str) -> str:
    """Return a user or a group without its prefix.

    >>> name_of_person("user:ana"), name_of_person("anyone")
    ('ana', 'anyone')
    """
    return name.partition(":")[2] or name
