"""The work of a web server beside its requests: it records what happens in the runs, and notifies people of it."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from holdfast.blueprint.json_values import JSON
from holdfast.client.answering import Sender
from holdfast.client.memory import QuestionMemory
from holdfast.runtime.config import ConfigError
from holdfast.server.notices.channels import KnownUser, make_channels, make_usable_channels
from holdfast.server.notices.notice import Contact, Notice
from holdfast.server.notices.notifier import Notifier
from holdfast.server.notices.outbox import remember_sign_in
from holdfast.server.record.record import Record
from holdfast.server.record.store import RecordStore
from holdfast.server.web.addresses import question_path
from holdfast.server.web.sign_in import make_link_url
from holdfast.server.web.site import Site, load_address_book

if TYPE_CHECKING:
    from holdfast.server.record.telemetry import SpanWriter

log = logging.getLogger(__name__)

OPEN_KINDS = ("asked", "reminded", "escalated", "accepted", "unreachable")
"""Kinds of notices of an open question, whose page a link shows; that of a closed one is for who has signed in."""

ADDRESS, LANGUAGE = r"[^@\s<>,;]+@[^@\s<>,;]+", r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*"
"""The forms of claims that are kept; other ones are left out."""
MEMORY_SECONDS = 2.0
"""Between two writings of the questions that were seen."""
COLLECTORS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""OpenTelemetry's own variables: one of them turns traces on; the exporter reads them and their like itself."""


def make_notifier(site: Site, store: RecordStore, *, strict: bool = True) -> Notifier | None:
    """Return the notifier of a site; None if it has no channel.

    Raises `ConfigError` if a channel cannot be used; without `strict` such a one is left out.
    """
    channels = make_channels(site.config) if strict else make_usable_channels(site.config)
    if not channels.by_name:
        return None
    namespace = site.runs.client.namespace
    book, links = partial(load_address_book, site.config, store), partial(make_link, site)
    return Notifier(store, namespace, channels, book, links, f"{site.address}/")


def make_link(site: Site, notice: Notice, contact: Contact | None) -> str:
    """Return the link of a notice: one person's own to an open question, or the address of a page."""
    question = notice.question_id
    if question is None:
        return f"{site.address}/runs/{quote(notice.run, safe='')}"
    if contact is not None and notice.kind in OPEN_KINDS:
        return make_link_url(site, contact.user, notice.run, question)
    return f"{site.address}{question_path(notice.run, question)}"


async def remember_claims(site: Site, sender: Sender, claims: Mapping[str, JSON]) -> None:
    """Keep what a sign-in says of a person, so that notices reach them; nothing where nobody is told of anything.

    Args:
        site: The site.
        sender: The person, with the groups that the sign-in proved.
        claims: Those of OpenID Connect; an `email` counts only if the provider has verified it.
    """
    if site.record is None or not site.config.notify.channels:
        return
    is_verified = claims.get("email_verified") is True
    email = _text(claims.get("email"), ADDRESS) if is_verified else None
    person = KnownUser(sender.user, email, _text(claims.get("locale"), LANGUAGE), sender.groups)
    await asyncio.to_thread(remember_sign_in, site.record.store, person)


def _text(value: JSON, pattern: str) -> str | None:
    return value if isinstance(value, str) and re.fullmatch(pattern, value) else None


@asynccontextmanager
async def run_background(site: Site, record: Record, *, strict: bool = True) -> AsyncIterator[None]:
    """Record and notify as long as the block runs.

    Raises `ConfigError`, before anything is started, if a channel cannot be used; without `strict` it is left out.
    """
    notifier = make_notifier(site, record.store, strict=strict)
    jobs = {
        "recorder": record.recorder(site.runs.tree, site.runs.task_queue).run(),
        "memory of questions": _write_memory(site.runs.answering.memory),
    }
    if notifier is not None:
        jobs["notifier"] = notifier.run()
    if (writer := _span_writer(site, record, strict=strict)) is not None:
        jobs["writer of spans"] = writer.run()
    tasks = [asyncio.create_task(job, name=name) for name, job in jobs.items()]
    for task in tasks:
        task.add_done_callback(_report)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _write_memory(memory: QuestionMemory) -> None:
    """Write what was seen now and then; after every list and every answer it took most of the server's time."""
    while True:
        await asyncio.sleep(MEMORY_SECONDS)
        try:
            memory.write()
        except OSError as error:
            log.warning("the questions seen last cannot be kept: %s", error)


def _span_writer(site: Site, record: Record, *, strict: bool) -> SpanWriter | None:
    """Return the job that sends traces; None where the environment names no collector. Raises `ConfigError`."""
    if not any(os.environ.get(name) for name in COLLECTORS):
        return None
    if importlib.util.find_spec("opentelemetry.exporter") is None:
        message = f"{' or '.join(COLLECTORS)} is set, and traces need more: pip install 'holdfast[telemetry]'"
        if strict:
            raise ConfigError(message)
        log.warning(message)
        return None
    from holdfast.server.record.telemetry import SpanWriter  # noqa: PLC0415 its libraries are an extra

    return SpanWriter(record.store, site.runs.client.namespace)


def _report(task: asyncio.Task[None]) -> None:
    """Log the end of a job that should have none: pages and API go on without it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the %s has ended; start serve again", task.get_name(), exc_info=error)
