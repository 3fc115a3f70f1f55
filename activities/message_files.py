"""The files beside a model's messages: read where the worker has them, and checked before a provider sees them."""

from __future__ import annotations

import base64

from holdfast.activities.files import FileActivities
from holdfast.activities.registry import wrong
from holdfast.protocol.agents import Message, MessageFile, ModelRequest

_BEGINNINGS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
    "application/pdf": (b"%PDF-",),
}
"""How files of a type begin. What is something else would be refused by the provider, in words of its own."""


async def with_contents(request: ModelRequest, files: FileActivities) -> ModelRequest:
    """Return the request with the worker's files read. Raises `attachment_missing`, `bad_attachment` and the like."""
    if not any(message.files for message in request.messages):
        return request
    messages = [await _fill_in(message, files) for message in request.messages]
    return request.model_copy(update={"messages": messages})


async def _fill_in(message: Message, files: FileActivities) -> Message:
    return message.model_copy(update={"files": [await _read(file, files) for file in message.files]})


async def _read(file: MessageFile, files: FileActivities) -> MessageFile:
    if file.file is not None:
        data = base64.b64encode(await files.content(file.file)).decode()
        file = file.model_copy(update={"file": None, "data": data})
    _check(file)
    return file


def _check(file: MessageFile) -> None:
    """Raise `bad_attachment` for content that is not what its type says."""
    beginnings = _BEGINNINGS.get(file.type)
    if file.url is not None or beginnings is None:
        return
    content = base64.b64decode(file.data or "") if file.data is not None else (file.text or "").encode()
    if not content.startswith(beginnings):
        raise wrong("bad_attachment", f"{file.name}: its content is not {file.type}; correct its name or its type")
