"""The channels of a deployment, made of `[notify]`: each has a way to deliver, and says whose questions it tells of."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from holdfast.protocol.people import ANYONE
from holdfast.runtime.config import MAX_CONCURRENCY, Config, ConfigError, NoticeKind, NotifySection
from holdfast.server.notices.addressees import AddressBook, Assignee
from holdfast.server.notices.delivering import BadServiceUrl, MissingApprise, Program, Service, Way, Webhook
from holdfast.server.notices.messages import Messages
from holdfast.server.notices.notice import Contact
from holdfast.server.notices.signing import BadSecret, secrets_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Channel:
    """A channel, ready to deliver."""

    name: str
    way: Way
    events: Collection[NoticeKind]
    to: Sequence[str] | None = None
    """Whose questions; None: all."""
    max_concurrency: int = MAX_CONCURRENCY
    """Deliveries at the same time."""

    @property
    def asks(self) -> bool:
        """Return whether it tells people that they are asked, so that it is a way to reach them."""
        return "asked" in self.events

    def recipients(self, asked: Sequence[Assignee], book: AddressBook, *, by_name: bool) -> list[Contact | None]:
        """Return who is told of a question: one person after the other, or [None] for all at once; [] for nobody.

        Args:
            asked: The assignees; none if anyone may answer.
            book: The people.
            by_name: True if the question names this channel: then it counts for nothing whose questions it tells of.
        """
        contacts = [contact for assignee in asked for contact in self._contacts(assignee, book, by_name=by_name)]
        if not asked and (by_name or self.to is None or ANYONE in self.to):
            contacts = [book.contact(user) for user in book.users_of(name for name in self.to or () if name != ANYONE)]
            return list(self._reached(contacts)) if self.way.is_personal else [None]
        if self.way.is_personal:
            return list(self._reached(contacts))
        return [None] if any(self._concerns(assignee, book, by_name=by_name) for assignee in asked) else []

    def reaches(self, assignee: Assignee, book: AddressBook, *, by_name: bool) -> bool:
        """Return whether an assignee who is there learns of a question by this channel; see `recipients`."""
        if not self.asks:
            return False
        if not self.way.is_personal:
            return self._concerns(assignee, book, by_name=by_name)
        contacts = self._reached(self._contacts(assignee, book, by_name=by_name))
        return any(not contact.is_away for contact in contacts)

    def _concerns(self, assignee: Assignee, book: AddressBook, *, by_name: bool) -> bool:
        if assignee.is_barred:
            return False
        named = by_name or self.to is None or assignee.name in self.to
        return named or bool(self._contacts(assignee, book, by_name=by_name))

    def _contacts(self, assignee: Assignee, book: AddressBook, *, by_name: bool) -> list[Contact]:
        """Return those who are told for an assignee and whose questions this channel tells of."""
        if by_name or self.to is None:
            return list(assignee.contacts)
        users = {*book.users_of(self.to)}
        return [contact for contact in assignee.contacts if users & {contact.user, contact.instead_of}]

    def _reached(self, contacts: Sequence[Contact]) -> list[Contact]:
        """Return those of whom enough is known, each once."""
        by_user = {contact.user: contact for contact in reversed(contacts) if self.way.reaches(contact)}
        return list(by_user.values())[::-1]


@dataclass(frozen=True)
class Channels:
    """All channels of a deployment."""

    by_name: Mapping[str, Channel]
    fallback: str | None = None
    """The name of the channel that hears of people who cannot be reached."""


def channels_of(config: Config) -> Channels:
    """Return the channels that the configuration names.

    Raises:
        ConfigError: A variable is not set or holds nothing usable, a template fails, or Apprise is missing.
    """
    sections = config.notify.channels
    return Channels(
        {name: channel_of(config, name, section) for name, section in sections.items()}, config.notify.fallback
    )


def usable_channels(config: Config) -> Channels:
    """Return those of the channels that can be used; a line in the log says why another cannot."""
    usable: dict[str, Channel] = {}
    for name, section in config.notify.channels.items():
        try:
            usable[name] = channel_of(config, name, section)
        except ConfigError as error:
            log.warning("nobody is notified over the channel '%s': %s", name, error)
    return Channels(usable, config.notify.fallback if config.notify.fallback in usable else None)


def channel_of(config: Config, name: str, section: NotifySection) -> Channel:
    """Return one channel. Raises as `channels_of` does."""
    return Channel(name, _way(config, name, section), section.events, section.to, section.max_concurrency)


def _way(config: Config, name: str, section: NotifySection) -> Way:
    if section.webhook is not None:
        return Webhook(section.webhook, _secrets(config, name, section.secret_env))
    if section.command is not None:
        return Program(section.command, config.folder, section.env)
    assert section.apprise_env is not None, "a section has one of the three"
    folder = None if section.templates is None else config.folder / section.templates
    messages = Messages(folder)
    messages.check()
    key = f"notify.{name}.apprise_env"
    url = config.variable(key, section.apprise_env)
    try:
        return Service(url, messages, section.locale)
    except (BadServiceUrl, MissingApprise) as error:
        raise ConfigError(f"{config.path}: {key}: {section.apprise_env}: {error}") from None


def _secrets(config: Config, name: str, variable: str | None) -> list[bytes]:
    if variable is None:
        return []
    key = f"notify.{name}.secret_env"
    try:
        return secrets_of(config.variable(key, variable))
    except BadSecret as error:
        raise ConfigError(f"{config.path}: {key}: {variable}: {error}") from None


def described(section: NotifySection) -> str:
    """Return the kind of a channel in words, without what its variables hold.

    >>> described(NotifySection(command=["notify-send", "a b"]))
    "command notify-send 'a b'"
    """
    if section.webhook is not None:
        return f"webhook {_host_of(section.webhook)}{'' if section.secret_env else ' (unsigned)'}"
    if section.command is not None:
        return f"command {shlex.join(section.command)}"
    return f"the service of {section.apprise_env}"


def _host_of(url: str) -> str:
    """Return the beginning of a URL: its path may hold a token."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/…"
