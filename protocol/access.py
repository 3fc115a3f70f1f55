"""Who may do what with a run: one function, `may`, over the rules of the deployment, the blueprint, and the run.

The server asks it for every page, call and tool; update validators ask it for what reaches a workflow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, get_args

from holdfast.protocol.people import CanonicalName, Groups, People, list_assignee_names, read_user
from holdfast.protocol.values import Value

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint

Capability = Literal["see", "comment", "answer", "start", "steer", "administer"]
CAPABILITIES: tuple[Capability, ...] = get_args(Capability)
CONTAINED_IN: Mapping[Capability, Sequence[Capability]] = {
    "see": ("comment", "answer", "steer", "administer"),
    "comment": ("administer",),
    "answer": ("administer",),
    "start": ("administer",),
    "steer": ("administer",),
    "administer": (),
}
"""The capabilities that contain each one: who is named for one of those has it, too."""
MOST_NAMES = 40
"""More names than this are no part of the search attribute: the server refuses a value of more than 2,048 bytes."""
EVERY, OPEN, UNSIGNED = "every", "open", "unsigned"
"""Words of the search attribute: more names than it holds; the blueprint does not limit who may see its runs; nobody
who had signed in started it."""


class AccessPolicy(Value):
    """The users and groups that are named for each capability; None where nobody is."""

    see: list[CanonicalName] | None = None
    comment: list[CanonicalName] | None = None
    answer: list[CanonicalName] | None = None
    start: list[CanonicalName] | None = None
    steer: list[CanonicalName] | None = None
    administer: list[CanonicalName] | None = None

    @staticmethod
    def read(blueprint: Blueprint) -> AccessPolicy:
        """Return what a blueprint says of the access to its runs."""
        written = blueprint.access
        return AccessPolicy() if written is None else AccessPolicy.model_validate(written.model_dump(exclude_none=True))

    def names(self, capability: Capability) -> list[str] | None:
        """Return who is named for a capability; None if the level leaves it open."""
        names: list[str] | None = getattr(self, capability)
        return names

    @property
    def checks_answers(self) -> bool:
        """Whether a run says who may answer a question without assignees."""
        return self.answer is not None or self.see is not None

    @property
    def checks_commands(self) -> bool:
        """Whether a run says who may steer it."""
        return self.steer is not None

    def names_having(self, capability: Capability) -> set[str]:
        """Return who is named for a capability, or for one that contains it."""
        return {name for key in (capability, *CONTAINED_IN[capability]) for name in self.names(key) or ()}


class RunAccess(Value):
    """What a run says of the access to it. It stands in the run's memo, and never changes."""

    blueprint: str = ""
    started_by: CanonicalName | None = None
    signed_in: bool = False
    """True if the person who started it had signed in."""
    written: AccessPolicy = AccessPolicy.model_construct()
    """What its blueprint says."""

    def words(self) -> str:
        """Return the value of the search attribute: its words find whoever may see the run, and perhaps others.

        Names are digested, as an attribute of this type is split into words.

        >>> RunAccess(started_by="user:ana").words()
        'n93e69d2510cb open unsigned'
        """
        names = self.written.names_having("see") | ({self.started_by} if self.started_by else set())
        words = sorted(word_for(name) for name in names) if len(names) <= MOST_NAMES else [EVERY]
        words += [OPEN] if self.written.see is None else []
        return " ".join([*words, *([] if self.signed_in else [UNSIGNED])])


@dataclass(frozen=True)
class AccessRules:
    """The rules of a deployment."""

    enforced: bool = False
    """True where people sign in, or the file has rules: else whoever reaches this machine's server may do everything,
    and only what a blueprint says of its commands counts."""
    general: AccessPolicy = AccessPolicy.model_construct()
    by_blueprint: Mapping[str, AccessPolicy] = field(default_factory=dict)
    """By a glob of blueprint names: what takes the place of the general rules, key by key."""

    def levels(self, blueprint: str) -> list[AccessPolicy]:
        """Return the rules for the runs of a blueprint; of several, each limits the others."""
        special = [access for glob, access in self.by_blueprint.items() if fnmatchcase(blueprint, glob)]
        replaced = {key for access in special for key in CAPABILITIES if access.names(key) is not None}
        return [self.general.model_copy(update=dict.fromkeys(replaced)), *special]


THIS_MACHINE = AccessRules()


@dataclass(frozen=True)
class Person:
    """Somebody who asks: a user with their groups."""

    names: frozenset[str] = frozenset()
    """The user and their groups, such as `user:ana` and `group:editors`; empty for nobody."""
    holds_steer: bool = False
    """True for the holder of a token that was made for steering: it counts where nothing is written, and nobody who had
    signed in has started the run."""

    @staticmethod
    def of(by: str | None, groups: Groups, *, holds_steer: bool = False) -> Person:
        """Return the person of this name, with the groups that they are in."""
        user = read_user(by)
        return Person(frozenset(list_assignee_names(user, groups)) if user else frozenset(), holds_steer)


def may(person: Person, capability: Capability, run: RunAccess, rules: AccessRules = THIS_MACHINE) -> bool:
    """Return whether a person may do something with a run.

    What stands in several places limits: who is named in one of them only may not. Of a question with assignees they
    alone are asked, see `may_see_question` and `people.why_not`.

    Args:
        person: Who asks.
        capability: What they want to do; `start` counts for any run of the blueprint.
        run: The run.
        rules: Those of the deployment.
    """
    if not rules.enforced:
        return _may_on_this_machine(person, capability, run)
    levels = [*rules.levels(run.blueprint), run.written]
    is_starter = run.started_by in person.names
    holds = person.holds_steer and not run.signed_in and not _is_written(capability, levels)
    match capability:
        case "see":
            return is_starter or holds or _has_role(person, capability, levels)
        case "start":
            return not _is_written(capability, levels) or _has_role(person, capability, levels)
        case "comment" | "answer":
            is_allowed = not _is_written(capability, levels) or _has_role(person, capability, levels)
            return is_allowed and may(person, "see", run, rules)
        case "steer":
            by_default = (is_starter and run.written.steer is None) or holds
            return (by_default or _has_role(person, capability, levels)) and may(person, "see", run, rules)
    return _has_role(person, capability, levels) and may(person, "see", run, rules)


def may_see_question(
    person: Person, people: People, answered_by: Collection[str], run: RunAccess, rules: AccessRules = THIS_MACHINE
) -> bool:
    """Return whether a person may see one question: its assignees may, also without seeing its run.

    Args:
        person: Who asks.
        people: The question's people.
        answered_by: Who has answered or accepted it.
        run: Its run.
        rules: Those of the deployment.
    """
    own = {*people.assignees, *people.delegations, *answered_by}
    return not own.isdisjoint(person.names) or may(person, "see", run, rules)


def is_seen_by_nobody(run: RunAccess, rules: AccessRules) -> bool:
    """Return whether nobody could see a run, however they signed in, but the assignees of its questions."""
    if not rules.enforced or (run.started_by is not None and run.signed_in):
        return False
    levels = [*rules.levels(run.blueprint), run.written]
    names = {name for level in levels for name in level.names_having("see")}
    # Two limits may leave somebody who is in both only by a group, which nobody can know here: one name is enough.
    return not names


def describe_refusal(capability: Capability, by: str | None, written: AccessPolicy) -> str:
    """Return why somebody may not do something with a run, for a message.

    Args:
        capability: What they want to do.
        by: Who they are.
        written: What the run's blueprint says.
    """
    names = written.names(capability) or (written.see if capability == "answer" else None)
    who = ", ".join(names) if names else "its starter, and who [access] of the deployment names,"
    return f"{who} may {capability} this run, and {by or 'nobody'} is not in it"


def word_for(name: str) -> str:
    """Return the word of a user or group in the search attribute."""
    return f"n{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def words_for(person: Person, rules: AccessRules) -> list[str]:
    """Return the words of the search attribute that the runs have which a person may see; other runs have them, too."""
    special = [rules.general, *rules.by_blueprint.values()]
    has_role = any(not person.names.isdisjoint(access.names_having("see")) for access in special)
    words = [*sorted(map(word_for, person.names)), EVERY]
    return [*words, *([OPEN] if has_role else []), *([UNSIGNED] if person.holds_steer else [])]


def _may_on_this_machine(person: Person, capability: Capability, run: RunAccess) -> bool:
    """Return whether a command fits what the blueprint says, where nobody signs in: the name is what was told."""
    written = run.written
    match capability:
        case "answer" if written.answer is None and written.see is not None:
            return run.started_by in person.names or _has_role(person, "see", [written])
        case "answer" | "steer" | "administer":
            return written.names(capability) is None or _has_role(person, capability, [written])
    return True


def _is_written(capability: Capability, levels: Sequence[AccessPolicy]) -> bool:
    return any(level.names(capability) is not None for level in levels)


def _has_role(person: Person, capability: Capability, levels: Sequence[AccessPolicy]) -> bool:
    """Return whether some level names the person, and none that names others leaves them out."""
    is_named = False
    for level in levels:
        is_here = not person.names.isdisjoint(level.names_having(capability))
        if level.names(capability) is not None and not is_here:
            return False
        is_named = is_named or is_here
    return is_named
