"""Files of the worker that people and models get as attachments: only those below the folders of the configuration."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path

from temporalio import activity

from holdfast.activities.attempts import run_attempt
from holdfast.activities.registry import wrong
from holdfast.protocol.activity_request import FileRequest
from holdfast.protocol.attachments import LARGEST_ATTACHMENT, READ_FILE, AttachmentContent


class FileActivities:
    """The activity that reads a file.

    Args:
        folders: The folders that it may read from, absolute; none: it reads nothing.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = [folder.resolve() for folder in folders]

    @activity.defn(name=READ_FILE)
    async def read_file(self, request: FileRequest) -> AttachmentContent:
        """Return the content of a file. Raises a failure `attachment_refused` or `attachment_missing`."""
        async with run_attempt(request):
            return AttachmentContent(data=base64.b64encode(await self.content(request.path)).decode())

    async def content(self, path: str) -> bytes:
        """Return the bytes of a file; see `read_file`."""
        return await asyncio.to_thread(self._read, path)

    def _read(self, named: str) -> bytes:
        path = self._resolve_allowed(named)
        try:
            with path.open("rb") as file:
                content = file.read(LARGEST_ATTACHMENT + 1)
        except OSError as error:
            raise wrong("attachment_missing", f"{named}: {error.strerror}") from None
        if len(content) > LARGEST_ATTACHMENT:
            raise wrong("attachment_too_large", f"{named}: more than {LARGEST_ATTACHMENT:,} bytes")
        return content

    def _resolve_allowed(self, named: str) -> Path:
        """Return the file, with links resolved, if it lies below one of the folders."""
        if not self._folders:
            text = "this worker may not show files; list folders as attachments in [worker] of its holdfast.toml"
            raise wrong("attachment_refused", f"{named}: {text}")
        for folder in self._folders:
            try:
                path = (folder / named).resolve()
            except (OSError, ValueError):  # a loop of links, a NUL
                continue
            if path.is_relative_to(folder) and path.is_file():
                return path
        # One message for what lies outside and for what is not there: it must not tell which files there are.
        raise wrong("attachment_missing", f"{named}: there is no such file below the folders of [worker] attachments")
