"""Files beside a message, as pydantic-ai's parts, and whether a model takes them. Used to build requests."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import get_args

from pydantic_ai.messages import BinaryContent, DocumentMediaType, DocumentUrl, ImageUrl, UserContent

from holdfast.activities.providers.schemas import ProviderModel
from holdfast.activities.registry import wrong
from holdfast.blueprint.expressions.values import write_text
from holdfast.protocol.agents import Message, MessageFile, ModelRequest

_IMAGE = "image/"


def make_prompt(message: Message) -> str | Sequence[UserContent]:
    """Return the content of a user's message: its text, or the text with its files, each after its name."""
    text = write_text(message.content)
    if not message.files:
        return text
    return [*([text] if text.strip() else []), *(part for file in message.files for part in _parts(file))]


def _parts(file: MessageFile) -> Iterator[UserContent]:
    if _is_text(file):
        # As text, which every model takes; few take it as a document.
        yield f"{file.name}:\n{_text(file)}"
        return
    yield f"{file.name}:"
    if file.url is None:
        yield BinaryContent(base64.b64decode(file.data or ""), media_type=file.type)
    elif file.type.startswith(_IMAGE):
        yield ImageUrl(file.url, media_type=file.type)
    else:
        yield DocumentUrl(file.url, media_type=file.type)


def _is_text(file: MessageFile) -> bool:
    return file.url is None and (file.type.startswith("text/") or file.type == "application/json")


def _text(file: MessageFile) -> str:
    return file.text if file.text is not None else base64.b64decode(file.data or "").decode(errors="replace")


def check_files(model: ProviderModel, request: ModelRequest) -> None:
    """Raise `attachment_refused` for a file that the model cannot take."""
    for file in (file for message in request.messages for file in message.files if not _is_text(file)):
        if not _takes(model, file):
            kind = "images" if file.type.startswith(_IMAGE) else f"files of type {file.type}"
            text = f"{request.model} takes no {kind} ({file.name}); name a model that does, or give the text"
            raise wrong("attachment_refused", text)


def _takes(model: ProviderModel, file: MessageFile) -> bool:
    profile = model.profile
    if file.type.startswith(_IMAGE):
        return profile.get("supports_image_input", True)
    media_types: frozenset[str] = frozenset(get_args(DocumentMediaType))
    taken: frozenset[str] = profile.get("supported_document_media_types", media_types)
    return profile.get("supports_document_input", True) and (file.type in taken or file.type not in media_types)
