"""Lists of people in a step: who may answer, and who may not. Kinds whose steps ask people use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.blueprint.findings import Findings, is_literal
from holdfast.blueprint.parts import Requirement
from holdfast.blueprint.people import GROUP, REQUESTER, USER, is_person, name_hint
from holdfast.blueprint.words.text import Vocabulary, enumerate_words, say_unquoted, say_value

ANYONE = ("anyone",)


def groups_in(names: Sequence[str] | str, key: str) -> Iterator[Requirement]:
    """Yield the groups of a list, which the worker must know."""
    for index, name in enumerate(() if isinstance(names, str) else names):
        if name.startswith(GROUP):
            yield Requirement("group", name.removeprefix(GROUP), (key, index))


def check_people(names: Sequence[str] | str, key: str, path: str, findings: Findings, *, is_given: bool = True) -> None:
    """Report what is neither a user nor a group, a text in place of a list, and an empty list that an author gives.

    That would open a question to more people than its author means: a program may have made it from nothing.
    """
    if is_given and not names:
        hint = "name a user or a group, or leave the key out"
        findings.add(path, "bad_value", f"{key} is an empty list, which names nobody", hint)
    if isinstance(names, str):
        if is_literal(names):
            message = f"{key} must be a list, not {names[:40]!r}"
            findings.add(path, "bad_value", message, 'write [user:ana], or a template of a list: "{{ … }}"')
        return
    for index, name in enumerate(names):
        if is_literal(name) and not is_person(name) and not (key == "not_by" and name == REQUESTER):
            findings.add(
                f"{path}[{index}]", "bad_value", f"{name[:40]!r} is neither a user nor a group", name_hint(name, key)
            )


def people_phrase(named: Sequence[str] | str, names: Vocabulary) -> str:
    """Return the people of a list in words; empty if there are none.

    >>> people_phrase(["user:ana", "group:editors"], Vocabulary({})), people_phrase([], Vocabulary({}))
    ('ana or a member of editors', '')
    """
    if isinstance(named, str):
        return f"those whom {say_value(named, names)} names"
    return enumerate_words([_person(name, names) for name in named], "or") if named else ""


def people_asked(named: Sequence[str] | str, names: Vocabulary) -> tuple[str, ...]:
    """Return the people of a list by their names, as data; `anyone` if there are none.

    >>> people_asked(["user:ana"], Vocabulary({})), people_asked([], Vocabulary({}))
    (('user:ana',), ('anyone',))
    """
    return (say_value(named, names),) if isinstance(named, str) else tuple(named) or ANYONE


def _person(name: str, names: Vocabulary) -> str:
    if name == REQUESTER:
        return "who started the run"
    if name.startswith(GROUP):
        return f"a member of {say_unquoted(name.removeprefix(GROUP), names)}"
    return say_unquoted(name.removeprefix(USER), names)
