"""Assignees of a question: users and groups, and how many of them must accept. Used by workflows and clients."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from holdfast.blueprint.people import GROUP, USER, is_person
from holdfast.protocol.values import Value

ANYONE = "anyone"
MANY = "many"
MOST_AWAITED = 20
LONGEST_AWAITED = 80
LONGEST_TOGETHER = 1_800
"""Bytes of the names as JSON, where "é" takes six: the server terminates a run whose search attribute exceeds 2,048."""

Groups = Mapping[str, Sequence[str]]
"""The members of each group, as `holdfast.toml` names them."""


class Rung(Value):
    """One step of an escalation: the assignees that replace the previous ones."""

    after: float
    """Seconds after the question was asked."""
    assignees: list[str]


class People(Value):
    """The assignees of a question, with quorum, reminders and escalation."""

    assignees: list[str] = []
    """Users and groups that may answer, as `user:NAME` or `group:NAME`; empty: anyone."""
    not_by: list[str] = []
    """Users and groups that may not, even if they are assignees."""
    quorum: int = 1
    """Number of people who must accept."""
    remind_every: float | None = None
    """Seconds."""
    ladder: list[Rung] = []
    """The escalation, by time."""

    @property
    def restricted(self) -> bool:
        """True if an answer must name its sender. Such a question takes no signals: no validator checks them."""
        return bool(self.assignees or self.not_by) or self.quorum > 1


EVERYBODY = People()


def user_of(by: str | None) -> str | None:
    """Return the user that an answer comes from, or None for nobody and for a group; a bare name is a user's.

    >>> user_of("ana"), user_of("user:ana"), user_of("group:editors"), user_of(" ")
    ('user:ana', 'user:ana', None, None)
    """
    name = by if by is None or ":" in by else f"{USER}{by}"
    return name if name is not None and name.startswith(USER) and is_person(name) else None


def names_of(name: str, groups: Groups) -> list[str]:
    """Return a user and the groups that the user is in, as assignees name them.

    >>> names_of("user:ana", {"editors": ["user:ana"], "legal": ["user:bob"]})
    ['user:ana', 'group:editors']
    """
    return [name, *(f"{GROUP}{group}" for group, members in groups.items() if name in members)]


def concerns(people: People, name: str, groups: Groups) -> bool:
    """Return whether this user or group may answer."""
    names = set(names_of(name, groups))
    return not names & set(people.not_by) and (not people.assignees or bool(names & set(people.assignees)))


def why_not(people: People, by: str | None, groups: Groups) -> str | None:
    """Return why an answer by this person is not allowed, and who may give one; None if it is allowed."""
    if not people.restricted:
        return None
    user = user_of(by)
    if user is None:
        reason = "it must be known who answers" if by is None else f"{by!r} is no user"
        return f"{reason}: give it as `by` (on the command line --by USER); {who_may(people)} may answer"
    if concerns(people, user, groups):
        return None
    unknown = [name for name in people.assignees if _is_unknown(name, groups)]
    missing = f" (this deployment has no {', '.join(unknown)}: add it to [groups] in holdfast.toml)" if unknown else ""
    return f"{user} may not answer it; {who_may(people)} may{missing}"


def knows_groups_of(people: People, groups: Groups) -> bool:
    """Return whether every group that the question names is among these."""
    return not any(_is_unknown(name, groups) for name in (*people.assignees, *people.not_by))


def who_may(people: People) -> str:
    """Return the people who may answer, for a message.

    >>> who_may(People(assignees=["user:ana", "group:legal"], not_by=["user:bob"])), who_may(EVERYBODY)
    ('user:ana, group:legal (but not user:bob)', 'anyone')
    """
    names = ", ".join(people.assignees) or ANYONE
    return f"{names} (but not {', '.join(people.not_by)})" if people.not_by else names


def awaited(asked: Iterable[People]) -> list[str]:
    """Return the value of the search attribute for the open questions: sorted names, `anyone`, or `many`.

    >>> awaited([People(assignees=["user:bob", "user:ana"]), EVERYBODY]), awaited([]), awaited(
    ...     [People(assignees=[f"user:{n}" for n in range(21)])])
    (['anyone', 'user:ana', 'user:bob'], [], ['many'])
    """
    names = sorted({name for people in asked for name in people.assignees or [ANYONE]})
    short = all(len(name.encode()) <= LONGEST_AWAITED for name in names)
    fits = short and len(names) <= MOST_AWAITED and len(json.dumps(names)) <= LONGEST_TOGETHER
    return names if fits else [MANY]


def _is_unknown(name: str, groups: Groups) -> bool:
    return name.startswith(GROUP) and name.removeprefix(GROUP) not in groups
