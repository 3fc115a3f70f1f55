"""The channels of a deployment, made of `[notify]`, and the people whom they tell.

Assignees are resolved through groups, with deputies in place of those who are away.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from holdfast.blueprint.people import GROUP, USER
from holdfast.protocol.people import ANYONE, Groups, list_assignee_names
from holdfast.runtime.config import MAX_CONCURRENCY, Config, ConfigError, NoticeKind, NotifySection, PersonSection
from holdfast.server.notices.messages import Messages
from holdfast.server.notices.notice import Contact
from holdfast.server.notices.transports import (
    BadSecret,
    BadServiceUrl,
    MissingApprise,
    Program,
    Service,
    Transport,
    Webhook,
    read_webhook_secrets,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KnownUser:
    """A user as the claims of their last sign-in described them."""

    user: str
    email: str | None = None
    locale: str | None = None
    groups: tuple[str, ...] = ()
    """Such as `group:editors`."""


@dataclass(frozen=True)
class Assignee:
    """An assignee of a question, and who is told for them."""

    name: str
    """The user or group, as the question names it."""
    contacts: tuple[Contact, ...]
    is_barred: bool = False
    """True if nobody of them may answer, or everybody has: nobody needs to be told."""


class AddressBook:
    """The people of a deployment: their groups, addresses, deputies and absences.

    Args:
        people: `[people]` of the configuration; it wins over what sign-ins say.
        groups: `[groups]`.
        signed_in: The claims of sign-ins.
    """

    def __init__(
        self, people: Mapping[str, PersonSection], groups: Groups, signed_in: Iterable[KnownUser] = ()
    ) -> None:
        self._people = {f"{USER}{name}": person for name, person in people.items()}
        self._signed_in = {signed.user: signed for signed in signed_in}
        self._groups = {name: list(members) for name, members in groups.items()}
        for signed in self._signed_in.values():
            for group in signed.groups:
                members = self._groups.setdefault(group.removeprefix(GROUP), [])
                if signed.user not in members:
                    members.append(signed.user)

    def list_users(self, names: Iterable[str]) -> list[str]:
        """Return the users that these users and groups are, each once."""
        users: dict[str, None] = {}
        for name in names:
            is_group = name.startswith(GROUP)
            users |= dict.fromkeys(self._groups.get(name.removeprefix(GROUP), []) if is_group else [name])
        return list(users)

    def list_unknown(self, names: Iterable[str]) -> list[str]:
        """Return those of these users and groups that are named nowhere here; none in a book without anybody."""
        members = {user for group in self._groups.values() for user in group}
        known = members | self._people.keys() | self._signed_in.keys() | {f"{GROUP}{name}" for name in self._groups}
        return [name for name in names if known and name not in known]

    def contact(self, user: str, *, instead_of: str | None = None, is_away: bool = False) -> Contact:
        """Return how a user is reached."""
        person = self._people.get(user, PersonSection())
        claims = self._signed_in.get(user, KnownUser(user))
        return Contact(user, person.email or claims.email, person.locale or claims.locale, instead_of, is_away)

    def is_away(self, user: str, now: datetime) -> bool:
        """Return whether a user is away at a time."""
        until = self._people.get(user, PersonSection()).away_until
        if until is None:
            return False
        if isinstance(until, datetime):
            return now < until.astimezone(UTC)
        return now < datetime(until.year, until.month, until.day).astimezone() + timedelta(days=1)

    def find_contact(self, user: str, barred: Collection[str], now: datetime) -> Contact | None:
        """Return who is told for a user: they themselves, or the deputy while they are away; None if they are barred.

        A deputy who is away has a deputy, too. Somebody who may not answer is never told, as a deputy neither.

        Args:
            user: The user who is asked.
            barred: Users and groups that may not answer, and those who have.
            now: The time, with an offset.
        """
        if self._is_barred(user, barred):
            return None
        if not self.is_away(user, now):
            return self.contact(user)
        seen, deputy = {user}, self._deputy(user)
        while deputy is not None and deputy not in seen:
            if not self._is_barred(deputy, barred) and not self.is_away(deputy, now):
                return self.contact(deputy, instead_of=user)
            seen.add(deputy)
            deputy = self._deputy(deputy)
        return self.contact(user, is_away=True)

    def assignee(self, name: str, barred: Collection[str], now: datetime) -> Assignee:
        """Return an assignee with those who are told for them; arguments as in `find_contact`."""
        users = self.list_users([name])
        each_contact = [self.find_contact(user, barred, now) for user in users]
        contacts = tuple(contact for contact in each_contact if contact is not None)
        return Assignee(name, contacts, is_barred=bool(users) and not contacts)

    def list_represented(self, deputy: str) -> frozenset[str]:
        """Return the users in whose place this one may be told, also as the deputy of a deputy, and their groups."""
        users = {deputy}
        while found := {user for user in self._people if self._deputy(user) in users} - users:
            users |= found
        return frozenset(name for user in users - {deputy} for name in list_assignee_names(user, self._groups))

    def _deputy(self, user: str) -> str | None:
        return self._people.get(user, PersonSection()).deputy

    def _is_barred(self, user: str, barred: Collection[str]) -> bool:
        return not set(barred).isdisjoint(list_assignee_names(user, self._groups))


@dataclass(frozen=True)
class Channel:
    """A channel, ready to deliver."""

    name: str
    transport: Transport
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
            contacts = [
                book.contact(user) for user in book.list_users(name for name in self.to or () if name != ANYONE)
            ]
            return list(self._select_reachable(contacts)) if self.transport.is_personal else [None]
        if self.transport.is_personal:
            return list(self._select_reachable(contacts))
        return [None] if any(self._concerns(assignee, book, by_name=by_name) for assignee in asked) else []

    def reaches(self, assignee: Assignee, book: AddressBook, *, by_name: bool) -> bool:
        """Return whether an assignee who is there learns of a question by this channel; see `recipients`."""
        if not self.asks:
            return False
        if not self.transport.is_personal:
            return self._concerns(assignee, book, by_name=by_name)
        contacts = self._select_reachable(self._contacts(assignee, book, by_name=by_name))
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
        users = {*book.list_users(self.to)}
        return [contact for contact in assignee.contacts if users & {contact.user, contact.instead_of}]

    def _select_reachable(self, contacts: Sequence[Contact]) -> list[Contact]:
        """Return those of whom enough is known, each once."""
        by_user = {contact.user: contact for contact in reversed(contacts) if self.transport.reaches(contact)}
        return list(by_user.values())[::-1]


@dataclass(frozen=True)
class Channels:
    """All channels of a deployment."""

    by_name: Mapping[str, Channel]
    fallback: str | None = None
    """The name of the channel that hears of people who cannot be reached."""


def make_channels(config: Config) -> Channels:
    """Return the channels that the configuration names.

    Raises:
        ConfigError: A variable is not set or holds nothing usable, a template fails, or Apprise is missing.
    """
    sections = config.notify.channels
    return Channels(
        {name: make_channel(config, name, section) for name, section in sections.items()}, config.notify.fallback
    )


def make_usable_channels(config: Config) -> Channels:
    """Return those of the channels that can be used; a line in the log says why another cannot."""
    usable: dict[str, Channel] = {}
    for name, section in config.notify.channels.items():
        try:
            usable[name] = make_channel(config, name, section)
        except ConfigError as error:
            log.warning("nobody is notified over the channel '%s': %s", name, error)
    return Channels(usable, config.notify.fallback if config.notify.fallback in usable else None)


def make_channel(config: Config, name: str, section: NotifySection) -> Channel:
    """Return one channel. Raises as `make_channels` does."""
    return Channel(name, _make_transport(config, name, section), section.events, section.to, section.max_concurrency)


def _make_transport(config: Config, name: str, section: NotifySection) -> Transport:
    if section.webhook is not None:
        return Webhook(section.webhook, _read_secrets(config, name, section.secret_env))
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


def _read_secrets(config: Config, name: str, variable: str | None) -> list[bytes]:
    if variable is None:
        return []
    key = f"notify.{name}.secret_env"
    try:
        return read_webhook_secrets(config.variable(key, variable))
    except BadSecret as error:
        raise ConfigError(f"{config.path}: {key}: {variable}: {error}") from None


def describe_channel(section: NotifySection) -> str:
    """Return the kind of a channel in words, without what its variables hold.

    >>> describe_channel(NotifySection(command=["notify-send", "a b"]))
    "command notify-send 'a b'"
    """
    if section.webhook is not None:
        return f"webhook {_show_host(section.webhook)}{'' if section.secret_env else ' (unsigned)'}"
    if section.command is not None:
        return f"command {shlex.join(section.command)}"
    return f"the service of {section.apprise_env}"


def _show_host(url: str) -> str:
    """Return the beginning of a URL: its path may hold a token."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/…"
