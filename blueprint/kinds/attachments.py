"""Files and data that a step gives to people beside a question, or to a model beside its input."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from holdfast.blueprint.expressions.parse import is_plain
from holdfast.blueprint.findings import Findings
from holdfast.blueprint.parts import Part, Template


class AttachmentSource(Part):
    """A file or data that people see beside a question; exactly one of `text`, `data` and `file`."""

    name: Template = Field(description="Its name, with an ending.", examples=["contract-{{ input.number }}.pdf"])
    type: str | None = Field(
        None,
        pattern=r"^[a-z]+/[A-Za-z0-9.+-]+$",
        description="Its media type; default: by the ending of the name.",
        examples=["application/pdf"],
    )
    text: Template | None = Field(None, description="Its content as text.", examples=["{{ steps.draft.output }}"])
    data: Template | None = Field(
        None, description="Its content in base64, which may be wrapped in lines.", examples=["{{ input.scan }}"]
    )
    file: Template | None = Field(
        None,
        description="A file of the worker, below the folders of `[worker] attachments`.",
        examples=["contracts/{{ input.number }}.pdf"],
    )

    contents: ClassVar[tuple[str, ...]] = ("text", "data", "file")
    """The keys of which exactly one is given."""


class ModelAttachment(AttachmentSource):
    """A file or data that a model sees beside its input; exactly one of `text`, `data`, `file` and `url`."""

    contents: ClassVar[tuple[str, ...]] = ("text", "data", "file", "url")

    url: Template | None = Field(
        None,
        description="Where it lies on the web; the provider reads it there, or the worker does.",
        examples=["{{ input.photo_url }}"],
    )


def check_contents(sources: Sequence[AttachmentSource], path: str, findings: Findings) -> None:
    """Report attachments that have no content, or several."""
    for index, source in enumerate(sources):
        keys = [key for key in source.contents if getattr(source, key) is not None]
        if len(keys) != 1:
            problem = f"has {' and '.join(keys)}" if keys else "has no content"
            *first, last = ("data (base64)" if key == "data" else key for key in source.contents)
            hint = f"write one of {', '.join(first)} and {last}"
            findings.add(f"{path}.attachments[{index}]", "bad_value", f"the attachment {problem}", hint)
        if isinstance(source.data, str) and is_plain(source.data) and decode_base64(source.data) is None:
            hint = "write what is text under text, and what the worker reads under file"
            findings.add(f"{path}.attachments[{index}].data", "bad_value", "the data is not base64", hint)


def check_model_types(sources: Sequence[ModelAttachment], path: str, findings: Findings) -> None:
    """Report attachments whose constant type no model takes."""
    for index, source in enumerate(sources):
        if source.type is not None and not is_model_type(source.type):
            findings.add(f"{path}.attachments[{index}].type", "bad_value", f"no model takes {source.type}", MODEL_TYPES)
        if isinstance(source.url, str) and is_plain(source.url) and not is_web(source.url):
            message = f"{source.url!r} is not a web address"
            findings.add(f"{path}.attachments[{index}].url", "bad_value", message, "write https://…")


MODEL_TYPES = "models take images (png, jpeg, gif, webp), application/pdf, text and JSON"
_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "application/json")


def is_model_type(kind: str) -> bool:
    """Return whether some model takes files of a media type.

    >>> is_model_type("text/markdown"), is_model_type("application/zip")
    (True, False)
    """
    return kind in _TYPES or kind.startswith("text/")


def decode_base64(text: str) -> bytes | None:
    """Return what a text stands for, which may be wrapped in lines; None if it is not base64.

    >>> decode_base64("aGVs\\nbG8="), decode_base64("hello")
    (b'hello', None)
    """
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (ValueError, binascii.Error):
        return None


def is_web(url: str) -> bool:
    """Return whether a text is an address on the web."""
    return url.startswith(("https://", "http://"))
