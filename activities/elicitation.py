"""Elicitations of MCP servers as questions to people, and people's answers as the server's protocol has them.

All values are JSON as it stands on the wire, so that this needs no `mcp` package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from temporalio.exceptions import ApplicationError

from holdfast.activities.registry import wrong
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema, validator
from holdfast.blueprint.questions import Asked, Elicitation, OpenLink
from holdfast.protocol.address import ELICITATION, segment
from holdfast.protocol.agents import InterruptAnswer
from holdfast.protocol.display import one_line
from holdfast.protocol.values import make_digest

ELICIT = "elicitation/create"
LONGEST_KEY = 100
"""Characters of a server's key in an address."""
PLAIN_TYPES = ("string", "number", "integer", "boolean")
_SECRET_NAMES = re.compile(
    "pass(word|wd|phrase|code)|(api|secret|private)key|(access|auth)token|clientsecret|creditcard|(credit)?cardnumber|cv[vc]"
)
"""Names of fields, in lower case and without separators, that can only hold a credential."""


class BadElicitation(Exception):
    """An elicitation that cannot be put to people; the message says where, and why."""


def bad_elicitation(tool: str, key: str, error: BadElicitation) -> ApplicationError:
    """Return the failure of a call whose server asks such a thing."""
    return wrong("bad_elicitation", f"{tool}: the server's elicitation {one_line(key)[:LONGEST_KEY]!r}: {error}")


def make_path(key: str) -> str:
    """Return the place of an elicitation within its call, by the key that the server gave it.

    >>> make_path("login")
    'elicitation:login'
    """
    short_key = one_line(key)[:LONGEST_KEY]
    return segment(ELICITATION, short_key if short_key == key else f"{short_key}~{make_digest(key)}")


def make_question(tool: str, request: JSONObject) -> Asked:
    """Return the question for a request to elicit something.

    Args:
        tool: The tool that is called, `mcp:<server>/<tool>`.
        request: The method and the parameters that the server sent.

    Raises `BadElicitation`.
    """
    if request.get("method") != ELICIT:
        raise BadElicitation(f"it asks for {request.get('method')}, and Holdfast answers only {ELICIT}")
    params = request.get("params") or {}
    server = tool.removeprefix("mcp:").partition("/")[0]
    text = str(params.get("message") or "").strip()
    if not text:
        raise BadElicitation("it has no message")
    # People must see which server wants to know: the text is the server's own.
    message, info = f"{server} asks: {text}", {"server": server, "tool": tool}
    if params.get("mode") == "url":
        url, host = _checked_url(params.get("url"))
        return OpenLink(message=message, info={**info, "host": host, "url": url})
    return Elicitation(message=message, info=info, form=_checked_form(params.get("requestedSchema")))


def response_to(asked: Asked, answer: InterruptAnswer) -> JSONObject:
    """Return the result of an elicitation for the server; of a page to open it holds no content."""
    if answer.action != "accept" or asked.says_no(answer.content):
        return {"action": "decline" if answer.action == "accept" else answer.action}
    return {"action": "accept"} if asked.link is not None else {"action": "accept", "content": answer.content}


def _checked_url(url: JSON) -> tuple[str, str]:
    """Return the address of a page, and its host. Raises `BadElicitation` for one that no browser should open."""
    if not isinstance(url, str) or not url.isascii() or re.search(r"[\s\x00-\x1f\x7f<>\"`{}|\\^]", url):
        raise BadElicitation("url: it is not an address of printable ASCII characters")
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        raise BadElicitation(f"url: {error}") from None
    if host is None or parts.scheme not in ("https", "http"):
        raise BadElicitation("url: it is not an https:// address")
    if parts.username is not None or parts.password is not None:
        raise BadElicitation("url: it holds a user or a password, which hides the host")
    if parts.scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        raise BadElicitation("url: http:// is for this machine only; use https://")
    return url, host


def _checked_form(schema: JSON) -> JSONObject:
    """Return the schema of a form. Raises `BadElicitation` with the place of what no form may ask for."""
    place = "requestedSchema"
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise BadElicitation(f"{place}: it must be of type object")
    fields = schema.get("properties", {})
    if not isinstance(fields, dict):
        raise BadElicitation(f"{place}.properties: it must be an object")
    for name, field in fields.items():
        for problem in _find_problems(name, field):
            raise BadElicitation(f"{place}.properties.{one_line(name)}: {problem}")
    try:
        validator(schema)
    except BadSchema as error:
        raise BadElicitation(f"{place}: it is not a JSON Schema: {error}") from None
    return schema


def _find_problems(name: str, field: JSON) -> Iterator[str]:
    """Yield why a form may not have this field; the protocol allows plain values and choices of several texts."""
    if not isinstance(field, dict):
        yield "it must be an object"
        return
    if _is_secret(name, field):
        yield "it asks for a secret in a form, and histories keep the answers to forms; the server must use mode url"
    type_ = field.get("type")
    if type_ is not None and type_ != "array" and type_ not in PLAIN_TYPES:
        yield f"type {type_!r}: a form has fields of type {', '.join(PLAIN_TYPES)}, and arrays of texts to choose"
    items = field.get("items")
    if type_ == "array" and not (isinstance(items, dict) and items.keys() & {"enum", "anyOf", "oneOf"}):
        yield "an array needs items.enum or items.anyOf with the texts to choose from"


def _is_secret(name: str, field: Mapping[str, JSON]) -> bool:
    marked = field.get("format") == "password" or field.get("writeOnly") is True
    return marked or _SECRET_NAMES.fullmatch(re.sub(r"[^a-z]", "", name.casefold())) is not None
