"""The activity that sends one request to a model, of any provider, with the files beside its messages."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING

from temporalio import activity
from temporalio.exceptions import ApplicationError

from holdfast.activities.agents import AgentActivities
from holdfast.activities.aliases import ModelAlias
from holdfast.activities.attempts import count_failures, refuse_local
from holdfast.activities.files import FileActivities
from holdfast.activities.imports import import_alone
from holdfast.activities.outputs import validate_reply
from holdfast.activities.registry import wrong
from holdfast.activities.scripted import check_script, reply_from
from holdfast.activities.sizes import storable
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.protocol import guard
from holdfast.protocol.agents import CALL_MODEL, Message, MessageFile, ModelReply, ModelRequest

if TYPE_CHECKING:
    from holdfast.activities.providers import Models


class ModelActivities:
    """The activity that calls models.

    Args:
        aliases: The models of the deployment, by the name that blueprints use.
        files: Reads the files that models see; None: there are none.
        agents: The agents of the team's own code; None: none.
    """

    def __init__(
        self,
        aliases: Mapping[str, ModelAlias],
        files: FileActivities | None = None,
        agents: AgentActivities | None = None,
    ) -> None:
        self._aliases, self._files = aliases, files or FileActivities([])
        self._agents = agents or AgentActivities((), aliases)
        self._models: Models | None = None

    @activity.defn(name=CALL_MODEL)
    async def call_model(self, request: ModelRequest) -> ModelReply:
        """Return the reply, its output checked against the schema. Failures are typed; final ones are not retried."""
        async with count_failures(request):
            reply = await self._reply(await with_contents(request, self._files))
            return storable(validate_reply(reply, request.output_schema), guard.DEPLOYMENT.limits.reply)

    async def _reply(self, request: ModelRequest) -> ModelReply:
        if request.use is not None:
            return await (await self._agents.objects()).reply(request, request.use)
        alias = self._aliases.get(request.model)
        target = alias or ModelAlias(request.model)
        provider, colon, rest = target.model.partition(":")
        if provider == "echo":
            return ModelReply(output=request.messages[-1].content)
        refuse_local(request.model)
        if provider == "scripted":
            return reply_from(rest, request)
        if not colon:
            raise self._make_unknown(request.model)
        return await (await self._providers()).reply(request, target, ours=alias is not None)

    async def check(self, name: str) -> None:
        """Raise what a request would raise before it is sent: for a missing model, package, key or script."""
        alias = self._aliases.get(name)
        target = alias or ModelAlias(name)
        provider, colon, rest = target.model.partition(":")
        if provider == "scripted":
            check_script(rest)
        elif provider != "echo":
            if not colon:
                raise self._make_unknown(name)
            await (await self._providers()).check(name, target, ours=alias is not None)

    def _make_unknown(self, name: str) -> ApplicationError:
        hint = did_you_mean(name, self._aliases)
        near = f"{hint} " if hint else ""
        return wrong("unknown_model", f"no model {name!r}; {near}this worker knows: {self._list_models()}")

    def _list_models(self) -> str:
        kinds = ("provider:NAME (such as openai:gpt-5.2)", "openai-compatible:NAME@URL", "scripted:FILE", "echo")
        return ", ".join([*sorted(self._aliases), *kinds])

    async def _providers(self) -> Models:
        if self._models is None:
            # Importing the library takes a second or more. On the first request, so that workers start fast; in a
            # thread, so that the heartbeats of other activities go on.
            module = await asyncio.to_thread(import_alone, "holdfast.activities.providers")
            self._models = self._models or module.Models()
        return self._models


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
