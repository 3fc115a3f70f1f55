"""The people to tell: assignees resolved through groups, deputies in place of those who are away."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from holdfast.blueprint.people import GROUP, USER
from holdfast.protocol.people import Groups, names_of
from holdfast.runtime.config import PersonSection
from holdfast.server.notices.notice import Contact


@dataclass(frozen=True)
class SignedIn:
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

    def __init__(self, people: Mapping[str, PersonSection], groups: Groups, signed_in: Iterable[SignedIn] = ()) -> None:
        self._people = {f"{USER}{name}": person for name, person in people.items()}
        self._signed_in = {signed.user: signed for signed in signed_in}
        self._groups = {name: list(members) for name, members in groups.items()}
        for signed in self._signed_in.values():
            for group in signed.groups:
                members = self._groups.setdefault(group.removeprefix(GROUP), [])
                if signed.user not in members:
                    members.append(signed.user)

    def users_of(self, names: Iterable[str]) -> list[str]:
        """Return the users that these users and groups are, each once."""
        users: dict[str, None] = {}
        for name in names:
            is_group = name.startswith(GROUP)
            users |= dict.fromkeys(self._groups.get(name.removeprefix(GROUP), []) if is_group else [name])
        return list(users)

    def contact(self, user: str, *, instead_of: str | None = None, is_away: bool = False) -> Contact:
        """Return how a user is reached."""
        person = self._people.get(user, PersonSection())
        claims = self._signed_in.get(user, SignedIn(user))
        return Contact(user, person.email or claims.email, person.locale or claims.locale, instead_of, is_away)

    def is_away(self, user: str, now: datetime) -> bool:
        """Return whether a user is away at a time."""
        until = self._people.get(user, PersonSection()).away_until
        if until is None:
            return False
        if isinstance(until, datetime):
            return now < until.astimezone(UTC)
        return now < datetime(until.year, until.month, until.day).astimezone() + timedelta(days=1)

    def told_for(self, user: str, barred: Collection[str], now: datetime) -> Contact | None:
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
        """Return an assignee with those who are told for them; arguments as in `told_for`."""
        users = self.users_of([name])
        each_contact = [self.told_for(user, barred, now) for user in users]
        contacts = tuple(contact for contact in each_contact if contact is not None)
        return Assignee(name, contacts, is_barred=bool(users) and not contacts)

    def _deputy(self, user: str) -> str | None:
        return self._people.get(user, PersonSection()).deputy

    def _is_barred(self, user: str, barred: Collection[str]) -> bool:
        return not set(barred).isdisjoint(names_of(user, self._groups))
