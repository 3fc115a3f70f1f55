"""The attachments of a step: for people rendered, decoded, or read by an activity; for a model rendered only."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import AttachmentSource, Hitl, PlainStep
from holdfast.blueprint.kinds.attachments import MODEL_TYPES, ModelAttachment, decode_base64, is_model_type, is_web
from holdfast.protocol.agents import Message, MessageFile
from holdfast.protocol.attachments import LARGEST_ATTACHMENT, LARGEST_INLINE, AttachedData, Attachment, guess_type
from holdfast.protocol.display import one_line
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame

LONGEST_NAME = 200


def add_files(messages: Sequence[Message], step: PlainStep, frame: Frame) -> list[Message]:
    """Return the messages with the step's attachments beside the last one of the user."""
    if not step.attachments:
        return list(messages)
    files = [_make_file(n, source, step, frame) for n, source in enumerate(step.attachments, 1)]
    inline = sum(len(file.text or file.data or "") for file in files)
    if inline > LARGEST_INLINE:
        message = f"{step.name}: its attachments have {inline:,} characters inline, over {LARGEST_INLINE:,}; give a "
        raise failure("attachment_too_large", message + "`file` of the worker, or a `url`", frame.address)
    *before, last = messages
    if last.role == "user":
        return [*before, last.model_copy(update={"files": files})]
    return [*messages, Message(role="user", content="", files=files)]


def _make_file(n: int, source: ModelAttachment, step: PlainStep, frame: Frame) -> MessageFile:
    name = _render_name(n, source, frame)
    kind = _choose_type(name, source)
    if not is_model_type(kind):
        message = f"{step.name}: the attachment {name} is {kind}, and {MODEL_TYPES}; name its `type`"
        raise failure("bad_attachment", message, frame.address)
    if source.data is not None:
        content = _decode(frame.render(source.data), name, step, frame)
        return MessageFile(name=name, type=kind, data=base64.b64encode(content).decode())
    template = source.text if source.text is not None else source.file if source.file is not None else source.url
    value = write_text(frame.render(template))
    if source.url is not None and not is_web(value):
        message = f"{step.name}: the attachment {name} is at {value[:200]!r}, which is not a web address"
        raise failure("bad_attachment", message, frame.address)
    key = "text" if source.text is not None else "file" if source.file is not None else "url"
    return MessageFile.model_validate({"name": name, "type": kind, key: value})


async def read_attachments(step: Hitl, frame: Frame) -> Sequence[AttachedData]:
    """Return the attachments of a step with their contents. Raises a failure for one that cannot be shown."""
    return [await _read_attachment(n, source, step, frame) for n, source in enumerate(step.attachments, 1)]


async def _read_attachment(n: int, source: AttachmentSource, step: Hitl, frame: Frame) -> AttachedData:
    name = _render_name(n, source, frame)
    content = await _read_content(name, source, step, frame)
    if len(content) > LARGEST_ATTACHMENT:
        message = f"{step.name}: the attachment {name} has more than {LARGEST_ATTACHMENT:,} bytes"
        raise failure("attachment_too_large", message, frame.address)
    kind = _choose_type(name, source)
    digest = hashlib.sha256(content).hexdigest()[:16]
    return AttachedData(Attachment(n=n, name=name, type=kind, bytes=len(content), digest=digest), content)


async def _read_content(name: str, source: AttachmentSource, step: Hitl, frame: Frame) -> bytes:
    if source.text is not None:
        return write_text(frame.render(source.text)).encode()
    if source.file is not None:
        path = write_text(frame.render(source.file))
        work = frame.host.activities.read_file(path, frame.address, summary=frame.summary(f"read {name}"))
        data = await frame.spend(work)
    else:
        data = frame.render(source.data)
    return _decode(data, name, step, frame)


def _render_name(n: int, source: AttachmentSource, frame: Frame) -> str:
    return one_line(write_text(frame.render(source.name)))[:LONGEST_NAME].strip() or f"attachment-{n}"


def _choose_type(name: str, source: AttachmentSource) -> str:
    return source.type or guess_type(name, "application/octet-stream" if source.text is None else "text/plain")


def _decode(data: JSON, name: str, step: Hitl | PlainStep, frame: Frame) -> bytes:
    content = decode_base64(data) if isinstance(data, str) else None
    if content is None:
        message = f"{step.name}: the data of the attachment {name} is not base64; give text as `text`"
        raise failure("bad_attachment", message, frame.address)
    return content
