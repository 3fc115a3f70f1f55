"""Rules of whom a `hitl` asks: names that can be names, a quorum that can be reached, a ladder that can be climbed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blueprint.check.findings import Findings, is_literal
from blueprint.grammar import Hitl
from blueprint.people import GROUP, REQUESTER, USER, is_person
from blueprint.places import parts_of

SHORTEST_REMINDER = 15 * 60
_LADDER = "escalate: [{after: 2d, assignees: [group:heads]}]"


def check_people(step: Hitl, path: str, findings: Findings) -> None:
    if step.ask == "hold":
        _nobody(step, path, findings)
        return
    for key, names in _lists(step):
        _forms(names, key, f"{path}.{key}", findings)
    _quorum(step, path, findings)
    _ladder(step, path, findings)
    if step.remind_every is not None and step.remind_every < SHORTEST_REMINDER:
        told = f"reminders must be at least 15m apart, not {step.remind_every:g}s"
        findings.add(f"{path}.remind_every", "bad_value", told)


def _nobody(step: Hitl, path: str, findings: Findings) -> None:
    told = "a hold asks nobody"
    for key in ("assignees", "not_by", "quorum", "remind_every", "escalate"):
        if step.model_dump(include={key}, exclude_defaults=True):
            findings.add_key(f"{path}.{key}", "conflict", f"{key!r} does not go with ask: hold: {told}", "remove it")
    if step.on_timeout == "escalate":
        findings.add(f"{path}.on_timeout", "conflict", f"'on_timeout: escalate' does not go with ask: hold: {told}")


def _lists(step: Hitl) -> Iterator[tuple[str, Sequence[str] | str]]:
    yield "assignees", step.assignees
    yield "not_by", step.not_by
    for index, rung in enumerate(step.escalate):
        yield f"escalate[{index}].assignees", rung.assignees


def _forms(names: Sequence[str] | str, key: str, path: str, findings: Findings) -> None:
    if isinstance(names, str):
        if is_literal(names):
            told = f"{key} must be a list, not {names[:40]!r}"
            findings.add(path, "bad_value", told, 'write [user:ana], or a template of a list: "{{ … }}"')
        return
    for index, name in enumerate(names):
        if is_literal(name) and not is_person(name) and not (key == "not_by" and name == REQUESTER):
            findings.add(f"{path}[{index}]", "bad_value", f"{name[:40]!r} is no user and no group", _meant(name, key))


def _meant(name: str, key: str) -> str:
    if name.strip() and ":" not in name and name != REQUESTER:
        return f"did you mean {USER + name.strip()[:40]!r} or {GROUP + name.strip()[:40]!r}?"
    return "write user:NAME or group:NAME" + (f", or {REQUESTER}" if key == "not_by" else "")


def _quorum(step: Hitl, path: str, findings: Findings) -> None:
    """Whether enough people may answer, where it can be told: all are plain users."""
    if not step.assignees or not all(_are_users(names) for key, names in _lists(step) if key != "not_by"):
        return
    named = {name for key, names in _lists(step) if key != "not_by" for name in names}
    left = named - (set() if isinstance(step.not_by, str) else set(step.not_by))
    if len(left) < step.quorum:
        who = ", ".join(sorted(left)) or "nobody"
        key = "quorum" if step.quorum > 1 else "not_by"
        told = f"a quorum of {step.quorum} cannot be reached: {who} may answer"
        findings.add(f"{path}.{key}", "bad_value", told, "name more people, or lower the quorum")


def _are_users(names: Sequence[str] | str) -> bool:
    return not isinstance(names, str) and all(is_literal(name) and name.startswith(USER) for name in names)


def _ladder(step: Hitl, path: str, findings: Findings) -> None:
    climbs = step.on_timeout == "escalate"
    if climbs and not step.escalate and not _was_mended(f"{path}.escalate", findings):
        findings.add(f"{path}.on_timeout", "missing_key", "'on_timeout: escalate' needs a ladder", f"add {_LADDER}")
    if step.escalate and not climbs:
        hint = "write on_timeout: escalate, or remove the ladder"
        findings.add_key(f"{path}.escalate", "conflict", "'escalate' needs on_timeout: escalate", hint)
    for index, rung in enumerate(step.escalate):
        if not rung.assignees:
            told = "a rung must say who is asked"
            findings.add(f"{path}.escalate[{index}].assignees", "bad_value", told, "name a user or a group")
    for index in range(1, len(step.escalate)):
        before, after = step.escalate[index - 1].after, step.escalate[index].after
        if after <= before:
            told = f"each rung must come after the one before: {after:g}s is not later than {before:g}s"
            findings.add(f"{path}.escalate[{index}].after", "bad_value", told, "`after` counts from the asking")
    if climbs and step.escalate:
        _end_of_ladder(step, path, findings)


def _was_mended(path: str, findings: Findings) -> bool:
    """Whether something was wrong in there, so that what is left of it is not what the author wrote."""
    parts = parts_of(findings.tree, path)
    return any(mended[: len(parts)] == parts for mended in findings.mended)


def _end_of_ladder(step: Hitl, path: str, findings: Findings) -> None:
    first, last = step.escalate[0].after, step.escalate[-1].after
    ends = step.timeout is not None and step.timeout > last
    if step.timeout is not None and not ends and step.timeout != first:
        told = "with a ladder the timeout is its end: it must be later than the last rung"
        hint = "make it later, or leave it out: then the last ones are waited for as long as it takes"
        findings.add(f"{path}.timeout", "conflict", told, hint)
    elif step.default is not None and step.timeout is not None and not ends:
        told = "with a ladder a default needs a timeout that is later than the last rung"
        findings.add_key(f"{path}.default", "conflict", told, "add timeout: 7d, or remove the default")
