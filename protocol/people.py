"""Who may answer a question: users, groups of the deployment, and how many of them must accept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from blueprint.people import GROUP, USER, is_person
from protocol.values import Value

ANYONE = "anyone"
MANY = "many"
MOST_AWAITED = 20
LONGEST_AWAITED = 80
LONGEST_TOGETHER = 1_800
"""Bytes as JSON, where "é" is six: the server terminates a run whose search attribute is over 2,048."""

Groups = Mapping[str, Sequence[str]]
"""The members of each group, as `holdfast.toml` names them."""


class Rung(Value):
    """Who is asked in the place of the others, from so many seconds after the asking."""

    after: float
    assignees: list[str]


class People(Value):
    """Who may answer, how many must accept, and how they are kept at it."""

    assignees: list[str] = []
    """Users and groups; empty: anyone."""
    not_by: list[str] = []
    quorum: int = 1
    remind_every: float | None = None
    """Seconds."""
    ladder: list[Rung] = []

    @property
    def restricted(self) -> bool:
        """Whether an answer must say who gives it: such a question takes no signals, which nobody checks."""
        return bool(self.assignees or self.not_by) or self.quorum > 1


EVERYBODY = People()


def user_of(by: str | None) -> str | None:
    """The user that an answer comes from; a bare name is a user's. None: nobody, or a group.

    >>> user_of("ana"), user_of("user:ana"), user_of("group:editors"), user_of(" ")
    ('user:ana', 'user:ana', None, None)
    """
    name = by if by is None or ":" in by else f"{USER}{by}"
    return name if name is not None and name.startswith(USER) and is_person(name) else None


def names_of(name: str, groups: Groups) -> list[str]:
    """A user, and the groups that the user is in.

    >>> names_of("user:ana", {"editors": ["user:ana"], "legal": ["user:bob"]})
    ['user:ana', 'group:editors']
    """
    return [name, *(f"{GROUP}{group}" for group, members in groups.items() if name in members)]


def concerns(people: People, name: str, groups: Groups) -> bool:
    """Whether somebody, or somebody in a group, may answer."""
    names = set(names_of(name, groups))
    return not names & set(people.not_by) and (not people.assignees or bool(names & set(people.assignees)))


def why_not(people: People, by: str | None, groups: Groups) -> str | None:
    """Why an answer by this person is not allowed, and who may give one; None: it is."""
    if not people.restricted:
        return None
    user = user_of(by)
    if user is None:
        told = "it must be known who answers" if by is None else f"{by!r} is no user"
        return f"{told}: give it as `by` (on the command line --by USER); {who_may(people)} may answer"
    if concerns(people, user, groups):
        return None
    unknown = [name for name in people.assignees if _is_unknown(name, groups)]
    missing = f" (this deployment has no {', '.join(unknown)}: add it to [groups] in holdfast.toml)" if unknown else ""
    return f"{user} may not answer it; {who_may(people)} may{missing}"


def knows_groups_of(people: People, groups: Groups) -> bool:
    """Whether these are all the groups that it takes to say who may answer."""
    return not any(_is_unknown(name, groups) for name in (*people.assignees, *people.not_by))


def who_may(people: People) -> str:
    """
    >>> who_may(People(assignees=["user:ana", "group:legal"], not_by=["user:bob"])), who_may(EVERYBODY)
    ('user:ana, group:legal (but not user:bob)', 'anyone')
    """
    who = ", ".join(people.assignees) or ANYONE
    return f"{who} (but not {', '.join(people.not_by)})" if people.not_by else who


def awaited(asked: Iterable[People]) -> list[str]:
    """What the search attribute says of the open questions: names, `anyone`, or `many`.

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
