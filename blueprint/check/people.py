"""Rules of a `hitl`'s people: valid names, a reachable quorum, an escalation ladder in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.blueprint.check.findings import Findings, is_literal
from holdfast.blueprint.kinds import Blueprint, Hitl
from holdfast.blueprint.people import GROUP, REQUESTER, USER, is_person
from holdfast.blueprint.positions import parts_of

SHORTEST_REMINDER = 15 * 60
_LADDER = "escalate: [{after: 2d, assignees: [group:heads]}]"


def check_people(step: Hitl, path: str, findings: Findings) -> None:
    if step.ask == "hold":
        _check_hold(step, path, findings)
        return
    for key, names in _lists(step):
        _forms(names, key, f"{path}.{key}", findings)
    _quorum(step, path, findings)
    _ladder(step, path, findings)
    if step.remind_every is not None and step.remind_every < SHORTEST_REMINDER:
        message = f"reminders must be at least 15m apart, not {step.remind_every:g}s"
        findings.add(f"{path}.remind_every", "bad_value", message)


def check_access(blueprint: Blueprint, findings: Findings) -> None:
    for index, name in enumerate(blueprint.access.steer if blueprint.access else []):
        if not is_person(name):
            message = f"{name[:40]!r} is neither a user nor a group"
            findings.add(f"access.steer[{index}]", "bad_value", message, _name_hint(name, "steer"))


def _check_hold(step: Hitl, path: str, findings: Findings) -> None:
    reason = "a hold asks nobody"
    for key in ("assignees", "not_by", "quorum", "remind_every", "escalate"):
        if step.model_dump(include={key}, exclude_defaults=True):
            findings.add_key(f"{path}.{key}", "conflict", f"{key!r} does not go with ask: hold: {reason}", "remove it")
    if step.on_timeout == "escalate":
        findings.add(f"{path}.on_timeout", "conflict", f"'on_timeout: escalate' does not go with ask: hold: {reason}")


def _lists(step: Hitl) -> Iterator[tuple[str, Sequence[str] | str]]:
    yield "assignees", step.assignees
    yield "not_by", step.not_by
    for index, rung in enumerate(step.escalate):
        yield f"escalate[{index}].assignees", rung.assignees


def _forms(names: Sequence[str] | str, key: str, path: str, findings: Findings) -> None:
    if isinstance(names, str):
        if is_literal(names):
            message = f"{key} must be a list, not {names[:40]!r}"
            findings.add(path, "bad_value", message, 'write [user:ana], or a template of a list: "{{ … }}"')
        return
    for index, name in enumerate(names):
        if is_literal(name) and not is_person(name) and not (key == "not_by" and name == REQUESTER):
            findings.add(
                f"{path}[{index}]", "bad_value", f"{name[:40]!r} is neither a user nor a group", _name_hint(name, key)
            )


def _name_hint(name: str, key: str) -> str:
    if name.strip() and ":" not in name and name != REQUESTER:
        return f"did you mean {USER + name.strip()[:40]!r} or {GROUP + name.strip()[:40]!r}?"
    return "write user:NAME or group:NAME" + (f", or {REQUESTER}" if key == "not_by" else "")


def _quorum(step: Hitl, path: str, findings: Findings) -> None:
    """Check that enough people may answer; only possible if all are plain users."""
    if not step.assignees or not all(_are_users(names) for key, names in _lists(step) if key != "not_by"):
        return
    named = {name for key, names in _lists(step) if key != "not_by" for name in names}
    allowed = named - (set() if isinstance(step.not_by, str) else set(step.not_by))
    if len(allowed) < step.quorum:
        listed = ", ".join(sorted(allowed)) or "nobody"
        key = "quorum" if step.quorum > 1 else "not_by"
        message = f"a quorum of {step.quorum} cannot be reached: {listed} may answer"
        findings.add(f"{path}.{key}", "bad_value", message, "name more people, or lower the quorum")


def _are_users(names: Sequence[str] | str) -> bool:
    return not isinstance(names, str) and all(is_literal(name) and name.startswith(USER) for name in names)


def _ladder(step: Hitl, path: str, findings: Findings) -> None:
    climbs = step.on_timeout == "escalate"
    if climbs and not step.escalate and not _was_repaired(f"{path}.escalate", findings):
        findings.add(f"{path}.on_timeout", "missing_key", "'on_timeout: escalate' needs a ladder", f"add {_LADDER}")
    if step.escalate and not climbs:
        hint = "write on_timeout: escalate, or remove the ladder"
        findings.add_key(f"{path}.escalate", "conflict", "'escalate' needs on_timeout: escalate", hint)
    for index, rung in enumerate(step.escalate):
        if not rung.assignees:
            message = "a rung must say who is asked"
            findings.add(f"{path}.escalate[{index}].assignees", "bad_value", message, "name a user or a group")
    for index in range(1, len(step.escalate)):
        before, after = step.escalate[index - 1].after, step.escalate[index].after
        if after <= before:
            message = f"each rung must come after the one before: {after:g}s is not later than {before:g}s"
            findings.add(
                f"{path}.escalate[{index}].after", "bad_value", message, "`after` counts from the start of the question"
            )
    if climbs and step.escalate:
        _end_of_ladder(step, path, findings)


def _was_repaired(path: str, findings: Findings) -> bool:
    """Return whether something inside was repaired, so that the rest is not what the author wrote."""
    parts = parts_of(findings.tree, path)
    return any(repaired[: len(parts)] == parts for repaired in findings.repaired)


def _end_of_ladder(step: Hitl, path: str, findings: Findings) -> None:
    first, last = step.escalate[0].after, step.escalate[-1].after
    ends = step.timeout is not None and step.timeout > last
    if step.timeout is not None and not ends and step.timeout != first:
        message = "with a ladder the timeout is its end: it must be later than the last rung"
        hint = "make it later, or leave it out: then the last ones are waited for as long as it takes"
        findings.add(f"{path}.timeout", "conflict", message, hint)
    elif step.default is not None and step.timeout is not None and not ends:
        message = "with a ladder a default needs a timeout that is later than the last rung"
        findings.add_key(f"{path}.default", "conflict", message, "add timeout: 7d, or remove the default")
