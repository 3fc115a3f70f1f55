"""Files and data beside a question: what its view says of them, and their content, which is asked for one by one."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from holdfast.protocol.values import Value

ATTACHMENT = "attachment"
"""Name of the query for the content of one."""
READ_FILE = "read_attachment"
"""Name of the activity that reads a file of the worker."""
LARGEST_ATTACHMENT = 5 * 1024 * 1024
"""Bytes of one attachment. A large one needs the external store of payloads: it crosses in a query's result."""
LARGEST_INLINE = 512 * 1024
"""Characters of text and base64 that a step may give to a model: they travel with each of its requests."""
_TYPES = {
    "pdf": "application/pdf",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "txt": "text/plain",
    "log": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "json": "application/json",
    "html": "text/html",
}
"""Types by the ending of a name: Python's own table is that of the machine, and would differ on replay."""


class Attachment(Value):
    """An attachment, as the view of a question lists it."""

    n: int
    """Its number, from 1."""
    name: str
    type: str
    """Media type, such as `application/pdf`; it is what the author says, and nobody has looked at the content."""
    bytes: int
    digest: str
    """16 hex digits of the SHA-256 of the content."""


class AttachmentQuery(Value):
    """The argument of the query for the content of an attachment."""

    question: str
    """Id of the question."""
    n: int


class AttachmentContent(Value):
    """The content of an attachment; also the result of reading a file."""

    data: str | None = None
    """In base64; None: there is no such attachment, or its question is closed."""


@dataclass(frozen=True)
class AttachedData:
    """An attachment with its content, in the workflow that asks."""

    attachment: Attachment
    content: bytes

    @property
    def encoded(self) -> str:
        """The content in base64."""
        return base64.b64encode(self.content).decode()


def guess_type(name: str, default: str) -> str:
    """Return the media type that the ending of a name stands for.

    >>> guess_type("Contract.PDF", "text/plain"), guess_type("notes", "text/plain")
    ('application/pdf', 'text/plain')
    """
    return _TYPES.get(name.rpartition(".")[2].lower(), default) if "." in name else default
