"""The notifier of a web server: its channels from the configuration, its people, its links to the pages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import partial
from urllib.parse import quote

from holdfast.blueprint.json_values import JSON
from holdfast.client.answering import Sender
from holdfast.server.notices.addressees import SignedIn
from holdfast.server.notices.channels import channels_of, usable_channels
from holdfast.server.notices.notice import Contact, Notice
from holdfast.server.notices.notifier import Notifier
from holdfast.server.notices.outbox import remember_sign_in
from holdfast.server.record.store import RecordStore
from holdfast.server.web.addresses import question_path
from holdfast.server.web.links import link_url
from holdfast.server.web.site import Site
from holdfast.server.web.upkeep import book_of

OPEN_KINDS = ("asked", "reminded", "escalated", "accepted", "unreachable")
"""Kinds of notices of an open question, whose page a link shows; that of a closed one is for who has signed in."""

ADDRESS, LANGUAGE = r"[^@\s<>,;]+@[^@\s<>,;]+", r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*"
"""The forms of claims that are kept; other ones are left out."""


def notifier_of(site: Site, store: RecordStore, *, strict: bool = True) -> Notifier | None:
    """Return the notifier of a site; None if it has no channel.

    Raises `ConfigError` if a channel cannot be used; without `strict` such a one is left out.
    """
    channels = channels_of(site.config) if strict else usable_channels(site.config)
    if not channels.by_name:
        return None
    namespace = site.runs.client.namespace
    book, links = partial(book_of, site.config, store), partial(link_of, site)
    return Notifier(store, namespace, channels, book, links, f"{site.address}/")


def link_of(site: Site, notice: Notice, contact: Contact | None) -> str:
    """Return the link of a notice: one person's own to an open question, or the address of a page."""
    question = notice.question_id
    if question is None:
        return f"{site.address}/runs/{quote(notice.run, safe='')}"
    if contact is not None and notice.kind in OPEN_KINDS:
        return link_url(site, contact.user, notice.run, question)
    return f"{site.address}{question_path(notice.run, question)}"


async def remember(site: Site, sender: Sender, claims: Mapping[str, JSON]) -> None:
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
    person = SignedIn(sender.user, email, _text(claims.get("locale"), LANGUAGE), sender.groups)
    await asyncio.to_thread(remember_sign_in, site.record.store, person)


def _text(value: JSON, pattern: str) -> str | None:
    return value if isinstance(value, str) and re.fullmatch(pattern, value) else None
