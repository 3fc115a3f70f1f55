"""Whom a step asks: its assignees and the rungs of its ladder, rendered where it stands."""

from __future__ import annotations

from collections.abc import Sequence

from blueprint.grammar import Hitl
from blueprint.people import REQUESTER, is_person
from protocol.people import People, Rung, user_of
from protocol.questions import brief
from workflows.failures import failure
from workflows.frame import Frame


def people_of(step: Hitl, frame: Frame) -> People:
    """Who may answer; the frame is that in which the message is rendered."""
    assignees = [] if step.assignees == [] else _names("assignees", step.assignees, step, frame)
    if step.assignees != [] and not assignees:
        told = f"the assignees of {step.name} are an empty list, so that nobody could answer"
        raise failure("bad_assignees", told, frame.address)
    not_by = [
        _requester(step, frame) if name == REQUESTER else name for name in _names("not_by", step.not_by, step, frame)
    ]
    rungs = [
        Rung(after=rung.after, assignees=_names(f"escalate[{index}].assignees", rung.assignees, step, frame))
        for index, rung in enumerate(step.escalate)
    ]
    return People(assignees=assignees, not_by=not_by, quorum=step.quorum, remind_every=step.remind_every, ladder=rungs)


def _names(key: str, written: Sequence[str] | str, step: Hitl, frame: Frame) -> list[str]:
    """Users and groups, each once; anything else fails the step: a name that nobody has would be waited for in vain."""
    rendered = frame.render(written)
    if not isinstance(rendered, list):
        raise failure("bad_assignees", f"{key} of {step.name} is no list: {brief(rendered)}", frame.address)
    for name in rendered:
        if not (isinstance(name, str) and (is_person(name) or (key == "not_by" and name == REQUESTER))):
            told = f"{key} of {step.name}: {brief(name)} is neither user:NAME nor group:NAME"
            raise failure("bad_assignees", told, frame.address)
    return list(dict.fromkeys(rendered))


def _requester(step: Hitl, frame: Frame) -> str:
    """Who started the run; if nobody knows, nobody can be kept from deciding on their own request."""
    if (user := user_of(frame.host.started_by)) is None:
        told = f"not_by of {step.name} names the requester, but it is not known who started this run"
        raise failure("requester_unknown", f"{told}; start it with started_by, or --by", frame.address)
    return user
