"""Webhooks that start runs and bring events: `POST /hooks/{name}`, as `[hooks.NAME]` of the configuration says.

Each is signed by its sender, as Standard Webhooks sign, or by an HMAC of the body in one header, and names nobody: it
acts as a service of its own, which may not consent to anything.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.expressions.error import ExpressionError, did_you_mean
from holdfast.blueprint.expressions.evaluation import names_in, render
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Blueprint
from holdfast.client.answering import Sender
from holdfast.client.catalogue import find_offered
from holdfast.client.history import read_input
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Refusal
from holdfast.protocol.incoming import SystemEvent, read_event
from holdfast.protocol.names import join_run_id
from holdfast.protocol.values import make_digest
from holdfast.runtime.config import Config, ConfigError, HookSection
from holdfast.runtime.errors import BadInput, RunExists
from holdfast.server.notices.transports import BadSecret, read_webhook_secrets
from holdfast.server.web.gate import Rate, find_gate, find_peer
from holdfast.server.web.problems import EXPECTED_ERRORS, Unfit, make_problem
from holdfast.server.web.requests import parse_json, read_measured
from holdfast.server.web.site import Site, find_site

Scheme = Literal["standard", "hmac-sha256"]
NAMES = ("body", "headers")
"""What templates of a hook see; the names of headers are in small letters."""


def read_secrets(text: str, scheme: Scheme) -> list[bytes]:
    """Return the secrets of a variable, several while they are being changed. Raises `BadSecret`."""
    return read_webhook_secrets(text) if scheme == "standard" else [word.encode() for word in text.split()]


def check_standard(secrets: Sequence[bytes], headers: Mapping[str, str], body: bytes, tolerance: float) -> str:
    """Return the id of a webhook. Raises `HTTPException` 401 unless it was signed with a secret, and lately."""
    id_, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not id_ or not (sent.isdecimal() and len(sent) < 16):
        raise _make_unsigned("the headers webhook-id, webhook-timestamp and webhook-signature")
    content = f"{id_}.{sent}.".encode() + body
    expected = [base64.b64encode(hmac.digest(secret, content, "sha256")) for secret in secrets]
    sent_signatures = [
        word.removeprefix("v1,") for word in headers.get("webhook-signature", "").split() if word[:3] == "v1,"
    ]
    if not _any_equal(expected, sent_signatures):
        raise HTTPException(401, "the signature was not made with the secret of this hook, for this body")
    if abs(time.time() - int(sent)) > tolerance:
        raise HTTPException(401, f"webhook-timestamp is more than {tolerance:.0f} s off: it is old, or a clock wrong")
    return id_


def check_hmac(secrets: Sequence[bytes], header: str, headers: Mapping[str, str], body: bytes) -> None:
    """Raise `HTTPException` 401 unless a header holds the HMAC-SHA256 of the body in hex, perhaps after `sha256=`."""
    value = headers.get(header, "")
    if not value:
        raise _make_unsigned(f"the header {header}")
    expected = [hmac.digest(secret, body, "sha256").hex().encode() for secret in secrets]
    if not _any_equal(expected, [value.removeprefix("sha256=").lower()]):
        raise HTTPException(401, "the signature was not made with the secret of this hook, for this body")


def _any_equal(expected: Sequence[bytes], received: Sequence[str]) -> bool:
    """Return whether one of the signatures is right. The time that it takes does not depend on them."""
    pairs = [(signature, other) for signature in expected for other in received]
    # A list: without it `any` would stop at the first that is equal.
    return any([hmac.compare_digest(signature, other.encode()) for signature, other in pairs])


def _make_unsigned(what: str) -> HTTPException:
    return HTTPException(401, f"this webhook is not signed: send {what}")


@dataclass(frozen=True)
class Hook:
    """A configured hook, ready to receive."""

    name: str
    settings: HookSection
    secrets: list[bytes]
    rate: Rate

    @property
    def sender(self) -> Sender:
        """The service that it acts as."""
        return Sender(f"user:hook-{self.name}", proof="service")

    def check_signature(self, headers: Mapping[str, str], body: bytes) -> str | None:
        """Return the id that the signature covers, if it covers one. Raises `HTTPException` 401."""
        if self.settings.signature == "standard":
            return check_standard(self.secrets, headers, body, self.settings.tolerance)
        check_hmac(self.secrets, self.settings.signature_header or "", headers, body)
        return None

    def read_id(self, signed: str | None, names: JSONObject) -> str:
        """Return the id of what was sent: the same each time that it is sent. Raises `Unfit`."""
        id_ = signed if self.settings.id is None else write_text(self.render("id", self.settings.id, names))
        if not id_ or len(id_) > 200:
            raise Unfit([("id", "must be a text of 1 to 200 characters, the same each time that this is sent")])
        return id_

    def render(self, key: str, template: object, names: JSONObject) -> JSON:
        """Return a template of the hook filled in. Raises `Unfit` with its key."""
        try:
            return render(template, names)
        except ExpressionError as error:
            raise Unfit([(f"hooks.{self.name}.{key}", str(error))], "invalid_answer") from None


def load_hooks(config: Config, *, strict: bool = True) -> dict[str, Hook]:
    """Return the hooks of a configuration, each checked. Raises `ConfigError` with every problem, its key and place.

    Args:
        config: The configuration.
        strict: False leaves out the hooks that cannot be used, and says so in the log.
    """
    problems = {
        name: [*find_problems(config, name, settings), *_find_secret_problems(config, name, settings)]
        for name, settings in config.hooks.items()
    }
    file = config.path or "holdfast.toml"
    text = "\n".join(f"{file}: hooks.{problem}" for found in problems.values() for problem in found)
    if text and strict:
        raise ConfigError(text)
    if text:
        log.warning("hooks that cannot be used are left out: %s", text)
    return {name: _make_hook(config, name, config.hooks[name]) for name, found in problems.items() if not found}


def _make_hook(config: Config, name: str, settings: HookSection) -> Hook:
    secret = config.variable(f"hooks.{name}.secret_env", settings.secret_env)
    rate = Rate(max(10, settings.per_minute // 6), settings.per_minute)
    return Hook(name, settings, read_secrets(secret, settings.signature), rate)


def find_problems(config: Config, name: str, settings: HookSection) -> Iterator[str]:
    """Yield what is wrong with a hook beside its own keys and its secret: its templates, its blueprint, its input."""
    for key, template in settings.templates.items():
        try:
            unknown = sorted({chain[0] for chain in names_in(template)} - {*NAMES})
        except ExpressionError as error:
            yield f"{name}.{key}: {error}"
            continue
        if unknown:
            yield f"{name}.{key}: unknown name {unknown[0]!r}; there are: {', '.join(NAMES)}"
    try:
        if settings.blueprint is not None:
            yield from _find_input_problems(name, settings, find_offered(config, settings.blueprint).read())
    except (BadInput, BlueprintError) as error:
        yield f"{name}.blueprint: {error}"


def _find_input_problems(name: str, settings: HookSection, blueprint: Blueprint) -> Iterator[str]:
    """Yield the keys that the hook's input lacks or has too many, for a blueprint whose input is an object."""
    schema = blueprint.inputs or {}
    if not isinstance(settings.input, dict):  # what a template gives is known when a webhook comes
        return
    for key in schema.get("required", []):
        if key not in settings.input:
            yield f"{name}.input: {key!r} is missing, which the inputs of {blueprint.name} require"
    if schema.get("additionalProperties") is False:
        inputs = list(schema.get("properties", {}))
        for key in settings.input:
            if key not in inputs:
                hint = did_you_mean(key, inputs) or f"there are: {', '.join(inputs) or 'none'}"
                yield f"{name}.input: {key!r} is not one of the inputs of {blueprint.name} ({hint})"


def _find_secret_problems(config: Config, name: str, settings: HookSection) -> Iterator[str]:
    try:
        _make_hook(config, name, settings)
    except BadSecret as error:
        yield f"{name}.secret_env: {settings.secret_env} {error}"
    except ConfigError as error:
        yield str(error).partition("hooks.")[2]


def find_local_problems(config: Config) -> list[str]:
    """Return what is wrong with the hooks of a configuration; their secrets only as far as this machine has them."""
    return [
        problem
        for name, settings in config.hooks.items()
        for problem in (
            *find_problems(config, name, settings),
            *(_find_secret_problems(config, name, settings) if os.environ.get(settings.secret_env) else ()),
        )
    ]


def find_blueprint_problems(config: Config, file: Path) -> list[str]:
    """Return what is wrong with the hooks that start the blueprint in a file, beside their secrets."""
    problems: list[str] = []
    for name, settings in config.hooks.items():
        if settings.blueprint is not None and _starts(config, settings.blueprint, file):
            problems += find_problems(config, name, settings)
    return problems


def _starts(config: Config, name: str, file: Path) -> bool:
    """Return whether a blueprint that a hook names is the one in a file; False if there is none of this name."""
    try:
        return Path(find_offered(config, name).path).resolve() == file.resolve()
    except BadInput:
        return False


async def look_up_hooks(site: Site) -> list[str]:
    """Return what the blueprints of the hooks name and no worker has. Raises `ConfigError` for hooks with problems."""
    problems: list[str] = []
    for name, hook in load_hooks(site.config).items():
        if hook.settings.blueprint is not None:
            blueprint = (await asyncio.to_thread(find_offered, site.config, hook.settings.blueprint)).read()
            checked = await site.runs.look_up(blueprint)
            problems += [f"hooks.{name}.blueprint: {problem}" for problem in checked.problems]
    return problems


async def receive(request: Request) -> Response:
    """Take a webhook: start a run, or send an event. Its sender repeats it until it gets a status below 300."""
    try:
        return await _handle(request)
    except EXPECTED_ERRORS as error:
        return make_problem(error).response()


async def _handle(request: Request) -> Response:
    site, name = find_site(request), request.path_params["name"]
    hook = request.app.state.hooks.get(name)
    if hook is None:
        find_gate(request).attempts.check(find_peer(request))
        raise HTTPException(404, f"there is no hook {name[:60]!r}")
    limits = site.runs.answering.limits
    limit = limits.input if hook.settings.blueprint is not None else limits.answer
    data = await read_measured(request, limit)
    try:
        signed = hook.check_signature(request.headers, data)
    except HTTPException:
        find_gate(request).attempts.check(find_peer(request))
        raise
    hook.rate.check("")
    names: JSONObject = {"body": parse_json(data, limit), "headers": dict(request.headers)}
    id_ = hook.read_id(signed, names)
    runs = site.runs.acting_as(hook.sender)
    return await (_start if hook.settings.blueprint is not None else _bring)(site, runs, hook, id_, names)


async def _start(site: Site, runs: Runs, hook: Hook, id_: str, names: JSONObject) -> Response:
    """Start a run whose id follows from that of the webhook: one that is repeated finds it there."""
    blueprint = await asyncio.to_thread(lambda: find_offered(site.config, hook.settings.blueprint or "").read())
    value = hook.render("input", hook.settings.input, names)
    run = join_run_id(hook.name, f"-{make_digest(hook.name, id_)}")
    try:
        await runs.start(blueprint, value, run=run, started_by=hook.sender.user, check=True)
    except RunExists:
        before = await read_input(runs.client, run)
        if (before.input, before.started_by) != (value, hook.sender.user):
            message = f"another webhook came under the id {id_[:60]!r}, and started run {run}"
            raise Refusal("key_conflict", message) from None
        return JSONResponse({"run": run}, 200)
    return JSONResponse({"run": run}, 201)


async def _bring(site: Site, runs: Runs, hook: Hook, id_: str, names: JSONObject) -> Response:
    """Send an event to the run that the hook names, or to those that wait for it."""
    filled = partial(hook.render, names=names)
    settings = hook.settings
    event = _make_event(hook, id_, write_text(filled("key", settings.key)), filled("payload", settings.payload))
    if settings.run is not None:
        run = write_text(filled("run", settings.run))
        receipt = await runs.external_events.send(run, event.name, event.key, event.payload, id=event.id)
        return JSONResponse([receipt.model_dump(mode="json")])
    replies = await site.delivery.deliver(runs, event)
    return JSONResponse([reply.model_dump(mode="json") for reply in replies])


def _make_event(hook: Hook, id_: str, key: str, payload: JSON) -> SystemEvent:
    id_ = make_digest(hook.name, id_) if len(hook.name) + len(id_) > 140 else id_
    return read_event({"name": hook.settings.event, "key": key, "payload": payload, "id": f"{hook.name}:{id_}"})


log = logging.getLogger(__name__)
HOOK_ROUTES: list[BaseRoute] = [Route("/hooks/{name}", receive, methods=["POST"])]
