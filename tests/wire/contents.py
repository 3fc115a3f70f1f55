"""What each API takes beside text: images, documents, marks for its cache, and the format of an output."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_URL = re.compile(r"https?://\S+")
_DATA = re.compile(r"data:(?P<type>[\w/.+-]+);base64,(?P<data>.*)", re.DOTALL)
_MOST_BREAKPOINTS = 4
_TTLS = ("5m", "1h")


def _is_base64(data: Any) -> bool:
    try:
        return bool(isinstance(data, str) and base64.b64decode(data, validate=True))
    except binascii.Error:
        return False


def _data_url(url: Any, types: tuple[str, ...]) -> bool:
    match = _DATA.fullmatch(url) if isinstance(url, str) else None
    return match is not None and match["type"] in types and _is_base64(match["data"])


def _image_url_problem(url: Any, place: str) -> Iterator[str]:
    if not (_data_url(url, IMAGES) or (isinstance(url, str) and _URL.fullmatch(url))):
        yield f"Invalid '{place}.image_url': expected a valid URL or base64 of png, jpeg, gif or webp."


def chat_part_problems(part: Any, place: str) -> Iterator[str]:
    """A part of a user's message in chat completions."""
    match part.get("type"):
        case "text":
            if not isinstance(part.get("text"), str):
                yield f"Invalid type for '{place}.text': expected a string."
        case "image_url":
            yield from _image_url_problem(part.get("image_url", {}).get("url"), place)
            if part["image_url"].keys() - {"url", "detail"}:
                yield f"Unknown parameter: '{place}.image_url'."
        case "file":
            file = part.get("file", {})
            if not file.get("filename") or not _data_url(file.get("file_data"), ("application/pdf",)):
                yield f"Invalid '{place}.file': expected 'filename' and a base64-encoded data URL of a PDF."
        case kind:
            yield f"Invalid value: '{kind}'. Supported values are: 'text', 'image_url', 'input_audio', and 'file'."


def responses_part_problems(part: Any, place: str) -> Iterator[str]:
    """A part of a message in responses."""
    match part.get("type"):
        case "input_text" | "output_text" | "refusal":
            pass
        case "input_image":
            yield from _image_url_problem(part.get("image_url"), place)
            if part.get("detail", "auto") not in ("auto", "low", "high"):
                yield f"Invalid value: '{place}.detail'."
        case "input_file":
            by_url = isinstance(part.get("file_url"), str) and "filename" not in part
            by_data = part.get("filename") and _data_url(part.get("file_data"), ("application/pdf",))
            if not (by_url or by_data):
                yield f"Invalid '{place}': expected 'file_url', or 'file_data' with a 'filename'."
        case kind:
            yield f"Invalid value: '{kind}'. Supported values are: 'input_text', 'input_image', 'input_file', …"


def anthropic_file_problems(block: Any, place: str) -> Iterator[str]:
    """A block with an image or a document in messages."""
    source, kind = block.get("source", {}), block["type"]
    types = IMAGES if kind == "image" else ("application/pdf",)
    match source.get("type"):
        case "base64":
            if source.get("media_type") not in types:
                wanted = ", ".join(f"'{one}'" for one in types)
                yield f"{place}.{kind}.source.base64.media_type: Input should be {wanted}"
            if not _is_base64(source.get("data")):
                yield f"{place}.{kind}.source.base64: invalid base64 data"
        case "url":
            if not _URL.fullmatch(source.get("url", "")):
                yield f"{place}.{kind}.source.url.url: Only HTTPS URLs are supported."
        case "text" if kind == "document":
            if source.get("media_type") != "text/plain":
                yield f"{place}.document.source.text.media_type: Input should be 'text/plain'"
        case other:
            yield f"{place}.{kind}.source: Input tag '{other}' found does not match any of the expected tags"


def cache_problems(body: Any) -> Iterator[str]:
    """The marks for the cache of messages: at most four, and the longer ones first."""
    blocks = [*body.get("tools", []), *(body["system"] if isinstance(body.get("system"), list) else [])]
    for message in body.get("messages", []):
        blocks += message["content"] if isinstance(message["content"], list) else []
    marks = [block["cache_control"] for block in [*blocks, body] if "cache_control" in block]
    if len(marks) > _MOST_BREAKPOINTS:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
    for mark in marks:
        if mark.get("type") != "ephemeral" or mark.get("ttl", "5m") not in _TTLS or mark.keys() - {"type", "ttl"}:
            yield "cache_control.ephemeral.ttl: Input should be '5m' or '1h'"
    lasting = [_TTLS.index(mark.get("ttl", "5m")) for mark in marks]
    if lasting != sorted(lasting, reverse=True):
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
    for block in blocks:
        if "cache_control" in block and block.get("type") == "text" and not block["text"].strip():
            yield "cache_control cannot be set for empty text blocks"


def anthropic_format_problems(form: Any) -> Iterator[str]:
    """The format of an output in messages: objects are closed."""
    if form.get("type") != "json_schema" or form.keys() - {"type", "schema"}:
        yield "output_config.format: Extra inputs are not permitted, or not of type 'json_schema'"
    for node in _objects(form.get("schema")):
        if node.get("additionalProperties") is not False:
            yield "output_config.format.schema: For 'object' type, 'additionalProperties' must be set to false"


def _objects(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for value in node.values():
            yield from _objects(value)
    for item in node if isinstance(node, list) else ():
        yield from _objects(item)


def google_file_problems(part: Any) -> Iterator[str]:
    """A part with a file in generateContent."""
    inline = part.get("inlineData")
    if inline is None:
        return
    kind = inline.get("mimeType", inline.get("mime_type", ""))
    if kind not in (*IMAGES, "application/pdf") or kind == "image/gif":
        yield f"Unsupported MIME type: {kind}"
    if not _is_base64(inline.get("data")):
        yield "Base64 decoding failed for inlineData"
