"""Assignees of a question: users and groups, and how many of them must accept. Used by workflows and clients."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from holdfast.blueprint.people import GROUP, USER, canonical_name, is_person, say_too_few
from holdfast.protocol.values import Value

ANYONE = "anyone"
MANY = "many"
MOST_AWAITED = 20
LONGEST_AWAITED = 80
LONGEST_TOGETHER = 1_800
"""Bytes of the names as JSON, where "é" takes six: the server terminates a run whose search attribute exceeds 2,048."""

Groups = Mapping[str, Sequence[str]]
"""The members of each group, as `holdfast.toml` names them."""


CanonicalName = Annotated[str, AfterValidator(canonical_name)]
"""A user, a group, or a bare name, in its one spelling."""


def name_sender(by: str) -> str:
    """Return the name of who sends something, as it is stored: a bare name is a user's.

    >>> name_sender("Ana"), name_sender("user:ana"), name_sender("group:editors")
    ('user:ana', 'user:ana', 'group:editors')
    """
    return canonical_name(by if ":" in by or not by.strip() else f"{USER}{by}")


SenderName = Annotated[str, AfterValidator(name_sender)]


def _group(name: str) -> str:
    if not (name.startswith(GROUP) and is_person(name)):
        raise ValueError(f"{name[:60]!r} is not a group: write group:NAME")
    return canonical_name(name)


ProvedGroups = Annotated[list[Annotated[str, AfterValidator(_group)]], Field(max_length=1000)]
"""The groups of one user, such as `group:editors`, as a sign-in has proved them."""


class Rung(Value):
    """One step of an escalation: the assignees that replace the previous ones."""

    after: float
    """Seconds after the question was asked."""
    assignees: list[CanonicalName]


class People(Value):
    """The assignees of a question, with quorum, reminders and escalation."""

    assignees: list[CanonicalName] = []
    """Users and groups that may answer, as `user:NAME` or `group:NAME`; empty: anyone."""
    not_by: list[CanonicalName] = []
    """Users and groups that may not, even if they are assignees."""
    quorum: int = 1
    """Number of people who must accept."""
    delegations: dict[str, str] = {}
    """To whom a user has given their part, by user."""
    proof: Literal["person"] | None = None
    """`person`: only answers of people who have signed in are taken."""
    remind_every: float | None = None
    """Seconds."""
    ladder: list[Rung] = []
    """The escalation, by time."""
    notify: list[str] | None = None
    """The channels that are told, in place of those of the configuration; None: those."""

    @property
    def restricted(self) -> bool:
        """True if an answer must name its sender. Such a question takes no signals: no validator checks them."""
        return bool(self.assignees or self.not_by or self.delegations or self.proof) or self.quorum > 1


EVERYBODY = People.model_construct()  # builds no model at import
SIGN_IN = "only people who have signed in may answer it: open it in the inbox (holdfast serve)"
"""Why a question with `proof: person` takes no answer, claim or delegation that less proves."""


def read_user(by: str | None) -> str | None:
    """Return the user that an answer comes from, or None for nobody and for a group; a bare name is a user's.

    >>> read_user("ana"), read_user("user:Ana"), read_user("group:editors"), read_user(" ")
    ('user:ana', 'user:ana', None, None)
    """
    if by is None:
        return None
    name = name_sender(by)
    return name if name.startswith(USER) and is_person(name) else None


def list_assignee_names(name: str, groups: Groups) -> list[str]:
    """Return a user and the groups that the user is in, as assignees name them.

    >>> list_assignee_names("user:ana", {"editors": ["user:ana"], "legal": ["user:bob"]})
    ['user:ana', 'group:editors']
    """
    name = canonical_name(name)
    return [name, *(f"{GROUP}{group}" for group, members in groups.items() if name in members)]


def with_proved(groups: Groups, by: str | None, proved: Sequence[str] | None) -> Groups:
    """Return the groups with those that a sign-in has proved for a user in place of what the file says of this user.

    Args:
        groups: As the file names them.
        by: The user who has signed in.
        proved: The user's groups, such as `group:editors`; None: none were proved, and the file counts.

    >>> with_proved({"editors": ["user:ana", "user:bob"]}, "user:ana", ["group:legal"])
    {'editors': ['user:bob'], 'legal': ['user:ana']}
    """
    user = read_user(by)
    if user is None or proved is None:
        return groups
    mine = [name.removeprefix(GROUP) for name in proved]
    others = {name: [member for member in members if member != user] for name, members in groups.items()}
    return others | {name: [*others.get(name, ()), user] for name in mine}


def concerns(people: People, name: str, groups: Groups) -> bool:
    """Return whether this user or group may answer."""
    name = canonical_name(name)
    if name in people.delegations:
        return False
    names = set(list_assignee_names(name, groups))
    return not names & set(people.not_by) and (not people.assignees or bool(names & set(people.assignees)))


def why_not(people: People, by: str | None, groups: Groups) -> str | None:
    """Return why an answer by this person is not allowed, and who may give one; None if it is allowed."""
    if not people.restricted:
        return None
    user = read_user(by)
    if user is None:
        reason = "it is not known who answers" if by is None else f"{by!r} is not a user"
        return f"{reason}: name them as `by` (on the command line: --by USER); {who_may(people)} may answer"
    if concerns(people, user, groups):
        return None
    if user in people.delegations:
        return f"{user} has delegated it to {people.delegations[user]}; {who_may(people)} may answer"
    unknown = [name for name in people.assignees if _is_unknown(name, groups)]
    missing = (
        f" ({', '.join(unknown)}: not in [groups] of holdfast.toml, and proved by no sign-in here)" if unknown else ""
    )
    return f"{user} may not answer it; {who_may(people)} may{missing}"


def knows_groups(people: People, groups: Groups) -> bool:
    """Return whether every group that the question names is among these."""
    return not any(_is_unknown(name, groups) for name in (*people.assignees, *people.not_by))


def eligible(people: People, groups: Groups) -> set[str] | None:
    """Return the users who may answer; None where they cannot be counted: anyone may, or a group is not known.

    >>> sorted(eligible(People(assignees=["user:ana", "group:legal"], not_by=["user:bob"]), {"legal": ["user:bob"]}))
    ['user:ana']
    """
    if not people.assignees or any(_is_unknown(name, groups) for name in people.assignees):
        return None
    members = (
        groups.get(name.removeprefix(GROUP), ()) if name.startswith(GROUP) else [name] for name in people.assignees
    )
    return {user for users in members for user in users if concerns(people, user, groups)}


def say_unreachable(people: People) -> str | None:
    """Return why a quorum cannot be reached, None if it may be: members of groups cannot be counted.

    >>> say_unreachable(People(assignees=["user:ana"], quorum=2))
    'a quorum of 2 cannot be reached: user:ana may answer'
    """
    ever = [*people.assignees, *(name for rung in people.ladder for name in rung.assignees)]
    able = eligible(people.model_copy(update={"assignees": ever}), {}) if people.assignees else None
    if able is None or len(able) >= people.quorum:
        return None
    return say_too_few(people.quorum, able)


def is_excluded(name: str, people: People, groups: Groups) -> bool:
    """Return whether a user, or every member of a group, is among those who may not answer.

    >>> people = People(not_by=["user:bob"])
    >>> is_excluded("user:bob", people, {}), is_excluded("group:legal", people, {"legal": ["user:bob", "user:eve"]})
    (True, False)
    """
    excluded = set(people.not_by)
    if set(list_assignee_names(name, groups)) & excluded:
        return True
    members = groups.get(name.removeprefix(GROUP), ()) if name.startswith(GROUP) else ()
    return bool(members) and all(set(list_assignee_names(user, groups)) & excluded for user in members)


def who_may(people: People) -> str:
    """Return the people who may answer, for a message.

    >>> who_may(People(assignees=["user:ana", "group:legal"], not_by=["user:bob"])), who_may(EVERYBODY)
    ('user:ana, group:legal (but not user:bob)', 'anyone')
    >>> who_may(People(proof="person"))
    'anyone (signed in)'
    """
    but = [f"but not {', '.join(people.not_by)}"] if people.not_by else []
    conditions = "; ".join([*but, *(["signed in"] if people.proof else [])])
    names = ", ".join(people.assignees) or ANYONE
    return f"{names} ({conditions})" if conditions else names


def list_awaited(asked: Iterable[People]) -> list[str]:
    """Return the value of the search attribute for the open questions: sorted names, `anyone`, or `many`.

    >>> list_awaited([People(assignees=["user:bob", "user:ana"]), EVERYBODY]), list_awaited([]), list_awaited(
    ...     [People(assignees=[f"user:{n}" for n in range(21)])])
    (['anyone', 'user:ana', 'user:bob'], [], ['many'])
    """
    names = sorted({name for people in asked for name in people.assignees or [ANYONE]})
    # Seen: 80 assignees made 2,401 bytes, and the server terminated the run.
    short = all(len(name.encode()) <= LONGEST_AWAITED for name in names)
    fits = short and len(names) <= MOST_AWAITED and len(json.dumps(names)) <= LONGEST_TOGETHER
    return names if fits else [MANY]


def listed_ids(ids: Sequence[str]) -> list[str]:
    """Return the value of the search attribute for the ids of the open questions: at most 20, else `many`."""
    return sorted(ids) if len(ids) <= MOST_AWAITED else [MANY]


def _is_unknown(name: str, groups: Groups) -> bool:
    return name.startswith(GROUP) and name.removeprefix(GROUP) not in groups
